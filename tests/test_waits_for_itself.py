"""A run that is read by what it waits for: that is said at once, instead of waiting for ever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from procession import Around, ProcessionError, Tool
from procession.processor import HOOKS
from tests.laws.kit import Hook, PlayedModel, agent_with, call, end, others_done, said

if TYPE_CHECKING:
    from collections.abc import Callable

PLACES = ["on_chunk", "on_step_finish", "on_finish", "tool", "tools", "run_ended", *HOOKS[1:8]]

READING: dict[str, Callable[[Any], Any]] = {}


def reading(way: Callable[[Any], Any]) -> Callable[[Any], Any]:
    READING[way.__name__] = way
    return way


@reading
async def text(run: Any) -> None:
    await run.text


@reading
async def chunks(run: Any) -> None:
    async for _ in run:
        pass


@reading
async def consume(run: Any) -> None:
    await run.consume_stream()


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("way", READING)
@pytest.mark.parametrize("place", PLACES)
async def test_it_is_said(place: str, way: str, beside: bool) -> None:
    """Law 6: a callback, hook, tool or extension that reads its own run gets an error."""
    before = set(asyncio.all_tasks())
    seen: list[BaseException] = []
    runs: list[Any] = []

    async def read(*given: Any) -> Any:
        if beside and hasattr(given[0], "writer"):
            assert given[0].writer  # so it may write
        if not seen:
            try:
                await READING[way](runs[0])
            except ProcessionError as error:
                seen.append(error)
        return given[0].part if hasattr(given[0], "part") else None

    class Extension:
        def extend(self, opening: Any) -> Around:
            return Around()

        async def run_ended(self, run: Any) -> None:
            if place == "run_ended":
                await read(run)

    async def execute(arguments: Any, context: Any) -> str:
        if place.startswith("tool"):
            await read(arguments)
        return "seen"

    options = {place: read} if place.startswith("on_") else {}
    hooks = [Hook(place, read)] if place.startswith("process_") else []
    calls = [call("look", id=f"c{n}") for n in range(2 if place == "tools" else 1)]
    model = PlayedModel([[*said("hi"), *calls, end("tool-calls")], [*said("ho"), end()]])
    tools = [Tool(name="look", execute=execute)]
    agent = agent_with(model, *hooks, tools=tools, extensions=[Extension()])
    runs.append(await agent.stream("go", **options))
    async with asyncio.timeout(30):
        assert await runs[0].text == "hiho"
    assert len(seen) == 1 and "waits for it" in str(seen[0])
    await others_done(before)


async def test_what_was_delivered_may_be_read() -> None:
    """R-537: looking at the chunks so far waits for nothing."""
    seen: list[str] = []

    async def look(step: Any) -> None:
        async for chunk in run:
            seen.append(chunk.type)
            if chunk.type == "text-end":
                break

    run = await agent_with(PlayedModel([[*said("hi"), end()]])).stream("go", on_step_finish=look)
    assert await run.text == "hi"
    assert seen == ["start", "step-start", "text-start", "text-delta", "text-end"]


@pytest.mark.parametrize("place", ["process_input_step", "process_output_step"])
async def test_tasks_of_the_user_may_wait(place: str) -> None:
    """R-537: a task that a hook leaves behind reads the run to its end."""
    tasks: list[asyncio.Task[str]] = []

    async def text(run: Any) -> str:
        return await run.text

    async def leave(args: Any) -> None:
        assert args.writer
        tasks.append(asyncio.create_task(text(run)))
        await asyncio.sleep(0)

    agent = agent_with(PlayedModel([[*said("hi"), end()]]), Hook(place, leave))
    run = await agent.stream("go")
    await run.consume_stream()
    assert await asyncio.wait_for(tasks[0], 30) == "hi"


@pytest.mark.parametrize("count", [1, 2])
async def test_a_run_within_the_run(count: int) -> None:
    """G-H6: a hook of a sub-agent that a tool has called waits for the outer run in vain."""
    seen: list[str] = []

    async def read(args: Any) -> None:
        assert args.writer
        try:
            await outer.text
        except ProcessionError:
            seen.append("outer")

    inner = agent_with(PlayedModel([[*said("in"), end()]]), Hook("process_output_step", read))

    async def delegate(arguments: Any, context: Any) -> str:
        return (await inner.generate("sub")).text

    calls = [call("ask", id=f"c{n}") for n in range(count)]
    model = PlayedModel([[*calls, end("tool-calls")], [*said("out"), end()]])
    agent = agent_with(model, tools=[Tool(name="ask", execute=delegate)])
    outer = await agent.stream("go")
    async with asyncio.timeout(30):
        assert await outer.text == "out"
    assert seen == ["outer"] * count


async def _paused(work: Any) -> tuple[Any, asyncio.Task[Any]]:
    """A run whose reader pauses while a tool does `work`; the run, and the tool's task."""
    tasks: list[asyncio.Task[Any]] = []

    async def write(arguments: Any, context: Any) -> str:
        await context.writer.custom({"type": "data-begun", "data": None})
        return "written"

    async def execute(arguments: Any, context: Any) -> str:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        await paused.wait()
        return await work(run)

    paused = asyncio.Event()
    tools = [Tool(name="write", execute=write), Tool(name="work", execute=execute)]
    calls = [call("write", id="c1"), call("work", id="c2"), end("tool-calls")]
    run = await agent_with(PlayedModel([calls, [*said("hi"), end()]]), tools=tools).stream("go")
    async for chunk in run:
        if chunk.type == "data-begun":
            break
    paused.set()
    return run, tasks[0]


async def test_a_tool_that_reads_while_nobody_does() -> None:
    """Law 6: a tool that runs on beside a reader who pauses cannot take the reader's place."""
    seen: list[str] = []

    async def read(run: Any) -> str:
        with pytest.raises(ProcessionError, match="waits for it"):
            await run.text
        seen.append("said")
        return "read"

    run, task = await _paused(read)
    await asyncio.wait([task], timeout=2)
    assert seen == ["said"]
    assert await run.text == "hi"


async def test_a_tool_that_closes_while_nobody_reads() -> None:
    """Law 6: the tool is told to end like the others, and is not waited for by itself."""
    before = set(asyncio.all_tasks())

    async def close(run: Any) -> str:
        await run.aclose()
        await asyncio.sleep(60)
        return "never"

    run, task = await _paused(close)
    await asyncio.wait([task], timeout=2)
    assert task.cancelled() and run.status == "canceled"
    assert [chunk.type async for chunk in run][-2:] == ["abort", "finish"]
    await others_done(before)


@pytest.mark.parametrize("place", ["tool", "tools", "process_output_step"])
@pytest.mark.parametrize("beside", [False, True])
async def test_what_closes_its_own_run(place: str, beside: bool) -> None:
    """R-555, law 6: a hook or tool may end the run it belongs to, and ends with it."""
    before = set(asyncio.all_tasks())
    ended: list[str] = []

    async def close(*given: Any) -> str | None:
        if beside and hasattr(given[0], "writer"):
            assert given[0].writer
        try:
            await run.aclose()
        finally:
            ended.append("ended")
        return "never"

    async def execute(arguments: Any, context: Any) -> Any:
        return await close(arguments) if place.startswith("tool") else "seen"

    hooks = [Hook(place, close)] if place.startswith("process_") else []
    calls = [call("look", id=f"c{n}") for n in range(2 if place == "tools" else 1)]
    model = PlayedModel([[*said("hi"), *calls, end("tool-calls")], [*said("ho"), end()]])
    agent = agent_with(model, *hooks, tools=[Tool(name="look", execute=execute)])
    run = await agent.stream("go")
    async with asyncio.timeout(30):
        found = [chunk.type async for chunk in run]
    assert found[-2:] == ["abort", "finish"] and run.status == "canceled"
    assert ended
    await others_done(before)
