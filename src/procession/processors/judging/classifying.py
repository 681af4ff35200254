"""`ClassifierProcessor`: texts are classified, and a function says what becomes of them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from ...engine.interruption import Interrupted
from ...errors import ConfigurationError, OptionError
from ..guarding.text_guard import INPUT, RESULT, STREAM
from ..option_checks import callback, mapping_or_none, one_of, whole
from .budget import SpentBudget
from .classifier import the_classifier
from .classifying_text import classified, note_failure
from .judged_messages import is_remembered
from .text_judge import TextJudge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...hook_args import HookArgs
    from ...messages import Message
    from ...policy import Policy
    from ...processor import ProcessorViolation
    from ..guarding.sightings import Place
    from .budget import JudgeBudget
    from .classifier import Classifier, ClassifierResult
    from .classifier_answers import ClassifierAnswers
    from .text_judge import Granularity

__all__ = ["ClassifierContext", "ClassifierProcessor"]

_OWNER = "ClassifierProcessor"
_PHASES: dict[str, Literal["input", "output", "stream"]] = {
    INPUT: "input",
    RESULT: "output",
    STREAM: "stream",
}


class _Removed(BaseException):
    """`abort` for a message that was remembered: it goes, and the run goes on (G-C4)."""


class ClassifierContext:
    """What `on_result` is told beside the answers, and how it decides (B-510).

    `phase` is `"input"`, `"output"` (the answer when it is complete) or `"stream"`; `result` is all
    that the classifier said.
    """

    __slots__ = ("_abort", "is_filtered", "phase", "result")

    def __init__(
        self,
        phase: Literal["input", "output", "stream"],
        result: ClassifierResult,
        abort: Callable[[str | None], NoReturn],
    ) -> None:
        self.phase = phase
        self.result = result
        self.is_filtered = False
        """Whether `filter` was called."""
        self._abort = abort

    def abort(self, reason: str | None = None) -> NoReturn:
        """End the run with this reason; never returns.

        A message that was remembered from earlier requests is removed instead: it would end all
        later ones as well (G-C4).
        """
        self._abort(reason)

    def filter(self) -> None:
        """Remove the message, or in a stream the piece, and go on."""
        self.is_filtered = True


class ClassifierProcessor(TextJudge):
    """Has texts classified, and does with them what `on_result` says (B-510 to B-512).

    - `classifier`: a `Classifier` with questions.
    - `on_result(answers, context)`: plain or async. It calls `context.abort(reason)` or
      `context.filter()`; when it calls neither, the text passes. What it returns counts for
      nothing.
    - `error_strategy`: what a failed classification means, or an `on_result` that raises:
      `"strict"` aborts (B-511), `"warn"` logs it and lets the text pass. What is set up wrongly
      always raises `ConfigurationError`.
    - `granularity`: how much of a stream is classified at once: each `"delta"` as it comes, or a
      `"sentence"`, a `"part"`, a `"step"`, or at the `"end"` of a step all that was said in the
      run. Nothing leaves before. See `procession.hold.Unit`.
    - `chunk_window`: so many pieces are classified together, the newest one included; 0 and 1 are
      that one alone.
    - `concurrency`: so many pieces of a stream are classified at a time, 4 unless it is given,
      deltas one after the other. `on_result` is called in their order all the same.
    - `max_cost`: what the calls of one run may cost, in US dollars, or a `JudgeBudget`. What comes
      then counts as a failed classification.
    - `max_input_length`: so many characters are classified at most: of a message the first ones, in
      a stream the last ones. What is cut off nobody looks at.
    - `last_message_only`: only the last of several messages is classified.
    - `provider_options`: handed to the model.

    What is classified is text: in messages one call for each, in a stream the pieces of text, and
    the whole answer once more when it is complete, unless it was one piece of that granularity.
    Two of them may have the same `id`: what they know of a run they do not share (B-512). Raises
    `OptionError`, a `ValueError`, for an option that is none.
    """

    fixed_id = "classifier"
    owner = _OWNER

    def __init__(
        self,
        *,
        classifier: Classifier,
        on_result: Callable[[ClassifierAnswers, ClassifierContext], object],
        id: str = fixed_id,
        error_strategy: Literal["strict", "warn"] = "strict",
        granularity: Granularity = "delta",
        chunk_window: int = 0,
        concurrency: int | None = None,
        max_cost: float | JudgeBudget | None = None,
        max_input_length: int | None = None,
        last_message_only: bool = False,
        provider_options: Mapping[str, Any] | None = None,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(
            granularity=granularity,
            chunk_window=chunk_window,
            context=max(whole(_OWNER, "chunk_window", chunk_window) - 1, 0),
            concurrency=concurrency,
            drops=True,  # `on_result` may
            last_message_only=last_message_only,
            on_violation=on_violation,
            policy=policy,
        )
        self.id = id
        self.classifier = the_classifier(_OWNER, classifier)
        if callback(_OWNER, "on_result", on_result) is None:
            raise OptionError(f"{_OWNER}: on_result must be callable, not None")
        self.on_result = on_result
        self.error_strategy = one_of(_OWNER, "error_strategy", error_strategy, ("strict", "warn"))
        self.max_input_length = max_input_length
        if max_input_length is not None:
            whole(_OWNER, "max_input_length", max_input_length, least=1)
        self.provider_options = mapping_or_none(_OWNER, "provider_options", provider_options)
        self._budget = SpentBudget.of(_OWNER, max_cost)

    def shown(self, text: str, place: Place) -> str:
        """At most `max_input_length` characters of a text."""
        most = self.max_input_length
        if most is None:
            return text
        return text[-most:] if place.phase == STREAM else text[:most]

    async def keeps(
        self, args: Any, place: Place, text: str, message: Message | None
    ) -> bool | None:
        """See `TextJudge.keeps`."""
        try:
            return await self._decided(args, place, text, message)
        except (Interrupted, ConfigurationError):
            raise
        except Exception as error:
            await args.turn()
            blocks = self.error_strategy == "strict"
            note_failure(args, self.id, place.phase, error, blocks=blocks)
        if self.error_strategy == "strict":
            about = self._about(place, "block")
            metadata: dict[str, Any] = {**about, "types": [], "error": True}
            args.abort(f"{_OWNER} could not check the text", metadata=metadata)
        return None

    async def _decided(
        self, args: HookArgs[Any], place: Place, text: str, message: Message | None
    ) -> bool:
        result = await classified(self.classifier, args, text, self.provider_options, self._budget)
        await args.turn()

        def abort(reason: str | None) -> NoReturn:
            if message is not None and place.phase == INPUT and is_remembered(args, message):
                context.filter()
                raise _Removed
            args.abort(reason, metadata=self._about(place, "block"))

        context = ClassifierContext(_PHASES[place.phase], result, abort)
        try:
            waiting = self.on_result(result.answers, context)
            if inspect.isawaitable(waiting):
                await waiting
        except _Removed:
            pass
        if context.is_filtered:
            waiting = self.report("removed by on_result", self._about(place, "filter"))
            if waiting is not None:
                await waiting
        return not context.is_filtered

    def _about(self, place: Place, strategy: str) -> dict[str, Any]:
        return {"processor_id": self.id, "strategy": strategy, **place.named()}
