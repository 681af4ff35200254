"""Law 4: a verdict is final, whoever gives it, wherever, and whatever a hook does to it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import Around, TripWire, tool
from procession.processor import HOOKS
from procession.testing.parts import chunk_of
from tests.laws.checks import (
    REFUSED,
    TWO_STEPS,
    WAYS,
    _assert_blocked,
    check_swallowed_verdict,
    check_verdict,
)
from tests.laws.kit import (
    METADATA,
    Hook,
    PlayedModel,
    Tap,
    agent_with,
    call,
    end,
    run_async,
    said,
    stored_text,
)
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
    async with asyncio.timeout(30):
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


PLAIN = ["process_input", "process_output_result", "process_api_error"]
"""Hooks whose abort never leads to another attempt (R-174)."""


@pytest.mark.parametrize("hook", PLAIN)
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
    assert run.tripwire is not None and run.tripwire.processor_id == "hooked"


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


# ── given, but not carried out yet ─────────────────────────────────────────────────────────────


class Told:
    """A processor whose `on_violation` waits until it is let go, or stopped."""

    def __init__(self, hook: str, *, retry: bool = False) -> None:
        self.id = "judge"
        self.begun = asyncio.Event()
        self.retry = retry
        setattr(self, hook, self._judge)

    def _judge(self, args: Any) -> Any:
        part = getattr(args, "part", None)
        if part is not None and part.type != "text-end":
            return part
        return args.abort("no", retry=self.retry)

    async def on_violation(self, violation: Any) -> None:
        self.begun.set()
        await asyncio.Event().wait()


IN_LOOP = [hook for hook in HOOKS if hook != "process_input"]


@pytest.mark.parametrize("leaving", ["cancel", "aclose"])
@pytest.mark.parametrize(
    ("hook", "retry"), [*((hook, False) for hook in IN_LOOP), *((hook, True) for hook in PLAIN[1:])]
)
async def test_cut_off_while_the_violation_is_told(hook: str, retry: bool, leaving: str) -> None:
    """R-170, R-171, R-174, R-186: the verdict counts from the moment it was given."""
    run, chunks, judge = await _left_while_told(hook, leaving, retry=retry)
    assert judge.begun.is_set()
    assert run.status == "tripwire" and run.tripwire.reason == "no"
    assert run.error is None and await run.finish_reason == "other"
    kept = "".join(step.text for step in await run.steps if step.accepted)
    assert await run.text == kept == stored_text(run.message_list.messages())
    if leaving == "aclose":
        _assert_blocked(run, chunks, "judge")


async def _left_while_told(
    hook: str, leaving: str, *, retry: bool = False
) -> tuple[Any, list[Any], Told]:
    judge = Told(hook, retry=retry)
    answers = REFUSED if hook == "process_api_error" else TWO_STEPS
    agent = agent_with(PlayedModel(answers), judge)
    run = await agent.stream("go", max_processor_retries=3)
    reader = asyncio.create_task(_read(run))
    async with asyncio.timeout(30):
        await judge.begun.wait()
        if leaving == "aclose":
            await run.aclose()
            return run, await reader, judge
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
    return run, [chunk async for chunk in run], judge


async def _read(run: Any) -> list[Any]:
    return [chunk async for chunk in run]


@pytest.mark.parametrize("leaving", ["cancel", "aclose"])
@pytest.mark.parametrize(
    "hook",
    ["process_llm_response", "process_output_stream", "process_output_step", "process_tool_result"],
)
async def test_cut_off_before_another_attempt(hook: str, leaving: str) -> None:
    """R-175, R-179: the attempt is rejected; it was the caller who did not want another one."""
    run, _, _ = await _left_while_told(hook, leaving, retry=True)
    assert run.status == "canceled" and run.tripwire is None
    assert await run.text == "" == stored_text(run.message_list.messages())
    (step,) = await run.steps
    assert step.finish_reason == "retry" and step.tripwire.reason == "no"
    known = hook != "process_output_stream"  # else it was broken off before the model told
    assert (await run.usage).total_tokens == (5 if known else None)


@pytest.mark.parametrize("retry", [False, True])
@pytest.mark.parametrize("hook", IN_LOOP)
async def test_left_at_every_chunk(hook: str, retry: bool) -> None:
    """R-170: a consumer who leaves when the verdict was given keeps nothing of what it covers."""
    for count in range(1, 40):
        given: list[str] = []

        def judge(args: Any, given: list[str] = given) -> Any:
            part = getattr(args, "part", None)
            if part is not None and part.type != "text-end":
                return part
            given.append(hook)
            return args.abort("no", retry=retry and len(given) == 1)

        answers = REFUSED if hook == "process_api_error" else TWO_STEPS
        agent = agent_with(PlayedModel(answers, sizes=(50,)), Hook(hook, judge))
        run = await agent.stream("go", max_processor_retries=1)
        stream = run.full_stream
        seen = [await anext(stream, None) for _ in range(count)]
        await run.aclose()
        accepted = "".join(step.text for step in await run.steps if step.accepted)
        assert stored_text(run.message_list.messages()) == accepted == await run.text
        again = retry and len(given) == 1 and hook not in PLAIN
        if given and not again:
            assert run.status == "tripwire" and accepted == ""
        if seen[-1] is None:
            return
    raise AssertionError("the run did not come to its end")


async def test_cancelled_while_input_is_judged() -> None:
    """R-069: who is told the end of the run is told of the verdict."""
    ends: list[str] = []

    class Watching:
        def extend(self, opening: Any) -> Around:
            return Around()

        async def run_ended(self, run: Any) -> None:
            ends.append(f"{run.status}: {run.tripwire.reason}")

    judge = Told("process_input")
    agent = agent_with(PlayedModel(TWO_STEPS), judge, extensions=[Watching()])
    opening = asyncio.create_task(agent.generate("go"))
    await judge.begun.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert ends == ["tripwire: no"]


async def test_the_connection_breaks_while_it_is_closed() -> None:
    """R-167: what goes wrong when the model is left is not what the run ended with."""

    class Sticky(PlayedModel):
        async def stream(self, request: Any) -> Any:
            try:
                yield [chunk_of(part) for part in [METADATA, *said("never kept"), end()][:3]]
                await asyncio.Event().wait()
            finally:
                raise ConnectionError("broken pipe")

    judge = Hook("process_output_stream", lambda args: args.abort("no"))
    run = await agent_with(Sticky([]), judge).stream("go")
    chunks = [chunk async for chunk in run]
    _assert_blocked(run, chunks, "hooked")


@pytest.mark.parametrize("given", ["raised", "grouped"])
async def test_a_violation_callback_that_trips(given: str) -> None:
    """R-186: whatever `on_violation` raises, the verdict it was told of is the one that counts."""

    async def trip(violation: Any) -> None:
        if given == "grouped":
            async with asyncio.TaskGroup() as group:
                group.create_task(_trip())
        raise TripWire("another one")

    judge = Hook("process_output_step", lambda args: args.abort("the one"))
    judge.on_violation = trip  # type: ignore[attr-defined]
    run = await agent_with(PlayedModel(TWO_STEPS), judge).stream("go")
    _assert_blocked(run, [chunk async for chunk in run], "hooked", "the one")


async def test_a_verdict_on_a_failed_run_is_its_outcome() -> None:
    """R-156, R-168: the model has failed for good, then the result is blocked: no error is left."""
    judge = Hook("process_output_result", lambda args: args.abort("no"))
    agent = agent_with(PlayedModel(REFUSED), judge)
    output = await agent.generate("go")
    assert (output.status, output.error, output.text) == ("tripwire", None, "")
