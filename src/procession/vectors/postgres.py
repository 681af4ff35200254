"""Vectors in a PostgreSQL database that has pgvector."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from ..errors import ConfigurationError, InputError, OptionError
from ..stores.postgres.driver import errors
from ..stores.postgres.driving import drive
from ..stores.postgres.failures import Failures
from ..stores.postgres.wording import DIALECT, plainly
from ..stores.sql.schema import migrate
from ..vector_store import IndexInfo, VectorHit
from .checked import CheckedVectors, Chosen, Entries, Search, no_such_index
from .filters import All
from .postgres_filter import where

if TYPE_CHECKING:
    from array import array
    from collections.abc import AsyncGenerator, Sequence

    from psycopg import AsyncConnection

    from ..stores.postgres import PostgresStore

    Connection: TypeAlias = AsyncConnection[tuple[Any, ...]]

__all__ = ["PostgresVectors"]

# Never change one that has been released: add another. Each index has a table of its own, for the
# dimension belongs to the type of a column.
MIGRATIONS = [
    (
        """CREATE TABLE procession_vector_indexes (
            number {serial}, name TEXT COLLATE "C" NOT NULL UNIQUE,
            dimension BIGINT NOT NULL, hnsw BOOLEAN NOT NULL)""",
    ),
]
_LOCK = 0x766563746F7273
_MOST_HNSW = 2_000
_MOST_EXPLORED = 1_000
_ROUNDING = 1e-6  # as in rows.py, which needs numpy

_failures = Failures("", 0.0)


class _Index(NamedTuple):
    number: int
    dimension: int
    hnsw: bool
    schema: str
    """Where the types of pgvector are."""

    @property
    def table(self) -> str:
        return f"procession_vectors_{self.number}"

    @property
    def distance(self) -> str:
        """How far from the vector for the mark, as an expression."""
        return f'embedding OPERATOR("{self.schema}".<=>) %s::"{self.schema}".vector'


class PostgresVectors(CheckedVectors):
    """Keeps vectors in the database of a store: `PostgresVectors(PostgresStore(url))`.

    The server needs the extension pgvector; it is created if that is allowed. The store is yours to
    close. A query compares with every vector that passes the filter, so what is found is exact.

    With `hnsw=True` the indexes made by this object answer queries without a filter by an HNSW
    index, which is faster among hundreds of thousands of vectors and may miss some of the nearest;
    their vectors have at most 2,000 numbers, and pgvector has to be 0.8 or later. Queries with a
    filter stay exact.
    """

    def __init__(self, store: PostgresStore, *, hnsw: bool = False) -> None:
        if not callable(getattr(store, "connection", None)):
            raise OptionError("PostgresVectors: store must be a PostgresStore")
        if hnsw not in (True, False):
            raise OptionError("PostgresVectors: hnsw must be True or False")
        self._store = store
        self._hnsw = hnsw

    def __repr__(self) -> str:
        return f"PostgresVectors({self._store!r})"

    async def list_indexes(self) -> list[str]:
        """See `VectorStore.list_indexes`."""
        try:
            async with self._connection() as connection:
                found = await connection.execute(
                    "SELECT name FROM procession_vector_indexes ORDER BY name"
                )
                return [name for (name,) in await found.fetchall()]
        except _NoTable:
            return []

    async def _create(self, name: str, dimension: int) -> int:
        if self._hnsw and dimension > _MOST_HNSW:
            raise InputError(f"with hnsw=True the dimension is at most {_MOST_HNSW}")
        async with self._connection() as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            schema = await _schema_of_vector(connection) or await _create_extension(connection)
            await drive(partial(migrate, DIALECT, "vectors", MIGRATIONS), connection, plainly)
            made = await connection.execute(
                "INSERT INTO procession_vector_indexes (name, dimension, hnsw) "
                "VALUES (%s, %s, %s) ON CONFLICT DO NOTHING RETURNING number",
                (name, dimension, self._hnsw),
            )
            row = await made.fetchone()
            if row is None:
                return (await _index(connection, name)).dimension
            await _make_table(connection, _Index(row[0], dimension, self._hnsw, schema))
            return dimension

    async def _put(self, name: str, entries: Entries) -> None:
        async with self._using(name) as (connection, index):
            checked = await asyncio.to_thread(entries, index.dimension)
            # In one order, so that no two wait for each other.
            checked.sort()
            columns = (
                [entry.id for entry in checked],
                [entry.metadata for entry in checked],
                await asyncio.to_thread(_written, [entry.vector for entry in checked]),
            )
            await connection.execute(
                f"INSERT INTO {index.table} (id, metadata, embedding) "
                f'SELECT id, metadata::jsonb, embedding::"{index.schema}".vector '
                "FROM unnest(%s::text[], %s::text[], %s::text[]) AS given (id, metadata, embedding)"
                "ON CONFLICT (id) DO UPDATE SET "
                "metadata = excluded.metadata, embedding = excluded.embedding".encode(),
                columns,
            )

    async def _nearest(self, name: str, search: Search) -> list[VectorHit]:
        async with self._using(name) as (connection, index):
            (wanted,) = _written([search.vector(index.dimension)])
            condition, values = where(search.filter)
            if index.hnsw:
                await _choose_scan(connection, search)
            found = await connection.execute(
                f"SELECT id, metadata::text, 1 - ({index.distance}) FROM {index.table} "
                f"WHERE {condition} ORDER BY {index.distance}, id LIMIT %s".encode(),
                (wanted, *values, wanted, search.top_k),
            )
            rows = await found.fetchall()
        return [
            VectorHit(
                id=entry_id,
                score=min(max(score, 0.0), 1.0),
                metadata=msgspec.json.decode(metadata),
            )
            for entry_id, metadata, score in rows
            if not search.min_score or score >= search.min_score - _ROUNDING
        ]

    async def _delete(self, name: str, chosen: Chosen) -> int:
        condition, values = where(chosen) if isinstance(chosen, All) else ("id = ANY(%s)", [chosen])
        async with self._using(name) as (connection, index):
            done = await connection.execute(
                f"DELETE FROM {index.table} WHERE {condition}".encode(), values
            )
            return done.rowcount

    async def _describe(self, name: str) -> IndexInfo | None:
        async with self._using(name) as (connection, index):
            counted = await connection.execute(f"SELECT count(*) FROM {index.table}".encode())
            ((count,),) = await counted.fetchall()
        return IndexInfo(name=name, dimension=index.dimension, metric="cosine", count=count)

    async def _drop(self, name: str) -> None:
        try:
            async with self._connection() as connection:
                gone = await connection.execute(
                    "DELETE FROM procession_vector_indexes WHERE name = %s RETURNING number",
                    (name,),
                )
                for (number,) in await gone.fetchall():
                    await connection.execute(f"DROP TABLE procession_vectors_{number}".encode())
        except _NoTable:
            return

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[Connection]:
        """A transaction. Errors of psycopg are ours then; `_NoTable` where a table is missing."""
        with _failures.explained():
            try:
                async with self._store.connection() as connection:
                    yield connection
            except errors.UndefinedTable:
                raise _NoTable from None

    @asynccontextmanager
    async def _using(self, name: str) -> AsyncGenerator[tuple[Connection, _Index]]:
        """A transaction, and the index; `InputError` if there is none."""
        try:
            async with self._connection() as connection:
                yield connection, await _index(connection, name)
        except _NoTable:
            raise no_such_index(name) from None


class _NoTable(Exception):
    """Nothing has been made yet, or somebody else has dropped it."""


async def _index(connection: Connection, name: str) -> _Index:
    found = await connection.execute(
        "SELECT number, dimension, hnsw, nspname FROM procession_vector_indexes, pg_extension "
        "JOIN pg_namespace ON pg_namespace.oid = extnamespace "
        "WHERE extname = 'vector' AND name = %s",
        (name,),
    )
    row = await found.fetchone()
    if row is None:
        raise no_such_index(name)
    return _Index(*row)


async def _schema_of_vector(connection: Connection) -> str | None:
    found = await connection.execute(
        "SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace "
        "WHERE extname = 'vector'"
    )
    row = await found.fetchone()
    return None if row is None else row[0]


async def _create_extension(connection: Connection) -> str:
    try:
        # Not in the schema of one store: there is one for the database.
        await connection.execute("CREATE EXTENSION vector SCHEMA public")
    except (errors.FeatureNotSupported, errors.UndefinedFile):
        raise ConfigurationError(
            "this PostgreSQL server does not have pgvector: install it on the server, or keep "
            "vectors in SQLiteVectors"
        ) from None
    except errors.InsufficientPrivilege:
        raise ConfigurationError(
            "this user may not create the extension pgvector: let an administrator run "
            "CREATE EXTENSION vector in this database"
        ) from None
    return "public"


async def _make_table(connection: Connection, index: _Index) -> None:
    statements = [
        f'CREATE TABLE {index.table} (id TEXT COLLATE "C" PRIMARY KEY, metadata JSONB NOT NULL, '
        f'embedding "{index.schema}".vector({index.dimension}) NOT NULL)',
        f"CREATE INDEX {index.table}_metadata ON {index.table} USING gin (metadata jsonb_path_ops)",
    ]
    if index.hnsw:
        statements.append(
            f"CREATE INDEX {index.table}_hnsw ON {index.table} "
            f'USING hnsw (embedding "{index.schema}".vector_cosine_ops)'
        )
    for statement in statements:
        await connection.execute(statement.encode())


async def _choose_scan(connection: Connection, search: Search) -> None:
    """What HNSW finds is filtered afterwards: with a filter it could miss all that passes."""
    exact = bool(search.filter.filters) or search.top_k > _MOST_EXPLORED
    if exact:
        await connection.execute("SELECT set_config('enable_indexscan', 'off', TRUE)")
        return
    # It goes on, where what it has found was deleted meanwhile.
    await connection.execute(
        "SELECT set_config('hnsw.ef_search', %s, TRUE), "
        "set_config('hnsw.iterative_scan', 'strict_order', TRUE)",
        (str(min(max(2 * search.top_k, 40), _MOST_EXPLORED)),),
    )


def _written(vectors: Sequence[array[float]]) -> list[str]:
    """Vectors as pgvector reads them; nine digits are all that a number in single precision has."""
    return [f"[{','.join([f'{number:.9g}' for number in vector])}]" for vector in vectors]
