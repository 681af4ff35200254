"""Where vectors are kept, each with what is known of it, and found again by their direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["IndexInfo", "Metric", "VectorEntry", "VectorFilter", "VectorHit", "VectorStore"]

Metric = Literal["cosine"]
"""How near vectors are: by the cosine of the angle between them, whatever their lengths."""

VectorFilter: TypeAlias = Mapping[str, Any]
"""What the metadata of an entry must be.

`{"field": value}` asks for an equal text, number, truth value or `None`; `{"field": {operator:
operand}}` for another relation: `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte` with a value, `$in` and
`$nin` with a list of values. Several fields, and several operators of a field, must all hold.
`{"$and": [filters]}` and `{"$or": [filters]}` combine filters. Names of fields are identifiers.

Numbers are compared with numbers and texts with texts, by code points (so are times in ISO 8601);
nothing else is more or less than anything. A field that is missing equals nothing, `None` included:
for it only `$ne` and `$nin` hold.
"""


class VectorEntry(Struct, kw_only=True):
    """A vector under an id of its index; `metadata` is JSON data, which filters look into.

    A vector is any sequence of finite numbers, not all of them zero.
    """

    id: str
    vector: Sequence[float]
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


class VectorHit(Struct, kw_only=True):
    """An entry that was found. `score` is the cosine, from 0 to 1; what is below 0 counts as 0."""

    id: str
    score: float
    metadata: dict[str, Any]


class IndexInfo(Struct, kw_only=True):
    """What is known of an index; `count` is the number of its entries."""

    name: str
    dimension: int
    metric: Metric
    count: int


@runtime_checkable
class VectorStore(Protocol):
    """Anything that keeps vectors in indexes: all vectors of an index have the same dimension.

    Wrong names, vectors, metadata and filters are an `InputError`, and so is an index that does
    not exist. What has been written is found from then on, by other processes too, where the store
    is shared with them.
    """

    async def create_index(self, name: str, dimension: int, *, metric: Metric = "cosine") -> None:
        """Make an index unless it exists; its name is an identifier of at most 63 characters.

        Raises `InputError` if it exists with another dimension.
        """
        ...

    async def upsert(self, index: str, entries: Iterable[VectorEntry]) -> None:
        """Put entries into an index, all or none; what has the id of an earlier one replaces it."""
        ...

    async def query(
        self,
        index: str,
        vector: Sequence[float],
        *,
        top_k: int = 10,
        filter: VectorFilter | None = None,
        min_score: float | None = None,
    ) -> list[VectorHit]:
        """The `top_k` nearest of the entries that pass the filter, the nearest first.

        Entries that do not pass never take the place of one that does. `min_score` leaves out what
        scores less.
        """
        ...

    async def delete(
        self,
        index: str,
        *,
        ids: Iterable[str] | None = None,
        filter: VectorFilter | None = None,
    ) -> int:
        """Delete the entries with these ids, or those that pass the filter; how many there were.

        Exactly one of both is given, and a filter must have a condition: all entries of an index
        are deleted with it.
        """
        ...

    async def list_indexes(self) -> list[str]:
        """The names of the indexes, sorted."""
        ...

    async def describe_index(self, index: str) -> IndexInfo:
        """Dimension, metric and number of entries."""
        ...

    async def delete_index(self, index: str) -> None:
        """Delete an index with all its entries; one that does not exist is no error."""
        ...
