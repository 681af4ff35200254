"""What a judge may cost in a run, and whose cost it is (B-022, B-025, B-279)."""

from __future__ import annotations

import importlib.util
import json
import logging
from typing import Any

import pytest

from procession import Agent, OptionError, Policy
from procession.processor import ProcessInputArgs, ProcessInputStepArgs
from procession.processors import (
    ClassifierProcessor,
    CostGuardProcessor,
    CostQuery,
    InMemoryCostStore,
    JudgeBudget,
    LanguageDetector,
    ModelPrice,
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    SystemPromptScrubber,
)
from procession.testing import ScriptedModel, hook_args
from tests.processors.classifying import badness
from tests.processors.judging import Endless, judged_answer, judged_input
from tests.processors.test_moderation import rated

A_DOLLAR = {"mock/mock-1": ModelPrice(input=1_000_000, output=1_000_000)}
"""For each token; a verdict of the scripted judge is four."""
PIECES = ["Say it. ", "Say more. ", "Say all."]


def judge(*answers: str) -> ScriptedModel:
    return ScriptedModel(answers or [rated()])


def limited(model: Any, max_cost: Any, **options: Any) -> ModerationProcessor:
    return ModerationProcessor(
        model=model, max_cost=max_cost, granularity="sentence", concurrency=1, **options
    )


# ── the limit ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("budget", "calls"),
    [
        (JudgeBudget(max_cost=4, prices=A_DOLLAR), 1),
        (JudgeBudget(max_cost=4.5, prices=A_DOLLAR), 2),
        (JudgeBudget(max_cost=100, max_tokens=8, prices=A_DOLLAR), 2),
        (JudgeBudget(max_tokens=1), 1),
        (JudgeBudget(max_tokens=100), 4),
    ],
)
async def test_a_judge_is_asked_until_its_budget_is_spent(budget: JudgeBudget, calls: int) -> None:
    """B-025: then it counts as one that fails, which is an event, and the text goes on."""
    model = judge()
    seen = await judged_answer(limited(model, budget), PIECES)
    assert len(model.calls) == calls
    assert seen.deltas == PIECES
    left = 4 - calls
    assert [(e.action, e.error) for e in seen.events] == [("bypassed", "BudgetSpent")] * min(
        len(seen.events), left
    )
    assert sum(event.count for event in seen.events) == left


async def test_a_spent_budget_blocks_where_it_should(caplog: pytest.LogCaptureFixture) -> None:
    """B-025, B-026: `strict`; the reason says what could not be done, the log says why."""
    budget = JudgeBudget(max_tokens=4)
    with caplog.at_level(logging.WARNING):
        seen = await judged_answer(limited(judge(), budget, error_strategy="strict"), PIECES)
    assert seen.deltas == PIECES[:1]
    assert seen.tripwire.metadata["error"] is True
    assert "tokens" not in seen.tripwire.reason
    assert "4 of 4 tokens are spent" in caplog.text
    assert [(e.action, e.error) for e in seen.events] == [("blocked", "BudgetSpent")]


async def test_each_run_has_the_budget_anew() -> None:
    guard = limited(judge(), JudgeBudget(max_tokens=4), error_strategy="strict")
    for _ in range(2):
        seen = await judged_input(guard)
        assert seen.text == "ok"


async def test_one_budget_given_to_two_judges_is_for_each() -> None:
    budget, models = JudgeBudget(max_tokens=4), [judge(), judge()]
    guards = [limited(model, budget, error_strategy="strict") for model in models]
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=guards)
    assert (await agent.generate("Hi")).text == "ok"
    assert [len(model.calls) for model in models] == [1, 1]


async def test_what_an_answer_without_end_has_used_is_estimated() -> None:
    """It is paid for, though the provider does not come to say how much."""
    model = Endless()
    seen = await judged_answer(limited(model, JudgeBudget(max_tokens=100)), PIECES)
    assert ((await seen.run.processor_usage).output_tokens or 0) > 100
    assert seen.deltas == PIECES
    first, *others = [event.error for event in seen.events]
    assert first == "StructuredOutputError"
    assert set(others) == {"BudgetSpent"}


async def test_the_budget_of_a_classifier() -> None:
    """B-511: as a classification that fails."""
    model = judge(json.dumps({"answer_1": 0.1}))
    guard = ClassifierProcessor(
        classifier=badness(model),
        on_result=lambda answers, context: None,
        granularity="sentence",
        concurrency=1,
        max_cost=JudgeBudget(max_cost=8, prices=A_DOLLAR),
    )
    seen = await judged_answer(guard, PIECES)
    assert len(model.calls) == 2
    assert seen.deltas == PIECES[:2]
    assert seen.tripwire.metadata["error"] is True
    assert seen.events[0].error == "BudgetSpent"


async def test_the_budget_of_a_language_detector() -> None:
    """B-025: what is not judged counts as in a target language."""
    model = judge('{"iso_code": "fr", "confidence": 1}')
    guard = LanguageDetector(
        model=model, strategy="block", max_cost=JudgeBudget(max_tokens=1), min_text_length=0
    )
    messages = [{"role": "user", "content": text} for text in ("Bonjour", "Salut")]
    seen = await judged_input(guard, messages)
    assert seen.tripwire is not None
    assert len(model.calls) == 1


async def test_time_and_cost_are_bounded_together() -> None:
    """The policy's timeout holds as ever."""
    policy = Policy(timeout=5, on_error="block")
    seen = await judged_answer(limited(judge(), JudgeBudget(max_tokens=4), policy=policy), PIECES)
    assert seen.deltas == PIECES
    assert {event.error for event in seen.events} == {"BudgetSpent"}


# ── options ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wrong", [0, -1, True, "1", float("nan"), {"max_cost": 1}])
def test_a_limit_that_is_none(wrong: Any) -> None:
    """B-014, B-274."""
    for kind in (ModerationProcessor, LanguageDetector):
        with pytest.raises(OptionError, match=f"{kind.__name__}: max_cost"):
            kind(max_cost=wrong)


def test_a_budget_that_limits_nothing() -> None:
    with pytest.raises(OptionError, match="give max_cost, max_tokens, or both"):
        JudgeBudget()
    with pytest.raises(OptionError, match="max_tokens"):
        JudgeBudget(max_tokens=0)
    with pytest.raises(OptionError, match="max_tokens"):
        JudgeBudget(max_token=5)  # type: ignore[call-arg]


def test_money_needs_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """B-279: without the extra and without prices of one's own, it is told when it is made."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "procession.processors.judging.budget.find_spec",
        lambda name: None if name == "genai_prices" else find(name),
    )
    with pytest.raises(OptionError, match=r"ModerationProcessor: .*procession\[costs\]"):
        ModerationProcessor(max_cost=0.5)
    with pytest.raises(OptionError, match="prices"):
        JudgeBudget(max_cost=0.5, prices={})
    JudgeBudget(max_cost=0.5, prices=A_DOLLAR)
    JudgeBudget(max_tokens=5)


# ── the store of a cost guard ──────────────────────────────────────────────────────────────────


def spent(store: InMemoryCostStore, scope: str, id: str) -> float:
    return store.get_metric_aggregate(CostQuery(scope=scope, scope_id=id)).estimated_cost


def costing(**options: Any) -> tuple[CostGuardProcessor, InMemoryCostStore]:
    store = InMemoryCostStore(prices=A_DOLLAR)
    return CostGuardProcessor(max_cost=1000, store=store, **options), store


async def test_calls_of_judges_are_in_the_store_once() -> None:
    """B-279: by run, thread, resource and user, as the agent's own, before and behind them."""
    guard, store = costing()
    second = CostGuardProcessor(max_cost=1000, store=store)
    moderation = ModerationProcessor(model=judge(), granularity="sentence")
    agent = Agent(
        id="a",
        model=ScriptedModel(["ok"]),
        input_processors=[guard, moderation, second],
        output_processors=[moderation],
    )
    memory = {"thread": "t1", "resource": "r1"}
    run = await agent.generate("Hi", memory=memory, request_context={"userId": "u1"})
    used = (run.usage.total_tokens or 0) + (run.processor_usage.total_tokens or 0)
    assert run.processor_usage.total_tokens == 12  # the message, the sentence, the whole
    ids = {"run": run.run_id, "thread": "t1", "resource": "r1", "user": "u1"}
    assert {scope: spent(store, scope, id) for scope, id in ids.items()} == dict.fromkeys(ids, used)


async def test_what_a_judge_spends_counts_for_the_limit() -> None:
    """B-271: the budget is that of all calls."""
    store = InMemoryCostStore(prices=A_DOLLAR)
    guard = CostGuardProcessor(max_cost=4, scope="run", store=store)
    moderation = ModerationProcessor(model=judge())
    model = ScriptedModel(["ok"])
    agent = Agent(id="a", model=model, input_processors=[guard, moderation])
    result = await agent.generate("Hi")
    assert result.tripwire.processor_id == "token-cost-control"
    assert not model.calls


async def test_a_judge_that_blocks_the_request_has_cost_all_the_same() -> None:
    guard, store = costing(scope="user")
    moderation = ModerationProcessor(model=judge(rated(hate=1)))
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[guard, moderation])
    result = await agent.generate("Hi", request_context={"userId": "u1"})
    assert result.tripwire.processor_id == "moderation"
    assert spent(store, "user", "u1") == 4


async def test_a_guard_behind_the_judge_hears_of_calls_before_it() -> None:
    """Two guards, each with a store of its own, whatever their places."""
    (first, early), (last, late) = costing(), costing()
    moderation = ModerationProcessor(model=judge())
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[first, moderation, last])
    await agent.generate("Hi", request_context={"userId": "u1"})
    assert spent(early, "user", "u1") == spent(late, "user", "u1") == 8


async def test_classifiers_and_structuring_models_count_as_well() -> None:
    """R-508, B-381: whatever `count_usage` is told of with its model."""
    guard, store = costing()
    classify = ClassifierProcessor(
        classifier=badness(judge(json.dumps({"answer_1": 0.1}))),
        on_result=lambda answers, context: None,
    )
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[guard, classify])
    output: Any = {
        "schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "model": ScriptedModel(['{"a": 1}']),
    }
    run = await agent.generate("Hi", structured_output=output, request_context={"userId": "u1"})
    assert run.object == {"a": 1}
    assert run.processor_usage.total_tokens == 8
    assert spent(store, "user", "u1") == 8 + (run.usage.total_tokens or 0)


async def test_tokens_without_a_model_have_no_price() -> None:
    guard, store = costing()

    class Counts:
        id = "counts"

        def process_input(self, args: ProcessInputArgs) -> None:
            from procession.chunks import Usage

            args.count_usage(Usage(input_tokens=5, output_tokens=5))

    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[guard, Counts()])
    run = await agent.generate("Hi", request_context={"userId": "u1"})
    assert run.processor_usage.total_tokens == 10
    assert spent(store, "user", "u1") == 4


async def test_a_listener_that_raises_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its words are in no log."""

    class Listens:
        id = "listens"

        def process_input(self, args: ProcessInputArgs) -> None:
            def tell(call: Any) -> None:
                raise ValueError("SECRET")

            args.on_processor_call("mine", tell)

    guards = [Listens(), ModerationProcessor(model=judge())]
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=guards)
    assert (await agent.generate("Hi")).text == "ok"
    assert "ValueError" in caplog.text
    assert "SECRET" not in caplog.text


@pytest.mark.parametrize("kind", [ProcessInputArgs, ProcessInputStepArgs])
def test_a_hook_that_is_called_alone_may_listen(kind: Any) -> None:
    hook_args(kind).on_processor_call("key", print)


GUARDS: dict[str, Any] = {
    "pii": (PIIDetector, {"detection_types": ["name"], "strategy": "block"}),
    "injection": (PromptInjectionDetector, {"strategy": "block"}),
}


@pytest.mark.parametrize("name", GUARDS)
async def test_guards_that_ask_a_judge_have_a_budget_as_well(name: str) -> None:
    """B-025: spent, it counts as a judge that fails."""
    kind, options = GUARDS[name]
    model = judge("{}")
    guard = kind(
        model=model, max_cost=JudgeBudget(max_tokens=1), error_strategy="strict", **options
    )
    agent = Agent(id="desk", model=ScriptedModel(["ok"]), input_processors=[guard])
    said = [{"role": "user", "content": text} for text in ("One", "Two", "Three")]
    result = await agent.generate(said)
    assert result.status == "tripwire" and len(model.calls) == 1


async def test_a_scrubber_has_a_budget_as_well() -> None:
    model = judge("{}")
    budget = JudgeBudget(max_tokens=1)
    guard = SystemPromptScrubber(model=model, max_cost=budget, granularity="sentence")
    seen = await judged_answer(guard, PIECES)
    assert len(model.calls) == 1
    assert {event.error for event in seen.events} >= {"BudgetSpent"}


@pytest.mark.parametrize("guard", [PIIDetector, PromptInjectionDetector])
def test_a_budget_without_a_judge_is_told(guard: Any) -> None:
    """B-014: nobody would ever spend it."""
    with pytest.raises(OptionError, match="max_cost is for a judge"):
        guard(model=False, max_cost=JudgeBudget(max_tokens=1))
