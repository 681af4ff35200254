"""Law 4 under policies: none weakens a verdict, however it was given and whatever is around."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import Breaker, Policy, TripWire, tool
from procession.processor import HOOKS
from tests.laws.checks import WAYS, Judge, _assert_blocked
from tests.laws.kit import Hook, PlayedModel, Tap, agent_with, others_done, run_async
from tests.policy.kit import FAILURES, PATIENT, Shaky, Stand
from tests.policy.test_table import answers_for

policies = st.builds(
    lambda on_error, timeout, breaker: Policy(
        on_error=on_error,
        timeout=timeout,
        breaker=breaker,
        fallback=Stand() if on_error == "degrade" else None,
    ),
    st.sampled_from(["block", "allow", "degrade"]),
    st.sampled_from([None, 5.0]),
    st.sampled_from([None, Breaker(failures=1)]),
)
open_policies = st.sampled_from(
    [
        Policy(on_error="allow", timeout=PATIENT),
        Policy(on_error="degrade", fallback=Stand(), timeout=PATIENT),
        Policy(observe=True, timeout=PATIENT),
    ]
)


async def _blocks(hook: str, nth: int, way: str, policy: Policy, around: list[Any]) -> None:
    judge: Any = Judge(hook, nth, way)
    judge.policy = policy
    ran: list[str] = []

    @tool
    async def echo(value: str = "") -> str:
        if judge.done:
            ran.append("tool")
        return value

    tap = Tap("after", judge.log)
    model = PlayedModel(answers_for(hook))
    agent = agent_with(model, *around, judge, tap, tools=[echo])
    before = set(asyncio.all_tasks())
    run = await agent.stream("go", max_processor_retries=0)
    chunks = [chunk async for chunk in run]
    if judge.done:
        _assert_blocked(run, chunks, "judge")
        assert not ran and judge.log[-1] == "verdict", "somebody was asked after the verdict"
    else:
        assert run.tripwire is None
    assert not [e for e in run.policy_events if e.processor_id == "judge"]
    assert model.open == 0
    await others_done(before)


@pytest.mark.parametrize("on_error", ["allow", "degrade"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("hook", HOOKS)
async def test_own_policy(hook: str, way: str, on_error: Any) -> None:
    """G-H: whatever becomes of a failure, a verdict stays one, in each form it can be given."""
    fallback = Stand() if on_error == "degrade" else None
    policy = Policy(on_error=on_error, timeout=5, fallback=fallback, breaker=Breaker(failures=1))
    await _blocks(hook, 1, way, policy, [])


@given(
    st.sampled_from(HOOKS),
    st.integers(1, 12),
    st.sampled_from(sorted(WAYS)),
    policies,
    st.lists(st.tuples(st.sampled_from(HOOKS), st.sampled_from(sorted(FAILURES)), open_policies)),
)
@settings(max_examples=25, deadline=None)
def test_any_composition(
    hook: str, nth: int, way: str, policy: Policy, around: list[tuple[str, str, Policy]]
) -> None:
    """Among processors that fail in every way, and are let pass or watched, it stands as well."""
    shaky = [Shaky(*made) for made in around if made[1] != "timeout"]
    run_async(_blocks(hook, nth, way, policy, shaky), 60)


@pytest.mark.parametrize("on_error", ["allow", "degrade"])
@pytest.mark.parametrize("hook", HOOKS)
async def test_told_too_slowly(hook: str, on_error: Any) -> None:
    """R-186: time runs out while `on_violation` is told: the verdict has been given."""

    async def never(violation: Any) -> None:
        await asyncio.Event().wait()

    fallback = Stand() if on_error == "degrade" else None
    judge: Any = Judge(hook, 1, "plain")
    judge.policy = Policy(on_error=on_error, timeout=PATIENT, fallback=fallback)
    judge.on_violation = never
    if hook == "process_output_stream":
        judge.on_violation = None  # told at the gate, where no time is running
    run = await agent_with(PlayedModel(answers_for(hook)), judge).stream("go")
    chunks = [chunk async for chunk in run]
    _assert_blocked(run, chunks, "judge")


@pytest.mark.parametrize("hook", HOOKS)
async def test_given_when_cancelled(hook: str) -> None:
    """A hook that comes to a verdict while it is being cut short has come to one."""

    async def late(args: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            args.abort("no")

    judge: Any = Hook(hook, late, "judge")
    judge.policy = Policy(on_error="allow", timeout=PATIENT)
    run = await agent_with(PlayedModel(answers_for(hook)), judge).stream("go")
    _assert_blocked(run, [chunk async for chunk in run], "judge")


@pytest.mark.parametrize("form", ["abort", "raise", "swallow"])
@pytest.mark.parametrize("hook", HOOKS)
async def test_of_a_fallback(hook: str, form: str) -> None:
    """R-172, R-184: the fallback's verdict is its own, and its `on_violation` is told of it."""
    told: list[str] = []

    def judge(args: Any) -> Any:
        if form == "raise":
            raise TripWire("no")
        try:
            args.abort("no")
        except TripWire:
            if form == "swallow":
                return getattr(args, "part", None)
            raise

    stand: Any = Hook(hook, judge, "stand")
    stand.on_violation = lambda violation: told.append(f"stand: {violation.processor_id}")
    policy = Policy(on_error="degrade", fallback=stand)
    shaky: Any = Shaky(hook, "error", policy)
    shaky.on_violation = lambda violation: told.append("shaky")
    run = await agent_with(PlayedModel(answers_for(hook)), shaky).stream("go")
    _assert_blocked(run, [chunk async for chunk in run], "stand")
    assert told == ["stand: stand"]


@pytest.mark.parametrize("on_error", ["allow", "degrade", "observe"])
async def test_of_a_guard_of_what_is_written(on_error: Any) -> None:
    """G-H: what somebody else says of a written chunk is no failure of the writer."""

    async def writes(args: Any) -> None:
        await args.writer.custom({"type": "data-secret", "data": 1})

    async def guard(args: Any) -> Any:
        if args.part.type == "data-secret":
            raise ValueError("guard")
        return args.part

    writer: Any = Hook("process_output_step", writes, "writer")
    fallback = Stand() if on_error == "degrade" else None
    writer.policy = (
        Policy(observe=True)
        if on_error == "observe"
        else Policy(on_error=on_error, fallback=fallback)
    )
    agent = agent_with(
        PlayedModel(answers_for("")), writer, Hook("process_output_stream", guard, "guard")
    )
    if on_error == "observe":
        output = await agent.generate("go")
        assert {e.would for e in output.policy_events} == {"write"}
        return
    with pytest.raises(ValueError, match="guard"):
        await agent.generate("go")


async def test_retry_under_a_policy() -> None:
    """R-173: a verdict that asks for another attempt gets it."""

    async def once(args: Any) -> None:
        if not args.retry_count:
            args.abort("again", retry=True)

    judge: Any = Hook("process_output_step", once, "judge")
    judge.policy = Policy(on_error="allow", timeout=5)
    agent = agent_with(PlayedModel(answers_for("")), judge)
    output = await agent.generate("go", max_processor_retries=1)
    assert output.tripwire is None and output.steps[0].finish_reason == "retry"
