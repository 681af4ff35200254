"""What was deleted stays deleted: threads, users, runs that wait, runs under way (M-148, G-F5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent, InputError, WaitingCalls, tool
from procession.memory import Memory, MessageHistory
from procession.stores import InMemoryStore, SQLiteStore
from procession.testing import ScriptedModel, answer, tool_call
from procession.testing.embedding import HashingEmbedder
from procession.vectors import InMemoryVectors
from tests.memory.kit import CALL, remembering, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAID: list[int] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    PAID.clear()


@tool(require_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    PAID.append(amount)
    return "paid"


ASKED = answer(tool_calls=[tool_call("pay", {"amount": 5}, id="c1")])


def paying() -> ScriptedModel:
    return ScriptedModel([ASKED, "Done."])


@pytest.mark.parametrize("before", [0, 1], ids=["first turn", "later turn"])
async def test_a_call_whose_thread_was_deleted_is_not_run_by_an_approval(before: int) -> None:
    agent, memory = remembering(paying(), tools=[pay])
    if before:
        other = Agent(id="other", model=ScriptedModel(["Hello."]), memory=memory)
        await other.generate("Hi", memory=CALL)
    waiting = await agent.generate("Pay 5", memory=CALL)
    await memory.delete_thread("t1")
    for decide in (agent.approve_tool_call_generate, agent.decline_tool_call_generate):
        with pytest.raises(InputError, match="thread 't1' was deleted while this run waited"):
            await decide(waiting.run_id, "c1")
    assert PAID == []
    assert await memory.get_thread_by_id("t1") is None


async def test_another_process_does_not_run_it_either_g_f5(tmp_path: Path) -> None:
    def there() -> tuple[Agent, Memory, SQLiteStore]:
        store = SQLiteStore(tmp_path / "chats.db", synchronous="normal")
        agent, memory = remembering(paying(), Memory(storage=store, read_only=True), tools=[pay])
        return agent, memory, store

    agent, memory, store = there()
    await memory.create_thread("u1", "t1")
    waiting = await agent.generate("Pay 5", memory=CALL)
    await memory.delete_thread("t1")
    await store.close()
    agent, memory, store = there()
    async with store:
        with pytest.raises(InputError, match="was deleted while this run waited"):
            await agent.approve_tool_call_generate(waiting.run_id, "c1")
        assert PAID == []


async def test_without_anything_kept_of_it_a_run_needs_no_thread() -> None:
    agent, memory = remembering(
        paying(), Memory(storage=InMemoryStore(), read_only=True), tools=[pay]
    )
    waiting = await agent.generate("Pay 5", memory=CALL)
    result = await agent.approve_tool_call_generate(waiting.run_id, "c1")
    assert (result.text, PAID, await rows(memory)) == ("Done.", [5], [])


def by_memory() -> Callable[[Any], Agent]:
    return lambda model: remembering(model, Memory(storage=STORE[0]))[0]


def by_hand() -> Callable[[Any], Agent]:
    history = [MessageHistory(storage=STORE[0])]
    return lambda model: Agent(id="desk", model=model, input_processors=history)


STORE: list[InMemoryStore] = []


@pytest.mark.parametrize("kind", [by_memory, by_hand])
async def test_a_run_under_way_does_not_make_a_deleted_thread_anew(
    kind: Callable[[], Callable[[Any], Agent]],
) -> None:
    STORE[:] = [InMemoryStore()]
    memory = Memory(storage=STORE[0])
    make = kind()
    await make(ScriptedModel(["Hello."])).generate("Hi", memory=CALL)
    async with make(ScriptedModel(["Bye."])).stream("Delete me", memory=CALL) as run:
        async for _ in run.text_stream:
            await memory.delete_thread("t1")
    assert await run.text == "Bye."
    assert await memory.get_thread_by_id("t1") is None
    assert await rows(memory) == []


def everything(store: InMemoryStore, vector: InMemoryVectors) -> Memory:
    return Memory(
        storage=store,
        vector=vector,
        embedder=HashingEmbedder(),
        semantic_recall=True,
        working_memory={"enabled": True},
    )


async def owners(vector: InMemoryVectors) -> set[Any]:
    """Whose vectors there are."""
    found: set[Any] = set()
    for index in await vector.list_indexes():
        dimension = (await vector.describe_index(index)).dimension
        hits = await vector.query(index, [1.0] * dimension, top_k=100)
        found |= {hit.metadata["resource_id"] for hit in hits}
    return found


async def test_deleting_a_resource_leaves_nothing_of_it_and_all_of_others() -> None:
    store, vector = InMemoryStore(), InMemoryVectors()
    memory = everything(store, vector)
    noting = answer(tool_calls=[tool_call("updateWorkingMemory", {"memory": "- tea"})])
    for user in ("u1", "u2"):
        agent, _ = remembering(ScriptedModel([noting, "Noted."]), memory)
        await agent.generate("I like tea", memory={"thread": f"{user}-a", "resource": user})
        agent, _ = remembering(paying(), memory, tools=[pay])
        await agent.generate(
            "Pay 5", memory={"thread": f"{user}-b", "resource": user}, run_id=f"run-{user}"
        )
    await memory.delete_resource("u1")
    assert [thread.id for thread in (await memory.list_threads()).threads] == ["u2-b", "u2-a"]
    notes = [await memory.get_working_memory(resource_id=user) for user in ("u1", "u2")]
    assert notes == [None, "- tea"]
    assert await memory.search("tea", resource_id="u1") == []
    assert await memory.search("tea", resource_id="u2") != []
    assert await store.get_store("workflows").list_ids("waiting-run") == ["run-u2"]
    assert await owners(vector) == {"u2"}
    with pytest.raises(InputError, match="no tool call of run 'run-u1' waits here"):
        await agent.approve_tool_call_generate("run-u1", "c1")


async def test_notes_are_not_written_anew_by_a_run_whose_user_was_deleted_m_123() -> None:
    vector = InMemoryVectors()
    memory = everything(InMemoryStore(), vector)
    noting = answer(tool_calls=[tool_call("updateWorkingMemory", {"memory": "- tea"})])
    agent, _ = remembering(ScriptedModel(["Hello.", noting, "Noted."]), memory)
    await agent.generate("Hi", memory=CALL)
    async with agent.stream("I like tea", memory=CALL) as run:
        async for chunk in run:
            if chunk.type == "tool-call":
                await memory.delete_resource("u1")
    assert await memory.get_working_memory(resource_id="u1") is None
    assert (await memory.list_threads()).total == 0
    assert await owners(vector) == set()


@pytest.mark.parametrize("store", [None, InMemoryStore()], ids=["process", "store"])
async def test_a_room_forgets_the_runs_of_a_resource_g_f5(store: InMemoryStore | None) -> None:
    room = WaitingCalls(store=store)
    agent = Agent(id="till", model=ScriptedModel([ASKED] * 3), tools=[pay], waiting_calls=room)
    for run_id, user in (("one", "u1"), ("two", "u2"), ("three", "u1")):
        await agent.generate("Pay", memory={"resource": user}, run_id=run_id)
    assert await room.of_resource("u1") == ["one", "three"]
    assert await room.forget_resource("u1") == 2
    assert await room.of_resource("u1") == []
    assert await room.of_resource("u2") == ["two"]


@pytest.mark.parametrize("scope", ["resource", "thread"])
async def test_none_clears_the_notes_m_127(scope: Any) -> None:
    memory = Memory(storage=InMemoryStore(), working_memory={"enabled": True, "scope": scope})
    await memory.create_thread("u1", "t1")
    place = {"resource_id": "u1", "thread_id": "t1"}
    await memory.update_working_memory("- tea", **place)
    assert await memory.get_working_memory(**place) == "- tea"
    assert await memory.update_working_memory(None, **place) is None
    assert await memory.get_working_memory(**place) is None
    thread = await memory.get_thread_by_id("t1")
    assert thread is not None and not thread.metadata
