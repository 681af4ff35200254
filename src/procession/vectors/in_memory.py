"""Vectors in the memory of this process, until it ends (M-149)."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..vector_store import IndexInfo, VectorHit
from .checked import CheckedVectors, Chosen, Entries, Search, no_such_index
from .columns import Columns, single
from .filters import ABSENT, All
from .rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from .rows import Mask

__all__ = ["InMemoryVectors"]

T = TypeVar("T")


class InMemoryVectors(CheckedVectors):
    """Keeps vectors in this process; may be used from several threads and event loops.

    A query compares with every vector that passes the filter, so what is found is exact. That is
    done in a thread: the event loop goes on meanwhile.
    """

    def __init__(self) -> None:
        self._indexes: dict[str, _Index] = {}
        self._lock = threading.Lock()

    async def list_indexes(self) -> list[str]:
        """See `VectorStore.list_indexes`."""
        return sorted(self._indexes)

    async def _create(self, name: str, dimension: int) -> int:
        return self._indexes.setdefault(name, _Index(dimension)).dimension

    async def _put(self, name: str, entries: Entries) -> None:
        index = self._index(name)
        await self._work(lambda: index.put(entries))

    async def _nearest(self, name: str, search: Search) -> list[VectorHit]:
        return await self._work(partial(self._index(name).nearest, search))

    async def _delete(self, name: str, chosen: Chosen) -> int:
        return await self._work(partial(self._index(name).delete, chosen))

    async def _describe(self, name: str) -> IndexInfo | None:
        index = self._indexes.get(name)
        if index is None:
            return None
        return IndexInfo(
            name=name, dimension=index.dimension, metric="cosine", count=len(index.rows)
        )

    async def _drop(self, name: str) -> None:
        self._indexes.pop(name, None)

    def _index(self, name: str) -> _Index:
        found = self._indexes.get(name)
        if found is None:
            raise no_such_index(name)
        return found

    async def _work(self, call: Callable[[], T]) -> T:
        def locked() -> T:
            with self._lock:
                return call()

        return await asyncio.to_thread(locked)


class _Index:
    """The entries of one index. Metadata stays JSON, so that nobody can change what is kept."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.rows = Rows(dimension)
        self._metadata: list[str] = []
        self._columns = Columns()

    def put(self, entries: Entries) -> None:
        checked = entries(self.dimension)
        self.rows.put([entry.id for entry in checked], b"".join(entry.vector for entry in checked))
        self._metadata += [entry.metadata for entry in checked]
        self._compact()

    def nearest(self, search: Search) -> list[VectorHit]:
        found = self.rows.nearest(
            search.vector(self.dimension), search.top_k, self._mask(search.filter), search.min_score
        )
        return [
            VectorHit(
                id=self.rows.ids[row],
                score=score,
                metadata=msgspec.json.decode(self._metadata[row]),
            )
            for row, score in found
        ]

    def delete(self, chosen: Chosen) -> int:
        if isinstance(chosen, All):
            chosen = self.rows.chosen(self._mask(chosen))
        gone = self.rows.remove(chosen)
        self._compact()
        return gone

    def _mask(self, chosen: All) -> Mask | None:
        if not chosen.filters:
            return None
        return self._columns.mask(chosen, self.rows.end, self._values)

    def _values(self, field: str, begin: int) -> list[Any]:
        decode = msgspec.json.decode
        return [single(decode(text).get(field, ABSENT)) for text in self._metadata[begin:]]

    def _compact(self) -> None:
        kept = self.rows.compact()
        if kept is not None:
            self._metadata = [self._metadata[row] for row in kept.tolist()]
            self._columns.move(kept)
