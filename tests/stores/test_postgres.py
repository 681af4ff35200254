"""A PostgreSQL database: many processes, lost and missing connections, secrets, old schemas."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from procession import OptionError, StoreError
from procession.ids import new_id
from procession.stores import PostgresStore
from procession.stores.postgres import pools
from procession.stores.postgres.failures import Failures
from procession.stores.sql import schema
from tests.stores.processes import finished, start_process
from tests.stores.saying import said, turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def store(postgres: str) -> AsyncIterator[PostgresStore]:
    """An empty store."""
    async with PostgresStore(postgres, schema=f"s{new_id()}", max_size=4) as made:
        yield made


@asynccontextmanager
async def like(store: PostgresStore, postgres: str, **more: Any) -> AsyncIterator[PostgresStore]:
    """Another store on the same tables."""
    async with PostgresStore(postgres, schema=store.schema, **more) as made:
        yield made


async def test_m_204_another_store_finds_what_was_saved(
    store: PostgresStore, postgres: str
) -> None:
    await store.get_store("memory").save_turn(turn(said("Hi")))
    await store.get_store("workflows").put("run", "1", {"a": 1})
    async with like(store, postgres) as other:
        (found,) = await other.get_store("memory").newest_messages("t", 5)
        assert found.text == "Hi"
        assert await other.get_store("workflows").take("run", "1") == {"a": 1}
    assert await store.get_store("workflows").take("run", "1") is None


async def test_schemas_are_apart(store: PostgresStore, postgres: str) -> None:
    await store.get_store("memory").save_turn(turn(said("Hi")))
    async with PostgresStore(postgres, schema=f"s {new_id()} %s ?") as other:
        assert await other.get_store("memory").newest_messages("t", 5) == []
        await other.get_store("memory").save_turn(turn(said("Ho"), resource_id="other"))


async def test_many_may_start_at_once(postgres: str) -> None:
    name = f"s{new_id()}"
    stores = [PostgresStore(postgres, schema=name, min_size=0) for _ in range(8)]
    await asyncio.gather(*(each.start() for each in stores))
    await asyncio.gather(*(each.get_store("memory").save_turn(turn(said("Hi"))) for each in stores))
    assert (await stores[0].get_store("memory").list_messages("t")).total == 8
    for each in stores:
        await each.close()


async def test_several_processes_lose_nothing_and_take_once(
    store: PostgresStore, postgres: str
) -> None:
    body = """
    schema, me = arguments
    async with PostgresStore(place, schema=schema, max_size=3) as store:
        memory, runs = store.get_store("memory"), store.get_store("workflows")
        one = lambda n: (
            memory.save_turn(turn(said(f"{me}.{n}"), said(f"{me}.{n}!"))),
            memory.change_working_memory(resource_id="r", change=add),
            runs.take("run", f"{n}"),
        )
        done = await asyncio.gather(*(each for n in range(10) for each in one(n)))
        print(sum(isinstance(each, dict) for each in done))
"""
    memory, runs = store.get_store("memory"), store.get_store("workflows")
    for number in range(10):
        await runs.put("run", f"{number}", {})
    processes = [start_process(body, postgres, store.schema, str(me)) for me in range(3)]
    taken = [int(await asyncio.to_thread(finished, each)) for each in processes]
    assert sum(taken) == 10
    found = (await memory.list_messages("t", per_page=False)).messages
    assert len(found) == 60
    resource = await memory.get_resource_by_id("r")
    assert resource is not None and resource.working_memory == "30"


def test_several_event_loops_share_a_store(postgres: str) -> None:
    store = PostgresStore(postgres, schema=f"s{new_id()}", max_size=2)
    memory = store.get_store("memory")

    async def save(number: int) -> None:
        async with store:
            await asyncio.gather(*(memory.save_turn(turn(said(f"{number}.{n}"))) for n in range(5)))

    workers = [threading.Thread(target=asyncio.run, args=(save(n),)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    async def total() -> int:
        async with store:
            return (await memory.list_messages("t")).total

    assert asyncio.run(total()) == 15
    assert store._pools._opening == {}


async def test_a_cancelled_turn_is_whole_or_not_there(store: PostgresStore) -> None:
    memory = store.get_store("memory")
    await memory.save_turn(turn(said("first")))
    tasks = [
        asyncio.create_task(memory.save_turn(turn(said(f"{n}"), said(f"{n}!")))) for n in range(30)
    ]
    for number, task in enumerate(tasks):
        await asyncio.sleep(0)
        if number % 2:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    found = [m.text for m in (await memory.list_messages("t", per_page=False)).messages]
    assert found[0] == "first"
    assert all(
        second == f"{first}!" for first, second in zip(found[1::2], found[2::2], strict=True)
    )
    assert {f"{n}" for n in range(0, 30, 2)} <= set(found)
    async with store.connection() as connection:
        rows = await connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%%'"
        )
        assert await rows.fetchone() == (0,)


async def test_a_cancelled_start_is_left_to_the_others(postgres: str) -> None:
    store = PostgresStore(postgres, schema=f"s{new_id()}")
    first, second = asyncio.create_task(store.start()), asyncio.create_task(store.start())
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert first.cancelled()
    await store.close()


async def test_connections_that_the_server_ended_are_replaced(
    store: PostgresStore, postgres: str
) -> None:
    memory = store.get_store("memory")
    await asyncio.gather(*(memory.save_turn(turn(said("x"))) for _ in range(8)))
    async with await psycopg.AsyncConnection.connect(postgres, autocommit=True) as admin:
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )
    await asyncio.gather(*(memory.save_turn(turn(said("y"))) for _ in range(8)))
    assert (await memory.list_messages("t")).total == 16


async def test_tables_of_others_may_stand_beside(store: PostgresStore) -> None:
    async with store.connection() as connection:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        await connection.execute("CREATE TABLE mine (a vector(2))")
    with pytest.raises(LookupError):
        async with store.connection() as connection:
            await connection.execute("INSERT INTO mine VALUES ('[1,2]')")
            raise LookupError
    async with store.connection() as connection:
        rows = await connection.execute(
            "SELECT (SELECT count(*) FROM mine), to_regclass(%s) IS NOT NULL",
            (f'"{store.schema}".mine',),
        )
        assert await rows.fetchone() == (0, True)
        with pytest.raises(psycopg.errors.UndefinedTable):
            await connection.execute("SELECT * FROM theirs")


async def test_deadlocks_are_tried_again(store: PostgresStore, monkeypatch: Any) -> None:
    memory, attempts = store.get_store("memory"), list[None]()

    def change(before: str | None) -> str:
        attempts.append(None)
        if len(attempts) < 3:
            raise psycopg.errors.DeadlockDetected("deadlock detected")
        return f"{before or ''}!"

    await memory.update_resource("r", working_memory="a")
    assert await memory.change_working_memory(resource_id="r", change=change) == "a!"
    assert len(attempts) == 3


async def test_a_schema_of_a_newer_version_is_refused(store: PostgresStore, postgres: str) -> None:
    async with store.connection() as connection:
        await connection.execute("UPDATE procession_schema SET version = 99")
    with pytest.raises(StoreError, match=r"newer version of procession.*upgrade"):
        await PostgresStore(postgres, schema=store.schema).start()


async def test_a_schema_of_an_older_version_is_migrated(
    store: PostgresStore, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.get_store("memory").save_turn(turn(said("old")))
    second = ("ALTER TABLE procession_threads ADD COLUMN pinned BIGINT",)
    monkeypatch.setattr(pools, "MIGRATIONS", [*schema.MIGRATIONS, second])
    stores = [PostgresStore(postgres, schema=store.schema, min_size=0) for _ in range(3)]
    await asyncio.gather(*(each.start() for each in stores))
    assert len(await stores[0].get_store("memory").newest_messages("t", 5)) == 1
    async with stores[1].connection() as connection:
        rows = await connection.execute("SELECT pinned FROM procession_threads")
        assert await rows.fetchall() == [(None,)]
    for each in stores:
        await each.close()


async def test_a_migration_that_fails_changes_nothing(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(postgres, schema=f"s{new_id()}")
    with monkeypatch.context() as patch:
        patch.setattr(pools, "MIGRATIONS", [*schema.MIGRATIONS, ("NONSENSE",)])
        with pytest.raises(StoreError, match="NONSENSE"):
            await store.start()
    await store.get_store("memory").save_turn(turn(said("Hi")))
    await store.close()


SECRET = "s3cr3t-pass"


async def test_a_server_that_is_not_there_is_told_without_the_password(tmp_path: Path) -> None:
    store = PostgresStore(f"postgresql://ada:{SECRET}@/app?host={tmp_path}", timeout=2)
    with pytest.raises(StoreError, match="PostgreSQL: ") as failed:
        await store.start()
    assert SECRET not in repr(failed.value) and SECRET not in repr(store)
    assert failed.value.__cause__ is None and failed.value.__suppress_context__
    with pytest.raises(StoreError):
        await store.get_store("memory").newest_messages("t", 1)
    await store.close()


async def test_a_user_without_rights_is_told_what_is_missing(postgres: str) -> None:
    role = f"role{new_id()[:8]}"
    async with await psycopg.AsyncConnection.connect(postgres, autocommit=True) as admin:
        await admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{SECRET}'".encode())
    url = postgres.replace("postgres:@", f"{role}:{SECRET}@")
    with pytest.raises(StoreError, match="lacks a privilege") as failed:
        await PostgresStore(url, schema=f"s{new_id()}").start()
    assert SECRET not in str(failed.value)
    with pytest.raises(StoreError, match="no database of this name"):
        await PostgresStore(url.replace("/postgres?", "/nowhere?")).start()


async def test_a_server_that_only_reads_is_told(store: PostgresStore, postgres: str) -> None:
    async with like(store, postgres, max_size=1) as other:
        async with other._pools.borrowed() as connection:
            await connection.execute("SET default_transaction_read_only = on")
        with pytest.raises(StoreError, match="only reads: give the url of the primary"):
            await other.get_store("memory").save_turn(turn(said("Hi")))


async def test_who_finds_no_free_connection_is_told(store: PostgresStore, postgres: str) -> None:
    async with like(store, postgres, max_size=1) as other, other.connection():
        pool = await other._pools._pool()
        pool.timeout = 0.01
        with pytest.raises(StoreError, match="no connection was free for 30 seconds: raise max"):
            await other.get_store("memory").newest_messages("t", 1)


def test_the_servers_words_are_told_without_the_password() -> None:
    told = str(Failures(SECRET, 1).of(psycopg.OperationalError(f"odd: {SECRET}\n  at a host")))
    assert told == "PostgreSQL: OperationalError: odd: … at a host. Nothing of this was written"


@pytest.mark.parametrize(
    "url", [f"postgresql://ada:{SECRET}/%@host/app", f"nonsense {SECRET}", f"password='{SECRET}"]
)
def test_a_url_that_cannot_be_read_is_not_repeated(url: str) -> None:
    with pytest.raises(OptionError, match="percent-encoded") as failed:
        PostgresStore(url)
    assert SECRET not in str(failed.value) and failed.value.__suppress_context__


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": ""},
        {"url": None},
        {"schema": ""},
        {"schema": 'a"b'},
        {"schema": "é" * 32},
        {"min_size": -1},
        {"max_size": 0},
        {"max_size": 1, "min_size": 2},
        {"timeout": float("inf")},
        {"timeout": True},
    ],
    ids=str,
)
def test_b_014_options_that_cannot_be_used_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        PostgresStore(**{"url": "postgresql://ada@db.example.com/app", **wrong})


def test_repr_shows_the_place_only() -> None:
    store = PostgresStore(f"postgresql://ada:{SECRET}@db.example.com/app", schema="support")
    assert repr(store) == "PostgresStore(host='db.example.com', dbname='app', schema='support')"


def test_without_the_extra_its_name_is_told() -> None:
    code = """
import sys
sys.modules["psycopg"] = None
from procession.stores import InMemoryStore, SQLiteStore
try:
    from procession.stores import PostgresStore
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "the package 'psycopg' is needed: pip install 'procession[postgres]'"
    )


def test_nothing_optional_is_loaded_before_it_is_used() -> None:
    code = """
import sys, procession
print("sqlite3" in sys.modules)
import procession.stores
print("psycopg" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
