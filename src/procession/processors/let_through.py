"""What a guard has let through of a run's stream, so that at the end it knows it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..chunks import Chunk
    from ..hold import Piece

__all__ = ["Lane", "LetThrough", "Span"]

Span = tuple[int, int]


class Lane:
    """A block of the stream, or a leaf of arguments."""

    __slots__ = (
        "_passed_by",
        "_taken",
        "changed",
        "come",
        "is_known",
        "length",
        "passed",
        "settled",
    )

    def __init__(self, passed_by: Sequence[str], *, is_known: bool = False) -> None:
        self.is_known = is_known
        """Whether it was shown before: then nothing of it is reported again."""
        self.changed = False
        self.come = self.length = 0
        """How many characters came, and how many were let through."""
        self.passed: list[str] = []
        self.settled: list[Span] = []
        """Where in what was let through something has been replaced, or reported."""
        self._passed_by = passed_by
        self._taken = 0

    def let(self, text: str) -> None:
        """More of it goes out."""
        self.passed.append(text)
        self.length += len(text)

    def catch_up(self) -> None:
        """Take account of what has left without the guard."""
        new = self._passed_by[self._taken :]
        if new:
            self._taken += len(new)
            text = "".join(new)
            self.come += len(text)
            self.let(text)


class LetThrough:
    """What a guard has let through of the stream of a run."""

    __slots__ = ("_lanes", "_texts")

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str, bool], Lane] = {}
        self._texts: dict[str, list[Span]] = {}

    def lane(self, piece: Piece) -> Lane:
        """The block that a piece is of."""
        key = piece.kind, piece.lane_id, piece.is_repeated
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(piece.passed_by, is_known=piece.is_repeated)
        lane.catch_up()
        return lane

    def pass_by(self, chunk: Chunk) -> bool:
        """A chunk between the blocks; whether it ends a block of reasoning that was changed."""
        kind = chunk.type
        if kind == "step-start":
            self._keep_all()
        elif kind == "text-start" or kind == "reasoning-start":  # the id may be used again
            self._keep((kind.removesuffix("-start"), chunk.payload.id, False))
        elif kind == "reasoning-end":
            lane = self._lanes.get(("reasoning", chunk.payload.id, False))
            return lane is not None and lane.changed
        return False

    def texts(self) -> dict[str, list[Span]]:
        """Whole texts as they were let through, each with the places that are settled; of those
        that a guard has not seen all of, only where there are some."""
        self._keep_all()
        return self._texts

    def _keep_all(self) -> None:
        for key in list(self._lanes):
            self._keep(key)

    def _keep(self, key: tuple[str, str, bool]) -> None:
        lane = self._lanes.pop(key, None)
        if lane is None or lane.is_known:
            return
        lane.catch_up()
        text = "".join(lane.passed)
        if lane.settled or text not in self._texts:
            self._texts[text] = lane.settled
