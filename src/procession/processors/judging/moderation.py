"""`ModerationProcessor`: harmful content, rated by a model, category by category."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Literal

from ...errors import OptionError
from ...hold import Unit
from ..builtin import BuiltIn
from ..guarding.sightings import Place
from ..guarding.text_guard import INPUT, RESULT, STREAM
from ..option_checks import callback, flag, names, number, one_of, text_or_none, whole
from .judge import Judge
from .judged_messages import is_remembered, one_by_one
from .moderation_verdict import CATEGORIES, ModerationVerdict, accepted, schema_of, task_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...chunks import Chunk
    from ...hold import Piece
    from ...hook_args import ProcessInputArgs, ProcessOutputResultArgs, ProcessOutputStreamArgs
    from ...messages import Message
    from ...model import ModelSpec
    from ...policy import Policy
    from ...processor import ProcessorViolation

__all__ = ["ModerationProcessor"]

_log = logging.getLogger("procession")

_OWNER = "ModerationProcessor"
GRANULARITIES = ("delta", "sentence", "part", "step", "end")


class ModerationProcessor(BuiltIn):
    """Has a model rate texts in categories of harmful content (B-100 to B-109).

    - `model`: who judges; without one the agent's current model (B-021).
    - `categories`: what to look for; without it the eleven usual ones.
    - `threshold`: from which score on a category counts, 0 to 1, inclusive.
    - `strategy`: `"block"` aborts and asks for no retry; `"filter"` removes the message, in a
      stream the piece; `"warn"` lets it pass. Each is told to `on_violation`. A message that was
      remembered from earlier requests is removed under `"block"`: it would block all later ones.
    - `granularity`: how much of a stream is judged with one call: each `"delta"` as it comes, or a
      `"sentence"`, a `"part"`, a `"step"`, or at the `"end"` of a step all that was said in the
      run. Nothing leaves before it was judged. See `procession.hold.Unit`.
    - `chunk_window`: so many pieces before it are judged together with each piece.
    - `include_scores`: whether the reason gives all scores, not only the flagged categories.
    - `error_strategy`, `instructions`, `last_message_only`, `provider_options`,
      `structured_output_options`: as for all judges (B-020 to B-025).

    What is judged is text: in messages one call for each (B-023), in a stream the pieces of text
    (B-105), and the whole answer once more when it is complete (B-107), unless it was one piece of
    that granularity. Raises `OptionError`, a `ValueError`, for an option that is none.
    """

    fixed_id = "moderation"
    lanes = ("text",)

    def __init__(
        self,
        *,
        model: ModelSpec | None = None,
        categories: Sequence[str] = CATEGORIES,
        threshold: float = 0.5,
        strategy: Literal["block", "warn", "filter"] = "block",
        granularity: Literal["delta", "sentence", "part", "step", "end"] = "delta",
        chunk_window: int = 0,
        include_scores: bool = False,
        error_strategy: Literal["warn", "strict"] = "warn",
        instructions: str | None = None,
        last_message_only: bool = False,
        provider_options: Mapping[str, Any] | None = None,
        structured_output_options: Mapping[str, Any] | None = None,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=callback(_OWNER, "on_violation", on_violation), policy=policy)
        self.categories = names(_OWNER, "categories", categories, None)
        if not self.categories:
            raise OptionError(f"{_OWNER}: categories must name at least one")
        self.threshold = number(_OWNER, "threshold", threshold, most=1.0)
        self.strategy = one_of(_OWNER, "strategy", strategy, ("block", "warn", "filter"))
        self.granularity = one_of(_OWNER, "granularity", granularity, GRANULARITIES)
        self.chunk_window = whole(_OWNER, "chunk_window", chunk_window)
        self.include_scores = flag(_OWNER, "include_scores", include_scores)
        self.last_message_only = flag(_OWNER, "last_message_only", last_message_only)
        self._judge = Judge(
            _OWNER,
            task=text_or_none(_OWNER, "instructions", instructions) or task_of(self.categories),
            schema=schema_of(self.categories),
            accepts=accepted(),
            model=model,
            error_strategy=error_strategy,
            provider_options=provider_options,
            structured_output_options=structured_output_options,
        )
        self.watches = (Unit(granularity),)

    # ── messages ───────────────────────────────────────────────────────────────────────────────

    async def process_input(self, args: ProcessInputArgs[Any]) -> list[Message] | None:
        """Judge each message that a model is about to get."""
        return await self._messages(args, INPUT)

    async def process_output_result(
        self, args: ProcessOutputResultArgs[Any]
    ) -> list[Message] | None:
        """Judge the whole answer once more (B-107)."""
        return await self._messages(args, RESULT)

    async def _messages(self, args: Any, phase: str) -> list[Message] | None:
        judged = self._so_far(args.state).judged if phase == RESULT else ()

        async def check(message: Message, text: str) -> Message | None:
            if text in judged:
                return message
            place = Place(phase, message.id)
            remembered = (
                self.strategy == "block" and phase == INPUT and is_remembered(args, message)
            )
            strategy = "filter" if remembered else self.strategy
            return message if await self._keeps(args, place, text, strategy) else None

        return await one_by_one(args.messages, check, last_only=self.last_message_only)

    # ── the stream ─────────────────────────────────────────────────────────────────────────────

    def process_output_stream(self, args: ProcessOutputStreamArgs[Any]) -> Any:
        """Judge a piece of text before it leaves (B-105); other chunks pass."""
        piece = args.piece
        if piece is not None:
            return self._piece(args, piece)
        if args.part.type == "step-start":  # what was said before is answered, or was rejected
            self._so_far(args.state).window.clear()
        return args.part

    async def _piece(self, args: ProcessOutputStreamArgs[Any], piece: Piece) -> Chunk | None:
        part, so_far = args.part, self._so_far(args.state)
        context = piece.before or "".join(so_far.window)
        said = context + piece.text
        if piece.text.strip() and not await self._keeps(args, Place(STREAM), said, self.strategy):
            return None  # nobody gets it: it is no context of what comes next
        so_far.window.append(piece.text)
        return part

    def _so_far(self, state: dict[str, Any]) -> _SoFar:
        # The state is shared by all that have the same id.
        key = f"__moderated-{id(self):x}"
        found = state.get(key)
        if found is None:
            found = state[key] = _SoFar(self.chunk_window)
        return found

    # ── the verdict ────────────────────────────────────────────────────────────────────────────

    async def _keeps(self, args: Any, place: Place, text: str, strategy: str) -> bool:
        """Whether a text goes on; aborts when it is flagged and the strategy says so."""
        about = {"processor_id": self.id, "strategy": strategy, **place.named()}
        answer = await self._judge.ask(args, text, about)
        if answer is None:
            return True
        verdict = ModerationVerdict.of(answer, self.categories)
        if self.granularity not in ("delta", "sentence") and place.phase == STREAM:
            self._so_far(args.state).judged.add(text)
        flagged = verdict.flagged(self.threshold)
        if not flagged:
            return True
        types = list(flagged)
        detail = {**about, "types": types, "categories": types, "scores": flagged}
        reason = verdict.reason_for(types, with_scores=self.include_scores)
        if strategy == "block":
            args.abort(reason, metadata=detail)
        if strategy == "warn":
            _log.warning("%s, in %s: %s", self.id, place.phase, reason)
        waiting = self.report(reason, detail)
        if waiting is not None:
            await waiting
        return strategy == "warn"


class _SoFar:
    """What one processor knows of the stream of one run."""

    __slots__ = ("judged", "window")

    def __init__(self, window: int) -> None:
        self.window: deque[str] = deque(maxlen=window)
        self.judged: set[str] = set()
        """Texts that were judged in one piece, and went on."""
