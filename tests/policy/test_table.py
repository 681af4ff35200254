"""What each failure of each hook comes to under each policy; nothing is left half done."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from procession import Breaker, Policy
from procession.processor import HOOKS
from tests.laws.checks import REFUSED, TWO_STEPS
from tests.laws.kit import PlayedModel, Tap, agent_with, others_done
from tests.policy.kit import FAILURES, KINDS, NO_WRONG, PATIENT, Shaky, Stand, trace

CASES = [
    (hook, failure)
    for hook in HOOKS
    for failure in FAILURES
    if failure != "wrong" or hook not in NO_WRONG
]


def answers_for(hook: str) -> Any:
    return REFUSED if hook == "process_api_error" else TWO_STEPS


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(("hook", "failure"), CASES)
async def test_allow(hook: str, failure: str, plain: bool) -> None:
    """The run is what it would be without the processor, whatever that had begun."""
    before = set(asyncio.all_tasks())
    policy = Policy(on_error="allow", timeout=PATIENT)
    shaky = Shaky(hook, failure, policy, plain=plain)
    answers = answers_for(hook)
    expected = await trace(answers, Tap("b"), Tap("a"), max_processor_retries=2)
    found = await trace(answers, Tap("b"), shaky, Tap("a"), max_processor_retries=2)
    assert shaky.calls
    assert found == expected
    await others_done(before)


@pytest.mark.parametrize(("hook", "failure"), CASES)
async def test_block(hook: str, failure: str) -> None:
    """B-025, B-026: a tripwire in the processor's name, without the error's words."""
    told: list[Any] = []
    shaky: Any = Shaky(hook, failure, Policy(timeout=PATIENT))
    shaky.on_violation = told.append
    model = PlayedModel(answers_for(hook))
    run = await agent_with(model, shaky).stream("go", max_processor_retries=2)
    chunks = [chunk async for chunk in run]
    assert [c.type for c in chunks].count("tripwire") == 1 and chunks[-1].type == "tripwire"
    kind, error = KINDS[failure]
    wire = run.tripwire
    assert wire is not None and wire.processor_id == "shaky" and not wire.retry
    assert wire.metadata == {"processor_id": "shaky", "error": True, "kind": kind}
    assert "SECRET" not in wire.reason and shaky.calls == 1
    assert run.status == "tripwire" and await run.finish_reason == "other" and run.error is None
    (event,) = run.policy_events
    assert (event.hook, event.action, event.kind, event.error) == (hook, "blocked", kind, error)
    assert [v.detail["kind"] for v in told] == [kind]
    output = await agent_with(PlayedModel(answers_for(hook)), shaky).generate("go")
    assert output.tripwire == wire and output.policy_events == run.policy_events


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(("hook", "failure"), CASES)
async def test_degrade(hook: str, failure: str, plain: bool) -> None:
    """The fallback does the work, on what the failed hook had found."""
    answers = answers_for(hook)
    alone, stand = Stand(), Stand()
    policy = Policy(on_error="degrade", fallback=stand, timeout=PATIENT)
    shaky = Shaky(hook, failure, policy, plain=plain)
    only: Any = type("Only", (), {"id": "stand", hook: getattr(alone, hook)})()
    expected = await trace(answers, Tap("b"), only, Tap("a"), max_processor_retries=2)
    found = await trace(answers, Tap("b"), shaky, Tap("a"), max_processor_retries=2)
    assert found == expected
    assert stand.log == alone.log == [hook] * shaky.calls and stand.log


@pytest.mark.parametrize("on_error", ["block", "allow", "degrade"])
@pytest.mark.parametrize("hook", HOOKS)
async def test_circuit_open(hook: str, on_error: Any) -> None:
    """A processor that rests is not called, and its policy applies."""
    stand = Stand() if on_error == "degrade" else None
    policy = Policy(on_error=on_error, fallback=stand, breaker=Breaker(failures=1, seconds=60))
    shaky = Shaky(hook, "error", policy)
    for _ in range(2):
        run = await agent_with(PlayedModel(answers_for(hook)), shaky).stream("go")
        await run.consume_stream()
    assert shaky.calls == 1
    kinds = {event.kind for event in run.policy_events}
    assert kinds == {"circuit-open"}
    if on_error == "block":
        assert run.tripwire is not None and run.tripwire.metadata["kind"] == "circuit-open"
    else:
        assert run.tripwire is None


@pytest.mark.parametrize("hook", HOOKS)
async def test_without_a_policy(hook: str) -> None:
    """R-067, R-117, R-157, R-188: without a policy a hook's exception fails the run, as ever."""
    agent = agent_with(PlayedModel(answers_for(hook)), Shaky(hook, "error", None))
    if hook == "process_api_error":
        run = await agent.stream("go")
        await run.consume_stream()
        assert isinstance(run.error, ConnectionError) and not run.policy_events
        return
    with pytest.raises(ValueError, match="SECRET"):
        await agent.generate("go")


async def test_no_words_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """B-026: what went wrong is said once a run, by its kind alone."""
    shaky = Shaky("process_output_stream", "error", Policy(on_error="allow"))
    with caplog.at_level(logging.DEBUG, "procession"):
        await trace(TWO_STEPS, shaky)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2 and all("ValueError" in line for line in lines)  # one for each step
    assert "SECRET" not in caplog.text


@pytest.mark.parametrize("failure", ["error", "timeout"])
@pytest.mark.parametrize("hook", HOOKS)
async def test_failing_fallback_blocks(hook: str, failure: str) -> None:
    """Nothing passes that nobody has looked at."""
    stand = Shaky(hook, failure, None)
    stand.id = "stand"
    policy = Policy(on_error="degrade", fallback=stand, timeout=PATIENT)
    run = await agent_with(PlayedModel(answers_for(hook)), Shaky(hook, "error", policy)).stream(
        "go"
    )
    await run.consume_stream()
    wire = run.tripwire
    assert wire is not None
    assert wire.metadata == {"processor_id": "stand", "error": True, "kind": failure}
    assert [(e.processor_id, e.action) for e in run.policy_events] == [
        ("shaky", "degraded"),
        ("stand", "blocked"),
    ]
