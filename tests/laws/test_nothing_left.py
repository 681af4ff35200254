"""Law 6: when a run ends, however it ends, nothing of it lives on."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from procession import AbortController, Tool, TripWire
from tests.laws.checks import LEAVING, check_nothing_left, lasting
from tests.laws.kit import (
    Hook,
    PlayedModel,
    Tap,
    agent_with,
    call,
    echo,
    end,
    others_done,
    said,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True, scope="module")
def quick_collections() -> Iterator[None]:
    """Objects from before these tests are set apart: collecting garbage is quick then."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("way", LEAVING)
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("with_signal", [False, True])
async def test_at_every_chunk(way: str, plain: bool, with_signal: bool) -> None:
    """G-T: left after each number of chunks, with hooks inside the pull and beside it."""
    if way == "signal" and not with_signal:
        return
    made = (Tap(),) if plain else ()
    index = 0
    while await check_nothing_left(way, index, *made, with_signal=with_signal):
        index += 1
    assert index > 15


@pytest.mark.parametrize("index", range(8))
@pytest.mark.parametrize("way", ["signal", "cancel", "aclose"])
async def test_while_the_model_is_silent(way: str, index: int) -> None:
    """R-555: the wait for the model ends at once, and its stream is closed."""
    before = set(asyncio.all_tasks())
    model = PlayedModel([[*said(*"abcdef"), end()]], hang_at=index)
    controller = AbortController()
    run = await agent_with(model, Tap()).stream("go", abort_signal=controller.signal)
    reader = asyncio.create_task(_kinds(run))
    await model.hanging.wait()
    assert model.open == 1
    if way == "signal":
        controller.abort()
        assert (await reader)[-2:] == ["abort", "finish"]
    elif way == "aclose":
        await run.aclose()
        await asyncio.wait([reader], timeout=2)
        assert reader.done()
        reader.exception()
    else:
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
    assert run.status == "canceled"
    await others_done(before)
    assert model.open == 0


async def _kinds(run: Any) -> list[str]:
    return [chunk.type async for chunk in run]


@pytest.mark.parametrize("way", ["signal", "cancel", "aclose", "drop"])
async def test_while_tools_run(way: str) -> None:
    """R-558, G-D3, G-H6: tools are told and stopped; nobody waits for them in vain."""
    before = set(asyncio.all_tasks())
    forever, stopped = lasting()
    controller = AbortController()
    told = asyncio.Event()

    async def listening(arguments: Any, context: Any) -> str:
        await context.writer.custom({"type": "data-begun", "data": None})
        await context.abort_signal.wait()
        told.set()
        return "heard"

    tools = [forever, Tool(name="listening", execute=listening)]
    calls = [call("listening", id="c1"), call("forever", id="c2")]
    if way == "signal":  # tools end as they like after a signal: this one must not be the last
        calls = calls[:1]
    model = PlayedModel([[*calls, end("tool-calls")]])
    run = await agent_with(model, tools=tools).stream("go", abort_signal=controller.signal)
    stream = run.full_stream
    while (await anext(stream)).type != "data-begun":
        pass
    if way == "signal":
        controller.abort()
        kinds = [chunk.type async for chunk in run]
        assert kinds[-2:] == ["abort", "finish"] and len(model.prompts) == 1
        assert "tool-result" in kinds
        assert told.is_set()
    elif way == "cancel":
        reader = asyncio.create_task(run.consume_stream())
        await asyncio.sleep(0)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert stopped == ["stopped"]
    elif way == "aclose":
        await run.aclose()
        assert stopped == ["stopped"]
    del stream, run
    await others_done(before)
    if way != "signal":
        assert stopped == ["stopped"]


async def test_hooks_that_wait_are_stopped() -> None:
    """G-T: a hook beside the stream ends with the run that is closed."""
    before = set(asyncio.all_tasks())
    ended: list[str] = []

    async def waits(args: Any) -> None:
        run_id = args.run_id
        try:
            await args.writer.custom({"type": "data-begun", "data": None})
            await asyncio.Event().wait()
        finally:
            ended.append(run_id)

    hooks = ("process_input_step", "process_llm_request", "process_output_step")
    for name in (*hooks, "process_llm_response", "process_output_result"):
        model = PlayedModel([[*said("x"), end()]])
        run = await agent_with(model, Hook(name, waits)).stream("go")
        async with run:
            stream = run.full_stream
            while (await anext(stream)).type != "data-begun":
                pass
        assert ended.pop() == run.run_id and run.status == "canceled", name
        await others_done(before)
        assert model.open == 0


async def test_a_hook_that_ignores_cancellation() -> None:
    """Law 6: one that goes on for a while is waited for; closing comes after it."""
    before = set(asyncio.all_tasks())
    done: list[str] = []

    async def stubborn(args: Any) -> None:
        try:
            await args.writer.custom({"type": "data-begun", "data": None})
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for _ in range(5):
                await asyncio.sleep(0)
            done.append("done")

    model = PlayedModel([[*said("x"), end()]])
    run = await agent_with(model, Hook("process_input_step", stubborn)).stream("go")
    stream = run.full_stream
    while (await anext(stream)).type != "data-begun":
        pass
    await run.aclose()
    assert done == ["done"]
    await others_done(before)


class _Unwilling(PlayedModel):
    """Its transport makes an error of its own out of a cancellation."""

    async def stream(self, request: Any) -> Any:
        try:
            async for read in super().stream(request):
                yield read
        except asyncio.CancelledError:
            raise ConnectionError("closed") from None


async def _waits(begun: asyncio.Event, how: str, args: Any) -> None:
    begun.set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        if how == "abort":
            args.abort("no")
        if how == "error":
            raise ValueError("cancelled") from None
        if how == "let":
            raise


@pytest.mark.parametrize("where", ["model", "process_input_step", "process_output_result"])
@pytest.mark.parametrize("how", ["let", "abort", "error", "swallow"])
async def test_no_cancellation_is_left(where: str, how: str) -> None:
    """Law 6: whatever becomes of it, the reader's task does not look like one that is to end."""
    begun = asyncio.Event()
    model = (_Unwilling if how == "error" else PlayedModel)([[*said("x", "y"), end()]])
    hooks: list[Any] = []
    if where == "model":
        model.hang_at, begun = 2, model.hanging
    else:

        async def swallows(args: Any) -> None:  # runs inside the pull: it cannot write
            begun.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

        hook = swallows if how == "swallow" else partial(_waits, begun, how)
        hooks.append(Hook(where, hook))
    run = await agent_with(model, *hooks).stream("go")

    async def read() -> int:
        await run.consume_stream()
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        return task.cancelling()

    reader = asyncio.create_task(read())
    await begun.wait()
    async with asyncio.timeout(30):
        await run.aclose()
        assert await reader == 0
    blocked = how == "abort" and where != "model"
    done = how == "swallow" and where == "process_output_result"
    assert run.status == ("tripwire" if blocked else "success" if done else "canceled")


async def test_no_threads_are_left() -> None:
    """Plain tools run in the pool of the event loop, which does not grow with the runs."""

    def plain(arguments: Any, context: Any) -> str:
        return "ok"

    tools = [Tool(name="plain", execute=plain)]
    agent = agent_with(
        PlayedModel([[call("plain"), end("tool-calls")], [*said("x"), end()]]), tools=tools
    )
    await agent.generate("go")
    count = threading.active_count()
    for _ in range(20):
        await agent.generate("go")
    assert threading.active_count() <= max(count, 40)


async def test_a_run_that_ended_is_let_go() -> None:
    """Law 6: nothing outside the handle refers to a run; not the agent, model or signal."""
    model = PlayedModel([[*said("x"), call("echo"), end("tool-calls")], [*said("y"), end()]])
    controller = AbortController()
    agent = agent_with(model, Tap())
    run = await agent.stream("go", abort_signal=controller.signal)
    await run.consume_stream()
    state = weakref.ref(run._state)
    del run
    gc.collect()
    assert state() is None
    assert not controller.signal._callbacks


@pytest.mark.parametrize("kind", ["error", "tripwire", "model"])
async def test_unhappy_ends_close_everything(kind: str) -> None:
    """G-C7: errors and verdicts in the middle of a stream close the model's stream at once."""
    before = set(asyncio.all_tasks())

    def middle(args: Any) -> Any:
        if args.part.type == "text-delta":
            if kind == "error":
                raise ValueError("boom")
            args.abort("no")
        return args.part

    hook = Hook("process_output_stream", middle) if kind != "model" else Tap()
    error = [ConnectionError("lost")] if kind == "model" else []
    model = PlayedModel([[*said("a", "b", "c"), *error, end()]])
    controller = AbortController()
    run = await agent_with(model, hook, tools=[echo]).stream("go", abort_signal=controller.signal)
    await run.consume_stream()
    assert model.open == 0
    await others_done(before)
    assert not controller.signal._callbacks


@pytest.mark.parametrize("hook", ["process_input"])
async def test_failures_before_the_stream(hook: str) -> None:
    """R-187: when the call itself raises, the caller's signal forgets the run as well."""

    def boom(args: Any) -> None:
        raise ValueError("boom")

    controller = AbortController()
    agent = agent_with(PlayedModel([[end()]]), Hook(hook, boom))
    for _ in range(3):
        with pytest.raises(ValueError, match="boom"):
            await agent.stream("go", abort_signal=controller.signal)
    assert not controller.signal._callbacks


async def test_cancelled_in_process_input() -> None:
    """Law 6: a call cancelled before there is a run leaves nothing on the caller's signal."""
    before = set(asyncio.all_tasks())
    begun = asyncio.Event()

    async def waits(args: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    controller = AbortController()
    agent = agent_with(PlayedModel([[end()]]), Hook("process_input", waits))
    task = asyncio.create_task(agent.generate("go", abort_signal=controller.signal))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await others_done(before)
    assert not controller.signal._callbacks


async def test_a_run_that_was_never_read() -> None:
    """Law 6: it has opened nothing, and dropping it takes it off the signal."""
    controller = AbortController()
    model = PlayedModel([[*said("x"), end()]])
    run = await agent_with(model).stream("go", abort_signal=controller.signal)
    state = weakref.ref(run._state)
    await run.aclose()
    assert run.status == "canceled"
    del run
    gc.collect()
    assert state() is None and model.prompts == []
    assert not controller.signal._callbacks


async def _slow_to_leave(ended: list[str], arguments: Any, context: Any) -> str:
    try:
        try:
            await asyncio.sleep(10)
        finally:
            for _ in range(20):
                await asyncio.sleep(0)
    finally:
        ended.append(context.tool_call_id)
    return "never"


async def _trips(arguments: Any, context: Any) -> str:
    raise TripWire("no")


@pytest.mark.parametrize("verdict", [False, True])
@pytest.mark.parametrize("cancels", [1, 2, 3])
@pytest.mark.parametrize("way", ["reader", "aclose"])
async def test_no_tool_is_left_running(way: str, cancels: int, verdict: bool) -> None:
    """Law 6, G-T: however often who leaves is cancelled, each tool is stopped and looked after."""
    before = set(asyncio.all_tasks())
    lost: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: lost.append(what))
    ended: list[str] = []

    async def tells(arguments: Any, context: Any) -> str:
        await context.writer.custom({"type": "data-begun", "data": None})
        return "told"

    tools = [Tool(name="slow", execute=partial(_slow_to_leave, ended))]
    tools += [Tool(name="tells", execute=tells), Tool(name="trips", execute=_trips)]
    calls = [call("tells", id="first"), *(call("slow", id=f"c{n}") for n in range(3))]
    calls += [call("trips", id="last")] if verdict else []
    run = await agent_with(PlayedModel([[*calls, end("tool-calls")]]), tools=tools).stream("go")
    stream = run.full_stream
    while (await anext(stream)).type != "data-begun":
        pass
    leaving = asyncio.create_task(run.consume_stream() if way == "reader" else run.aclose())
    for _ in range(cancels):
        for _ in range(5):
            await asyncio.sleep(0)
        leaving.cancel()
    with suppress(asyncio.CancelledError):
        await leaving
    assert sorted(ended) == ["c0", "c1", "c2"]
    assert run.status == ("tripwire" if verdict else "canceled")
    await others_done(before)
    gc.collect()
    assert lost == []


async def test_tools_are_stopped_together() -> None:
    """Law 6: leaving takes as long as the slowest tool does, not as long as all of them."""
    going, most, now = asyncio.Event(), 0, 0

    async def slow(arguments: Any, context: Any) -> str:
        nonlocal most, now
        try:
            going.set()
            await asyncio.Event().wait()
        finally:
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.01)
            now -= 1
        return "never"

    calls = [call("slow", id=f"c{n}") for n in range(8)]
    model = PlayedModel([[*calls, end("tool-calls")]])
    run = await agent_with(model, tools=[Tool(name="slow", execute=slow)]).stream("go")
    reader = asyncio.create_task(run.consume_stream())
    await going.wait()
    await run.aclose()
    await reader
    assert most == 8
