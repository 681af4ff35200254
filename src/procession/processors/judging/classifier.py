"""`Classifier`: fixed questions about any JSON data, and answers to compute with (B-500)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ...chunks import Usage
from ...engine.interruption import Interrupted
from ...errors import ConfigurationError, InputError, ModelError, OptionError
from ...keywords import TakesOptions
from ...retrying import Retries
from ...structured.consulting import CutShort
from ..option_checks import whole
from .classifier_answers import ClassifierAnswers, fitting
from .classifier_questions import Question, Questions, json_data, questions_of
from .evaluation import (
    EvaluationModel,
    EvaluationRequest,
    EvaluationResponse,
    LanguageEvaluationModel,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...abort_signal import AbortSignal
    from ...model import ModelSpec

__all__ = ["Classifier", "ClassifierResult", "the_classifier"]


class ClassifierResult(Struct, frozen=True, kw_only=True):
    """The answers, and what the model said beside them."""

    answers: ClassifierAnswers
    usage: Usage | None = None
    """The tokens of the answer, where the model tells."""
    warnings: Sequence[Any] = ()
    provider_metadata: Mapping[str, Any] | None = None


class Classifier(TakesOptions):
    """Asks a model the same questions about one state after the other (B-500).

    - `id`: a name for errors.
    - `model`: who answers: an `EvaluationModel`, or a language model in any form, which is then
      asked for an object (`LanguageEvaluationModel`).
    - `questions`: by name. Without them each call of `evaluate` has to bring its own.

    It keeps nothing from call to call: one may serve many at the same time. Raises `OptionError`,
    a `ValueError`, for a question that is none.
    """

    def __init__(
        self, id: str, model: EvaluationModel | ModelSpec, questions: Questions | None = None
    ) -> None:
        given: Any = id
        if not isinstance(given, str) or not given:
            raise OptionError("Classifier: id must be a text that is not empty")
        self.id = id
        self.questions: Mapping[str, Question] | None = None
        if questions is not None:
            self.questions = questions_of(self._named, questions)
        self.model = _evaluation_model(self._named, model)

    @property
    def _named(self) -> str:
        return f"Classifier {self.id!r}"

    async def evaluate(
        self,
        state: Any,
        questions: Questions | None = None,
        max_retries: int = 2,
        *,
        provider_options: Mapping[str, Any] | None = None,
        abort_signal: AbortSignal | None = None,
        run_id: str = "",
        count_usage: Callable[[Usage], None] | None = None,
    ) -> ClassifierResult:
        """All questions, answered about `state`, which is JSON data.

        `questions` are given here or to the constructor, not both. A failed call that may pass is
        made again up to `max_retries` times. `abort_signal` ends every wait at once; the exception
        says that this was no failure. `count_usage` hears of the tokens, whatever comes of them.

        Raises `InputError` for a state that is no JSON data and for questions that are none,
        `StructuredOutputError` for an answer that does not fit its question, and what the model
        raises.
        """
        count = count_usage or _count_nothing
        request = EvaluationRequest(
            state=json_data(self._named, "state", state),
            questions=self._questions(questions),
            provider_options=provider_options,
            max_retries=whole(self._named, "max_retries", max_retries),
            abort_signal=abort_signal,
            run_id=run_id,
            count_usage=count,
        )
        response = await self._response(request)
        if response.usage is not None:
            count(response.usage)
        return ClassifierResult(
            answers=fitting(self._named, request.questions, response.answers),
            usage=response.usage,
            warnings=list(response.warnings),
            provider_metadata=response.provider_metadata,
        )

    def _questions(self, given: Questions | None) -> Mapping[str, Question]:
        if given is None:
            if self.questions is None:
                raise InputError(f"{self._named} has no questions: give them here, or when made")
            return self.questions
        if self.questions is not None:
            raise InputError(f"{self._named} has questions of its own: give none to evaluate()")
        return questions_of(self._named, given)

    async def _response(self, request: EvaluationRequest) -> EvaluationResponse:
        own = getattr(self.model, "repeats_calls", False)
        retries = Retries(0 if own else request.max_retries)
        while True:
            try:
                with CutShort(request.abort_signal):
                    response: Any = self.model.evaluate(request)
                    if inspect.isawaitable(response):
                        response = await response
                break
            except (Interrupted, ConfigurationError):
                raise
            except Exception as error:
                pause = retries.pause_after(error)
                if pause is None:
                    raise
            with CutShort(request.abort_signal):
                await asyncio.sleep(pause)
        if not isinstance(response, EvaluationResponse):
            kind = type(response).__name__
            raise ModelError(f"{self._named}: the model must return EvaluationResponse, not {kind}")
        return response


def the_classifier(owner: str, given: Any) -> Classifier:
    """A processor's `classifier`: one that has questions; raises `OptionError`, and for the name of
    one `ConfigurationError`."""
    if isinstance(given, str):
        raise ConfigurationError(
            f"{owner}: classifier={given!r} would be the name of one that is registered on an app, "
            f"and there is no app to look it up in: give the Classifier itself"
        )
    if not isinstance(given, Classifier):
        raise OptionError(f"{owner}: classifier must be a Classifier, not {type(given).__name__}")
    if given.questions is None:
        raise OptionError(f"{owner}: classifier {given.id!r} has no questions: give it some")
    return given


def _evaluation_model(owner: str, given: Any) -> EvaluationModel:
    if given is None:
        raise OptionError(f"{owner}: model must be an evaluation model or a language model")
    if callable(getattr(given, "evaluate", None)):
        return cast("EvaluationModel", given)
    return LanguageEvaluationModel(given)


def _count_nothing(usage: Usage) -> None:
    """Nobody asks."""
