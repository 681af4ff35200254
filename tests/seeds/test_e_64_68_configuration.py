"""E-64, E-68: what one call may change, and who is told of violations."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from procession import Agent, Around, Opening, ProcessorViolation, ProcessOutputStepArgs
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


# ── E-68 ───────────────────────────────────────────────────────────────────────────────────────


class Moderation:
    """Finds words; blocks, or only tells."""

    on_violation: Any = None

    def __init__(self, strategy: str) -> None:
        self.id = "moderation"
        self.strategy = strategy

    async def process_input(self, args: Any) -> None:
        found = [word for word in ("hate", "harm") if word in args.messages[-1].text]
        if not found:
            return
        detail = {"categories": found}
        if self.strategy == "block":
            args.abort("found something", metadata=detail)
        elif self.on_violation is not None:
            told = self.on_violation(
                ProcessorViolation(processor_id=self.id, message="found something", detail=detail)
            )
            if told is not None:
                await told


class CostGuard:
    """Stops a run that has cost too much."""

    on_violation: Any = None

    def __init__(self, limit: int) -> None:
        self.id = "cost-guard"
        self.limit = limit

    def process_output_step(self, args: ProcessOutputStepArgs) -> None:
        cost = args.usage.total_tokens or 0
        if cost > self.limit:
            args.abort("too dear", metadata={"cost": cost})


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
async def test_e68_blocked(way: str, kind: str) -> None:
    """E-68 (R-184, R-186): one call per violation, and a failing one changes nothing."""
    told: list[ProcessorViolation] = []
    moderation = Moderation("block")
    moderation.on_violation = listener(kind, told)
    guard = CostGuard(3)
    guard.on_violation = listener(kind, told)
    agent = Agent(
        id="watched",
        model=ScriptedModel(["An answer"]),
        input_processors=[moderation],
        output_processors=[guard],
    )
    outcome = await play(way, agent, "I hate it")
    detail = {"categories": ["hate"]}
    check_tripped(outcome, reason="found something", processor_id="moderation", metadata=detail)
    assert told == [
        ProcessorViolation(processor_id="moderation", message="found something", detail=detail)
    ]
    told.clear()
    outcome = await play(way, agent, "I like it")
    check_tripped(outcome, reason="too dear", processor_id="cost-guard", metadata={"cost": 4})
    assert told == [
        ProcessorViolation(processor_id="cost-guard", message="too dear", detail={"cost": 4})
    ]


@three_ways
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_e68_warned(way: str, kind: str) -> None:
    """E-68 (R-185): a processor that only warns calls it itself; the run goes on."""
    told: list[ProcessorViolation] = []
    moderation = Moderation("warn")
    moderation.on_violation = listener(kind, told)
    model = ScriptedModel(["An answer"])
    agent = Agent(id="watched", model=model, input_processors=[moderation])
    outcome = await play(way, agent, "hate and harm")
    assert (outcome.text, outcome.tripwire) == ("An answer", None)
    assert [violation.detail for violation in told] == [{"categories": ["hate", "harm"]}]
    told.clear()
    await play(way, agent, "all is well")
    assert told == []
