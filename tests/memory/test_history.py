"""What is loaded and what is recorded: M-080 to M-091, G-O."""

from __future__ import annotations

from typing import Any

import pytest

from procession import Agent, Tool, processor, text_message
from procession.memory import BoundedHistory, HistoryBudget, Memory, MessageHistory
from procession.stores import InMemoryStore
from procession.testing import ScriptedModel, answer, tool_call
from tests.laws.kit import Hook
from tests.memory.kit import CALL, remembering, rows, said, shown


async def test_removed_messages_are_not_saved_and_added_ones_are() -> None:
    """M-083, R-206."""

    def only_last(args: Any) -> Any:
        return args.messages[-1:]

    def add(args: Any) -> None:
        args.message_list.add({"role": "assistant", "content": "P.S."}, "response")

    agent, memory = remembering(
        ScriptedModel(["a"]),
        input_processors=[Hook("process_input", only_last)],
        output_processors=[Hook("process_output_result", add, id="add")],
    )
    await agent.generate(["1", "2"], memory=CALL)
    texts = [text for _, *parts in await shown(memory) for text in parts]
    assert texts == ["2", "a", "P.S."]


async def test_a_prompt_is_no_record_and_a_record_no_prompt() -> None:
    """G-O, R-099: what is changed in a prompt alone reaches no storage and no later prompt."""

    def change(args: Any) -> Any:
        prompt = args.prompt
        prompt[-1]["content"][0]["text"] = "changed"
        return {"prompt": prompt}

    model = ScriptedModel(["a", "b"])
    agent, memory = remembering(model)
    hook = Hook("process_llm_request", change)
    await agent.generate("1", memory=CALL, input_processors=[hook])
    assert said(model.calls[0].prompt) == ["changed"]
    await agent.generate("2", memory=CALL)
    assert said(model.calls[1].prompt) == ["1", "a", "2"]
    assert [row.text for row in await rows(memory)] == ["1", "a", "2", "b"]


async def test_metadata_of_messages() -> None:
    """M-085, M-088: provider and model, and what a processor adds; shown to clients as well."""

    def rate(args: Any) -> None:
        for message in args.messages:
            message.content.metadata = {**(message.content.metadata or {}), "rating": 5}

    agent, memory = remembering(
        ScriptedModel(["a"]), output_processors=[processor(process_output_result=rate)]
    )
    output = await agent.generate("1", memory=CALL)
    (message,) = output.response.ui_messages
    stored = (await rows(memory))[1].content.metadata or {}
    assert stored["rating"] == message["metadata"]["rating"] == 5
    assert stored["modelId"] == "mock-1" and stored["provider"]


async def test_notes_of_the_model_are_no_part_of_the_conversation() -> None:
    """M-084, M-125: the calls with which it keeps them, and the tags it writes into texts."""

    async def keep(arguments: Any, context: Any) -> Any:
        return {"success": True}

    tool = Tool(name="updateWorkingMemory", input_schema={"type": "object"}, execute=keep)
    noting = answer(tool_calls=[tool_call("updateWorkingMemory", {"memory": "x"})])
    model = ScriptedModel([noting, "Hello<working_memory>x</working_memory> Ada.", "b"])
    agent, memory = remembering(model, tools=[tool])
    output = await agent.generate("1", memory=CALL)
    assert await shown(memory) == [("user", "1"), ("assistant", "Hello Ada.")]
    assert "<working_memory>" in output.messages[-1].text  # those of the run stay as they are
    await agent.generate("2", memory=CALL)
    assert said(model.calls[2].prompt) == ["1", "Hello Ada.", "2"]


async def test_a_run_of_notes_alone_leaves_the_question() -> None:
    """M-084."""
    tool = Tool(
        name="updateWorkingMemory", input_schema={"type": "object"}, execute=lambda a, c: "ok"
    )
    noting = answer(tool_calls=[tool_call("updateWorkingMemory", {"memory": "x"})])
    agent, memory = remembering(ScriptedModel([noting]), tools=[tool])
    await agent.generate("1", memory=CALL, max_steps=1)
    assert await shown(memory) == [("user", "1")]


async def test_calls_of_a_client_are_kept_open() -> None:
    """M-084, G-E: in storage, and in no prompt."""
    tool = Tool(name="pick", input_schema={"type": "object"})
    model = ScriptedModel([answer(tool_calls=[tool_call("pick")]), "b"])
    agent, memory = remembering(model, tools=[tool])
    await agent.generate("1", memory=CALL)
    assert await shown(memory) == [("user", "1"), ("assistant", "pick:call")]
    await agent.generate("2", memory=CALL)
    assert "pick" not in str(model.calls[1].prompt)


async def test_system_messages_are_neither_loaded_nor_stored() -> None:
    """M-080, M-084: whoever has put one into the thread."""
    model = ScriptedModel(["a", "b"])
    agent, memory = remembering(model)
    await agent.generate([{"role": "system", "content": "Be brief."}, "1"], memory=CALL)
    assert [row.role for row in await rows(memory)] == ["user", "assistant"]
    law = text_message("Law", role="system")
    law.thread_id, law.resource_id = "t1", "u1"
    await memory.save_messages([law])
    await agent.generate("2", memory=CALL)
    assert "Law" not in str(model.calls[1].prompt)


async def test_without_a_filter_the_callers_copy_is_the_one() -> None:
    """M-080, M-087: what is in the input already is not added, and saving replaces the row."""
    store, model = InMemoryStore(), ScriptedModel(["a", "b"])
    agent = Agent(id="desk", model=model, input_processors=[MessageHistory(storage=store)])
    for text in ("old", "new"):
        await agent.generate({"id": "m1", "role": "user", "content": text}, memory=CALL)
    assert said(model.calls[1].prompt)[-1] == "new"
    assert [row.text for row in await rows(Memory(storage=store))] in (
        ["new", "a", "b"],
        ["a", "new", "b"],
    )


# ── within tokens ──────────────────────────────────────────────────────────────────────────────


def bounded(most: int, **more: int) -> Memory:
    return Memory(storage=InMemoryStore(), message_history={"max_tokens": most, **more})  # type: ignore[typeddict-item]


async def test_a_history_within_tokens() -> None:
    """M-091: the oldest go, down to less than the limit; they stay out, and they stay stored."""
    words = "word " * 40  # about 40 tokens each
    model = ScriptedModel([words])
    memory = bounded(400, at_max_remove_tokens=200)
    agent, _ = remembering(model, memory)
    counts: list[int] = []
    for number in range(12):
        await agent.generate(f"{number} {words}", memory=CALL)
        counts.append(len(said(model.calls[-1].prompt)))
    assert len(await rows(memory)) == 24
    assert max(counts) < 24 and counts[:3] == [1, 3, 5]
    shrunk = [n for n in range(1, 12) if counts[n] < counts[n - 1]]
    assert shrunk and any(counts[n] > counts[n - 1] for n in range(shrunk[0] + 1, 12))
    for n in range(1, 12):
        if counts[n] > counts[n - 1]:  # between two cuts the beginning of the prompt is the same
            before = model.calls[n - 1].prompt
            assert model.calls[n].prompt[: len(before)] == before
    assert said(model.calls[-1].prompt)[-1].startswith("11 ")


async def test_what_is_asked_is_never_left_out() -> None:
    """M-091: input, context and system messages stay, though they alone are too much."""
    model = ScriptedModel(["a"])
    agent, _ = remembering(model, bounded(30, at_max_remove_tokens=30))
    await agent.generate("1", memory=CALL)
    long = "word " * 100
    await agent.generate(long, memory=CALL, context=[{"role": "user", "content": "context"}])
    assert said(model.calls[1].prompt) == ["context", long]


async def test_more_than_a_page_is_loaded_where_it_fits() -> None:
    """M-091: without `last_messages` the cap of ten is lifted; with it, it holds."""
    model = ScriptedModel(["a"])
    memory = bounded(100_000)
    agent, _ = remembering(model, memory)
    for number in range(70):
        await agent.generate(str(number), memory=CALL)
    assert len(said(model.calls[-1].prompt)) == 139
    await agent.generate("x", memory={**CALL, "options": {"last_messages": 2}})
    assert said(model.calls[-1].prompt) == ["69", "a", "x"]


async def test_of_a_long_thread_only_what_may_fit_is_read() -> None:
    """M-091: what loading costs depends on the limit, and not on the thread."""
    memory = bounded(100)
    agent, _ = remembering(ScriptedModel(["a " * 20]), memory)
    for _ in range(60):
        await agent.generate("q " * 20, memory=CALL)
    await memory.update_thread("t1", metadata={"messageHistory": None})
    domain: Any = memory.storage.get_store("memory")  # type: ignore[union-attr]
    read, newest = list[int](), domain.newest_messages

    async def counted(*given: Any, **options: Any) -> Any:
        found = await newest(*given, **options)
        read.append(len(found))
        return found

    domain.newest_messages = counted
    await agent.generate("q", memory=CALL)
    assert sum(read) < 120


async def test_tool_results_of_the_run_push_history_out() -> None:
    """M-091: each step is looked at, not only the first."""
    tool = Tool(name="read", input_schema={"type": "object"}, execute=lambda a, c: "word " * 300)
    model = ScriptedModel(["a", answer(tool_calls=[tool_call("read")]), "done"])
    agent, memory = remembering(model, bounded(350), tools=[tool])
    await agent.generate("old", memory=CALL)
    await agent.generate("new", memory=CALL)
    assert said(model.calls[1].prompt) == ["old", "a", "new"]
    assert said(model.calls[2].prompt) == ["new", "assistant", "tool"]
    assert len(await rows(memory)) == 4


@pytest.mark.parametrize("metadata", [{"messageHistory": 7}, {"messageHistory": {"x": 1}}])
async def test_an_entry_of_somebody_else_hides_nothing(metadata: Any) -> None:
    memory = bounded(1000)
    model = ScriptedModel(["a"])
    agent, _ = remembering(model, memory)
    await memory.create_thread("u1", "t1", metadata=metadata)
    for question in ("1", "2"):
        await agent.generate(question, memory=CALL)
    assert said(model.calls[1].prompt) == ["1", "a", "2"]


async def test_a_bounded_history_built_by_hand() -> None:
    """M-045."""
    store = InMemoryStore()
    history = BoundedHistory(budget=HistoryBudget(max_tokens=50, remove=0), storage=store)
    model = ScriptedModel(["a"])
    agent = Agent(id="desk", model=model, input_processors=[history])
    for number in range(8):
        await agent.generate(f"{number} {'word ' * 10}", memory=CALL)
    assert len(said(model.calls[-1].prompt)) < 15
    assert len(await rows(Memory(storage=store))) == 16
