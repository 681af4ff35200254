"""Asking a model for a verdict on a text: what the detectors that judge have in common (B-020 to
B-031).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ...engine.asking import ResolvedModels
from ...engine.interruption import Interrupted
from ...errors import ConfigurationError, OptionError, StructuredOutputError
from ...logs import log_fields
from ...model import ModelRequest
from ...structured.options import asked_for
from ..option_checks import mapping_or_none, one_of
from .budget import BudgetSpent, JudgeBudget, SpentBudget, counting
from .one_answer import one_answer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from ...model import LanguageModel, ModelSpec

    ErrorStrategy = Literal["warn", "strict"]

__all__ = ["Judge"]

_log = logging.getLogger("procession.processors")

LONGEST = 6_000
"""So many characters an answer may have, beside what it repeats of the text."""


class Judge:
    """A model that answers with an object of a schema, asked once for each text.

    `model`: the model to ask, else the one that the agent would ask at that moment (B-021). A call
    is one step without tools, memory or processors, at temperature 0; it ends with the caller's
    signal, and its tokens are counted in `processor_usage` (B-022). `task` is the whole system text
    (B-020). With `"json_prompt_injection": True` in `structured_output_options` the schema is told
    in words.

    An answer has to fit `accepts`, where that is given: it may allow more than `schema`, which is
    what the model is asked for. One that goes on and on is broken off.

    `max_cost` is what its calls may cost in one run, in US dollars, or a `JudgeBudget`. When that
    is spent it is not asked any more, which counts as a call that fails.

    A call that fails, or an answer that does not fit: under `"warn"` it is logged and `ask` returns
    `None`, under `"strict"` it aborts (B-025); either is an event of the run. What is set up
    wrongly always raises `ConfigurationError` (B-021).
    """

    def __init__(
        self,
        owner: str,
        *,
        task: str,
        schema: Mapping[str, Any],
        accepts: Mapping[str, Any] | None = None,
        model: ModelSpec | None = None,
        error_strategy: ErrorStrategy = "warn",
        max_cost: float | JudgeBudget | None = None,
        provider_options: Mapping[str, Any] | None = None,
        structured_output_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.error_strategy = one_of(owner, "error_strategy", error_strategy, ("warn", "strict"))
        self._budget = SpentBudget.of(owner, max_cost)
        self.model = model
        self._models = ResolvedModels(model)
        self._owner = owner
        mapping_or_none(owner, "provider_options", provider_options)
        options = dict(
            mapping_or_none(owner, "structured_output_options", structured_output_options) or {}
        )
        for key in options:
            one_of(owner, "a key of structured_output_options", key, ("json_prompt_injection",))
        try:
            asked = asked_for({"schema": schema, "provider_options": provider_options, **options})
        except ConfigurationError as error:
            raise OptionError(f"{owner}: {error}") from None
        assert asked is not None
        self._asked = asked
        self._accepted = asked if accepts is None else asked_for({"schema": accepts}) or asked
        self._task = f"{task}\n\n{asked.told()}" if asked.injects else task

    async def ask(self, args: Any, text: str, about: Mapping[str, Any]) -> Any:
        """The verdict on a text; `None`: there is none, and the text counts as clean.

        `about` is what the metadata of an abort says beside the failure (B-007).
        """
        model = self._model(args)
        try:
            answer = await self._answer(args, model, text)
        except (Interrupted, ConfigurationError):
            raise
        except Exception as error:
            await args.turn()
            self._note(args, about, error)
        else:
            await args.turn()
            return answer
        if self.error_strategy == "strict":
            metadata: dict[str, Any] = {**about, "types": [], "error": True}
            args.abort(f"{self._owner} could not check the text", metadata=metadata)
        return None

    async def aclose(self) -> None:
        """Close what its model has open in the running event loop."""
        await self._models.aclose()

    def _note(self, args: Any, about: Mapping[str, Any], error: Exception) -> None:
        # Our own words repeat nothing of the text; those of others may.
        ours = isinstance(error, StructuredOutputError | BudgetSpent)
        said = error if ours else type(error).__name__
        fields = log_fields(about["processor_id"], args)
        _log.warning("%s: no verdict: %s", self._owner, said, extra=fields)
        action = "blocked" if self.error_strategy == "strict" else "bypassed"
        kind = type(error.__cause__ or error).__name__
        args.note_failure(about["processor_id"], about["phase"], action, kind)

    def _model(self, args: Any) -> LanguageModel:
        if self.model is not None:
            return self._models.get(self.model)
        found = args.current_model() if args.current_model is not None else None
        if found is None:
            raise ConfigurationError(
                f"{self._owner} has no model to ask: give it model=…, or run it in an agent that "
                "has one"
            )
        return found

    async def _answer(self, args: Any, model: LanguageModel, text: str) -> Any:
        if self._budget is not None:
            self._budget.check(args.state)
        answer = await one_answer(
            model,
            self._request(args, text),
            most=LONGEST + 8 * len(text),  # it may repeat the text, and more than once
            count_usage=counting(args, model, self._budget),
        )
        return self._accepted.read(answer.text)[0]

    def _request(self, args: Any, text: str) -> ModelRequest:
        return ModelRequest(
            prompt=[
                {"role": "system", "content": self._task},
                {"role": "user", "content": [{"type": "text", "text": text}]},
            ],
            settings={"temperature": 0.0},
            max_retries=args.max_retries,
            provider_options=self._asked.options.get("provider_options"),
            response_format=self._asked.response_format(),
            abort_signal=args.abort_signal,
            run_id=args.run_id,
        )
