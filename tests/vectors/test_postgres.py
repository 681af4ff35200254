"""What is special to PostgreSQL: the extension, the kinds of index, several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from procession.errors import ConfigurationError, InputError, OptionError
from procession.ids import new_id
from procession.stores import PostgresStore
from procession.vector_store import VectorEntry
from procession.vectors.postgres import PostgresVectors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def database(postgres: str) -> AsyncIterator[str]:
    """The URL of a database of this test's own, without the extension."""
    name = f"d{new_id()}".replace("-", "")
    async with await psycopg.AsyncConnection.connect(postgres, autocommit=True) as connection:
        await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield make_conninfo(postgres, dbname=name)
        drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
        await connection.execute(drop)


def entry(entry_id: str, vector: Any = (1, 0), **metadata: Any) -> VectorEntry:
    return VectorEntry(id=entry_id, vector=vector, metadata=metadata)


async def run(store: PostgresStore, statement: str) -> list[Any]:
    async with store.connection() as connection:
        found = await connection.execute(statement.encode())
        return await found.fetchall() if found.description else []


async def test_the_extension_is_created_once_for_the_database(database: str) -> None:
    for schema in ("one", "two"):
        async with PostgresStore(database, schema=schema) as store:
            vectors = PostgresVectors(store)
            await vectors.create_index("notes", 2)
            await vectors.upsert("notes", [entry(schema)])
            assert [hit.id for hit in await vectors.query("notes", [1, 0])] == [schema]
            found = await run(store, "SELECT extnamespace::regnamespace::text FROM pg_extension")
            assert ("public",) in found


async def test_an_extension_in_a_schema_of_its_own_is_found(database: str) -> None:
    async with PostgresStore(database) as store:
        await run(store, "CREATE SCHEMA extensions")
        await run(store, "CREATE EXTENSION vector SCHEMA extensions")
        vectors = PostgresVectors(store, hnsw=True)
        await vectors.create_index("notes", 2)
        await vectors.upsert("notes", [entry("a")])
        assert [hit.id for hit in await vectors.query("notes", [1, 0])] == ["a"]


async def test_a_user_who_may_not_create_it_is_told_what_to_do(database: str) -> None:
    user = f"u{new_id()}".replace("-", "")
    async with PostgresStore(database) as store:
        await run(store, f"CREATE ROLE {user} LOGIN PASSWORD 'example'")
        await run(store, f"GRANT ALL ON SCHEMA procession TO {user}")
        await run(store, f"GRANT ALL ON ALL TABLES IN SCHEMA procession TO {user}")
    async with PostgresStore(make_conninfo(database, user=user, password="example")) as store:
        with pytest.raises(ConfigurationError, match="administrator run CREATE EXTENSION vector"):
            await PostgresVectors(store).create_index("notes", 2)
    async with PostgresStore(database) as store:
        await run(store, f"DROP OWNED BY {user}")
        await run(store, f"DROP ROLE {user}")


async def test_a_server_without_pgvector_is_told(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with PostgresStore(database) as store:
        execute = psycopg.AsyncConnection.execute

        async def other_name(self: Any, query: Any, *more: Any, **options: Any) -> Any:
            if isinstance(query, str):
                query = query.replace("EXTENSION vector", "EXTENSION not_installed_here")
            return await execute(self, query, *more, **options)

        monkeypatch.setattr(psycopg.AsyncConnection, "execute", other_name)
        with pytest.raises(ConfigurationError, match="does not have pgvector: install it"):
            await PostgresVectors(store).create_index("notes", 2)


async def test_hnsw_is_an_option_of_the_index(postgres: str) -> None:
    async with PostgresStore(postgres, schema="kinds") as store:
        for hnsw in (False, True):
            vectors = PostgresVectors(store, hnsw=hnsw)
            await vectors.create_index(f"notes_{hnsw}", 2)
        kinds = await run(
            store, "SELECT indexdef FROM pg_indexes WHERE schemaname = 'kinds' ORDER BY indexname"
        )
        assert sum("USING hnsw" in kind for (kind,) in kinds) == 1
        with pytest.raises(InputError, match="at most 2000"):
            await PostgresVectors(store, hnsw=True).create_index("large", 2_001)
        await PostgresVectors(store).create_index("large", 2_001)
        for name in await vectors.list_indexes():
            await vectors.delete_index(name)
        left = await run(store, "SELECT 1 FROM pg_tables WHERE tablename ~ 'vectors_[0-9]'")
        assert left == []


async def test_with_hnsw_a_filter_misses_nothing(database: str) -> None:
    """M-142: HNSW looks at the nearest of all first, and those may all belong to others."""
    async with PostgresStore(database) as store:
        await run(store, "CREATE EXTENSION vector SCHEMA public")
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        # So few that a search by the index ends among those of others, as it would among many more.
        name = sql.Identifier(connection.info.dbname)
        await connection.execute(
            sql.SQL("ALTER DATABASE {} SET hnsw.max_scan_tuples = 100").format(name)
        )
    async with PostgresStore(database) as store:
        vectors = PostgresVectors(store, hnsw=True)
        await vectors.create_index("notes", 3)
        await vectors.upsert(
            "notes", [entry(f"other{n}", [9, n / 1000, 1], r=2) for n in range(3000)]
        )
        await vectors.upsert("notes", [entry(f"own{n}", [-9, n, 1], r=1) for n in range(5)])
        await run(store, "ANALYZE")
        hits = await vectors.query("notes", [1, 0, 0], filter={"r": {"$lt": 2}}, top_k=5)
        assert {hit.id for hit in hits} == {f"own{n}" for n in range(5)}
        assert len(await vectors.query("notes", [1, 0, 0], top_k=2000)) == 2000
        assert len(await vectors.query("notes", [1, 0, 0], top_k=100)) == 100


@pytest.mark.parametrize("wrong", [None, "postgresql://x"])
def test_what_is_no_store_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="store must be a PostgresStore"):
        PostgresVectors(wrong)


def test_an_option_that_cannot_be_used_is_refused() -> None:
    store = PostgresStore("postgresql://127.0.0.1/x")
    with pytest.raises(OptionError, match="hnsw"):
        PostgresVectors(store, hnsw="yes")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="hnsw"):
        PostgresVectors(store, hnws=True)  # type: ignore[call-arg]
    assert "hnsw" not in repr(PostgresVectors(store))
