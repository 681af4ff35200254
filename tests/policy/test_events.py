"""Bypasses are seen: in the result, in the stream, by the observer; no word of the content is."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from procession import Agent, Policy, PolicyEvent, processor, tool
from procession.policy.events import MOST, events_of, note
from procession.testing import RecordingObserver, ScriptedModel, answer, tool_call
from tests.laws.checks import TWO_STEPS
from tests.laws.kit import Hook, PlayedModel, Tap, agent_with, end, said
from tests.policy.kit import Shaky

ALLOW = Policy(on_error="allow")


def shaky(hook: str = "process_output_stream", policy: Policy = ALLOW) -> Any:
    return Shaky(hook, "error", policy)


async def test_in_the_stream() -> None:
    """Under one key of `step-finish` and `finish`, and only when there is something to tell."""
    run = await agent_with(PlayedModel(TWO_STEPS), shaky("process_output_step")).stream("go")
    chunks = [chunk async for chunk in run]
    told = [
        chunk.payload.metadata["policyEvents"]
        for chunk in chunks
        if chunk.type in ("step-finish", "finish")
    ]
    events = [
        {
            "processorId": "shaky",
            "hook": "process_output_step",
            "action": "bypassed",
            "kind": "error",
            "error": "ValueError",
            "stepNumber": step,
            "attempt": 0,
            "count": 1,
        }
        for step in (0, 1)
    ]
    assert told == [[events[0]], [events[1]], events]
    assert [event.to_json() for event in run.policy_events] == events
    run = await agent_with(PlayedModel(TWO_STEPS), Tap()).stream("go")
    async for chunk in run:
        assert "policyEvents" not in (getattr(chunk.payload, "metadata", None) or {})
    assert run.policy_events == []


async def test_an_attempt_tells_its_own() -> None:
    """R-178: a rejected attempt's `step-finish` tells of that attempt."""
    judge = Hook(
        "process_output_step",
        lambda args: None if args.retry_count else args.abort("again", retry=True),
    )
    agent = agent_with(PlayedModel([[*said("a"), end()]]), shaky("process_llm_response"), judge)
    run = await agent.stream("go", max_processor_retries=1)
    finished = [c.payload.metadata async for c in run if c.type == "step-finish"]
    attempts = [[event["attempt"] for event in m["policyEvents"]] for m in finished]
    assert attempts == [[0], [1]]


async def test_generate_is_stream() -> None:
    """Law 1."""
    agent = agent_with(PlayedModel(TWO_STEPS), shaky())
    run = await agent.stream("go")
    await run.consume_stream()
    output = await agent_with(PlayedModel(TWO_STEPS), shaky()).generate("go")
    assert output.policy_events == run.policy_events and output.policy_events


async def test_counted() -> None:
    """A thousand bypasses of a step are one entry; the observer is told once."""
    observer = RecordingObserver()
    parts = [*said(*("x" * 1000)), end()]
    agent = agent_with(PlayedModel([parts], sizes=(50,)), shaky(), observer=observer)
    run = await agent.stream("go")
    await run.consume_stream()
    (event,) = run.policy_events
    assert event.count > 1000 and await run.text == "x" * 1000
    (span,) = observer.of_kind("policy")
    assert (span.name, span.outcome, span.processor_id) == (
        "process_output_stream",
        "bypassed",
        "shaky",
    )
    assert span.detail == {"kind": "error", "error": "ValueError"}


async def test_bounded() -> None:
    """However many steps there are: what is too much is counted for the whole run."""

    @tool
    async def again() -> str:
        return "once more"

    steps = MOST + 40
    model = ScriptedModel([[tool_call("again", {}, id=f"c{n}")] for n in range(steps)])
    agent = Agent(
        id="a", model=model, tools=[again], input_processors=[shaky("process_llm_request")]
    )
    output = await agent.generate("go", max_steps=steps)
    events = output.policy_events
    assert len(events) == MOST + 1 and sum(event.count for event in events) == steps
    assert events[-1].step_number is None and events[-1].count == 40


def test_bounded_also_where_details_differ() -> None:
    """What comes after the bound is counted without them: their number has no end."""
    run: Any = SimpleNamespace(
        policy_events=None, step=None, step_number=0, retry_count=0, observer=None, run_id="r"
    )
    for number in range(MOST + 50):
        facts = (("types", (f"type-{number}",)),)
        note(run, "p", "process_input", action="observed", kind="finding", facts=facts)
    events = events_of(run.policy_events)
    assert len(events) == MOST + 1
    assert events[0].detail == {"types": ["type-0"]}
    assert (events[-1].detail, events[-1].count) == (None, 50)


async def test_observed_and_blocked_spans() -> None:
    observer = RecordingObserver()
    watched = processor(
        id="watched",
        process_output_step=lambda args: args.abort("no"),
        policy=Policy(observe=True),
    )
    model = ScriptedModel([answer("hi")])
    agent = Agent(id="a", model=model, output_processors=[watched], observer=observer)
    output = await agent.generate("go")
    assert output.text == "hi"
    (span,) = observer.of_kind("policy")
    assert (span.outcome, span.detail) == ("observed", {"kind": "finding", "would": "block"})
    observer.spans.clear()
    blocked = agent_with(PlayedModel(TWO_STEPS), shaky(policy=Policy()), observer=observer)
    await blocked.generate("go")
    assert [span.outcome for span in observer.of_kind("policy")] == ["blocked"]


async def test_no_word_of_the_content() -> None:
    observer = RecordingObserver()
    watched = Hook("process_output_step", lambda args: args.abort("SECRET", metadata="SECRET"))
    watched.policy = Policy(observe=True)  # type: ignore[attr-defined]
    agent = agent_with(
        PlayedModel(TWO_STEPS), shaky(), watched, shaky("process_tool_result"), observer=observer
    )
    run = await agent.stream("go")
    chunks = [chunk.to_json() async for chunk in run if chunk.type == "finish"]
    metadata = chunks[0]["payload"]["metadata"]["policyEvents"]
    spans = observer.of_kind("policy")
    assert len(metadata) > 2 and len(spans) > 2
    assert "SECRET" not in repr([metadata, spans, run.policy_events])


async def test_concurrent_runs() -> None:
    """Each run has its own events, though they share the processor and its policy."""
    failing = shaky()
    agents = [agent_with(PlayedModel(TWO_STEPS), failing) for _ in range(4)]
    outputs = await asyncio.gather(*(agent.generate("go") for agent in agents))
    assert all(output.policy_events == outputs[0].policy_events for output in outputs)


async def test_a_run_that_has_waited() -> None:
    """R-571: what happened before a call waited is told when the run has gone on."""

    @tool(require_approval=True)
    async def pay() -> str:
        return "paid"

    failing = processor(id="failing", process_input_step=_fail, policy=ALLOW)
    model = ScriptedModel([[tool_call("pay", {}, id="c1")], answer("done")])
    agent = Agent(id="a", model=model, tools=[pay], input_processors=[failing])
    first = await agent.generate("go", run_id="r1")
    assert first.status == "suspended" and len(first.policy_events) == 1
    run = await agent.approve_tool_call(run_id="r1", tool_call_id="c1")
    await run.consume_stream()
    assert [event.step_number for event in run.policy_events] == [0, 1]
    assert len(first.policy_events) == 1


def _fail(args: Any) -> None:
    raise ValueError


def test_form() -> None:
    event = PolicyEvent(processor_id="p", hook="process_input", action="observed", kind="finding")
    assert event.to_json() == {
        "processorId": "p",
        "hook": "process_input",
        "action": "observed",
        "kind": "finding",
        "attempt": 0,
        "count": 1,
    }
    with pytest.raises(AttributeError):
        event.count = 2  # type: ignore[misc]
