"""An index of a file as it is held in memory: its vectors, and the values that filters ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .columns import Columns
from .filters import ABSENT
from .rows import Rows

if TYPE_CHECKING:
    import sqlite3
    from array import array
    from collections.abc import Iterator, Sequence

    from .checked import Search
    from .filters import All
    from .rows import Mask

__all__ = ["Image", "in_pieces"]

_PIECE = 4_000


class Image:
    """What had been written up to `change`. Whoever uses it sees to it that nobody else does."""

    def __init__(self, number: int, identity: str, dimension: int) -> None:
        self.number = number
        self.identity = identity
        self.change = 0
        self._rows = Rows(dimension)
        self._changes: list[int] = []
        self._columns = Columns()

    def update(self, connection: sqlite3.Connection, change: int) -> None:
        """Read what has been written since."""
        cursor = connection.execute(
            "SELECT id, change, vector FROM procession_vectors "
            "WHERE owner = ? AND change > ? ORDER BY change",
            (self.number, self.change),
        )
        while read := cursor.fetchmany(_PIECE):
            there = [row for row in read if row[2] is not None]
            self._rows.remove([entry_id for entry_id, _, vector in read if vector is None])
            self._rows.put(
                [entry_id for entry_id, _, _ in there], b"".join(vector for _, _, vector in there)
            )
            self._changes += [written for _, written, _ in there]
        self.change = change
        kept = self._rows.compact()
        if kept is not None:
            self._changes = [self._changes[row] for row in kept.tolist()]
            self._columns.move(kept)

    def nearest(
        self, connection: sqlite3.Connection, wanted: array[float], search: Search
    ) -> list[tuple[str, float]]:
        """Ids and scores."""
        mask = self._mask(connection, search.filter)
        found = self._rows.nearest(wanted, search.top_k, mask, search.min_score)
        return [(self._rows.ids[row], score) for row, score in found]

    def chosen(self, connection: sqlite3.Connection, filter: All) -> list[str]:
        """The ids of what passes a filter."""
        return self._rows.chosen(self._mask(connection, filter))

    def _mask(self, connection: sqlite3.Connection, filter: All) -> Mask | None:
        if not filter.filters:
            return None

        def values(field: str, begin: int) -> Sequence[Any]:
            return self._values(connection, field, begin)

        return self._columns.mask(filter, self._rows.end, values)

    def _values(self, connection: sqlite3.Connection, field: str, begin: int) -> Sequence[Any]:
        """The values of a field, from a row on. Rows are in the order of changes."""
        values: list[Any] = [ABSENT] * (self._rows.end - begin)
        path = f"$.{field}"
        for entry_id, kind, value in connection.execute(
            "SELECT id, json_type(metadata, ?), json_extract(metadata, ?) FROM procession_vectors "
            "WHERE owner = ? AND change >= ? AND vector IS NOT NULL",
            (path, path, self.number, self._changes[begin]),
        ):
            row = self._rows.row_of(entry_id)
            if row is not None and row >= begin:
                values[row - begin] = _single(kind, value)
        return values


def in_pieces(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Ids, as many at a time as a statement takes."""
    for begin in range(0, len(ids), _PIECE):
        yield ids[begin : begin + _PIECE]


def _single(kind: str | None, value: Any) -> Any:
    if kind in (None, "array", "object"):
        return ABSENT
    return value == 1 if kind in ("true", "false") else value
