"""What a guard has let through of a run's stream, so that at the end it knows it again."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from .regions import Found, Region

if TYPE_CHECKING:
    from ...chunks import Chunk
    from ...hold import Piece

__all__ = ["Lane", "LetThrough", "Passed", "Span"]

F = TypeVar("F", bound=Found)
Span = tuple[int, int]


class Passed(Struct):
    """A whole text as it was let through, and where the guard has dealt with something."""

    settled: Sequence[Span] = ()
    """Where in it something was replaced, reported, or taken out."""
    origins: Sequence[Span] = ()
    """Where these stood in what came."""
    came: str | None = None
    """What it was made of; `None`: of itself."""

    def unsettled(self, regions: Sequence[Region[F]]) -> list[Region[F]]:
        """Without the regions of this text that touch a settled place: a replacement is not
        replaced, and what was reported is not reported again."""
        return [region for region in regions if not _meets(self.settled, region, touching=True)]

    def missed(self, regions: Sequence[Region[F]]) -> list[Region[F]]:
        """Of the regions of what came, those that the stream has not dealt with, as they stand in
        this text. What a replacement makes of its surroundings is none of them."""
        found: list[Region[F]] = []
        for region in regions:
            if _meets(self.origins, region, touching=False):
                continue
            last = bisect_right(self.origins, region.start, key=_begin) - 1
            shift = 0 if last < 0 else self.settled[last][1] - self.origins[last][1]
            found.append(Region(region.start + shift, region.end + shift, region.found))
        return found


def _meets(spans: Sequence[Span], region: Region[F], *, touching: bool) -> bool:
    before = bisect_right if touching else bisect_left
    last = before(spans, region.end, key=_begin) - 1  # begins before the region ends
    if last < 0:
        return False
    end = spans[last][1]
    return end >= region.start if touching else end > region.start


def _begin(span: Span) -> int:
    return span[0]


class Lane:
    """A block of the stream, or a leaf of arguments."""

    __slots__ = (
        "_came",
        "_passed_by",
        "_taken",
        "come",
        "is_ended",
        "is_known",
        "length",
        "origins",
        "passed",
        "settled",
    )

    def __init__(self, passed_by: Sequence[str], *, is_known: bool = False) -> None:
        self.is_known = is_known
        """Whether it was shown before: then nothing of it is reported again."""
        self.is_ended = False
        """Whether its end came by: a block that begins with its id is another one then."""
        self.come = self.length = 0
        """How many characters came, and how many were let through."""
        self.passed: list[str] = []
        self.settled: list[Span] = []
        self.origins: list[Span] = []
        """See `Passed`."""
        self._came: list[str] | None = None
        self._passed_by = passed_by
        self._taken = 0

    @property
    def changed(self) -> bool:
        """Whether something else was let through than what came."""
        return self._came is not None

    def let(self, text: str, came: str | None = None) -> None:
        """More of it goes out, in place of what `came` if that was something else."""
        if came is not None and came != text and self._came is None:
            self._came = self.passed.copy()
        if self._came is not None:
            self._came.append(text if came is None else came)
        self.passed.append(text)
        self.length += len(text)

    def as_passed(self) -> Passed:
        """What is remembered of it."""
        came = None if self._came is None else "".join(self._came)
        return Passed(self.settled, self.origins, came)

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

    __slots__ = ("_lanes", "_texts", "has_objects")

    def __init__(self) -> None:
        self.has_objects = False
        """Whether texts came by the leaves of their JSON."""
        self._lanes: dict[tuple[str, str, bool], Lane] = {}
        self._texts: dict[str, Passed] = {}

    def lane(self, piece: Piece) -> Lane:
        """The block that a piece is of."""
        self.has_objects = self.has_objects or piece.of_object
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
            self._begin((kind.removesuffix("-start"), chunk.payload.id, False))
        elif kind == "text-end" or kind == "reasoning-end":
            lane = self._lanes.get((kind.removesuffix("-end"), chunk.payload.id, False))
            if lane is not None:
                lane.is_ended = True
                return lane.changed and kind == "reasoning-end"
        return False

    def _begin(self, key: tuple[str, str, bool]) -> None:
        lane = self._lanes.get(key)
        if lane is not None and lane.is_ended:  # else it goes on, and is stored as one text
            self._keep(key)

    def texts(self) -> dict[str, Passed]:
        """Whole texts as they were let through, each with what was done to it."""
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
            self._texts[text] = lane.as_passed()
