"""E-17 to E-21: rejecting answers, stopping runs, adding to what is delivered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from procession import (
    Agent,
    APICallError,
    Message,
    ProcessInputStepArgs,
    ProcessorViolation,
    ProcessOutputResultArgs,
    ProcessOutputStepArgs,
    tool,
)
from procession.processor import HOOKS
from procession.testing import ScriptedModel, answer, tool_call
from tests.seeds.threeways import check_tripped, feedback, only, play, three_ways

ran: list[str] = []


@tool
async def search(topic: str = "") -> str:
    """Look something up."""
    ran.append(topic)
    return f"found {topic}"


# ── E-17 ───────────────────────────────────────────────────────────────────────────────────────


class ResponseValidator:
    """Asks up to three times for an answer that is not bad, then takes what comes."""

    id = "response-validator"

    async def process_output_step(self, args: ProcessOutputStepArgs) -> list[Message]:
        if "bad" in args.text and args.retry_count < 3:
            args.abort("That was not what was asked for.", retry=True)
        return []


@three_ways
async def test_e17_a_second_attempt(way: str) -> None:
    """E-17 (R-138, R-173 to R-179): feedback, another call, and nothing lost by the empty list."""
    model = ScriptedModel(["bad", "good"])
    agent = Agent(
        id="validated",
        model=model,
        output_processors=[ResponseValidator()],
        max_processor_retries=3,
    )
    outcome = await play(way, agent, "go")
    assert (outcome.text, outcome.finish_reason) == ("good", "stop")
    assert [feedback(call) for call in model.calls] == [
        [],
        ["[Processor Feedback] That was not what was asked for."],
    ]
    assert [message.text for message in outcome.messages] == ["go", "good"]
    rejected, accepted = outcome.steps
    assert (rejected.finish_reason, rejected.text, rejected.tool_calls) == ("retry", "", [])
    assert (rejected.step_number, accepted.step_number) == (0, 0)
    assert outcome.output.usage.input_tokens == 6
    if outcome.chunks is not None:
        closings = [c.payload.step_result for c in outcome.chunks if c.type == "step-finish"]
        assert [(c.reason, c.is_continued) for c in closings] == [("retry", True), ("stop", False)]
        assert closings[0].retry_reason == "That was not what was asked for."
        assert closings[0].retry_processor_id == "response-validator"
        assert "tripwire" not in outcome.kinds()


@three_ways
async def test_e17_accepted_in_the_end(way: str) -> None:
    """E-17 (R-138, R-173): after three retries the fourth answer is taken as it is."""
    model = ScriptedModel(["bad 1", "bad 2", "bad 3", "bad 4"])
    agent = Agent(
        id="validated",
        model=model,
        output_processors=[ResponseValidator()],
        max_processor_retries=3,
    )
    outcome = await play(way, agent, "go")
    assert (len(model.calls), outcome.text, outcome.tripwire) == (4, "bad 4", None)
    assert len(feedback(model.calls[3])) == 1  # equal feedback is not repeated
    assert [message.text for message in outcome.messages] == ["go", "bad 4"]
    assert [step.finish_reason for step in outcome.steps] == ["retry", "retry", "retry", "stop"]


# ── E-18 ───────────────────────────────────────────────────────────────────────────────────────


class QualityGuardrail:
    """Asks for better answers with a score attached, and gives up after three."""

    id = "quality-guardrail"

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []
        self.violations: list[ProcessorViolation] = []

    def on_violation(self, violation: ProcessorViolation) -> None:
        self.violations.append(violation)

    async def process_output_step(self, args: ProcessOutputStepArgs) -> None:
        self.seen.append((args.step_number, args.retry_count))
        if "good" in args.text:
            return
        if args.retry_count >= 3:
            args.abort("Still not good enough.")
        args.abort("Say more.", retry=True, metadata={"qualityScore": 0.4})


def bad_with_call() -> Any:
    return answer("bad", tool_calls=[tool_call("search", {"topic": "never"})])


def guarded(model: ScriptedModel, guardrail: QualityGuardrail, **options: Any) -> Agent:
    return Agent(
        id="guarded",
        model=model,
        tools=[search],
        output_processors=[guardrail],
        **options,
    )


@three_ways
async def test_e18_good_in_the_end(way: str) -> None:
    """E-18 (R-173, R-180): counts 0, 1, 2 in one and the same step."""
    guardrail, ran[:] = QualityGuardrail(), []
    model = ScriptedModel(["bad", "bad", "good"])
    outcome = await play(way, guarded(model, guardrail, max_processor_retries=3), "go")
    assert outcome.text == "good"
    assert guardrail.seen == [(0, 0), (0, 1), (0, 2)]
    assert [(v.processor_id, v.message, v.detail) for v in guardrail.violations] == [
        ("quality-guardrail", "Say more.", {"qualityScore": 0.4})
    ] * 2


@three_ways
async def test_e18_given_up(way: str) -> None:
    """E-18 (R-141, R-173, R-180, R-184): four calls, no tool of any attempt, the second reason."""
    guardrail, ran[:] = QualityGuardrail(), []
    model = ScriptedModel([bad_with_call() for _ in range(4)])
    outcome = await play(way, guarded(model, guardrail, max_processor_retries=3), "go")
    check_tripped(outcome, reason="Still not good enough.", processor_id="quality-guardrail")
    assert (len(model.calls), ran) == (4, [])
    assert guardrail.seen == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert [(v.message, v.detail) for v in guardrail.violations] == [
        ("Say more.", {"qualityScore": 0.4})
    ] * 3 + [("Still not good enough.", None)]
    assert [step.finish_reason for step in outcome.steps] == ["retry", "retry", "retry", "other"]
    assert all(step.tool_calls == [] for step in outcome.steps)
    assert outcome.answers == []


@three_ways
async def test_e18_no_budget(way: str) -> None:
    """E-18 (R-173, R-212): without a budget the wish is shown and the run is over."""
    guardrail, ran[:] = QualityGuardrail(), []
    model = ScriptedModel([bad_with_call(), "good"])
    outcome = await play(way, guarded(model, guardrail), "go")
    check_tripped(
        outcome,
        reason="Say more.",
        processor_id="quality-guardrail",
        retry=True,
        metadata={"qualityScore": 0.4},
    )
    assert (len(model.calls), ran) == (1, [])
    assert [(v.message, v.detail) for v in guardrail.violations] == [
        ("Say more.", {"qualityScore": 0.4})
    ]


# ── E-19 ───────────────────────────────────────────────────────────────────────────────────────


class QualityChecker:
    """Wants a better answer, always, as long as there is budget."""

    id = "quality-checker"

    async def process_output_step(self, args: ProcessOutputStepArgs) -> list[Message]:
        if "good" not in args.text:
            args.abort("Too short.", retry=True, metadata={"score": 0.1})
        return []


@three_ways
@pytest.mark.parametrize(
    ("budget", "with_error_processor", "calls"),
    [(3, False, 4), (3, True, 4), (None, False, 1), (None, True, 11), (0, True, 1)],
)
async def test_e19_budgets(
    way: str, budget: int | None, with_error_processor: bool, calls: int
) -> None:
    """E-19 (R-174, R-212, R-213): three, none without an option, ten with error processors."""
    model = ScriptedModel(["bad"])
    declines = only("process_api_error", lambda args: None, id="declines")
    agent = Agent(
        id="checked",
        model=model,
        output_processors=[QualityChecker()],
        error_processors=[declines] if with_error_processor else [],
        max_processor_retries=budget,
    )
    outcome = await play(way, agent, "go")
    check_tripped(
        outcome,
        reason="Too short.",
        processor_id="quality-checker",
        retry=True,
        metadata={"score": 0.1},
    )
    assert len(model.calls) == calls


class AsksOnce:
    """Wants the step to begin anew, once."""

    id = "asks-once"

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int]] = []

    async def process_input_step(self, args: ProcessInputStepArgs) -> None:
        self.seen.append((args.step_number, args.retry_count, len(args.steps)))
        if args.retry_count == 0:
            args.abort("Mind the units.", retry=True)


@three_ways
async def test_e19_retry_before_the_model(way: str) -> None:
    """E-19 (R-088, R-174, R-176): the step is repeated with its reason, no call in between."""
    asks = AsksOnce()
    model = ScriptedModel(["good"])
    agent = Agent(id="checked", model=model, input_processors=[asks], max_processor_retries=1)
    outcome = await play(way, agent, "go")
    assert outcome.text == "good"
    assert asks.seen == [(0, 0, 0), (0, 1, 0)]
    assert [feedback(call) for call in model.calls] == [["[Processor Feedback] Mind the units."]]
    assert len(outcome.steps) == 1
    if outcome.chunks is not None:
        assert outcome.kinds().count("step-start") == 1
        assert outcome.kinds().count("step-finish") == 1


# ── E-20 ───────────────────────────────────────────────────────────────────────────────────────


def aborting(hook: str) -> tuple[Agent, ScriptedModel]:
    """An agent whose processor aborts in `hook`, with options as a mapping."""

    def stop(args: Any) -> None:
        args.abort("Blocked content", {"retry": False, "metadata": {"category": "pii"}})

    refused = APICallError("refused", status_code=400)
    call = answer("An answer", tool_calls=[tool_call("search")])
    script: list[Any] = [refused] if hook == "process_api_error" else [call, "more"]
    model = ScriptedModel(script)
    processor: Any = only(hook, stop, id="stopper")
    lists: dict[str, Any] = {
        kind: [processor] for kind in ("input_processors", "output_processors", "error_processors")
    }
    return Agent(id="stopped", model=model, tools=[search], **lists), model


@three_ways
@pytest.mark.parametrize("hook", HOOKS)
async def test_e20_abort_in_every_hook(way: str, hook: str) -> None:
    """E-20 (R-025, R-156, R-166 to R-168): one form of the verdict, whichever hook gives it."""
    agent, model = aborting(hook)
    ran.clear()
    outcome = await play(way, agent, "go")
    check_tripped(
        outcome,
        reason="Blocked content",
        processor_id="stopper",
        metadata={"category": "pii"},
    )
    unasked = ("process_input", "process_input_step", "process_llm_request")
    expected = 0 if hook in unasked else 2 if hook == "process_output_result" else 1
    assert len(model.calls) == expected
    assert len(ran) == (hook in ("process_tool_result", "process_output_result"))
    assert outcome.answers == []


@pytest.mark.parametrize("hook", HOOKS)
async def test_e20_a_client_stops_at_the_tripwire(hook: str) -> None:
    """E-20 (R-166): leaving the loop there leaves nothing running."""
    agent, _ = aborting(hook)
    before = asyncio.all_tasks()
    async with agent.stream("go") as run:
        async for chunk in run.full_stream:
            if chunk.type == "tripwire":
                assert chunk.payload["processorId"] == "stopper"
                break
    assert asyncio.all_tasks() == before
    assert run.status == "tripwire"


async def test_e20_leaving_before_the_end() -> None:
    """E-20 (R-555): whoever leaves in the middle closes the model's connection, too."""
    model = ScriptedModel([answer("one", "two", "three")])
    before = asyncio.all_tasks()
    async with Agent(id="left", model=model).stream("go") as run:
        async for chunk in run.full_stream:
            if chunk.type == "text-delta":
                break
    assert asyncio.all_tasks() == before
    assert model.closed == [0]


# ── E-21 ───────────────────────────────────────────────────────────────────────────────────────


class AddsMetadata:
    """Returns copies of the assistant's messages with two more entries."""

    id = "adds-metadata"

    async def process_output_result(self, args: ProcessOutputResultArgs) -> list[Message]:
        return [self.marked(m) if m.role == "assistant" else m for m in args.messages]

    def marked(self, message: Message) -> Message:
        metadata = {
            **(message.content.metadata or {}),
            "processedAt": "2026-01-02T03:04:05Z",
            "customData": {"innerKey": [1]},
            "custom_data": "as written",
        }
        return message.replace(content=message.content.replace(metadata=metadata))


def check_metadata(metadata: Any) -> None:
    assert metadata["processedAt"] == "2026-01-02T03:04:05Z"
    assert metadata["customData"] == {"innerKey": [1]}
    assert metadata["custom_data"] == "as written"


@three_ways
@pytest.mark.parametrize("forgets", [False, True])
async def test_e21_metadata_is_seen_everywhere(way: str, forgets: bool) -> None:
    """E-21 (R-155, R-383, R-393, R-395, R-507, R-545): keys as written, in every form."""

    def forget(args: ProcessOutputResultArgs) -> None:
        for message in args.messages:
            message.content.metadata = None

    first = [only("process_output_result", forget, id="forget")] if forgets else []
    agent = Agent(
        id="marked",
        model=ScriptedModel(["An answer"]),
        output_processors=[*first, AddsMetadata()],
    )
    outcome = await play(way, agent, "go")
    (shown,) = [m for m in outcome.output.response.ui_messages if m["role"] == "assistant"]
    check_metadata(shown["metadata"])
    check_metadata(outcome.answers[0].content.metadata)
    check_metadata(outcome.answers[0].to_json()["content"]["metadata"])
    assert ("modelId" in shown["metadata"]) is not forgets
    assert outcome.text == "An answer"
    if outcome.chunks is not None:
        finish = outcome.chunks[-1]
        (delivered,) = finish.payload["response"]["uiMessages"]
        check_metadata(delivered["metadata"])
        (dumped,) = finish.to_json()["payload"]["response"]["uiMessages"]
        check_metadata(dumped["metadata"])


async def test_e21_awaited_response() -> None:
    """E-21 (R-545): a stream's awaited `response` has the metadata, too."""
    agent = Agent(
        id="marked", model=ScriptedModel(["An answer"]), output_processors=[AddsMetadata()]
    )
    run = await agent.stream("go")
    response = await run.response
    check_metadata(response.ui_messages[0]["metadata"])
    check_metadata(response.db_messages[0].content.metadata)
