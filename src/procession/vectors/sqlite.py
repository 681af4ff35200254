"""Vectors in the file of a `SQLiteStore`, beside the messages they are of."""

from __future__ import annotations

import sqlite3
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..errors import OptionError
from ..ids import new_id
from ..stores.sql.schema import migrate
from ..stores.sqlite.driving import DIALECT, drive
from ..vector_store import IndexInfo, VectorHit
from .checked import CheckedVectors, Chosen, Entries, Search, no_such_index
from .filters import All
from .sqlite_image import Image, in_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..stores.sqlite import SQLiteStore

__all__ = ["SQLiteVectors"]

# Never change one that has been released: add another. Deleted entries stay for a while, without
# their vector, so that other processes hear of it.
MIGRATIONS = [
    (
        """CREATE TABLE procession_vector_indexes (
            number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
            identity TEXT NOT NULL, dimension BIGINT NOT NULL,
            changes BIGINT NOT NULL, forgotten BIGINT NOT NULL)""",
        """CREATE TABLE procession_vectors (
            place INTEGER PRIMARY KEY, owner BIGINT NOT NULL, id TEXT NOT NULL,
            change BIGINT NOT NULL, metadata TEXT, vector BLOB, UNIQUE (owner, id))""",
        "CREATE INDEX procession_vectors_changes ON procession_vectors (owner, change)",
        """CREATE INDEX procession_vectors_deleted ON procession_vectors (owner)
            WHERE vector IS NULL""",
    ),
]
_MOST_DELETED = 10_000


class _Index(NamedTuple):
    """The row of an index. `changes` grows with each write; of deletions up to `forgotten` nothing
    is known any more. In another file the same number is another index, with another identity.
    """

    number: int
    identity: str
    dimension: int
    changes: int
    forgotten: int


class SQLiteVectors(CheckedVectors):
    """Keeps vectors in the file of a store: `SQLiteVectors(SQLiteStore("chat.db"))`.

    For a file of their own, give a store with another path. The store is yours to close.

    The vectors of an index in use are held in memory as well (1.5 kB for each of 384 numbers), read
    with the first query, and brought up to date with each that follows, whichever process has
    written. A query compares with every vector that passes the filter, so what is found is exact.
    All of that happens on the threads of the store.
    """

    def __init__(self, store: SQLiteStore) -> None:
        if not callable(getattr(store, "run", None)):
            raise OptionError("SQLiteVectors: store must be a SQLiteStore")
        self._store = store
        self._images: dict[str, Image] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"SQLiteVectors({self._store!r})"

    async def list_indexes(self) -> list[str]:
        """See `VectorStore.list_indexes`."""

        def names(connection: sqlite3.Connection) -> list[str]:
            rows = _asked(connection, "SELECT name FROM procession_vector_indexes ORDER BY name")
            return [name for (name,) in rows]

        return await self._store.run(names, write=False)

    async def _create(self, name: str, dimension: int) -> int:
        def create(connection: sqlite3.Connection) -> int:
            drive(partial(migrate, DIALECT, "vectors", MIGRATIONS), connection)
            connection.execute(
                "INSERT INTO procession_vector_indexes "
                "(name, identity, dimension, changes, forgotten) "
                "VALUES (?, ?, ?, 0, 0) ON CONFLICT DO NOTHING",
                (name, new_id(), dimension),
            )
            return _index(connection, name).dimension

        return await self._store.run(create)

    async def _put(self, name: str, entries: Entries) -> None:
        def put(connection: sqlite3.Connection) -> None:
            index = _index(connection, name)
            checked = entries(index.dimension)
            change = _next_change(connection, index)
            connection.executemany(
                "INSERT INTO procession_vectors (owner, id, change, metadata, vector) "
                "VALUES (?, ?, ?, ?, ?) ON CONFLICT (owner, id) DO UPDATE SET "
                "change = excluded.change, metadata = excluded.metadata, vector = excluded.vector",
                [(index.number, e.id, change, e.metadata, e.vector.tobytes()) for e in checked],
            )

        await self._store.run(put)

    async def _nearest(self, name: str, search: Search) -> list[VectorHit]:
        def nearest(connection: sqlite3.Connection) -> list[VectorHit]:
            # Before the first statement, which decides what state of the file is seen: it must not
            # be older than what is held in memory.
            with self._lock:
                index = _index(connection, name)
                wanted = search.vector(index.dimension)
                found = self._image(name, index, connection).nearest(connection, wanted, search)
            return _hits(connection, index, found)

        return await self._store.run(nearest, write=False)

    async def _delete(self, name: str, chosen: Chosen) -> int:
        def delete(connection: sqlite3.Connection) -> int:
            index = _index(connection, name)
            ids = chosen
            if isinstance(ids, All):
                with self._lock:
                    ids = self._image(name, index, connection).chosen(connection, ids)
            return _delete(connection, index, ids)

        return await self._store.run(delete)

    async def _describe(self, name: str) -> IndexInfo | None:
        def describe(connection: sqlite3.Connection) -> IndexInfo:
            index = _index(connection, name)
            ((count,),) = connection.execute(
                "SELECT (SELECT count(*) FROM procession_vectors WHERE owner = ?) - "
                "(SELECT count(*) FROM procession_vectors WHERE owner = ? AND vector IS NULL)",
                (index.number, index.number),
            )
            return IndexInfo(name=name, dimension=index.dimension, metric="cosine", count=count)

        return await self._store.run(describe, write=False)

    async def _drop(self, name: str) -> None:
        def drop(connection: sqlite3.Connection) -> None:
            for (number,) in _asked(
                connection,
                "DELETE FROM procession_vector_indexes WHERE name = ? RETURNING number",
                name,
            ):
                connection.execute("DELETE FROM procession_vectors WHERE owner = ?", (number,))

        await self._store.run(drop)
        with self._lock:
            self._images.pop(name, None)

    def _image(self, name: str, index: _Index, connection: sqlite3.Connection) -> Image:
        """What is in memory of an index, brought up to date."""
        image = self._images.get(name)
        if (
            image is None
            or image.identity != index.identity
            or not index.forgotten <= image.change <= index.changes
        ):
            image = Image(index.number, index.identity, index.dimension)
            self._images[name] = image
        if image.change < index.changes:
            image.update(connection, index.changes)
        return image


def _asked(connection: sqlite3.Connection, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """Rows; none where the tables were never made."""
    try:
        return connection.execute(sql, values).fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return []
        raise


def _index(connection: sqlite3.Connection, name: str) -> _Index:
    rows = _asked(
        connection,
        "SELECT number, identity, dimension, changes, forgotten "
        "FROM procession_vector_indexes WHERE name = ?",
        name,
    )
    if not rows:
        raise no_such_index(name)
    return _Index(*rows[0])


def _next_change(connection: sqlite3.Connection, index: _Index) -> int:
    change = index.changes + 1
    connection.execute(
        "UPDATE procession_vector_indexes SET changes = ? WHERE number = ?", (change, index.number)
    )
    return change


def _hits(
    connection: sqlite3.Connection, index: _Index, found: Sequence[tuple[str, float]]
) -> list[VectorHit]:
    metadata: dict[str, str] = {}
    for ids in in_pieces([entry_id for entry_id, _ in found]):
        metadata.update(
            connection.execute(
                "SELECT id, metadata FROM procession_vectors "
                f"WHERE owner = ? AND id IN ({', '.join('?' * len(ids))})",
                (index.number, *ids),
            )
        )
    return [
        VectorHit(id=entry_id, score=score, metadata=msgspec.json.decode(metadata[entry_id]))
        for entry_id, score in found
    ]


def _delete(connection: sqlite3.Connection, index: _Index, ids: Sequence[str]) -> int:
    change = _next_change(connection, index)
    deleted = connection.executemany(
        "UPDATE procession_vectors SET change = ?, metadata = NULL, vector = NULL "
        "WHERE owner = ? AND id = ? AND vector IS NOT NULL",
        [(change, index.number, entry_id) for entry_id in ids],
    ).rowcount
    ((remembered,),) = connection.execute(
        "SELECT count(*) FROM procession_vectors WHERE owner = ? AND vector IS NULL",
        (index.number,),
    )
    if remembered > _MOST_DELETED:
        connection.execute(
            "DELETE FROM procession_vectors WHERE owner = ? AND vector IS NULL", (index.number,)
        )
        connection.execute(
            "UPDATE procession_vector_indexes SET forgotten = ? WHERE number = ?",
            (change, index.number),
        )
    return deleted
