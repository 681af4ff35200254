"""Keeping branches of a stream in step: nothing leaves of which a sibling has not said its word.

Each branch holds back what it looks for. Places in the stream are counted in characters, as they
came; every step knows of the text that it still keeps where that stood.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PIECES", "Kept", "Pace", "Span", "text_size"]

PIECES = frozenset({"text-delta", "reasoning-delta"})


class Span(NamedTuple):
    """From where to where a text stood in the stream, at most; `exact`: it is that very text."""

    low: int
    high: int
    exact: bool


_WAITING = ("text-", "reasoning-", "tool-call-delta", "tool-call-input-streaming")
"""What the types of chunks begin with that are judged piece by piece."""


def text_size(chunk: Any) -> int:
    """How many places a chunk takes: one at least, so that its order is known."""
    return max(1, len(chunk.payload.text)) if chunk.type in PIECES else 1


class _Entry:
    """A text that came to a step, or what is left of it there."""

    __slots__ = ("size", "span")

    def __init__(self, span: Span, size: int) -> None:
        self.span = span
        self.size = size


class Kept:
    """Where that stood of which a step keeps something back."""

    __slots__ = ("_entries", "_idle", "_sizes")

    def __init__(self, idle: int) -> None:
        self._entries: dict[tuple[str, str], deque[_Entry]] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._idle = idle
        """Up to where all had come when nothing was kept last."""

    def came(self, chunk: Any, span: Span) -> None:
        """A text has come to the step."""
        if chunk.type not in PIECES:
            return
        lane, size = (chunk.type, chunk.payload.id), len(chunk.payload.text)
        self._entries.setdefault(lane, deque()).append(_Entry(span, size))
        self._sizes[lane] = self._sizes.get(lane, 0) + size

    def spans(self, left: dict[tuple[str, str], int] | None, at: int) -> dict[Any, Span] | None:
        """Where what is kept of each lane stood, from its first character on; `left` says how much
        it is. `None` where that cannot be told: anything since `idle` may be among it.
        """
        if left is None:
            return None
        for lane in [lane for lane in self._entries if lane not in left]:
            del self._entries[lane], self._sizes[lane]
        if not left:
            self._idle = at
        return {lane: self._first(lane, size) for lane, size in left.items()}

    @property
    def idle(self) -> int:
        """Up to where all has left, whatever is kept."""
        return self._idle

    def _first(self, lane: tuple[str, str], left: int) -> Span:
        entries = self._entries.get(lane)
        if not entries:
            return Span(self._idle, self._idle, False)
        size = self._sizes[lane]
        while len(entries) > 1 and size - entries[0].size >= left:
            size -= entries.popleft().size
        self._sizes[lane] = size
        span, gone = entries[0].span, max(0, size - left)
        if span.exact:
            return Span(span.low + gone, span.low + gone, True)
        return span


class Pace:
    """What has come out of the stages and waits until every branch has let that place pass."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Any]] = deque()

    def passed(self, chunks: Iterable[tuple[int, Any]], lows: Iterable[int | None]) -> list[Any]:
        """What of these chunks, and of those before, may leave now.

        Only text waits, and arguments of calls that have not come whole: of all else every step has
        said its word already. When a call has come, its arguments were judged.
        """
        at_once: list[Any] = []
        for need, chunk in chunks:
            if chunk.type.startswith(_WAITING):
                self._waiting.append((need, chunk))
                continue
            if chunk.type == "tool-call":
                at_once += self._of_call(chunk.payload.tool_call_id)
            at_once.append(chunk)
        return [*self.ready(lows), *at_once]

    def _of_call(self, id: str) -> list[Any]:
        own = [each for each in self._waiting if getattr(each[1].payload, "tool_call_id", "") == id]
        if own:
            self._waiting = deque(each for each in self._waiting if each not in own)
        return [chunk for _, chunk in own]

    def ready(self, lows: Iterable[int | None]) -> list[Any]:
        """What may leave now; `lows` say of each step from where on it keeps something."""
        low = min((each for each in lows if each is not None), default=None)
        found: list[Any] = []
        waiting = self._waiting
        while waiting and (low is None or waiting[0][0] <= low):
            found.append(waiting.popleft()[1])
        return found

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
