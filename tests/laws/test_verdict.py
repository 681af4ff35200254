"""Law 4: a verdict is final, whoever gives it, wherever, and whatever a hook does to it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import TripWire, tool
from procession.processor import HOOKS
from tests.laws.checks import (
    TWO_STEPS,
    WAYS,
    _assert_blocked,
    check_swallowed_verdict,
    check_verdict,
)
from tests.laws.kit import Hook, PlayedModel, Tap, agent_with, bare, call, end, run_async, said
from tests.laws.strategies import sizes


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("hook", HOOKS)
async def test_first_call_of_each_hook(hook: str, way: str) -> None:
    """R-069, R-088, R-098, R-107, R-118, R-131, R-140, R-150, R-156, G-H: given in any way."""
    assert await check_verdict(hook, way=way), "the hook was never called"


@given(
    st.sampled_from(HOOKS),
    st.integers(1, 20),
    st.sampled_from(sorted(WAYS)),
    st.integers(0, 1),
    sizes,
)
@settings(max_examples=100, deadline=None)
def test_any_place(hook: str, nth: int, way: str, place: int, sizes: list[int]) -> None:
    """R-167 to R-171: at the n-th call, before or after other processors, in reads of any size."""
    run_async(check_verdict(hook, nth, way, place, sizes))


WRITING = [hook for hook in HOOKS if hook not in ("process_input", "process_output_result")]


@pytest.mark.parametrize("way", ["swallow", "let"])
@pytest.mark.parametrize("hook", WRITING)
async def test_a_guard_of_written_data(hook: str, way: str) -> None:
    """G-H: a later guard's verdict on what a hook wrote holds, also when that hook swallows it."""
    await check_swallowed_verdict(hook, way)


@pytest.mark.parametrize("kind", ["async", "sync", "grouped", "written"])
async def test_verdicts_in_tools(kind: str) -> None:
    """R-172, G-D: a verdict in a tool ends the run; tools beside it are stopped."""
    stopped: list[str] = []
    waiting = asyncio.Event()

    @tool
    async def other() -> str:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("other")
        return "never"

    run = await agent_with(
        PlayedModel(
            [[*said("x"), call("other", id="c1"), call("judge", id="c2"), end("tool-calls")]]
        ),
        Tap(),
        *([_guard()] if kind == "written" else []),
        tools=[other, _judging(kind, waiting)],
    ).stream("go")
    async with asyncio.timeout(2):
        chunks = [chunk async for chunk in run]
    if kind == "written":
        _assert_blocked(run, chunks, "guard", "secret")
    else:
        _assert_blocked(run, chunks, "judge")
    assert stopped == ["other"]
    assert await run.text == ""


def _judging(kind: str, waiting: asyncio.Event) -> Any:
    async def decide(context: Any) -> None:
        await waiting.wait()
        if kind == "written":
            try:
                await context.writer.custom({"type": "data-secret", "data": 1})
            except BaseException:  # what a careless tool does
                return
        if kind == "grouped":
            async with asyncio.TaskGroup() as group:
                group.create_task(_trip())
        raise TripWire("no")

    from procession import Tool

    if kind == "sync":

        def at_once(arguments: Any, context: Any) -> None:
            raise TripWire("no")

        return Tool(name="judge", execute=at_once)

    async def execute(arguments: Any, context: Any) -> str:
        await decide(context)
        return "went on"

    return Tool(name="judge", execute=execute)


async def _trip() -> None:
    raise TripWire("no")


def _guard() -> Any:
    from tests.laws.checks import Guard

    return Guard()


async def test_the_guard_of_a_tool_that_swallows_late() -> None:
    """G-H: a tool that goes on after a swallowed verdict changes nothing: its result is nowhere."""
    run = await agent_with(
        PlayedModel([[call("judge", id="c2"), end("tool-calls")], [*said("never"), end()]]),
        _guard(),
        tools=[_judging("written", _set())],
    ).stream("go")
    chunks = [chunk async for chunk in run]
    _assert_blocked(run, chunks, "guard", "secret")
    assert not [c for c in chunks if c.type == "tool-result"]


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@pytest.mark.parametrize("hook", ["process_input", "process_output_result", "process_api_error"])
async def test_retry_is_plain_where_there_is_no_step(hook: str) -> None:
    """R-174: an abort with retry ends the run there."""
    from tests.laws.checks import REFUSED

    answers = REFUSED if hook == "process_api_error" else TWO_STEPS
    wanted = Hook(hook, lambda args: args.abort("no", retry=True))
    run = await agent_with(PlayedModel(answers), wanted, max_processor_retries=3).stream("go")
    chunks = [chunk async for chunk in run]
    _assert_blocked(run, chunks, "hooked")
    assert chunks[-1].payload.retry is True


async def test_verdicts_do_not_reach_callers_as_exceptions() -> None:
    """R-168: every value can be awaited after a tripwire."""
    run = await agent_with(
        PlayedModel(TWO_STEPS), Hook("process_output_step", lambda args: args.abort("no"))
    ).stream("go")
    for name in ("text", "usage", "steps", "finish_reason", "tool_calls", "response"):
        await getattr(run, name)
    assert await run.finish_reason == "other"
    assert bare(run.tripwire)["processor_id"] == "hooked"


async def test_violations_are_told_once() -> None:
    """R-184, R-186: once per verdict, before it takes effect, whatever the callback raises."""
    told: list[Any] = []

    async def on_violation(violation: Any) -> None:
        await asyncio.sleep(0)
        told.append((violation.processor_id, violation.message, violation.detail))
        raise RuntimeError("the callback's own trouble")

    for hook in HOOKS:
        from tests.laws.checks import REFUSED

        judge = Hook(hook, lambda args: args.abort("no", metadata=random.Random(1).random()))
        judge.on_violation = on_violation  # type: ignore[attr-defined]
        answers = REFUSED if hook == "process_api_error" else TWO_STEPS
        told.clear()
        run = await agent_with(PlayedModel(answers), judge).stream("go")
        await run.consume_stream()
        assert told == [("hooked", "no", random.Random(1).random())], hook
