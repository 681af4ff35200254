"""What a guard has let through of a run's stream, so that at the end it knows it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..chunks import Chunk
    from ..hold import Piece

__all__ = ["Lane", "LetThrough", "Span"]

Span = tuple[int, int]


class Lane:
    """A block of the stream, or a leaf of arguments."""

    __slots__ = ("changed", "come", "is_known", "length", "passed", "settled")

    def __init__(self, *, is_known: bool = False) -> None:
        self.is_known = is_known
        """Whether it was shown before: then nothing of it is reported again."""
        self.changed = False
        self.come = self.length = 0
        """How many characters came, and how many were let through."""
        self.passed: list[str] = []
        self.settled: list[Span] = []
        """Where in what was let through something has been replaced, or reported."""

    def let(self, text: str) -> None:
        """More of it goes out."""
        self.passed.append(text)
        self.length += len(text)


class LetThrough:
    """What a guard has let through of the stream of a run."""

    __slots__ = ("_lanes", "_leaves", "_texts")

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._leaves: dict[str, int] = {}
        """For each call the number of the leaf that was shown last."""
        self._texts: dict[str, list[Span]] = {}

    def lane(self, piece: Piece) -> Lane:
        """The block that a piece is of."""
        key = piece.kind, piece.lane_id
        lane = self._lanes.get(key)
        if piece.kind == "tool-arguments":
            lane = self._leaf(piece, lane)
        if lane is None:
            lane = self._lanes[key] = Lane()
        return lane

    def _leaf(self, piece: Piece, lane: Lane | None) -> Lane | None:
        """The arguments of a call are shown as they come, then once more when they are complete:
        the same leaves, counted from the first one again."""
        call, _, number = piece.lane_id.rpartition("/")
        last, at = self._leaves.get(call, -1), int(number)
        self._leaves[call] = at
        if at > last or (at == last and not (lane and _is_all(piece, lane))):
            return lane
        for leaf in range(last + 1):
            self._keep("tool-arguments", f"{call}/{leaf}")
            self._lanes["tool-arguments", f"{call}/{leaf}"] = Lane(is_known=True)
        return self._lanes["tool-arguments", piece.lane_id]

    def pass_by(self, chunk: Chunk) -> bool:
        """A chunk between the blocks; whether it ends a block of reasoning that was changed."""
        kind = chunk.type
        if kind == "step-start":
            self._leaves.clear()
            self._keep_all()
        elif kind == "text-start" or kind == "reasoning-start":  # the id may be used again
            self._keep(kind.removesuffix("-start"), chunk.payload.id)
        elif kind == "reasoning-end":
            lane = self._lanes.get(("reasoning", chunk.payload.id))
            return lane is not None and lane.changed
        return False

    def texts(self) -> dict[str, list[Span]]:
        """Whole texts as they were let through, each with the places that are settled."""
        self._keep_all()
        return self._texts

    def _keep_all(self) -> None:
        for kind, id in list(self._lanes):
            self._keep(kind, id)

    def _keep(self, kind: str, id: str) -> None:
        lane = self._lanes.pop((kind, id), None)
        if lane is None or lane.is_known:
            return
        text = "".join(lane.passed)
        if lane.settled or text not in self._texts:
            self._texts[text] = lane.settled


def _is_all(piece: Piece, lane: Lane) -> bool:
    """Whether a piece is all of a leaf once more, and not more of it."""
    return piece.is_last and not piece.before and len(piece.text) == lane.come
