"""Running tools: a call with nobody beside it runs in the pull, and nobody can tell."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import ContextVar
from typing import Any

import pytest

from procession import Agent, ToolContext, TripWire, processor, tool
from procession.testing import ScriptedModel, answer, tool_call

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def calling(*names: str, done: str = "Done.") -> ScriptedModel:
    """A model that calls the tools, one a step, then ends."""
    steps = [answer(tool_calls=[tool_call(name, id=f"c{i}")]) for i, name in enumerate(names)]
    return ScriptedModel([*steps, done])


async def outcome(given: Any, *, beside: bool = False, **options: Any) -> tuple[Any, list[Any]]:
    """The run's output, and the tool chunks it delivered; with another call beside, if asked."""

    @tool
    async def idle() -> str:
        return "idle"

    calls = [tool_call(given.name, id="c1"), *([tool_call("idle", id="c2")] if beside else [])]
    model = ScriptedModel([answer(tool_calls=calls), "Done."])
    run = await Agent(id="a", model=model, tools=[given, idle], **options).stream("go")
    chunks = [chunk async for chunk in run]
    ended = [c for c in chunks if c.type in ("tool-result", "tool-error")]
    return await run.get_full_output(), [c for c in ended if c.payload.tool_call_id == "c1"]


@pytest.mark.parametrize("beside", [False, True])
async def test_a_call_has_a_context_of_its_own(beside: bool) -> None:
    """R-529: what a tool puts into a context variable is gone when it has ended."""
    seen: list[str] = []

    @tool
    async def enter() -> str:
        seen.append(WHO.get())
        WHO.set("the tool")
        await asyncio.sleep(0)
        seen.append(WHO.get())
        return "in"

    WHO.set("the caller")
    await outcome(enter, beside=beside)
    assert seen == ["the caller", "the tool"]
    assert WHO.get() == "the caller"


@pytest.mark.parametrize("beside", [False, True])
async def test_a_call_that_cancels_itself_is_an_error(beside: bool) -> None:
    """R-530: the run goes on, and the model is told."""

    @tool
    async def give_up() -> str:
        raise asyncio.CancelledError

    output, (chunk,) = await outcome(give_up, beside=beside)
    assert chunk.type == "tool-error" and "cancelled" in str(chunk.payload.error)
    assert output.text == "Done."


@pytest.mark.parametrize("beside", [False, True])
async def test_a_time_limit_of_the_tool_is_its_own(beside: bool) -> None:
    """R-530: a tool may stop what it waits for, without stopping the run."""

    @tool
    async def hurry() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "too late"
        return "never"

    output, (chunk,) = await outcome(hurry, beside=beside)
    assert chunk.payload.result == "too late"
    assert output.text == "Done."


@pytest.mark.parametrize("beside", [False, True])
async def test_a_tool_cannot_swallow_the_callers_cancellation(beside: bool) -> None:
    """G-H6: whoever cancels the reader ends the run, whatever the tool makes of it."""
    started = asyncio.Event()

    @tool
    async def stubborn() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "I go on"
        return "never"

    reading = asyncio.create_task(outcome(stubborn, beside=beside))
    await started.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


@pytest.mark.parametrize("beside", [False, True])
async def test_a_tool_cannot_swallow_the_close_of_the_run(beside: bool) -> None:
    """R-558: `aclose` from another task ends the run while the tool runs."""
    started = asyncio.Event()

    @tool
    async def stubborn() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "I go on"
        return "never"

    @tool
    async def idle() -> str:
        return "idle"

    calls = [tool_call("stubborn", id="c1"), *([tool_call("idle", id="c2")] if beside else [])]
    model = ScriptedModel([answer(tool_calls=calls), "Done."])
    run = await Agent(id="a", model=model, tools=[stubborn, idle]).stream("go")
    reading = asyncio.create_task(run.consume_stream())
    await started.wait()
    await run.aclose()
    await reading
    assert run.status == "canceled"


async def test_what_a_hook_left_behind_writes_is_heard_while_a_tool_runs() -> None:
    """R-517: a hook's own task writes, the only tool waits for the client to have read it."""
    read = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    async def later(writer: Any) -> None:
        await asyncio.sleep(0)
        await writer.custom({"type": "data-news", "data": 1})

    def leave(args: Any) -> Any:
        if args.part.type == "tool-call":
            tasks.append(asyncio.create_task(later(args.writer)))
        return args.part

    @tool
    async def wait() -> str:
        await asyncio.wait_for(read.wait(), 5)
        return "read"

    guard = processor(id="leaves", process_output_stream=leave)
    agent = Agent(id="a", model=calling("wait"), tools=[wait], output_processors=[guard])
    run = await agent.stream("go")
    async for chunk in run:
        if chunk.type == "data-news":
            read.set()
    (result,) = await run.tool_results
    assert result.payload.result == "read"


async def test_a_lone_tool_leaves_no_task_behind() -> None:
    """R-217: with others beside it a call has a task, alone it needs none."""
    counts: list[int] = []

    @tool
    async def count() -> str:
        counts.append(len(asyncio.all_tasks()))
        return "counted"

    before = len(asyncio.all_tasks())
    await outcome(count)
    assert counts == [before]


async def test_no_more_than_ten_calls_run_at_a_time() -> None:
    """R-217: the next call starts when one has ended, in their order."""
    running: list[int] = []
    most: list[int] = []

    @tool
    async def slow(number: int) -> int:
        running.append(number)
        most.append(len(running))
        await asyncio.sleep(0.001 * (number % 3))
        running.remove(number)
        return number

    calls = [tool_call("slow", {"number": i}, id=f"c{i}") for i in range(35)]
    model = ScriptedModel([answer(tool_calls=calls), "Done."])
    output = await Agent(id="a", model=model, tools=[slow]).generate("go")
    assert max(most) == 10
    assert [r.payload.result for r in output.tool_results] == list(range(35))


async def test_an_unknown_tool_does_not_make_a_list_of_thousands() -> None:
    """R-531: the model is told what there is, as far as it can be read."""

    def make(number: int) -> Any:
        @tool(name=f"tool_{number}")
        async def made() -> str:
            return ""

        return made

    tools = [make(number) for number in range(60)]
    model = ScriptedModel([answer(tool_calls=[tool_call("missing")]), "Done."])
    run = await Agent(id="a", model=model, tools=tools).stream("go")
    (error,) = [c.payload.error async for c in run if c.type == "tool-error"]
    assert str(error).startswith("There is no tool 'missing'. Available tools: tool_0, tool_1, ")
    assert str(error).endswith("tool_49, and 10 more")


async def test_a_run_that_has_ended_is_freed_at_once() -> None:
    """G-H6: nothing waits for the garbage collector."""

    @tool
    async def look(context: ToolContext) -> str:
        return "seen"

    lists: list[Any] = []

    def step(args: Any) -> None:
        args.state["steps"] = args.messages
        lists.append(weakref.ref(args.message_list))

    def part(args: Any) -> Any:
        return args.part

    hooks = processor(id="p", process_input_step=step, process_output_step=step)
    tap = processor(id="t", process_output_stream=part)
    agent = Agent(
        id="a",
        model=calling("look", "look"),
        tools=[look],
        input_processors=[hooks],
        output_processors=[hooks, tap],
    )
    gc.disable()
    try:
        await agent.generate("go")
        assert lists and all(held() is None for held in lists)
    finally:
        gc.enable()


async def test_a_tool_that_makes_light_of_a_verdict_asks_nobody_again() -> None:
    """Law 2: what is written after an abort is offered to no hook and delivered to none."""
    offered: list[int] = []
    raised: list[str] = []

    @tool
    async def stubborn(context: ToolContext) -> str:
        for number in range(6):
            try:
                await context.writer.write(number)
            except TripWire as wire:
                raised.append(str(wire.reason))
        return "written"

    def guard(args: Any) -> Any:
        if args.part.type == "tool-output":
            offered.append(args.part.payload.output)
            if len(offered) == 3:
                args.abort("enough")
        return args.part

    model = ScriptedModel([answer(tool_calls=[tool_call("stubborn", id="c1")]), "Done."])
    hook = processor(id="guard", process_output_stream=guard)
    run = await Agent(id="a", model=model, tools=[stubborn], output_processors=[hook]).stream("go")
    written = [c.payload.output async for c in run if c.type == "tool-output"]
    assert run.status == "tripwire"
    assert offered == [0, 1, 2]
    assert written == [0, 1]
    assert set(raised) == {"enough"}


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
async def test_numbers_that_json_does_not_know_become_null(bad: float) -> None:
    """As `JSON.stringify` has it; the client and the model get JSON."""

    @tool
    def measure() -> dict[str, Any]:
        return {"value": bad, "all": [1.5, bad]}

    output, (chunk,) = await outcome(measure)
    made = {"value": None, "all": [1.5, None]}
    assert chunk.payload.result == made
    assert output.tool_results[0].payload.result == made
