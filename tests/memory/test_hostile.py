"""Agents with memory in a hostile world: ids, tenants, disks, servers, and callers who go away."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from checks.kill.script import Turn, agent_for
from checks.kill.verdict import prompt_problems, thread_problems
from checks.postgres_server import postgres_server
from procession import Agent, InputError, OwnerError, StoreError, tool
from procession.ids import new_id
from procession.memory import Memory
from procession.stores import InMemoryStore, PostgresStore, SQLiteStore
from procession.stores.domains import ByDomain
from procession.testing import ScriptedModel, answer, tool_call
from tests.cancelling import cancelled_everywhere
from tests.laws.kit import Hook, others_done
from tests.memory.kit import CALL, remembering, rows, said, shown
from tests.memory.test_load import Pausing, store
from tests.postgres import postgres
from tests.stores.processes import finished, start_process

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Iterator, Sequence

    from checks.postgres_server import Server
    from procession.chunks import Chunk
    from procession.model import ModelRequest
    from procession.store import Store

__all__ = ["postgres", "store"]

# ── ids ───────────────────────────────────────────────────────────────────────────────────────

IDS = [
    "'; DROP TABLE procession_messages; --",
    '" OR 1=1 --',
    "%s %(key)s ? $1 {serial}",
    "../../etc/passwd",
    "..\\..\\",
    "a\nb\r\n\t",
    "*",
    "%",
    "_",
    "T1",
    "t1",
    " t1",
    "t1 ",
    "t1\u200b",
    "\u00e9",
    "e\u0301",
    "\\u00e9",
    "\\",
    "\\\\",
    "null",
    "\U0001f600" * 3,
    "\u202e",
    "\0",
    "a\0b",
    "a\\u0000b",
    "x" * 10_000,
    "x" * 9_999 + "y",
]


async def test_ids_of_any_form_name_one_thread_each(store: Store) -> None:
    """What looks alike, or like a command, is told apart and does nothing else."""
    memory = Memory(storage=store)
    model = ScriptedModel(["Yes."])
    agent, _ = remembering(model, memory)
    for turn in range(2):
        for number, id in enumerate(IDS):
            call = {"thread": id, "resource": id}
            await agent.generate(f"{number}.{turn} {id}", memory=call)
            earlier = [f"{number}.0 {id}", "Yes."] * turn
            assert said(model.calls[-1].prompt) == [*earlier, f"{number}.{turn} {id}"]
    for id in IDS:
        page = await memory.list_threads(filter={"resource_id": id})
        assert [thread.id for thread in page.threads] == [id]
        await memory.update_working_memory(f"notes of {id}", resource_id=id)
    for id in IDS:
        assert await memory.get_working_memory(resource_id=id) == f"notes of {id}"
        await memory.delete_thread(id)
    assert (await memory.list_threads()).total == 0


@pytest.mark.parametrize("id", ["", "\ud800", 7, b"t1", ["t1"], {"id": ""}, {"id": "a\udfff"}])
@pytest.mark.parametrize("name", ["thread", "resource"])
async def test_what_no_store_could_keep_is_refused_before_anything_runs(id: Any, name: str) -> None:
    model = ScriptedModel(["Never."])
    agent, memory = remembering(model)
    with pytest.raises(Exception) as refused:
        await agent.generate("Hi", memory={**CALL, name: id})
    assert type(refused.value).__module__ == "procession.errors"
    assert model.calls == [] and (await memory.list_threads()).total == 0


TEXTS = [
    "\0",
    "a\0b",
    "\ud800",
    "\\u0000",
    "'; DROP TABLE x; --",
    "\U0010ffff",
    "\u2028",
    "\x1b[2J",
]


async def test_texts_of_any_form_come_back(store: Store) -> None:
    """M-205: as every later prompt holds them they are the ones that were stored."""
    memory = Memory(storage=store, last_messages=100)
    model = ScriptedModel([*TEXTS, "Well."])
    agent, _ = remembering(model, memory)
    for text in TEXTS:
        await agent.generate(text, memory=CALL)
    before = [entry for call in model.calls for entry in said(call.prompt)[-1:]]
    stored = [row.text for row in await rows(memory)]
    assert stored[::2] == before
    await agent.generate("And?", memory=CALL)
    assert said(model.calls[-1].prompt) == [*stored, "And?"]


# ── tenants ───────────────────────────────────────────────────────────────────────────────────


async def test_m_004_a_thread_of_another_is_refused_before_anything_runs(store: Store) -> None:
    """Whatever way it is asked: no hook has run, no model was asked, nothing is stored or shown."""
    memory = Memory(storage=store, working_memory={"enabled": True})
    owner, _ = remembering(ScriptedModel(["Noted."]), memory)
    await owner.generate("My code is 4711.", memory={"thread": "t1", "resource": "ada"})
    before = await shown(memory)
    ran: list[str] = []
    hook: Any = Hook("process_input", lambda args: ran.append("hook"))
    model = ScriptedModel(["The code is…"])
    thief = Agent(id="desk", model=model, memory=memory, input_processors=[hook])
    call: Any = {"memory": {"thread": "t1", "resource": "bob"}}
    with pytest.raises(OwnerError):
        await thief.generate("What is my code?", **call)
    with pytest.raises(OwnerError):
        await thief.stream("What is my code?", **call)
    with pytest.raises(OwnerError):
        await asyncio.to_thread(thief.generate_sync, "What is my code?", **call)
    for extra in ({"options": {"read_only": True}}, {"options": {"last_messages": False}}):
        with pytest.raises(OwnerError):
            await thief.generate("What is my code?", memory={**call["memory"], **extra})
    assert (ran, model.calls) == ([], [])
    assert await shown(memory) == before
    assert (await memory.list_threads(filter={"resource_id": "bob"})).total == 0


async def test_a_message_id_of_another_tenant_shows_and_changes_nothing(store: Store) -> None:
    """A client that sends an id which is somebody else's gets a message of its own."""
    memory = Memory(storage=store)
    owner, _ = remembering(ScriptedModel(["Noted."]), memory)
    await owner.generate("My code is 4711.", memory={"thread": "t1", "resource": "ada"})
    before = [(row.id, row.text) for row in await rows(memory)]
    model = ScriptedModel(["What?"])
    thief, _ = remembering(model, memory)
    sent = [{"id": id, "role": "user", "content": f"mine {n}"} for n, (id, _) in enumerate(before)]
    for options in ({}, {"retain_full_input": True}):
        call = {"thread": f"t2{options}", "resource": "bob", "options": options}
        await thief.generate(sent, memory=call)
        assert "4711" not in str(model.calls[-1].prompt)
        own = [row.id for row in await rows(memory, call["thread"])]
        assert own and not {id for id, _ in before} & set(own)
    assert [(row.id, row.text) for row in await rows(memory)] == before


class Meeting(ScriptedModel):
    """Answers when all who are expected have asked."""

    def __init__(self, answer: str, barrier: asyncio.Barrier) -> None:
        super().__init__([answer])
        self._barrier = barrier

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Chunk], None]:
        await self._barrier.wait()
        async with aclosing(super().stream(request)) as batches:
            async for batch in batches:
                yield batch


async def test_two_tenants_who_make_the_same_thread_at_once(store: Store) -> None:
    """One has it; the other's answer is delivered and not stored, and no message is mixed in."""
    paused = Pausing(store, itertools.cycle([2]))
    memory = Memory(storage=paused)
    all_have_begun = asyncio.Barrier(3)

    async def claim(resource: str) -> Any:
        model = Meeting(f"for {resource}", all_have_begun)
        agent, _ = remembering(model, memory)
        texts: list[str] = []
        async with agent.stream(
            f"by {resource}", memory={"thread": "t", "resource": resource}
        ) as run:
            async for chunk in run:
                if chunk.type == "text-delta":
                    texts.append(chunk.payload.text)
        assert said(model.calls[0].prompt) == [f"by {resource}"]
        assert "".join(texts) == f"for {resource}"
        return run.error

    errors = dict(zip("abc", await asyncio.gather(*map(claim, "abc")), strict=True))
    [winner] = [name for name, error in errors.items() if error is None]
    assert all(isinstance(error, OwnerError) for error in errors.values() if error is not None)
    assert await shown(memory, "t") == [("user", f"by {winner}"), ("assistant", f"for {winner}")]


class Overtaken(ByDomain):
    """A store in which others act between a run's first look at its thread and the next."""

    def __init__(self, store: Store) -> None:
        self._good: Any = store.get_store("memory")
        self._domains = {"memory": self, "workflows": store.get_store("workflows")}
        self.others: list[Awaitable[Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._good, name)

    async def get_thread_by_id(self, *given: Any) -> Any:
        found = await self._good.get_thread_by_id(*given)
        while self.others:
            await self.others.pop()
        return found


async def test_a_thread_that_another_tenant_makes_meanwhile_is_not_shown(store: Store) -> None:
    """There was no thread when the run began, and there is somebody else's when it is loaded."""
    memory = Memory(storage=(overtaken := Overtaken(store)))
    owner, _ = remembering(ScriptedModel(["Noted."]), memory)
    secret = owner.generate("My code is 4711.", memory={"thread": "t1", "resource": "ada"})
    overtaken.others.append(secret)
    thief, _ = remembering(model := ScriptedModel(["What?"]), memory)
    with pytest.raises(OwnerError):
        await thief.generate("What is my code?", memory={"thread": "t1", "resource": "bob"})
    assert said(model.calls[0].prompt) == ["What is my code?"]
    assert await shown(memory) == [("user", "My code is 4711."), ("assistant", "Noted.")]


# ── disks and servers that do not take it ─────────────────────────────────────────────────────


async def told(memory: Memory, question: str, told_as: str) -> None:
    """A turn that cannot be saved: all of the answer is delivered, then `error`; both ways."""
    steps = [answer("Let me see. ", tool_calls=[tool_call("look")]), answer("It is ", "five.")]

    @tool
    async def look() -> str:
        """Look."""
        return "five"

    before = await shown(memory)
    agent, _ = remembering(ScriptedModel(steps), memory, tools=[look])
    chunks: list[Any] = []
    async with agent.stream(question, memory=CALL) as run:
        async for chunk in run:
            chunks.append(chunk)
    texts = [chunk.payload.text for chunk in chunks if chunk.type == "text-delta"]
    assert "".join(texts) == "Let me see. It is five."
    assert [chunk.type for chunk in chunks].count("tool-result") == 1
    assert chunks[-1].type == "error" and told_as in str(chunks[-1].payload)
    assert run.status == "failed" and isinstance(run.error, StoreError)
    agent, _ = remembering(ScriptedModel(steps), memory, tools=[look])
    with pytest.raises(StoreError, match=told_as):
        await agent.generate(question, memory=CALL)
    assert await shown(memory) == before


async def works(memory: Memory, question: str) -> None:
    """A turn that is saved, and what is asked for it is acceptable."""
    model = ScriptedModel(["Fine."])
    agent, _ = remembering(model, memory)
    await agent.generate(question, memory=CALL)
    assert prompt_problems(model.calls[0].prompt) == []
    assert (await shown(memory))[-2:] == [("user", question), ("assistant", "Fine.")]


async def test_m_106_a_full_disk(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "a.db", synchronous="normal") as file:
        memory = Memory(storage=file)
        await works(memory, "Before?")
        await file.run(lambda c: c.execute("PRAGMA max_page_count = 30").fetchone())
        await told(memory, "x" * 200_000, "the disk is full: make room")
        await file.run(lambda c: c.execute("PRAGMA max_page_count = 3000").fetchone())
        await works(memory, "x" * 200_000)


async def test_m_106_a_file_and_a_server_that_only_read(tmp_path: Path, postgres: str) -> None:
    async with SQLiteStore(tmp_path / "a.db") as file:
        memory = Memory(storage=file)
        await works(memory, "Before?")
        await file.run(lambda c: c.execute("PRAGMA query_only = 1") and None)
        await told(memory, "Now?", "it cannot be written to")
        await file.close()  # another connection
        await works(memory, "After?")
    async with PostgresStore(postgres, schema=f"s{new_id()}", max_size=1) as server:
        memory = Memory(storage=server)
        await works(memory, "Before?")
        for setting, ask in (("on", told), ("off", works)):
            async with server._pools.borrowed() as connection:
                await connection.execute(f"SET default_transaction_read_only = {setting}".encode())
            await ask(memory, "Now?", *(["the server only reads"] if ask is told else []))


def test_a_file_without_the_right_to_write_is_told_before_the_model_is_asked() -> None:
    code = """
    from procession import Agent
    from procession.memory import Memory
    from procession.testing import ScriptedModel
    async with SQLiteStore(":memory:"):
        pass  # all has been imported
    if os.geteuid() == 0:  # for whom nothing is read-only
        os.setuid(65534)
    model = ScriptedModel(["Never."])
    agent = Agent(id="desk", model=model, memory=Memory(storage=SQLiteStore(place)))
    try:
        await agent.generate("Hi", memory={"thread": "t1", "resource": "u1"})
    except StoreError as error:
        print(error, len(model.calls))
"""
    with TemporaryDirectory() as folder:  # others can reach it, unlike the folders of pytest
        path = Path(folder, "a.db")

        async def made() -> None:
            async with SQLiteStore(path) as file:
                await works(Memory(storage=file), "Before?")

        asyncio.run(made())
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        out = finished(start_process(code, str(path)))
        Path(folder).chmod(0o700)
    assert "it cannot be written to: see who owns the file and its folder" in out
    assert out.endswith(" 0")


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


async def test_m_106_a_server_that_goes_away_while_the_model_answers(stopped: Server) -> None:
    """The answer is delivered; the next turns are told too; later ones find the server again."""
    async with PostgresStore(stopped.url, schema=f"s{new_id()}", timeout=1) as store:
        memory = Memory(storage=store)
        await works(memory, "Before?")
        model = ScriptedModel(["It is five."], on_call=lambda _: stopped.stop())
        agent, _ = remembering(model, memory)
        chunks: list[Any] = []
        async with agent.stream("Now?", memory=CALL) as run:
            async for chunk in run:
                chunks.append(chunk)
        texts = [chunk.payload.text for chunk in chunks if chunk.type == "text-delta"]
        assert "".join(texts) == "It is five."
        assert chunks[-1].type == "error" and isinstance(run.error, StoreError)
        agent, _ = remembering(asked := ScriptedModel(["Never."]), memory)
        with pytest.raises(StoreError, match="Is the server running"):
            await agent.generate("And now?", memory=CALL)
        assert asked.calls == []
        stopped.start()
        for _ in range(20):
            try:
                await works(memory, "After?")
                break
            except StoreError:
                continue
        assert [row.text for row in await rows(memory)] == ["Before?", "Fine.", "After?", "Fine."]


async def test_a_pool_without_a_free_connection(postgres: str) -> None:
    """It is told what to do; and 50 turns share one connection, if they may wait for it."""
    schema = f"s{new_id()}"
    async with PostgresStore(postgres, schema=schema, max_size=1, timeout=0.1) as store:
        memory = Memory(storage=store)
        agent, _ = remembering(model := ScriptedModel(["Never."]), memory)
        async with store.connection():
            with pytest.raises(StoreError, match=r"no connection was free.*raise max_size"):
                await agent.generate("Hi", memory=CALL)
        assert model.calls == []
    async with PostgresStore(postgres, schema=schema, max_size=1) as store:
        memory = Memory(storage=store)
        await asyncio.gather(
            *(
                remembering(ScriptedModel(["Yes."]), memory)[0].generate(f"{n}", memory=CALL)
                for n in range(50)
            )
        )
        assert len(await rows(memory)) == 100


# ── callers who go away, and several event loops ──────────────────────────────────────────────


@pytest.mark.parametrize("way", ["generate", "stream"])
async def test_cancelled_wherever_a_turn_waits(store: Store, way: str) -> None:
    """Law 6, M-105, M-107: what is stored is whole and balanced, nothing of the turn is left."""
    memory = Memory(storage=store)
    await works(memory, "Before?")
    names = (Turn.of("t", f"t.{n:04}") for n in range(10_000))
    turns = [turn for turn in names if turn.outcome == "accepted" and len(turn.steps) == 2]

    async def turn(number: int) -> None:
        turn = turns[number]
        agent = agent_for(turn, memory)
        call: Any = {"thread": f"c{number}", "resource": "u1"}
        if way == "generate":
            await agent.generate(turn.question, memory=call)
            return
        async with agent.stream(turn.question, memory=call) as run:
            async for _ in run:
                pass

    ends: set[int] = set()
    before = asyncio.all_tasks()
    async for number, raised in cancelled_everywhere(turn):
        assert raised is None or isinstance(raised, asyncio.CancelledError)
        await others_done(before | pool_tasks())
        stored = await rows(memory, f"c{number}")
        ends.add(len(stored))
        for message in stored:
            states = [p.tool_invocation.state for p in message.parts if p.type == "tool-invocation"]
            assert set(states) <= {"result", "output-error"}
        model = ScriptedModel(["And on."])
        agent, _ = remembering(model, memory)
        await agent.generate("Go on", memory={"thread": f"c{number}", "resource": "u1"})
        assert prompt_problems(model.calls[0].prompt) == []
    assert number > 3 and 2 in ends and len(ends) > 1 and ends <= {0, 1, 2}
    final = [each for each in stored if each.role == "assistant"]
    assert thread_problems("t", stored, {}) == [] and len(final) == 1


def pool_tasks() -> set[asyncio.Task[Any]]:
    """Those of a pool of connections, which live as long as the store."""
    return {task for task in asyncio.all_tasks() if task.get_name().startswith("pool-")}


def test_two_event_loops_in_two_threads_share_a_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """With an agent, a `Memory` and a store for both, in one thread of conversation."""
    stores = [
        InMemoryStore(),
        SQLiteStore(tmp_path / "a.db", synchronous="normal"),
        PostgresStore(request.getfixturevalue("postgres"), schema=f"s{new_id()}", max_size=3),
    ]
    for shared in stores:
        memory = Memory(storage=shared, last_messages=6)
        agent = Agent(id="desk", model=ScriptedModel(["Yes."]), memory=memory)
        failed: list[BaseException] = []

        async def talk(name: str, shared: Any = shared, agent: Agent = agent) -> None:
            async with shared if isinstance(shared, PostgresStore) else InMemoryStore():
                await asyncio.gather(
                    *(agent.generate(f"{name}.{n}", memory=CALL) for n in range(10))
                )

        def work(name: str, talk: Any = talk, failed: Any = failed) -> None:
            try:
                asyncio.run(talk(name))
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert failed == []

        async def check(memory: Memory = memory, shared: Any = shared) -> None:
            async with shared:
                asked = [row.text for row in await rows(memory) if row.role == "user"]
                assert sorted(asked) == sorted(f"{name}.{n}" for name in "ab" for n in range(10))

        asyncio.run(check())


PROGRAM = """
import asyncio, sys
from procession import Agent
from procession.memory import Memory
from procession.stores import PostgresStore, SQLiteStore
from procession.testing import ScriptedModel

place = sys.argv[1]
store = PostgresStore(place, schema=sys.argv[2]) if place.startswith("post") else SQLiteStore(place)
model = ScriptedModel(["Yes."])
agent = Agent(id="desk", model=model, memory=Memory(storage=store))
call = {"thread": "t1", "resource": "u1"}
for n in range(3):
    agent.generate_sync(f"{n}", memory=call)
list(agent.stream_sync("3", memory=call))

async def within():
    agent.generate_sync("4", memory=call)  # within a running loop
    async with store:
        await agent.generate("5", memory=call)

asyncio.run(within())
print([len(asked.prompt) for asked in model.calls])
"""


@pytest.mark.parametrize("kind", ["SQLite", "PostgreSQL"])
def test_blocking_calls_use_a_store_and_end_in_silence(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Beside calls of another loop; and a program that closes nothing is not complained about."""
    place = str(tmp_path / "a.db")
    if kind == "PostgreSQL":
        place = request.getfixturevalue("postgres")
    command = [sys.executable, "-X", "dev", "-c", PROGRAM, place, f"s{new_id()}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[1, 3, 5, 7, 9, 11]", "")


async def test_turns_that_are_over_leave_no_connection_taken(postgres: str) -> None:
    """However they end: blocked, failed, stopped, refused."""
    async with PostgresStore(postgres, schema=f"s{new_id()}", max_size=2, timeout=5) as server:
        memory = Memory(storage=server)

        def abort(args: Any) -> None:
            args.abort("no")

        for hook in ("process_input", "process_output_step", "process_output_result"):
            agent, _ = remembering(
                ScriptedModel(["No."]),
                memory,
                input_processors=[Hook(hook, abort)] if hook == "process_input" else [],
                output_processors=[Hook(hook, abort)] if hook != "process_input" else [],
            )
            await agent.generate("Hi", memory=CALL)
        agent, _ = remembering(ScriptedModel([ConnectionError("gone")]), memory)
        with pytest.raises(ConnectionError):
            await agent.generate("Hi", memory=CALL)
        with pytest.raises(InputError):
            await agent.generate("Hi", memory={"thread": "t1"})
        async with server.connection(), server.connection():  # all that there may be
            pass
