"""Connections of a PostgreSQL store: how many there are, and that an event loop may end with them.

Nothing here closes the store, unless it says so.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import generators, waiting

from procession import StoreError
from procession.ids import new_id
from procession.stores import PostgresStore
from procession.stores.postgres import pool
from tests.stores.saying import said, turn

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator


class Watched:
    """A store whose connections the server knows by a name."""

    def __init__(self, postgres: str, **options: Any) -> None:
        self._postgres = postgres
        self._name = f"n{new_id()}"
        mark = "&" if "?" in postgres else "?"
        self.url = f"{postgres}{mark}application_name={self._name}"
        self.store = PostgresStore(self.url, schema=f"s{new_id()}", **options)
        self.memory = self.store.get_store("memory")

    def connections(self) -> int:
        """How many the server has now."""
        with psycopg.connect(self._postgres, autocommit=True) as admin:
            found = admin.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", (self._name,)
            )
            row = found.fetchone()
        assert row is not None
        return row[0]

    async def reach(self, count: int) -> None:
        """Wait until there are so many: the server learns of a closed one a little later."""
        async with asyncio.timeout(30):
            for _ in iter(lambda: self.connections() != count, False):
                await asyncio.sleep(0.01)

    async def burst(self, size: int) -> None:
        """Several calls at once."""
        await asyncio.gather(*(self.memory.save_turn(turn(said(f"{n}"))) for n in range(size)))


@pytest.fixture
def watched(postgres: str) -> Callable[..., Watched]:
    """Makes a store."""
    return lambda **options: Watched(postgres, **options)


@pytest.mark.parametrize("least", [0, 1, 3])
def test_nothing_works_behind_the_calls_of_an_event_loop(
    least: int, watched: Callable[..., Watched]
) -> None:
    """Nothing there could hold up the end of the loop, whose connections go with it."""
    made = watched(min_size=least)

    async def call() -> int:
        total = (await made.memory.list_threads()).total
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await made.reach(max(least, 1))
        return total

    for _ in range(3):
        assert asyncio.run(call()) == 0
        asyncio.run(made.reach(0))


def test_two_event_loops_end_with_their_connections(watched: Callable[..., Watched]) -> None:
    made = watched()

    async def work() -> None:
        await made.burst(3)

    threads = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    asyncio.run(made.reach(0))


def test_an_event_loop_may_end_while_connections_are_made(watched: Callable[..., Watched]) -> None:
    """Wherever they are: what was begun is broken off."""
    made = watched(min_size=3)

    async def leave(steps: int) -> None:
        calls = [asyncio.create_task(made.memory.list_threads()) for _ in range(5)]
        for _ in range(steps):
            await asyncio.sleep(0.001)
        assert calls

    for steps in range(0, 60, 3):
        asyncio.run(leave(steps))
    asyncio.run(made.reach(0))


def test_a_connection_that_an_event_loop_has_not_finished_is_not_kept(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server knows it already; what holds the failed attempt must not hold it."""
    made = watched()
    begun: list[weakref.ref[Any]] = []
    has_begun = asyncio.Event()
    connect = generators.connect

    def slowly(conninfo: str) -> Generator[Any, Any, Any]:
        half_made = yield from connect(conninfo)
        begun.append(weakref.ref(half_made))
        has_begun.set()
        while True:
            yield half_made.socket, waiting.WAIT_R

    monkeypatch.setattr(generators, "connect", slowly)

    async def leave() -> None:
        call = asyncio.create_task(made.memory.list_threads())
        await has_begun.wait()
        assert not call.done()

    gc.disable()
    try:
        asyncio.run(leave())
        assert [each() for each in begun] == [None]
    finally:
        gc.enable()


async def test_who_is_cancelled_as_the_pool_opens_leaves_it_to_the_others(
    watched: Callable[..., Watched],
) -> None:
    made = watched()
    caller = asyncio.create_task(made.store.start())
    await asyncio.sleep(0)
    [opening] = asyncio.all_tasks() - {asyncio.current_task(), caller}
    opening.add_done_callback(lambda _: caller.cancel())
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert (await made.memory.list_threads()).total == 0
    await made.reach(1)  # the one that was open then
    await made.store.close()
    await made.reach(0)


async def test_cancelled_calls_leave_their_connections_to_others(
    watched: Callable[..., Watched],
) -> None:
    made = watched(max_size=2, timeout=30)
    for steps in range(40):
        calls = [asyncio.create_task(made.memory.save_turn(turn(said("Hi")))) for _ in range(4)]
        for _ in range(steps):
            await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        async with made.store.connection(), made.store.connection():  # all there may be
            pass
    await made.store.close()
    await made.reach(0)


async def test_a_call_that_is_under_way_when_the_store_closes_is_done(
    watched: Callable[..., Watched],
) -> None:
    """The next one opens it again."""
    made = watched()
    async with made.store.connection() as connection:
        await made.store.close()
        await connection.execute("SELECT 1")
    await made.reach(0)
    assert (await made.memory.list_threads()).total == 0
    await made.reach(1)
    await made.store.close()
    await made.reach(0)


def test_what_the_end_of_an_event_loop_sets_off_can_be_saved(
    watched: Callable[..., Watched],
) -> None:
    """Such as a run that nobody has closed: the connections go before it or behind it."""
    made = watched()

    async def paused() -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await asyncio.sleep(0)
            await made.memory.save_turn(turn(said("Hi")))

    async def work(before: bool) -> Any:
        generator = paused()
        if before:
            await anext(generator)
        await made.store.start()
        if not before:
            await anext(generator)
        return generator

    for before in (True, False):
        kept = asyncio.run(work(before))
        assert kept is not None
    asyncio.run(made.reach(0))

    async def total() -> int:
        return (await made.memory.list_messages("t")).total

    assert asyncio.run(total()) == 2


async def test_connections_that_are_not_needed_any_more_are_given_up(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = watched(min_size=2, max_size=6)
    await made.store.start()
    async with made.store.connection(), made.store.connection(), made.store.connection():
        await made.reach(3)
        monkeypatch.setattr(pool, "_UNUSED", 0.0)
    await made.reach(2)
    await made.store.close()


async def test_a_server_that_is_full_for_a_moment_is_waited_for(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = watched(timeout=30)
    await made.store.start()
    connect, attempts = psycopg.AsyncConnection.connect, list[None]()

    async def refuse(*arguments: Any, **options: Any) -> Any:
        attempts.append(None)
        if len(attempts) < 3:
            raise psycopg.OperationalError("FATAL: sorry, too many clients already")
        return await connect(*arguments, **options)

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", refuse)
    async with made.store.connection(), made.store.connection():
        assert len(attempts) == 3

    def never(*_: Any, **__: Any) -> Any:
        attempts.append(None)
        raise psycopg.OperationalError('FATAL: password authentication failed for user "ada"')

    attempts.clear()
    monkeypatch.setattr(psycopg.AsyncConnection, "connect", never)
    async with made.store.connection(), made.store.connection():
        with pytest.raises(StoreError, match="refuses the user or the password"):
            await made.memory.list_threads()
    assert len(attempts) == 1
    await made.store.close()


SILENT = """
import asyncio, os, signal, socket, sys, threading
from procession.stores import PostgresStore

def hear(listening):
    heard.append(listening.accept()[0])
    heard[0].recv(8)  # and says nothing
    os.kill(os.getpid(), signal.SIGINT)

heard = []
listening = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=hear, args=(listening,), daemon=True).start()
url = f"postgresql://ada@127.0.0.1:{listening.getsockname()[1]}/app"
asyncio.run(PostgresStore(url, min_size=4).get_store("memory").list_threads())
"""


def test_ctrl_c_ends_the_wait_for_a_server_that_says_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SILENT], capture_output=True, text=True, timeout=50
    )
    assert done.returncode == -signal.SIGINT
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")
