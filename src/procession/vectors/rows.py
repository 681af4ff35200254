"""The vectors of one index as rows of an array, searched exactly, all in one product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ..extras import brought_by

with brought_by("recall", "numpy"):
    import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["ROUNDING", "Mask", "Rows"]

Mask: TypeAlias = "NDArray[np.bool_]"

_FIRST = 64
ROUNDING = 1e-6
"""Of scores in single precision: equal vectors may score a little less than 1."""

# Gathering rows costs more for each of them than multiplying all: it pays for less than a third.
_GATHERED = 3
# Fewer dead rows than that are not worth moving the others.
_SPARED = 1_000


class Rows:
    """Grows at its end; an entry that is replaced or deleted leaves a dead row behind.

    So a row never changes, and what was worked out for it stays right. When half of the rows are
    dead, `compact` moves the others together.
    """

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self.ids: list[str] = []
        self._row_of: dict[str, int] = {}
        self._vectors: NDArray[np.float32] = np.empty((_FIRST, dimension), np.float32)
        self._alive: Mask = np.zeros(_FIRST, np.bool_)

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self._row_of)

    @property
    def end(self) -> int:
        """How many rows there are, dead ones included."""
        return len(self.ids)

    @property
    def alive(self) -> Mask:
        """Which rows count."""
        return self._alive[: self.end]

    def put(self, ids: Sequence[str], vectors: Any) -> None:
        """Add entries, each id once; `vectors` has their numbers, one after the other."""
        begin, end = self.end, self.end + len(ids)
        self._make_room(end)
        self._vectors[begin:end] = np.frombuffer(vectors, np.float32).reshape(
            len(ids), self._dimension
        )
        self.remove(ids)
        self._alive[begin:end] = True
        self.ids += ids
        self._row_of.update(zip(ids, range(begin, end), strict=True))

    def remove(self, ids: Iterable[str]) -> int:
        """Take entries away; how many of them there were."""
        rows = [row for entry_id in ids if (row := self._row_of.pop(entry_id, None)) is not None]
        self._alive[rows] = False
        return len(rows)

    def row_of(self, entry_id: str) -> int | None:
        """The row of an entry."""
        return self._row_of.get(entry_id)

    def chosen(self, mask: Mask | None) -> list[str]:
        """The ids of the entries in a mask of rows."""
        mask = self.alive if mask is None else mask & self.alive
        return [self.ids[row] for row in np.flatnonzero(mask).tolist()]

    def nearest(
        self, query: Any, top_k: int, mask: Mask | None, min_score: float
    ) -> list[tuple[int, float]]:
        """Rows and scores of the nearest in a mask, the nearest first, equal ones by their ids."""
        rows = np.flatnonzero(self.alive if mask is None else mask & self.alive)
        if not len(rows):
            return []
        scores = self._scores(np.frombuffer(query, np.float32), rows)
        if min_score > 0:
            near = scores >= min_score - ROUNDING
            rows, scores = rows[near], scores[near]
        if len(rows) > top_k:
            # All that score as the last one that fits: which of them, their ids decide.
            last = np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
            near = scores >= last
            rows, scores = rows[near], scores[near]
        found = sorted(
            zip(rows.tolist(), scores.tolist(), strict=True),
            key=lambda each: (-each[1], self.ids[each[0]]),
        )
        return [(row, min(max(score, 0.0), 1.0)) for row, score in found[:top_k]]

    def compact(self) -> NDArray[np.intp] | None:
        """Move the rows together if half of them are dead; where each row was before, or `None`."""
        dead = self.end - len(self)
        if dead < _SPARED or dead < self.end / 2:
            return None
        kept = np.flatnonzero(self.alive)
        self._vectors = self._vectors[kept]
        self.ids = [self.ids[row] for row in kept.tolist()]
        self._alive = np.ones(len(kept), np.bool_)
        self._row_of = {entry_id: row for row, entry_id in enumerate(self.ids)}
        return kept

    def _scores(self, query: NDArray[np.float32], rows: NDArray[np.intp]) -> NDArray[np.float32]:
        if len(rows) < self.end / _GATHERED:
            return self._vectors[rows] @ query
        return (self._vectors[: self.end] @ query)[rows]

    def _make_room(self, end: int) -> None:
        if end <= len(self._alive):
            return
        room = max(end, len(self._alive) * 3 // 2, _FIRST)
        vectors = np.empty((room, self._dimension), np.float32)
        vectors[: self.end] = self._vectors[: self.end]
        alive = np.zeros(room, np.bool_)
        alive[: self.end] = self.alive
        self._vectors, self._alive = vectors, alive
