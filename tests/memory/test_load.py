"""Many conversations at once, many turns at once in one thread, and threads that are long."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.kill.script import Turn, agent_for
from checks.kill.verdict import Report, prompt_problems, thread_problems
from procession.memory import Memory
from procession.store import Turn as StoredTurn
from procession.stores import InMemoryStore, PostgresStore, SQLiteStore
from procession.stores.domains import ByDomain
from procession.stores.postgres import driving as postgres_driving
from procession.stores.sqlite import driving as sqlite_driving
from procession.testing import ScriptedModel
from tests.laws.checks import operations
from tests.memory.kit import CALL, remembering, rows, said
from tests.postgres import postgres
from tests.stores.conftest import make_store
from tests.stores.saying import said as said_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from procession.store import Store
    from procession.stores.sql.script import Ask, AskMany

__all__ = ["postgres"]


@pytest.fixture(params=["in memory", "SQLite", "PostgreSQL"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """An empty store, of each kind in turn."""
    async with make_store(request.param, request, tmp_path) as made:
        yield made


# ── many conversations ────────────────────────────────────────────────────────────────────────

CONVERSATIONS, TURNS = 200, 3


async def test_200_conversations_at_once_lose_nothing(store: Store) -> None:
    """M-087: each prompt holds all that was said before in its thread, in order, and no more."""
    memory = Memory(storage=store)

    async def converse(number: int) -> None:
        model = ScriptedModel([f"{number} answer {turn}" for turn in range(TURNS)])
        agent, _ = remembering(model, memory)
        call: Any = {"thread": f"t{number}", "resource": f"u{number % 7}"}
        expected: list[str] = []
        for turn in range(TURNS):
            expected.append(f"{number} question {turn}")
            await agent.generate(expected[-1], memory=call)
            assert said(model.calls[-1].prompt) == expected
            expected.append(f"{number} answer {turn}")
        assert [row.text for row in await rows(memory, f"t{number}")] == expected

    async with asyncio.TaskGroup() as group:
        for number in range(CONVERSATIONS):
            group.create_task(converse(number))
    assert (await memory.list_threads(per_page=1)).total == CONVERSATIONS


# ── many turns in one thread ──────────────────────────────────────────────────────────────────

TALKERS = 10


class Pausing(ByDomain):
    """A store that lets others go on before and after each call, so often as it is told."""

    def __init__(self, store: Store, pauses: Iterator[int]) -> None:
        self._good: Any = store.get_store("memory")
        self._pauses = pauses
        self._domains = {"memory": self, "workflows": store.get_store("workflows")}

    def __getattr__(self, name: str) -> Any:
        async def paused(*given: Any, **more: Any) -> Any:
            await self._pause()
            try:
                return await getattr(self._good, name)(*given, **more)
            finally:
                await self._pause()

        return paused

    async def _pause(self) -> None:
        for _ in range(next(self._pauses)):
            await asyncio.sleep(0)


async def talk_at_once(memory: Memory, names: list[str], thread: str = "t1") -> None:
    """All these turns at once; the thread is whole then, and each prompt was acceptable."""

    async def take(name: str) -> Report:
        turn = Turn.of(thread, name)
        agent = agent_for(turn, memory)
        call = {"thread": thread, "resource": "u1"}
        if turn.outcome == "stopped":  # how those end is told elsewhere
            turn = turn._replace(outcome="accepted")
        result = await agent.generate(turn.question, memory=call)
        model: Any = agent.model
        for asked in model.calls:
            assert prompt_problems(asked.prompt) == []
        return Report(thread, name, result.run_id)

    reports = await asyncio.gather(*map(take, names))
    stored = (await memory.recall(thread, per_page=False)).messages
    assert thread_problems(thread, stored, {each.name: each for each in reports}) == []


@settings(max_examples=60)
@given(
    pauses=st.lists(st.integers(0, 12), min_size=1, max_size=40),
    first=st.integers(0, 9_998),  # four digits, by which turns are put in order
    last_messages=st.sampled_from((1, 3, 10, 100)),
)
def test_turns_at_once_in_one_thread(pauses: list[int], first: int, last_messages: int) -> None:
    """Law 5, M-107: all are saved, whole, and what a model is asked is always balanced."""

    async def scenario() -> None:
        store = Pausing(InMemoryStore(), itertools.cycle(pauses))
        memory = Memory(storage=store, last_messages=last_messages)
        await talk_at_once(memory, [f"t1.{n}.{first:04}" for n in range(TALKERS)])
        await talk_at_once(memory, [f"t1.{n}.{first + 1:04}" for n in range(TALKERS)])

    asyncio.run(scenario())


async def test_turns_at_once_in_one_thread_of_each_store(store: Store) -> None:
    """As above, with the interleavings of a real file and a real server."""
    memory = Memory(storage=store, last_messages=12)
    for number in range(3):
        await talk_at_once(memory, [f"t1.{n}.{number:04}" for n in range(TALKERS)])


# ── long threads ──────────────────────────────────────────────────────────────────────────────

SHORT, LONG = 100, 10_000
KINDS_OF_MEMORY: list[dict[str, Any]] = [
    {},
    {"message_history": {"max_tokens": 600}},
    {"working_memory": {"enabled": True}, "last_messages": 30},
    {"generate_title": {"model": ScriptedModel(["A title"]), "min_messages": 8}},
]


class Counter:
    """Counts what databases are asked, and the rows that come back."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked = self.rows = 0
        for_sqlite, for_postgres = sqlite_driving._rows, postgres_driving._rows

        def sqlite(asked: Ask | AskMany, connection: Any) -> Any:
            return self._noted(for_sqlite(asked, connection))

        async def postgres(asked: Ask | AskMany, *rest: Any) -> Any:
            return self._noted(await for_postgres(asked, *rest))

        patch.setattr(sqlite_driving, "_rows", sqlite)
        patch.setattr(postgres_driving, "_rows", postgres)

    def _noted(self, found: list[Any]) -> list[Any]:
        self.asked += 1
        self.rows += len(found)
        return found


async def fill(memory: Memory, thread: str, count: int) -> None:
    """A thread of so many messages."""
    store: Any = memory.storage
    roles = ("user", "assistant")
    messages = [said_at(f"message {n:05}", n, role=roles[n % 2]) for n in range(count)]
    for start in range(0, count, 1_000):
        turn = StoredTurn(
            thread_id=thread, resource_id="u1", messages=messages[start : start + 1_000]
        )
        await store.get_store("memory").save_turn(turn)


async def take_turn(memory: Memory, thread: str) -> int:
    """One turn with a new agent; how many messages its prompt held."""
    model = ScriptedModel(["Fine."])
    agent, _ = remembering(model, memory)
    await agent.generate("And now?", memory={**CALL, "thread": thread})
    await memory.settled()
    return len(model.calls[0].prompt)


@pytest.mark.parametrize("options", KINDS_OF_MEMORY, ids=lambda options: "-".join(options))
async def test_a_turn_in_a_long_thread_asks_as_much_as_in_a_short_one(
    store: Store, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 7: the same statements, the same rows, the same calls of functions."""
    memory = Memory(storage=store, **options)
    found: list[tuple[int, ...]] = []
    calls: list[int] = []
    await fill(memory, "warm", SHORT)
    await take_turn(memory, "warm")
    for thread, count in (("short", SHORT), ("long", LONG)):
        await fill(memory, thread, count)
        with monkeypatch.context() as patch:
            counter = Counter(patch)
            prompt = await take_turn(memory, thread)
            found.append((counter.asked, counter.rows, prompt))
        calls.append(await operations(take_turn(memory, thread)))
    assert found[0] == found[1]
    if isinstance(store, InMemoryStore):  # what waits for others is woken a varying number of times
        assert calls[1] <= calls[0] * 1.05


async def test_sqlite_does_not_look_at_the_rows_of_a_long_thread(tmp_path: Path) -> None:
    """Law 7: not only does it give few rows: it works as little for them, in its own steps."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    async with SQLiteStore(tmp_path / "a.db", synchronous="normal") as store:
        memory = Memory(storage=store)
        spent: list[int] = []
        for thread, count in (("warm", SHORT), ("short", SHORT), ("long", LONG)):
            await fill(memory, thread, count)
            for write in (True, False):
                await store.run(lambda c: c.set_progress_handler(step, 1), write=write)
            steps = 0
            await take_turn(memory, thread)
            spent.append(steps)
        assert 0 < spent[2] <= spent[1] * 1.1


async def test_postgres_does_not_look_at_the_rows_of_a_long_thread(postgres: str) -> None:
    """Law 7: so many rows of tables and indexes are looked at, by the server's own count."""
    looked = (
        "SELECT sum(seq_tup_read) + sum(coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables"
        " WHERE schemaname = %s"
    )
    async with PostgresStore(postgres, schema="long threads", max_size=1) as store:
        memory = Memory(storage=store)

        async def total() -> int:
            for _ in range(2):  # it is told of a transaction when the next one ends
                async with store.connection() as connection:
                    await connection.execute("SELECT pg_stat_force_next_flush()")
            async with store.connection() as connection:
                found = await connection.execute(looked, (store.schema,))
                (count,) = await found.fetchone() or (0,)
                return int(count)

        spent: list[int] = []
        for thread, count in (("short", SHORT), ("long", LONG)):
            await fill(memory, thread, count)
            before = await total()
            await take_turn(memory, thread)
            spent.append(await total() - before)
        assert 0 < spent[1] <= spent[0] + 20
