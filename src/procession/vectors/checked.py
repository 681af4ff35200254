"""What all stores of vectors do before they come to their own: check what they are given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from ..errors import InputError
from ..keywords import TakesOptions
from .entries import Checked, check_index, check_limits, check_name, checked_entries, direction
from .entries import checked_ids as _checked_ids
from .filters import All, parse_filter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..host import Host
    from ..vector_store import IndexInfo, Metric, VectorEntry, VectorFilter, VectorHit

__all__ = ["CheckedVectors", "Chosen", "Entries", "Search", "no_such_index"]

Entries: TypeAlias = Callable[[int], list[Checked]]
"""The entries as they are kept in an index of a dimension; raises `InputError`."""

Chosen: TypeAlias = "list[str] | All"
"""Ids, or a filter."""


class Search(Struct, frozen=True):
    """What is looked for: a direction, once the dimension is known, and what may be found."""

    vector: Callable[[int], array[float]]
    top_k: int
    filter: All
    min_score: float


class CheckedVectors(ABC, TakesOptions):
    """A `VectorStore` whose own methods get what is right already, except for the dimension.

    That is known where the index is: what is given a dimension is to be called there, and in a
    thread, for there may be much of it.
    """

    def register_app(self, app: Host) -> None:
        """The store of the vectors is closed with the app."""
        app.attach(getattr(self, "_store", None))

    async def create_index(self, name: str, dimension: int, *, metric: Metric = "cosine") -> None:
        """See `VectorStore.create_index`."""
        check_index(name, dimension, metric)
        there = await self._create(name, dimension)
        if there != dimension:
            raise InputError(
                f"the index {name!r} has vectors of dimension {there}, not {dimension}: "
                f"vectors of another embedder need an index of their own"
            )

    async def upsert(self, index: str, entries: Iterable[VectorEntry]) -> None:
        """See `VectorStore.upsert`."""
        await self._put(check_name(index), partial(checked_entries, entries))

    async def query(
        self,
        index: str,
        vector: Sequence[float],
        *,
        top_k: int = 10,
        filter: VectorFilter | None = None,
        min_score: float | None = None,
    ) -> list[VectorHit]:
        """See `VectorStore.query`."""
        check_limits(top_k, min_score)
        wanted = partial(direction, "the vector of the query", vector)
        search = Search(wanted, top_k, parse_filter(filter), min_score or 0.0)
        return await self._nearest(check_name(index), search)

    async def delete(
        self,
        index: str,
        *,
        ids: Iterable[str] | None = None,
        filter: VectorFilter | None = None,
    ) -> int:
        """See `VectorStore.delete`."""
        return await self._delete(check_name(index), _chosen(ids, filter))

    async def describe_index(self, index: str) -> IndexInfo:
        """See `VectorStore.describe_index`."""
        found = await self._describe(check_name(index))
        if found is None:
            raise no_such_index(index)
        return found

    async def delete_index(self, index: str) -> None:
        """See `VectorStore.delete_index`."""
        await self._drop(check_name(index))

    @abstractmethod
    async def list_indexes(self) -> list[str]:
        """See `VectorStore.list_indexes`."""

    @abstractmethod
    async def _create(self, name: str, dimension: int) -> int:
        """Make an index unless it exists; the dimension that it has then."""

    @abstractmethod
    async def _put(self, name: str, entries: Entries) -> None:
        """Put entries into an index."""

    @abstractmethod
    async def _nearest(self, name: str, search: Search) -> list[VectorHit]:
        """What is nearest, the nearest first, equal ones by their ids."""

    @abstractmethod
    async def _delete(self, name: str, chosen: Chosen) -> int:
        """Delete entries; how many."""

    @abstractmethod
    async def _describe(self, name: str) -> IndexInfo | None:
        """What is known of an index, if there is one."""

    @abstractmethod
    async def _drop(self, name: str) -> None:
        """Delete an index, if there is one."""


def no_such_index(name: str) -> InputError:
    """The error for an index that was never made, or is there no more."""
    return InputError(f"there is no index {name!r}: create_index({name!r}, dimension) makes it")


def _chosen(ids: Iterable[str] | None, filter: VectorFilter | None) -> Chosen:
    if (ids is None) == (filter is None):
        raise InputError("delete takes either ids or a filter")
    if ids is not None:
        return _checked_ids(ids)
    chosen = parse_filter(filter)
    if not chosen.filters:
        raise InputError("a filter without conditions would delete all: delete_index does that")
    return chosen
