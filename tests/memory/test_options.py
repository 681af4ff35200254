"""Options, ids and the places of memory's processors: M-002 to M-006, M-020 to M-046."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from procession import (
    Agent,
    ConfigurationError,
    InputError,
    OptionError,
    RequestContext,
    processor,
)
from procession.errors import OwnerError
from procession.memory import Memory, MemoryInputFilter, MessageHistory, memory_context
from procession.stores import InMemoryStore
from procession.testing import ScriptedModel
from procession.testing.embedding import HashingEmbedder
from procession.vectors import InMemoryVectors
from tests.memory.kit import CALL, remembering, rows, said


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"last_message": 3}, "did you mean 'last_messages'"),
        ({"last_messages": -1}, "last_messages"),
        ({"last_messages": True}, "last_messages"),
        ({"last_messages": "10"}, "last_messages"),
        ({"read_only": "yes"}, "read_only"),
        ({"save_on_abort": 1}, "save_on_abort"),
        ({"message_history": {}}, None),
        ({"message_history": {"at_max_remove_tokens": 1}}, "max_tokens"),
        ({"message_history": {"max_tokens": 5, "at_max_remove_tokens": 6}}, "at_max_remove_tokens"),
        ({"message_history": {"max_token": 5}}, "max_tokens"),
        ({"semantic_recall": True}, "vector"),
        ({"semantic_recall": {"top_k": 0}}, "top_k"),
        ({"semantic_recall": {"scope": "all"}}, "scope"),
        ({"semantic_recall": {"threshold": 2}}, "threshold"),
        ({"semantic_recall": {"message_range": {"behind": 1}}}, "before"),
        ({"working_memory": {"template": "a", "schema": {}}}, "template or a schema"),
        ({"working_memory": {"scope": "world"}}, "scope"),
        ({"working_memory": []}, "working_memory"),
        ({"generate_title": {"min_messages": 0}}, "min_messages"),
        ({"generate_title": {"emit_event": 1}}, "emit_event"),
        ({"observational_memory": True}, "observational_memory"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(options: Any, named: str | None) -> None:
    """M-022, M-026, M-124: when it is made, whichever way it was given."""
    if named is None:
        Memory(options=options)
        return
    with pytest.raises(OptionError, match=named):
        Memory(options=options)
    with pytest.raises(ValueError, match=named):
        Memory(**options)


def test_options_are_read_in_both_spellings_and_merged() -> None:
    """M-020: clients that speak JSON write camelCase; keywords go before the mapping."""
    memory = Memory(
        options={"lastMessages": 3, "messageHistory": {"maxTokens": 100}},  # type: ignore[typeddict-unknown-key]
        last_messages=4,
    )
    assert memory.options.last_messages == 4
    found = memory.options_for({"message_history": {"at_max_remove_tokens": 7}})
    assert found.budget is not None
    assert (found.budget.max_tokens, found.budget.remove) == (100, 7)
    assert memory.options_for({"last_messages": False}).has_history is False


def test_a_budget_lifts_the_cap_of_ten() -> None:
    """M-091: and 0 tokens are none."""
    assert Memory(message_history={"max_tokens": 100}).options.last_messages is None
    off = Memory(message_history={"max_tokens": 0}).options
    assert off.budget is None and off.last_messages == 10


async def test_without_a_conversation_nothing_is_remembered() -> None:
    """M-003, R-813."""
    agent, memory = remembering(ScriptedModel(["a"]))
    await agent.generate("q")
    assert (await memory.list_threads()).total == 0


@pytest.mark.parametrize("given", [{"thread": "t1"}, {"resource": "u1"}])
@pytest.mark.parametrize("place", ["memory", "context"])
async def test_one_id_alone_is_refused_before_anything_runs(given: Any, place: str) -> None:
    """M-004, R-813."""
    model = ScriptedModel(["a"])
    agent, _ = remembering(model)
    keys = {"thread": "mastra__threadId", "resource": "mastra__resourceId"}
    context = {keys[name]: id for name, id in given.items()}
    options: Any = {"memory": given} if place == "memory" else {"request_context": context}
    with pytest.raises(InputError, match="a thread and a resource"):
        await agent.generate("q", **options)
    assert model.calls == []


async def test_a_thread_of_somebody_else_is_refused_by_name() -> None:
    """M-004, R-814: nothing is read or written."""
    model = ScriptedModel(["a"])
    agent, memory = remembering(model)
    await agent.generate("q", memory=CALL)
    with pytest.raises(OwnerError, match=r"'t1'.*'u1'.*'u2'"):
        await agent.generate("q", memory={"thread": "t1", "resource": "u2"})
    assert len(model.calls) == 1 and len(await rows(memory)) == 2


async def test_the_request_context_goes_before_the_option() -> None:
    """M-005, R-809, R-812: a client cannot choose another user's resource."""
    agent, memory = remembering(ScriptedModel(["a"]))
    context = {"mastra__resourceId": "u9", "mastra__threadId": "t9"}
    named = {**CALL, "thread": {"id": "t1", "title": "Of t1", "metadata": {"of": "t1"}}}
    await agent.generate("q", memory=named, request_context=context)
    assert len(await rows(memory, "t9")) == 2 and await rows(memory) == []
    thread = await memory.get_thread_by_id("t9")
    assert thread is not None and thread.resource_id == "u9"
    assert thread.title is None and not thread.metadata  # those were meant for another thread


async def test_hooks_find_the_conversation_and_the_caller_does_not() -> None:
    """M-006, R-816: each run its own, though they share the caller's instance."""
    found: list[Any] = []

    async def look(args: Any) -> None:
        await asyncio.sleep(0)
        found.append(memory_context(args.request_context))
        entry = args.request_context.get("MastraMemory")
        assert entry["thread"]["id"] == found[-1].thread_id
        assert entry["resourceId"] == found[-1].resource_id

    agent, _ = remembering(
        ScriptedModel(["a"]), input_processors=[processor(process_input_step=look)]
    )
    shared = RequestContext({"plan": "free"})
    options = {"read_only": True}
    await asyncio.gather(
        *(
            agent.generate(
                "q",
                memory={"thread": f"t{n}", "resource": f"u{n}", "options": options},
                request_context=shared,
            )
            for n in range(3)
        )
    )
    assert {(c.thread_id, c.resource_id) for c in found} == {(f"t{n}", f"u{n}") for n in range(3)}
    assert all(context.options.read_only for context in found)
    assert shared.all == {"plan": "free"}


@pytest.mark.parametrize(
    ("memory", "named"),
    [
        ({**CALL, "option": {}}, "did you mean 'options'"),
        ({**CALL, "options": {"last_messages": -2}}, "last_messages"),
        ({**CALL, "thread": {"id": "t1", "name": "x"}}, "name"),
        ({**CALL, "thread": {"id": "t1", "title": 7}}, "title"),
        ({**CALL, "thread": {"id": "t1", "metadata": 7}}, "metadata"),
    ],
)
async def test_what_a_call_gives_is_checked(memory: Any, named: str) -> None:
    """M-002, M-020, M-026."""
    agent, _ = remembering(ScriptedModel(["a"]))
    with pytest.raises(ConfigurationError, match=named):
        await agent.generate("q", memory=memory)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"store": InMemoryStore()}, "no option 'store'; did you mean 'storage'"),
        ({"vectors": None}, "did you mean 'vector'"),
        ({"embedderr": None}, "did you mean 'embedder'"),
        ({"xyz": 1}, "embedder, generate_title.*storage, vector, working_memory"),
        ({"storage": InMemoryStore}, r"storage=InMemoryStore\(…\)"),
        ({"vector": InMemoryVectors}, "vector is the class InMemoryVectors"),
        ({"embedder": HashingEmbedder}, "embedder is the class HashingEmbedder"),
    ],
)
def test_a_slip_in_what_a_memory_is_made_with_is_explained(given: Any, told: str) -> None:
    """M-026: by the name, and with what was meant."""
    with pytest.raises(ConfigurationError, match=told):
        Memory(**given)


async def test_an_agent_without_memory_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """M-003: a conversation that is named is not forgotten in silence."""
    forgetful = Agent(id="forgetful", model=ScriptedModel(["x"] * 3))
    for _ in range(2):
        await forgetful.generate("Hi", memory=CALL)
    [record] = caplog.records
    assert "agent 'forgetful' was called with memory=…, but has no memory" in record.getMessage()
    caplog.clear()
    by_hand = [MessageHistory(storage=InMemoryStore())]
    for agent, call in (
        (Agent(id="scoped", model=ScriptedModel(["x"])), {"resource": "u1"}),
        (Agent(id="by-hand", model=ScriptedModel(["x"]), input_processors=by_hand), CALL),
        (Agent(id="decided", model=ScriptedModel(["x"]), memory=lambda scope: None), CALL),
    ):
        await agent.generate("Hi", memory=call)
    assert caplog.records == []


async def test_no_storage_is_told_at_first_use() -> None:
    """M-021: with what to do about it."""
    agent, _ = remembering(ScriptedModel(["a"]), Memory())
    with pytest.raises(ConfigurationError, match="Memory\\(storage="):
        await agent.generate("q", memory=CALL)
    with pytest.raises(ConfigurationError, match="must be a Store"):
        Memory(storage=object())  # type: ignore[arg-type]


@pytest.mark.parametrize("off", [False, 0])
async def test_no_last_messages_is_no_memory(off: Any) -> None:
    """M-023: nothing loaded, nothing saved."""
    model = ScriptedModel(["a", "b", "c"])
    agent, memory = remembering(model)
    await agent.generate("1", memory=CALL)
    await agent.generate("2", memory={**CALL, "options": {"last_messages": off}})
    assert said(model.calls[1].prompt) == ["2"] and len(await rows(memory)) == 2


async def test_memory_of_the_request() -> None:
    """M-025: a function, plain or async."""
    free, paid = Memory(storage=InMemoryStore()), Memory(storage=InMemoryStore())

    async def choose(scope: Any) -> Memory:
        return paid if scope.request_context.get("plan") == "paid" else free

    agent = Agent(id="desk", model=ScriptedModel(["a"]), memory=choose)
    await agent.generate("q", memory=CALL, request_context={"plan": "paid"})
    assert len(await rows(paid)) == 2 and await rows(free) == []


# ── places ─────────────────────────────────────────────────────────────────────────────────────


def ids(entries: list[Any]) -> list[str]:
    return [entry.id for entry in entries]


def test_what_is_added_and_what_the_user_has_placed() -> None:
    """M-041, M-043, M-044, M-046."""
    memory = Memory(storage=InMemoryStore())
    own = MessageHistory(storage=InMemoryStore())
    assert ids(memory.get_input_processors()) == ["memory-input-filter", "message-history"]
    assert ids(memory.get_output_processors()) == ["message-history"]
    assert ids(memory.get_input_processors([own])) == ["memory-input-filter"]
    assert memory.get_output_processors([own]) == []
    assert memory.get_output_processors(configured_input=[own]) == []

    class Workflow:
        id = "checks"
        processors = (own, MemoryInputFilter())

    assert memory.get_input_processors([Workflow()]) == []
    assert Memory(last_messages=False).get_input_processors() == []
    assert Memory(read_only=True).get_output_processors() == []
    titled = Memory(generate_title=True).get_output_processors()
    assert ids(titled) == ["message-history", "thread-titles"]


@pytest.mark.parametrize("side", ["input_processors", "output_processors"])
async def test_a_history_the_user_has_placed_saves_once(side: str) -> None:
    """M-043: wherever it stands."""
    store, saved = InMemoryStore(), list[Any]()
    domain: Any = store.get_store("memory")
    save = domain.save_turn

    async def counted(turn: Any) -> None:
        saved.append(turn)
        await save(turn)

    domain.save_turn = counted
    model = ScriptedModel(["a", "b"])
    own = MessageHistory(storage=store, last_messages=1)
    agent, _ = remembering(model, Memory(storage=store), **{side: [own]})
    for question in ("1", "2"):
        await agent.generate(question, memory=CALL)
    assert len(saved) == 2
    remembered = [".", "a"] if side == "input_processors" else ["1", "a"]
    assert said(model.calls[1].prompt) == [*remembered, "2"]


async def test_a_call_with_its_own_lists_remembers_as_well() -> None:
    """M-042, E-62, E-64, R-019: memory is around them, and there before the first of them."""
    seen: list[list[str]] = []
    own = processor(
        id="own", process_input=lambda args: seen.append([m.text for m in args.messages])
    )
    model = ScriptedModel(["a", "b"])
    agent, memory = remembering(model)
    await agent.generate("1", memory=CALL, input_processors=[own], output_processors=[])
    await agent.generate("2", memory=CALL, input_processors=[own], error_processors=[])
    assert seen == [["1"], ["1", "a", "2"]] and len(await rows(memory)) == 4
