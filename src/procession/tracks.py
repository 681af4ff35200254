"""How one processor fared with the chunks of an attempt; kept only when an observer listens."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .chunks import Chunk

__all__ = ["ChunkTrack"]


class ChunkTrack:
    """Counts calls, changes and drops, and sums up the time spent in a hook."""

    __slots__ = ("changed", "count", "dropped", "processor_id", "seconds")

    def __init__(self, processor_id: str) -> None:
        self.processor_id = processor_id
        self.count = self.changed = self.dropped = 0
        self.seconds = 0.0

    def timed(self, hook: Callable[[Any], Any], args: Any, *, is_async: bool) -> Any:
        """Call the hook and take its time; for an async hook, the time of its awaitable."""
        if is_async:
            return self._timed_async(hook, args)
        started = perf_counter()
        try:
            return hook(args)
        finally:
            self.seconds += perf_counter() - started

    async def _timed_async(self, hook: Callable[[Any], Awaitable[Any]], args: Any) -> Any:
        started = perf_counter()
        try:
            return await hook(args)
        finally:
            self.seconds += perf_counter() - started

    def note(self, before: Chunk, after: Chunk | None) -> None:
        """Note one chunk: `before` as it entered, `after` as the processor returned it."""
        self.count += 1
        if after is None:
            self.dropped += 1
        elif after.type != before.type or after.payload != before.payload:
            self.changed += 1
