"""`ResponseCache` in loops: every step by itself, no tool twice (C-004, C-074, C-075, C-137)."""

from __future__ import annotations

from typing import Any

import pytest

from procession import Agent, Tool, processor, tool
from procession.cache import InMemoryServerCache
from procession.processors import ResponseCache
from procession.testing import ScriptedModel, answer, collect, tool_call
from tests.processors.caching import Notes, asked, cached, loop_model, stored


class Shop:
    """Tools that note when they run, and an agent with them."""

    def __init__(self, *, fails: bool = False, **options: Any) -> None:
        self.ran: list[str] = []

        @tool(**options)
        def stock(item: str) -> dict[str, Any]:
            """How many are left."""
            self.ran.append(item)
            if fails:
                raise LookupError("no such shelf")
            return {"item": item, "left": len(self.ran)}

        self.tools = [stock]


def two_calls() -> ScriptedModel:
    return loop_model(
        tool_call("stock", {"item": "bolt"}, id="c1"), tool_call("stock", {"item": "nut"}, id="c2")
    )


@pytest.mark.parametrize("way", ["generate", "stream"])
async def test_a_loop_is_replayed_without_its_tools(way: str) -> None:
    """C-137, C-074: zero calls of the model, zero runs of tools, and all of the stream."""
    shop, model = Shop(), two_calls()
    agent = cached(model, tools=shop.tools)
    kinds: list[list[str]] = []
    results: list[list[Any]] = []
    for _ in range(2):
        if way == "stream":
            run = await agent.stream("go")
            kinds.append([chunk.type for chunk in await collect(run.full_stream)])
            output = await run.get_full_output()
        else:
            output = await agent.generate("go")
        assert output.text == "done"
        results.append([chunk.payload.result for chunk in output.tool_results])
    assert results[0] == results[1] == [{"item": "bolt", "left": 1}, {"item": "nut", "left": 2}]
    assert kinds[:1] == kinds[1:]
    assert shop.ran == ["bolt", "nut"] and len(model.calls) == 2


async def test_steps_are_kept_one_by_one() -> None:
    """C-004: what is missing of a loop is asked, and only that."""
    call = tool_call("stock", {"item": "a"}, id="c1")
    shop, cache, model = Shop(), Notes(), ScriptedModel([answer(tool_calls=[call]), "one", "two"])
    agent = cached(model, cache, tools=shop.tools)
    await asked(agent, "go")
    assert len(cache.kept) == 2
    last = [entry[1] for entry in cache.log if entry[0] == "set"][-1]
    del cache.kept[last]
    assert await asked(agent, "go", "go") == ["two", "two"]
    assert len(model.calls) == 3 and shop.ran == ["a"]


async def test_the_guards_of_results_see_replayed_ones() -> None:
    """C-075: what is kept is what the tool gave, so that nothing is changed twice."""

    def more(args: Any) -> None:
        made = {**args.result, "left": args.result["left"] + 100}
        part = {"toolCallId": args.tool_call_id, "result": made}
        args.message_list.update_tool_invocation({"toolInvocation": part})

    shop, cache = Shop(), Notes()
    agent = cached(
        loop_model(),
        cache,
        tools=shop.tools,
        output_processors=[processor(process_tool_result=more, id="more")],
    )
    for _ in range(2):
        result = await agent.generate("go")
        assert [c.payload.result["left"] for c in result.tool_results] == [101]
    assert len(shop.ran) == 1
    results = [entry["toolResults"] for entry in stored(cache) if "toolResults" in entry]
    assert [list(found.values()) for found in results] == [[{"item": "bolt", "left": 1}]]


async def test_a_result_that_a_guard_blocks_is_blocked_again() -> None:
    """C-075: nothing is kept of the run, and a guard that came later blocks what was kept."""

    def block(args: Any) -> None:
        args.abort("not for you")

    shop, cache, model = Shop(), Notes(), loop_model()
    guard = processor(process_tool_result=block, id="guard")
    guarded = cached(model, cache, tools=shop.tools, output_processors=[guard])
    assert (await guarded.generate("go")).tripwire is not None
    assert not cache.kept
    model = loop_model()
    open_agent = cached(model, cache, tools=shop.tools)
    await open_agent.generate("go")
    guarded = cached(model, cache, tools=shop.tools, output_processors=[guard])
    result = await guarded.generate("go")
    assert result.tripwire is not None and len(model.calls) == 2
    assert len(shop.ran) == 2


@pytest.mark.parametrize(
    ("call", "options"),
    [
        (tool_call("stock", {"item": "a"}), {"fails": True}),
        (tool_call("stock", {"thing": "a"}), {}),
        (tool_call("stock", "{broken"), {}),
        (tool_call("nothing", {}), {}),
    ],
    ids=["raised", "refused", "broken", "unknown"],
)
async def test_a_step_whose_tool_failed_is_not_kept(
    call: dict[str, Any], options: dict[str, Any]
) -> None:
    """C-074, C-091: the next time the tool may work."""
    shop, cache = Shop(**options), Notes()
    await cached(loop_model(call), cache, tools=shop.tools).generate("go")
    assert ["toolResults" in entry for entry in stored(cache)] == [False]
    assert "tool-call" not in str(cache.kept)


async def test_a_step_that_waits_for_the_client_is_not_kept() -> None:
    """C-074: nobody knows the result."""
    ask = Tool(name="ask", description="Asks the user.", input_schema={"type": "object"})
    cache = Notes()
    agent = cached(loop_model(tool_call("ask", {})), cache, tools=[ask])
    result = await agent.generate("go")
    assert result.tool_calls and not result.tool_results and not cache.kept


async def test_the_last_step_that_is_allowed_is_kept_with_its_results() -> None:
    """C-074: its tools have run, though the model was not asked again."""
    shop, model = Shop(), loop_model()
    agent = cached(model, tools=shop.tools)
    for _ in range(2):
        result = await agent.generate("go", max_steps=1)
        assert [c.payload.result["left"] for c in result.tool_results] == [1]
    assert len(model.calls) == 1 and len(shop.ran) == 1
    assert (await agent.generate("go")).text == "done"
    assert len(model.calls) == 2 and len(shop.ran) == 1


async def test_what_somebody_had_to_allow_is_asked_again() -> None:
    """C-074: what was allowed once is not kept as if it were always."""
    shop, cache = Shop(require_approval=True), Notes()
    agent = cached(loop_model(), cache, tools=shop.tools)
    for times in (1, 2):
        waiting = await agent.generate("go")
        assert waiting.status == "suspended"
        run = await agent.approve_tool_call(run_id=waiting.run_id)
        assert (await run.get_full_output()).text == "done"
        assert len(shop.ran) == times
    assert "tool-call" not in str(cache.kept)


async def test_steps_before_one_that_waited_are_kept() -> None:
    """C-074, C-091: a run that waits has not ended; when it has, what it did before counts."""
    shop, careful, cache = Shop(), Shop(name="order", require_approval=True), Notes()
    steps: list[Any] = [
        answer(tool_calls=[tool_call("stock", {"item": "a"}, id="c1")]),
        answer(tool_calls=[tool_call("order", {"item": "a"}, id="c2")]),
        "done",
    ]
    agent = cached(ScriptedModel(steps), cache, tools=[*shop.tools, *careful.tools])
    waiting = await agent.generate("go")
    assert waiting.status == "suspended" and not cache.kept
    run = await agent.approve_tool_call(run_id=waiting.run_id)
    assert (await run.get_full_output()).text == "done"
    kept = [list(entry.get("toolResults", ())) for entry in stored(cache)]
    assert kept == [["c1"], []]


async def test_tools_of_the_provider_come_with_the_answer() -> None:
    """C-074: their results are part of what the model said."""
    call = {**tool_call("search", {"q": "x"}, id="p1"), "providerExecuted": True}
    result = {
        "type": "tool-result",
        "toolCallId": "p1",
        "toolName": "search",
        "result": ["found"],
        "providerExecuted": True,
    }
    model = ScriptedModel([[call, result, *answer("There.").parts], "never"])
    agent = cached(model)
    for _ in range(2):
        output = await agent.generate("go")
        assert output.text == "There."
        assert [c.payload.result for c in output.tool_results] == [["found"]]
    assert len(model.calls) == 1


async def test_a_pinned_key_has_an_entry_for_each_step() -> None:
    """C-049: the key as it is, and then with the number of the step."""
    shop, model, cache = Shop(), loop_model(), Notes()
    agent = cached(model, cache, tools=shop.tools, key="pinned")
    assert await asked(agent, "go", "something else") == ["done", "done"]
    assert list(cache.kept) == ["pinned", "pinned:1"]
    assert len(model.calls) == 2 and len(shop.ran) == 1


async def test_what_tools_are_there_is_no_part_of_the_key() -> None:
    """C-042: an agent without the tool replays the step all the same."""
    shop, cache, model = Shop(), InMemoryServerCache(), loop_model()
    await asked(cached(model, cache, tools=shop.tools), "go")
    bare = Agent(id="help", model=model, input_processors=[ResponseCache(cache=cache)])
    assert await asked(bare, "go") == ["done"]
    assert len(model.calls) == 2
