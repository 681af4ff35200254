"""Fewer, larger chunks of text."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from ..hold.lane import merged
from .builtin import BuiltIn
from .option_checks import callback, flag, number, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..chunks import Chunk
    from ..policy import Policy
    from ..processor import ProcessorViolation, ProcessOutputStreamArgs, ProcessOutputStreamResult

__all__ = ["BatchPartsProcessor"]

_LIMITS = frozenset({"step-start", "step-finish", "error"})
"""Chunks at which no text can be let go any more: what is still held was of a rejected attempt."""


class BatchPartsProcessor(BuiltIn):
    """Joins text deltas, so that clients get fewer chunks (B-360 to B-365).

    - `batch_size`: how many deltas are made one;
    - `max_wait_time`: for how many milliseconds a delta is held at most, `None`: until the batch is
      full or the text has ended. It is a timer: the text leaves in time though the model is silent;
    - `emit_on_non_text`: whether a chunk of another type lets go of the text before it. If not,
      such chunks pass it by, but for the borders of its own block.

    Deltas of different blocks are never joined. A joined delta has the id of the first one, and
    everything that the provider says in any of them. Raises `InputError` for a wrong option.
    """

    fixed_id: ClassVar[str] = "batch-parts"
    name = "Batch Parts"

    def __init__(
        self,
        *,
        batch_size: int = 5,
        max_wait_time: float | None = None,
        emit_on_non_text: bool = True,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        owner = type(self).__name__
        super().__init__(on_violation=callback(owner, "on_violation", on_violation), policy=policy)
        self.batch_size = whole(owner, "batch_size", batch_size, least=1)
        self.max_wait_time = (
            None if max_wait_time is None else number(owner, "max_wait_time", max_wait_time)
        )
        self.emit_on_non_text = flag(owner, "emit_on_non_text", emit_on_non_text)
        # The state is shared by all that have the same id.
        self._held = f"__held-{id(self):x}"
        self._since = f"__since-{id(self):x}"

    def process_output_stream(
        self, args: ProcessOutputStreamArgs[Any]
    ) -> ProcessOutputStreamResult:
        """Hold text deltas; let the others pass."""
        part, state = args.part, args.state
        if part.type != "text-delta":
            return self._other(part, state)
        released = self._added(part, state)
        if self.max_wait_time is not None and len(state.get(self._held, ())) == 1:
            args.flush_within(self.max_wait_time / 1000)
        return released

    def flush(self, state: dict[str, Any]) -> Chunk | None:
        """All text that is held, as one chunk, or `None` (B-364)."""
        held: list[Chunk] = state.pop(self._held, [])
        if not held:
            return None
        if len(held) == 1:
            return held[0]
        joined = merged(held)
        joined.payload.text = "".join([chunk.payload.text for chunk in held])
        return joined

    def _added(self, part: Chunk, state: dict[str, Any]) -> Chunk | None:
        """One more delta; returns what it lets go."""
        held: list[Chunk] | None = state.get(self._held)
        released: Chunk | None = None
        if held and held[0].payload.id != part.payload.id:
            released, held = self.flush(state), None
        if held is None:
            held = state[self._held] = []
            state[self._since] = monotonic()
        held.append(part)
        if released is None and (len(held) >= self.batch_size or self._is_late(state)):
            return self.flush(state)
        return released

    def _other(self, part: Chunk, state: dict[str, Any]) -> ProcessOutputStreamResult:
        """Another chunk: the text before it leaves first, where it has to (B-361, B-362)."""
        held: list[Chunk] | None = state.get(self._held)
        if not held:
            return part
        if part.type in _LIMITS:
            del state[self._held]
            return part
        own = part.type in ("text-start", "text-end") and part.payload.id == held[0].payload.id
        if not (self.emit_on_non_text or own or self._is_late(state)):
            return part
        text = self.flush(state)
        return part if text is None else [text, part]

    def _is_late(self, state: dict[str, Any]) -> bool:
        """Whether the oldest delta that is held has waited long enough (B-363)."""
        if self.max_wait_time is None:
            return False
        return monotonic() - state[self._since] >= self.max_wait_time / 1000
