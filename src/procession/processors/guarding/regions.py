"""Places found in a text, and how those that overlap become one (B-125, B-233)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["Found", "Region", "merged", "replaced"]


class Found(Protocol):
    """Something found in a text, from the character `start` up to, but not with, `end`."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


F = TypeVar("F", bound=Found)


class Region(NamedTuple, Generic[F]):
    """A stretch of a text, with all that was found in it, the longest first."""

    start: int
    end: int
    found: Sequence[F]

    @property
    def longest(self) -> F:
        """What the region counts as."""
        return self.found[0]


def merged(found: Iterable[F]) -> list[Region[F]]:
    """The regions of a text, in order; what shares a character is in the same one."""
    regions: list[Region[F]] = []
    together: list[F] = []
    end = 0
    for one in sorted(found, key=lambda one: one.start):
        if together and one.start >= end:
            regions.append(_region(together, end))
            together = []
        end = max(end, one.end) if together else one.end
        together.append(one)
    if together:
        regions.append(_region(together, end))
    return regions


def _region(together: list[F], end: int) -> Region[F]:
    by_length = sorted(together, key=lambda one: one.start - one.end)
    return Region(together[0].start, end, by_length)


def replaced(
    text: str,
    regions: Sequence[Region[F]],
    replacement: Callable[[Region[F], str], str],
    start: int = 0,
) -> str:
    """The text from `start` on, with each region replaced once."""
    pieces: list[str] = []
    for region in regions:
        pieces.append(text[start : region.start])
        pieces.append(replacement(region, text[region.start : region.end]))
        start = region.end
    pieces.append(text[start:])
    return "".join(pieces)
