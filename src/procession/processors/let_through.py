"""What a guard has let through of a run's stream, so that at the end it knows it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..chunks import Chunk
    from ..hold import Piece

__all__ = ["Lane", "LetThrough", "Span"]

Span = tuple[int, int]


class Lane:
    """A block of the stream: how many characters came, and what was let through."""

    __slots__ = ("changed", "come", "length", "passed", "settled")

    def __init__(self) -> None:
        self.come = self.length = 0
        self.passed: list[str] = []
        self.changed = False
        self.settled: list[Span] = []
        """Where in what was let through something has been replaced, or reported."""

    def let(self, text: str) -> None:
        """More of it goes out."""
        self.passed.append(text)
        self.length += len(text)


class LetThrough:
    """What a guard has let through of the stream of a run."""

    __slots__ = ("_lanes", "_texts")

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._texts: dict[str, list[Span]] = {}

    def lane(self, piece: Piece) -> Lane:
        """The block that a piece is of."""
        key = piece.kind, piece.lane_id
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane()
        return lane

    def pass_by(self, chunk: Chunk) -> bool:
        """A chunk between the blocks; whether it ends a block of reasoning that was changed."""
        kind = chunk.type
        if kind == "step-start":
            self._keep(list(self._lanes))
        elif kind == "text-start" or kind == "reasoning-start":  # the id may be used again
            self._keep([(kind.removesuffix("-start"), chunk.payload.id)])
        elif kind == "reasoning-end":
            lane = self._lanes.get(("reasoning", chunk.payload.id))
            return lane is not None and lane.changed
        return False

    def _keep(self, keys: list[tuple[str, str]]) -> None:
        for key in keys:
            lane = self._lanes.pop(key, None)
            if lane is not None and lane.settled:
                self._texts["".join(lane.passed)] = lane.settled

    def texts(self) -> dict[str, list[Span]]:
        """Texts as they were let through, each with the places that are settled."""
        self._keep(list(self._lanes))
        return self._texts
