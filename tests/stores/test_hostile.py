"""Stores that are cancelled at every point, servers that go away, and commits nobody hears of."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from checks.postgres_server import postgres_server
from procession import OptionError, StoreError
from procession.ids import new_id
from procession.stores import PostgresStore
from tests.cancelling import cancelled_everywhere
from tests.stores.saying import said, turn

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from checks.postgres_server import Server
    from procession.store import MemoryStore, WorkflowStore

CALLS: dict[str, Callable[[Any, Any, int], Coroutine[Any, Any, Any]]] = {
    "save_turn": lambda m, _, n: m.save_turn(turn(said(f"{n}"), said(f"{n}!"))),
    "newest_messages": lambda m, _, n: m.newest_messages("t", 3),
    "list_messages": lambda m, _, n: m.list_messages("t"),
    "change_working_memory": lambda m, _, n: m.change_working_memory(
        resource_id="r", change=lambda before: f"{before or ''}."
    ),
    "put": lambda _, w, n: w.put("run", f"{n}", {"n": n}),
    "take": lambda _, w, n: w.take("run", "0"),
}


@pytest.mark.parametrize("call", CALLS)
async def test_m_107_cancelled_wherever_it_waits_a_call_is_whole_or_not_there(
    store: Any, memory: MemoryStore, workflows: WorkflowStore, call: str
) -> None:
    """Law 6: and no connection, transaction or task of it is left."""
    await memory.save_turn(turn(said("first")))
    await workflows.list_ids("run")
    async for _, raised in cancelled_everywhere(lambda n: CALLS[call](memory, workflows, n)):
        assert raised is None or isinstance(raised, asyncio.CancelledError)
    found = [m.text for m in (await memory.list_messages("t", per_page=False)).messages][1:]
    assert all(b == f"{a}!" for a, b in zip(found[::2], found[1::2], strict=True))
    # Whoever comes next finds nothing locked, and every connection free.
    await asyncio.gather(*(memory.save_turn(turn(said("y"))) for _ in range(10)))
    if isinstance(store, PostgresStore):
        async with AsyncExitStack() as held:
            for _ in range(5):  # all that there may be
                connection = await held.enter_async_context(store.connection())
            rows = await connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%%'"
                " AND query ILIKE '%%procession_%%' AND query NOT LIKE '%%pg_stat_activity%%'"
            )
            assert await rows.fetchone() == (0,)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of its own, which tests may stop."""
    with postgres_server() as running:
        yield running


@pytest.fixture
def stopped(server: Server) -> Iterator[Server]:
    """The same; it runs again when the test has ended."""
    yield server
    server.start()


async def test_after_an_outage_the_server_is_found(stopped: Server) -> None:
    """However long it was away, without a restart; each call is told so in its own time."""
    async with PostgresStore(stopped.url, schema=f"s{new_id()}", timeout=0.5) as store:
        memory = store.get_store("memory")
        await memory.save_turn(turn(said("before")))
        stopped.stop()
        for _ in range(4):
            with pytest.raises(
                StoreError, match=r"PostgreSQL: .*([Ii]s the server|server answers)"
            ):
                await memory.newest_messages("t", 5)
        stopped.start()
        for _ in range(20):
            try:
                (found,) = await memory.newest_messages("t", 5)
                break
            except StoreError:
                continue
        else:
            pytest.fail("the server runs again, and nobody finds it")
        assert found.text == "before"


async def test_a_server_that_ends_in_the_midst_of_a_turn_is_told(stopped: Server) -> None:
    """Nothing of the turn is there, and the store goes on when the server does."""
    async with PostgresStore(stopped.url, schema=f"s{new_id()}", timeout=5) as store:
        memory = store.get_store("memory")
        await memory.save_turn(turn(said("before")))

        def change(before: str | None) -> str:
            stopped.stop()
            return "new"

        with pytest.raises(StoreError, match=r"PostgreSQL: .*Nothing of this was written"):
            await memory.change_working_memory(resource_id="r", change=change)
        stopped.start()
        assert await memory.change_working_memory(resource_id="r", change=lambda b: b) is None


async def test_a_commit_that_nobody_heard_of_is_told_as_such(postgres: str) -> None:
    """The connection is lost in the midst of it: the error does not say that nothing is there."""
    async with PostgresStore(postgres, schema=f"s{new_id()}") as store:
        memory = store.get_store("memory")
        await memory.save_turn(turn(said("before")))
        async with store.connection() as connection:
            await connection.execute(
                "CREATE FUNCTION pull() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
            )
            await connection.execute(
                "CREATE CONSTRAINT TRIGGER pulled AFTER INSERT ON procession_messages "
                "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pull()"
            )
        with pytest.raises(StoreError, match="it was written, or nothing of it") as failed:
            await memory.save_turn(turn(said("lost?")))
        assert "Nothing of this was written" not in str(failed.value)
        async with store.connection() as connection:
            await connection.execute("DROP TRIGGER pulled ON procession_messages")
        assert [m.text for m in await memory.newest_messages("t", 5)] == ["before"]


def test_b_014_a_timeout_within_which_nothing_can_happen_is_refused() -> None:
    with pytest.raises(OptionError, match="timeout must be more than 0"):
        PostgresStore("postgresql://ada@db.example.com/app", timeout=0)
