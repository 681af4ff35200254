"""What a detector reports, and how overlapping finds become one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Detection", "Hit", "Region", "merged"]

CHAIN = 256
"""Characters up to which finds that overlap one another grow into one region."""


@dataclass(frozen=True, slots=True)
class Detection:
    """A value that was found: `text[start:end] == value`.

    `type` is a type id such as `email`; `confidence` runs from 0 to 1. The value stays out of the
    representation, so that it reaches no log by accident.
    """

    type: str
    start: int
    end: int
    value: str = field(repr=False)
    confidence: float = 1.0


class Hit(NamedTuple):
    """A find of one kind, in the coordinates of the text that the kind saw."""

    start: int
    end: int
    confidence: float
    rank: int
    type: str


class Region(NamedTuple):
    """Hits that overlap, as one: the type is that of the longest (B-125, B-233)."""

    start: int
    end: int
    best: Hit


def merged(hits: Iterable[Hit]) -> list[Region]:
    """Regions from left to right that do not overlap.

    The longest hit of a region names it; among equally long ones the more confident, then the one
    of the lower rank. A chain of overlaps ends where it would exceed `CHAIN` characters and twice
    its longest hit, so that no text makes a region without end; what starts inside a region that
    may not grow is part of it or nothing.
    """
    regions: list[Region] = []
    for hit in sorted(hits):
        last = regions[-1] if regions else None
        if last is None or hit.start >= last.end:
            regions.append(Region(hit.start, hit.end, hit))
            continue
        best = max(last.best, hit, key=weight)
        end = max(last.end, hit.end)
        if end - last.start <= max(CHAIN, 2 * (best.end - best.start)):
            regions[-1] = Region(last.start, end, best)
    return regions


def weight(hit: Hit) -> tuple[int, float, int]:
    """What decides which of several hits names a region."""
    return hit.end - hit.start, hit.confidence, -hit.rank
