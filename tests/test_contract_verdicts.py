"""Aborting: who is named, with which words, and who is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from procession import (
    Agent,
    APICallError,
    Around,
    ProcessorViolation,
    Tool,
    TripWire,
    processor,
    tool,
)
from procession.processor import HOOKS, INPUT_HOOKS, OUTPUT_HOOKS
from procession.testing import ScriptedModel, answer, tool_call
from tests.seeds.threeways import check_tripped, only, play, three_ways

RETRYING = {
    "process_input_step",
    "process_llm_request",
    "process_llm_response",
    "process_output_stream",
    "process_output_step",
    "process_tool_result",
}


@tool
async def look(topic: str = "") -> str:
    """Look something up."""
    return "seen"


def every_hook(function: Any) -> Any:
    """The test runs for each hook, each way."""
    return three_ways(pytest.mark.parametrize("hook", HOOKS)(function))


def agent_with(hook: str, function: Any, *, told: Any = None, **options: Any) -> Agent:
    """An agent whose run reaches every hook; the function is one of them."""
    processor = only(hook, function, id="judge")
    processor.on_violation = told
    kind = "input" if hook in INPUT_HOOKS else "output" if hook in OUTPUT_HOOKS else "error"
    script: list[Any] = [answer("Looking.", tool_calls=[tool_call("look")])] * 3 + ["Seen."]
    if kind == "error":
        script = [APICallError("no", status_code=400)]
    lists: dict[str, Any] = {f"{kind}_processors": [processor]}
    return Agent(id="a", model=ScriptedModel(script), tools=[look], **lists, **options)


#


@every_hook
@pytest.mark.parametrize("reason", [None, ""])
async def test_no_reason(way: str, hook: str, reason: str | None) -> None:
    """R-026: a generic text that names the processor."""
    outcome = await play(way, agent_with(hook, lambda args: args.abort(reason)), "go")
    assert outcome.tripwire is not None
    assert "judge" in outcome.tripwire.reason
    check_tripped(outcome, reason=outcome.tripwire.reason, processor_id="judge")


FORMS: list[Any] = [
    lambda args: args.abort("no", retry=True, metadata={"aKey": 1}),
    lambda args: args.abort("no", {"retry": True, "metadata": {"aKey": 1}}),
    lambda args: args.abort(reason="no", options={"retry": True, "metadata": {"aKey": 1}}),
]


@every_hook
@pytest.mark.parametrize("form", FORMS)
async def test_forms_of_abort(way: str, hook: str, form: Any) -> None:
    """R-025, R-174: keywords or a mapping, with the same outcome; without a budget it is final."""
    options: dict[str, Any] = {"max_processor_retries": 0}
    outcome = await play(way, agent_with(hook, form, **options), "go")
    check_tripped(outcome, reason="no", processor_id="judge", retry=True, metadata={"aKey": 1})


@every_hook
async def test_abort_never_returns(way: str, hook: str) -> None:
    """R-025, R-165: it raises a `TripWire`, which no `except Exception` catches."""
    caught: list[TripWire] = []

    async def judge(args: Any) -> None:
        try:
            try:
                args.abort("no", metadata=[1])
            except Exception:
                return
        except TripWire as wire:
            caught.append(wire)
            raise

    outcome = await play(way, agent_with(hook, judge), "go")
    check_tripped(outcome, reason="no", processor_id="judge", metadata=[1])
    (wire,) = caught
    assert (str(wire), wire.reason, wire.processor_id) == ("no", "no", "judge")
    assert wire.options == {"retry": False, "metadata": [1]}
    assert not isinstance(wire, Exception)


# ── R-172 ──────────────────────────────────────────────────────────────────────────────────────


@every_hook
@pytest.mark.parametrize("where", ["plain", "async", "task group"])
async def test_tripwires_of_user_code(way: str, hook: str, where: str) -> None:
    """R-172: one that is raised directly is the verdict of the processor whose hook was running."""
    told: list[ProcessorViolation] = []

    def judge(args: Any) -> None:
        raise TripWire("raised", metadata={"direct": True})

    async def judge_later(args: Any) -> None:
        await asyncio.sleep(0)
        judge(args)

    async def judge_in_tasks(args: Any) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(judge_later(args))
            group.create_task(asyncio.sleep(10))

    judging = {"plain": judge, "async": judge_later, "task group": judge_in_tasks}[where]
    outcome = await play(way, agent_with(hook, judging, told=told.append), "go")
    check_tripped(outcome, reason="raised", processor_id="judge", metadata={"direct": True})
    assert told == [
        ProcessorViolation(processor_id="judge", message="raised", detail={"direct": True})
    ]


@three_ways
async def test_tripwires_of_user_code_may_ask_for_a_retry(way: str) -> None:
    """R-172, R-173: like an abort, with the feedback that goes with it."""

    def judge(args: Any) -> None:
        if args.retry_count == 0:
            raise TripWire("once more", retry=True)

    agent = agent_with("process_output_step", judge, max_processor_retries=1)
    outcome = await play(way, agent, "go")
    assert outcome.tripwire is None
    assert outcome.steps[0].finish_reason == "retry"


#


@every_hook
@pytest.mark.parametrize("retry", [False, True])
async def test_violations_are_told(way: str, hook: str, retry: bool) -> None:
    """R-184: for every abort, once, whether it leads to another attempt or to the end."""
    told: list[ProcessorViolation] = []

    def judge(args: Any) -> Any:
        part = getattr(args, "part", None)
        # The chunk that closes a rejected attempt is offered, too; it is let through.
        if part is not None and part.type == "step-finish":
            return part
        args.abort("no", retry=retry, metadata={"count": args.retry_count})

    agent = agent_with(hook, judge, told=told.append, max_processor_retries=2)
    outcome = await play(way, agent, "go")
    times = 3 if retry and hook in RETRYING else 1
    assert [violation.detail for violation in told] == [{"count": n} for n in range(times)]
    assert {(v.processor_id, v.message) for v in told} == {("judge", "no")}
    check_tripped(
        outcome,
        reason="no",
        processor_id="judge",
        retry=retry,
        metadata={"count": times - 1},
    )


@every_hook
async def test_callbacks_are_done_before_the_verdict(way: str, hook: str) -> None:
    """R-186: async ones are awaited before the tripwire takes effect."""
    log: list[str] = []

    async def told(violation: ProcessorViolation) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        log.append("told")

    class Ended:
        def extend(self, opening: Any) -> Any:
            return Around()

        async def run_ended(self, run: Any) -> None:
            log.append("ended")

    agent = agent_with(hook, lambda args: args.abort("no"), told=told, extensions=[Ended()])
    outcome = await play(way, agent, "go")
    check_tripped(outcome, reason="no", processor_id="judge")
    assert log == ["told", "ended"]


@every_hook
@pytest.mark.parametrize("later", [False, True])
async def test_callbacks_may_fail(way: str, hook: str, later: bool) -> None:
    """R-186: their exceptions are swallowed."""

    def told(violation: ProcessorViolation) -> None:
        raise OSError("the alarm is out of order")

    async def told_later(violation: ProcessorViolation) -> None:
        told(violation)

    agent = agent_with(hook, lambda args: args.abort("no"), told=told_later if later else told)
    check_tripped(await play(way, agent, "go"), reason="no", processor_id="judge")


@every_hook
async def test_exceptions_are_no_violations(way: str, hook: str) -> None:
    """R-184, R-188: a hook that breaks has judged nothing."""
    told: list[ProcessorViolation] = []

    def broken(args: Any) -> None:
        raise ValueError("broken")

    outcome = await play(way, agent_with(hook, broken, told=told.append), "go")
    expected = APICallError if hook == "process_api_error" else ValueError
    assert isinstance(outcome.error, expected)
    assert told == []


@three_ways
async def test_warnings_are_the_processors_own(way: str) -> None:
    """R-185: what a processor tells on its own account changes nothing."""
    told: list[ProcessorViolation] = []

    class Warns:
        id = "warns"
        on_violation: Any = None

        def process_output_step(self, args: Any) -> None:
            violation = ProcessorViolation(processor_id=self.id, message="hm", detail=args.text)
            self.on_violation(violation)

    warns = Warns()
    warns.on_violation = told.append
    agent = Agent(id="a", model=ScriptedModel(["An answer"]), output_processors=[warns])
    outcome = await play(way, agent, "go")
    assert (outcome.text, outcome.tripwire) == ("An answer", None)
    assert [violation.detail for violation in told] == ["An answer"]


async def test_what_the_model_sees_is_made_of_the_judged_result() -> None:
    """R-148, R-535: `to_model_output` cannot bring back what `process_tool_result` masked."""
    look_up = Tool(
        name="look_up",
        execute=_secret,
        to_model_output=lambda result: {"type": "text", "value": f"the code is {result['code']}"},
    )

    def mask(args: Any) -> None:
        invocation = {"state": "result", "toolCallId": args.tool_call_id, "toolName": "look_up"}
        invocation |= {"args": args.args, "result": {"code": "****"}}
        args.message_list.update_tool_invocation(
            {"type": "tool-invocation", "toolInvocation": invocation}
        )

    model = ScriptedModel([answer(tool_calls=[tool_call("look_up", {})]), "done"])
    guard = processor(id="mask", process_tool_result=mask)
    agent = Agent(id="desk", model=model, tools=[look_up], output_processors=[guard])
    result = await agent.generate("What is the code?")
    assert "the code is ****" in str(model.calls[1].prompt)
    assert "7731" not in str(model.calls[1].prompt) + str(result.messages)


async def _secret(arguments: Any, context: Any) -> dict[str, str]:
    return {"code": "7731"}
