"""E-64, E-68: what one call may change, and who is told of violations.

`Keeper` stands for memory. Memory itself: with its part.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from procession import Agent, Around, Opening, ProcessorViolation, ProcessOutputStepArgs
from procession.processors import (
    CostGuardProcessor,
    InMemoryCostStore,
    ModelPrice,
    ModerationProcessor,
    TokenLimiter,
)
from procession.testing import ScriptedModel
from tests.seeds.threeways import Shelf, check_tripped, only, play, three_ways

# ── E-64 ───────────────────────────────────────────────────────────────────────────────────────


class Keeper(Shelf):
    """Keeps the conversation, and notes when its own processors run."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log

    def extend(self, opening: Opening) -> Around:
        super().extend(opening)
        before = only("process_input", lambda args: self.log.append("load"), id="load")
        after = only("process_output_result", lambda args: self.log.append("save"), id="save")
        return Around(before_input=[before], after_output=[after])


@three_ways
async def test_e64_one_list_for_one_call(way: str) -> None:
    """E-64 (R-017 to R-019): it replaces its own kind only; the next call is as configured."""
    log: list[str] = []

    def tap(hook: str, id: str) -> Any:
        return only(hook, lambda args: log.append(id), id=id)

    keeper = Keeper(log)
    model = ScriptedModel(["An answer"])
    agent = Agent(
        id="usual",
        model=model,
        input_processors=[tap("process_input", "usual in")],
        output_processors=[tap("process_output_result", "usual out")],
        extensions=[keeper],
    )
    await play(way, agent, "one", input_processors=[tap("process_input", "own in")])
    assert log == ["load", "own in", "usual out", "save"]
    log.clear()
    await play(way, agent, "two", output_processors=[tap("process_output_result", "own out")])
    assert log == ["load", "usual in", "own out", "save"]
    log.clear()
    await play(way, agent, "three", output_processors=[], input_processors=[])
    assert log == ["load", "save"]
    log.clear()
    outcome = await play(way, agent, "four")
    assert log == ["load", "usual in", "usual out", "save"]
    expected = ["one", "An answer", "two", "An answer", "three", "An answer", "four", "An answer"]
    assert [message.text for message in outcome.messages] == expected
    assert [message.text for message in keeper.rows] == expected
    assert [message.text for message in outcome.output.remembered_messages] == expected[:-2]


class NeverGood:
    """Always wants another answer."""

    id = "never-good"

    def process_output_step(self, args: ProcessOutputStepArgs) -> None:
        args.abort("again", retry=True)


@three_ways
async def test_e64_budget_of_one_call(way: str) -> None:
    """E-64 (R-018): the call's number beats the agent's, and only for the call."""
    model = ScriptedModel(["An answer"])
    agent = Agent(id="usual", model=model, output_processors=[NeverGood()], max_processor_retries=1)
    counts: list[int] = []
    for budget in (5, 0, None):
        options: dict[str, Any] = {} if budget is None else {"max_processor_retries": budget}
        outcome = await play(way, agent, "go", **options)
        check_tripped(outcome, reason="again", processor_id="never-good", retry=True)
        counts.append(len(model.calls))
    assert counts == [6, 7, 9]


@three_ways
async def test_e64_a_limit_for_one_call(way: str) -> None:
    """E-64 (R-017, B-250): the guide's call with its own limiter; the next has the agent's."""
    model = ScriptedModel(["An answer"])
    agent = Agent(id="usual", model=model, input_processors=[TokenLimiter(4000)])
    talk = ["old " * 3000, "Summarize this"]
    await play(way, agent, talk, input_processors=[TokenLimiter(2000)], max_processor_retries=5)
    await play(way, agent, talk)
    assert ["old" in call.text for call in model.calls] == [False, True]
    assert all("Summarize this" in call.text for call in model.calls)


# ── E-68 ───────────────────────────────────────────────────────────────────────────────────────


def judge(*categories: str) -> ScriptedModel:
    """A model that finds these."""
    scores = [{"category": category, "score": 0.9} for category in categories]
    return ScriptedModel([json.dumps({"category_scores": scores or None, "reason": None})])


def moderation(strategy: Any, *categories: str) -> ModerationProcessor:
    return ModerationProcessor(model=judge(*categories), strategy=strategy)


def cost_guard(strategy: Any) -> CostGuardProcessor:
    """The guide's guard; a token costs a dollar, so an answer of the scripted model costs 4."""
    price = ModelPrice(input=1_000_000, output=1_000_000)
    store = InMemoryCostStore(prices={"mock/mock-1": price})
    return CostGuardProcessor(
        max_cost=10.0, scope="resource", window="30d", strategy=strategy, store=store
    )


OWNER = {"mastra__resourceId": "u1"}


def listener(kind: str, told: list[ProcessorViolation]) -> Any:
    """A callback that keeps what it is told: plain, async, or failing afterwards."""

    def plain(violation: ProcessorViolation) -> None:
        told.append(violation)

    async def later(violation: ProcessorViolation) -> None:
        await asyncio.sleep(0)
        told.append(violation)

    def failing(violation: ProcessorViolation) -> None:
        told.append(violation)
        raise RuntimeError("the alarm is out of order")

    async def failing_later(violation: ProcessorViolation) -> None:
        failing(violation)

    return {"plain": plain, "async": later, "failing": failing, "async failing": failing_later}[
        kind
    ]


KINDS = pytest.mark.parametrize("kind", ["plain", "async", "failing", "async failing"])


@three_ways
@KINDS
@pytest.mark.parametrize("strategy", ["block", "warn"])
async def test_e68_moderation(way: str, kind: str, strategy: str) -> None:
    """E-68 (R-184 to R-186, B-003 to B-008): once for each violation, with the categories."""
    told: list[ProcessorViolation] = []
    guard = moderation(strategy, "hate", "violence")
    guard.on_violation = listener(kind, told)
    model = ScriptedModel(["An answer"])
    agent = Agent(id="watched", model=model, input_processors=[guard])
    outcome = await play(way, agent, "I hate it")
    [violation] = told
    assert violation.processor_id == "moderation"
    assert "hate, violence" in violation.message
    assert violation.detail["categories"] == ["hate", "violence"]
    assert violation.detail["strategy"] == strategy
    if strategy == "warn":
        assert (outcome.text, outcome.tripwire) == ("An answer", None)
        return
    check_tripped(
        outcome,
        reason=violation.message,
        processor_id="moderation",
        metadata=violation.detail,
    )
    assert model.calls == []


@three_ways
@KINDS
@pytest.mark.parametrize("strategy", ["block", "warn"])
async def test_e68_cost_guard(way: str, kind: str, strategy: str) -> None:
    """E-68 (R-184 to R-186, B-270 to B-276): told when the budget is used up, with the cost."""
    told: list[ProcessorViolation] = []
    guard = cost_guard(strategy)
    guard.on_violation = listener(kind, told)
    model = ScriptedModel(["An answer"])
    agent = Agent(id="watched", model=model, input_processors=[guard])
    for _ in range(3):
        outcome = await play(way, agent, "go", request_context=OWNER)
        assert (outcome.text, told) == ("An answer", [])
    outcome = await play(way, agent, "go", request_context=OWNER)
    [violation] = told
    assert violation.processor_id == "token-cost-control"
    assert "12 of 10" in violation.message
    assert violation.detail["scope_key"] == "resource:u1"
    assert violation.detail["threshold"] == "hard"
    if strategy == "warn":
        assert (violation.detail["usage"], violation.detail["limit"]) == (12.0, 10.0)
        assert (outcome.text, outcome.tripwire) == ("An answer", None)
        return
    assert violation.detail["usage"] == {"estimated_cost": 12.0, "cost_unit": "usd"}
    assert violation.detail["max_cost"] == 10.0
    check_tripped(
        outcome,
        reason=violation.message,
        processor_id="token-cost-control",
        metadata=violation.detail,
    )
    assert len(model.calls) == 3


@three_ways
@pytest.mark.parametrize("strategy", ["block", "warn"])
async def test_e68_nothing_to_tell(way: str, strategy: str) -> None:
    """E-68 (B-004, B-005): without a violation nobody is called."""
    told: list[ProcessorViolation] = []
    guards = [moderation(strategy), cost_guard(strategy)]
    for guard in guards:
        guard.on_violation = told.append
    agent = Agent(id="watched", model=ScriptedModel(["An answer"]), input_processors=guards)
    outcome = await play(way, agent, "all is well", request_context=OWNER)
    assert (outcome.text, outcome.tripwire, told) == ("An answer", None, [])


@three_ways
async def test_e68_one_call_for_each_violation(way: str) -> None:
    """E-68 (B-005, B-023): two messages that are flagged are two violations."""
    told: list[ProcessorViolation] = []
    guard = moderation("warn", "hate")
    guard.on_violation = told.append
    agent = Agent(id="watched", model=ScriptedModel(["An answer"]), input_processors=[guard])
    outcome = await play(way, agent, ["one", "two"])
    ids = [message.id for message in outcome.messages if message.role == "user"]
    assert [violation.detail["message_id"] for violation in told] == ids
