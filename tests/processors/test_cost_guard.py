"""CostGuardProcessor in an agent (B-270 to B-279, E-68)."""

import asyncio
import logging
from typing import Any

import pytest

from procession import Agent, APICallError, tool
from procession.chunks import Usage
from procession.processor import ProcessInputStepArgs
from procession.processors import (
    CostGuardProcessor,
    CostQuery,
    InMemoryCostStore,
    ModelPrice,
    StreamErrorRetryProcessor,
    TokenCostControl,
    default_cost_store,
)
from procession.testing import ScriptedModel, answer, hook_args, text, tool_call

PRICES = {"mock/mock-1": ModelPrice(input=1_000_000, output=1_000_000)}  # a dollar for each token
USER = {"mastra__resourceId": "u1"}


class Answers:
    """A store that gives what it was told, and keeps what it was asked."""

    def __init__(self, *values: Any, shares: Any = ()) -> None:
        self.values = list(values)
        self.shares = shares
        self.asked: list[CostQuery] = []

    def get_metric_aggregate(self, query: CostQuery) -> Any:
        self.asked.append(query)
        value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        if isinstance(value, Exception):
            raise value
        return value

    async def get_metric_breakdown(self, query: CostQuery) -> Any:
        if isinstance(self.shares, Exception):
            raise self.shares
        return self.shares


def agent(*processors: Any, model: Any = None, **options: Any) -> Agent:
    model = model or ScriptedModel(["ok"])
    return Agent(id="a", model=model, input_processors=list(processors), **options)


def spent(store: InMemoryCostStore, scope: str = "resource", id: str = "u1") -> float:
    return store.get_metric_aggregate(CostQuery(scope=scope, scope_id=id)).estimated_cost


# ── checking ───────────────────────────────────────────────────────────────────────────────────


def test_the_seeds_guard() -> None:
    """B-270: `CostGuardProcessor(max_cost=10.0, scope="resource", window="30d")`."""
    guard = CostGuardProcessor(max_cost=10.0, scope="resource", window="30d")
    guard.on_violation = print
    assert guard.id == "token-cost-control"
    assert TokenCostControl is CostGuardProcessor
    assert guard.store is default_cost_store()


@pytest.mark.parametrize(("cost", "blocked"), [(0.999, False), (1, True), (1.5, True)])
async def test_a_limit_that_is_reached_blocks(cost: float, blocked: bool) -> None:
    """B-271, B-275."""
    told: list[Any] = []
    guard = CostGuardProcessor(max_cost=1, store=Answers(cost), on_violation=told.append)
    model = ScriptedModel(["ok"])
    result = await agent(guard, model=model).generate("Hi", request_context=USER)
    assert (result.tripwire is not None) == blocked
    assert len(model.calls) == (0 if blocked else 1)
    assert len(told) == int(blocked)
    if result.tripwire is not None:
        assert not result.tripwire.retry
        assert result.tripwire.metadata == {
            "processor_id": "token-cost-control",
            "usage": {"estimated_cost": cost, "cost_unit": "usd"},
            "max_cost": 1,
            "scope": "resource",
            "scope_key": "resource:u1",
            "threshold": "hard",
        }
        assert told[0].detail == result.tripwire.metadata
        assert told[0].message == result.tripwire.reason


async def test_each_call_of_a_model_is_preceded_by_a_check() -> None:
    """B-271."""

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    store = Answers(0.1, 0.2, 5)
    model = ScriptedModel([answer(tool_calls=[tool_call("look")])])
    guard = CostGuardProcessor(max_cost=1, store=store)
    result = await agent(guard, model=model, tools=[look]).generate("Hi", request_context=USER)
    assert (len(store.asked), len(model.calls)) == (3, 2)
    assert result.tripwire is not None


@pytest.mark.parametrize(
    ("scope", "context", "expected"),
    [
        ("resource", {"mastra__resourceId": "x"}, "x"),
        ("thread", {"mastra__threadId": "x"}, "x"),
        ("user", {"userId": "x"}, "x"),
        ("organization", {"organizationId": 7}, "7"),
        ("session", {"sessionId": "x"}, "x"),
    ],
)
async def test_scopes(scope: Any, context: dict[str, Any], expected: str) -> None:
    """B-272, B-273: without its id nothing is asked."""
    store = Answers(0)
    guard = CostGuardProcessor(max_cost=1, scope=scope, store=store)
    assert (await agent(guard).generate("Hi", request_context=context)).text == "ok"
    assert [(query.scope, query.scope_id) for query in store.asked] == [(scope, expected)]
    store = Answers(5)
    guard = CostGuardProcessor(max_cost=1, scope=scope, store=store)
    assert (await agent(guard).generate("Hi")).text == "ok"
    assert store.asked == []


async def test_ids_of_the_memory_option() -> None:
    """B-272."""
    store = Answers(0)
    guards = [CostGuardProcessor(max_cost=1, scope=s, store=store) for s in ("thread", "resource")]
    await agent(*guards).generate("Hi", memory={"thread": "t", "resource": "r"})
    assert [query.scope_id for query in store.asked] == ["t", "r"]


async def test_the_run_is_a_scope_of_its_own() -> None:
    """B-271, B-275: no window, no key."""
    store = Answers(3)
    guard = CostGuardProcessor(max_cost=1, scope="run", store=store)
    result = await agent(guard).generate("Hi", run_id="r1")
    assert store.asked == [CostQuery(scope="run", scope_id="r1", since=None)]
    assert result.tripwire is not None
    assert "scope_key" not in result.tripwire.metadata


@pytest.mark.parametrize(
    ("window", "seconds"),
    [("1h", 3600), ("6h", 21600), ("24h", 86400), ("7d", 604800), ("30d", 2592000)],
)
async def test_windows(window: Any, seconds: float) -> None:
    store = Answers(0)
    guard = CostGuardProcessor(max_cost=1, window=window, store=store)
    await agent(guard).generate("Hi", request_context=USER)
    since = store.asked[0].since
    assert since is not None
    age = default_cost_store().now() - since
    assert age.total_seconds() == pytest.approx(seconds, abs=5)


@pytest.mark.parametrize(
    "found", [2, 2.0, {"estimatedCost": 2}, {"estimated_cost": 2}, {"value": 2}]
)
async def test_stores_of_others_may_answer_in_their_way(found: Any) -> None:
    """B-279."""
    guard = CostGuardProcessor(max_cost=1, store=Answers(found))
    assert (await agent(guard).generate("Hi", request_context=USER)).tripwire is not None


@pytest.mark.parametrize("found", [RuntimeError("no"), "much", {"sum": 2}, float("nan")])
async def test_a_store_that_fails_lets_pass(found: Any, caplog: pytest.LogCaptureFixture) -> None:
    """B-273."""
    guard = CostGuardProcessor(max_cost=1, store=Answers(found))
    with caplog.at_level(logging.WARNING):
        assert (await agent(guard).generate("Hi", request_context=USER)).text == "ok"
    assert "the budget was not checked" in caplog.text


async def test_a_store_that_knows_nothing_is_no_cost() -> None:
    guard = CostGuardProcessor(max_cost=1, store=Answers(None))
    assert (await agent(guard).generate("Hi", request_context=USER)).text == "ok"


# ── limits, warnings, messages ─────────────────────────────────────────────────────────────────


async def test_the_limit_may_depend_on_the_request() -> None:
    """B-273."""

    async def limit(context: Any) -> float:
        await asyncio.sleep(0)
        return context.get("budget")

    guard = CostGuardProcessor(max_cost=limit, store=Answers(2))
    blocked = await agent(guard).generate("Hi", request_context={**USER, "budget": 1})
    allowed = await agent(guard).generate("Hi", request_context={**USER, "budget": 3})
    assert blocked.tripwire is not None
    assert blocked.tripwire.metadata["max_cost"] == 1
    assert allowed.text == "ok"


@pytest.mark.parametrize("value", [0, -1, None, "1", float("nan"), float("inf"), True])
async def test_a_dynamic_limit_that_is_none_lets_pass(
    value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """B-273."""
    guard = CostGuardProcessor(max_cost=lambda _: value, store=Answers(5))
    with caplog.at_level(logging.WARNING):
        assert (await agent(guard).generate("Hi", request_context=USER)).text == "ok"
    assert "max_cost" in caplog.text


async def test_a_warning_is_told_once_a_run() -> None:
    """B-276, E-68."""

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    told: list[Any] = []
    model = ScriptedModel([answer(tool_calls=[tool_call("look")]), "done"])
    guard = CostGuardProcessor(
        max_cost=1, strategy="warn", store=Answers(1.5), on_violation=told.append
    )
    result = await agent(guard, model=model, tools=[look]).generate("Hi", request_context=USER)
    assert result.text == "done"
    assert [violation.detail for violation in told] == [
        {
            "usage": 1.5,
            "limit": 1,
            "total_usage": {"estimated_cost": 1.5, "cost_unit": "usd"},
            "scope": "resource",
            "scope_key": "resource:u1",
            "threshold": "hard",
        }
    ]
    await agent(guard).generate("Hi", request_context=USER)
    assert len(told) == 2


@pytest.mark.parametrize("strategy", ["block", "warn"])
async def test_near_the_limit_there_is_a_warning(strategy: Any) -> None:
    """B-276: at the percentage, below the limit."""
    told: list[Any] = []
    for cost in (0.79, 0.8, 0.99):
        guard = CostGuardProcessor(
            max_cost=1,
            strategy=strategy,
            warn_at_percent=80,
            store=Answers(cost),
            on_violation=told.append,
        )
        assert (await agent(guard).generate("Hi", request_context=USER)).text == "ok"
    assert [(v.detail["usage"], v.detail["threshold"]) for v in told] == [
        (0.8, "soft"),
        (0.99, "soft"),
    ]


async def test_a_callback_that_raises_changes_nothing() -> None:
    """E-68, B-008."""

    def fails(_violation: Any) -> None:
        raise RuntimeError("no")

    warns = CostGuardProcessor(max_cost=1, strategy="warn", store=Answers(2), on_violation=fails)
    blocks = CostGuardProcessor(max_cost=1, store=Answers(2), on_violation=fails)
    assert (await agent(warns).generate("Hi", request_context=USER)).text == "ok"
    assert (await agent(blocks).generate("Hi", request_context=USER)).tripwire is not None


async def test_the_message_is_a_template() -> None:
    """B-278: at most six decimals."""
    guard = CostGuardProcessor(
        max_cost=0.1, message='{usage} of {limit} {"code": 7}', store=Answers(1.23456789)
    )
    result = await agent(guard).generate("Hi", request_context=USER)
    assert result.tripwire is not None
    assert result.tripwire.reason == '1.234568 of 0.1 {"code": 7}'


async def test_two_instances_warn_for_themselves() -> None:
    """B-278."""
    told: list[str] = []
    guards = [
        CostGuardProcessor(
            max_cost=limit,
            strategy="warn",
            store=Answers(5),
            on_violation=lambda violation: told.append(violation.message),
        )
        for limit in (1, 2)
    ]
    await agent(*guards).generate("Hi", request_context=USER)
    assert len(told) == len(set(told)) == 2


async def test_the_breakdown_is_asked_after_a_violation() -> None:
    """B-277: up to ten entries; a failure only leaves it out."""
    share = {"provider": "acme", "model": "m", "estimatedCost": 0.1, "costUnit": "usd"}
    for shares, expected in (([share] * 12, 10), (RuntimeError("no"), None)):
        guard = CostGuardProcessor(
            max_cost=1, include_breakdown=True, store=Answers(2, shares=shares)
        )
        result = await agent(guard).generate("Hi", request_context=USER)
        assert result.tripwire is not None
        found = result.tripwire.metadata.get("breakdown")
        assert (found and len(found)) == expected
        if found:
            assert found[0] == {
                "provider": "acme",
                "model": "m",
                "estimated_cost": 0.1,
                "cost_unit": "usd",
            }


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_cost": 0}, "max_cost"),
        ({"max_cost": float("inf")}, "max_cost"),
        ({"max_cost": True}, "max_cost"),
        ({"max_cost": 1, "scope": "users"}, "did you mean 'user'"),
        ({"max_cost": 1, "window": "2h"}, "window must be"),
        ({"max_cost": 1, "strategy": "stop"}, "strategy must be"),
        ({"max_cost": 1, "warn_at_percent": 0}, "warn_at_percent"),
        ({"max_cost": 1, "warn_at_percent": 100}, "warn_at_percent"),
        ({"max_cost": 1, "include_breakdown": 1}, "include_breakdown"),
        ({"max_cost": 1, "message": 1}, "message"),
        (
            {"max_cost": 1, "message": "{used}!"},
            "in message must be 'usage' or 'limit', not 'used'",
        ),
        ({"max_cost": 1, "scope": "run", "window": "24h"}, "window is not for scope='run'"),
        ({"max_cost": 1, "on_unknown": "strict"}, "on_unknown must be 'allow' or 'block'"),
        ({"max_cost": 1, "store": object()}, "get_metric_aggregate"),
    ],
)
def test_wrong_options_fail_at_once(options: dict[str, Any], problem: str) -> None:
    """B-274, B-014."""
    with pytest.raises(ValueError, match=problem):
        CostGuardProcessor(**options)


@pytest.mark.parametrize("percent", [80, 1])
def test_a_part_instead_of_a_percentage_is_told(
    percent: float, caplog: pytest.LogCaptureFixture
) -> None:
    """B-274: 0.8 is a percentage, too, but hardly the one that was meant."""
    with caplog.at_level(logging.WARNING):
        CostGuardProcessor(max_cost=1, warn_at_percent=percent)
        assert not caplog.text
        CostGuardProcessor(max_cost=1, warn_at_percent=percent / 100)
    assert f"for {percent} % give {percent}" in caplog.text


# ── requests of which nothing is known ─────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("scope", "context", "said"),
    [
        ("user", {}, "the request names no user: set 'userId' in the request context"),
        ("user", {"user_id": "u-secret"}, "no user (there is 'user_id', which is another key)"),
        ("user", {"UserID": "u-secret"}, "no user (there is 'UserID', which is another key)"),
        ("organization", {"organization": "o-secret"}, "(there is 'organization', which is"),
        ("user", {"userId": ""}, "the request context's 'userId' is empty: set 'userId'"),
        ("resource", {}, "the request names no resource: give the call memory={'resource': …}"),
        ("thread", {"threadId": "t-secret"}, "no thread (there is 'threadId', which is another"),
    ],
)
async def test_a_budget_that_is_not_checked_is_told_once(
    scope: Any, context: dict[str, str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B-273: nothing is checked without an id, but nobody should think that it is."""
    store = Answers(5)
    guard = CostGuardProcessor(max_cost=1, scope=scope, store=store)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert (await agent(guard).generate("Hi", request_context=context)).text == "ok"
    assert not store.asked
    assert caplog.text.count("the budget was not checked") == 1
    assert said in caplog.text and "secret" not in caplog.text


@pytest.mark.parametrize(
    ("options", "context", "unknown"),
    [
        ({"scope": "user"}, {"user_id": "u1"}, "scope_key"),
        ({}, {"mastra__resourceId": ""}, "scope_key"),
        ({"store": Answers(ValueError("down"))}, USER, "usage"),
        ({"store": Answers("much")}, USER, "usage"),
        ({"max_cost": lambda context: None}, USER, "limit"),
    ],
)
async def test_a_strict_guard_blocks_what_it_cannot_check(
    options: dict[str, Any], context: dict[str, str], unknown: str
) -> None:
    """With either strategy: `warn` is about limits that are reached."""
    for strategy in ("block", "warn"):
        told: list[Any] = []
        model = ScriptedModel(["ok"])
        given: dict[str, Any] = {"max_cost": 1, "store": Answers(0), **options}
        guard = CostGuardProcessor(
            **given, strategy=strategy, on_unknown="block", on_violation=told.append
        )
        result = await agent(guard, model=model).generate("Hi", request_context=context)
        assert result.tripwire is not None and not model.calls
        metadata = result.tripwire.metadata
        assert metadata["processor_id"] == "token-cost-control"
        assert metadata["unknown"] == unknown and metadata["scope"] == guard.scope
        assert [violation.detail for violation in told] == [metadata]


async def test_a_strict_guard_lets_pass_what_it_can_check() -> None:
    guard = CostGuardProcessor(max_cost=1, store=Answers(0), on_unknown="block")
    assert (await agent(guard).generate("Hi", request_context=USER)).text == "ok"
    run = CostGuardProcessor(max_cost=1, scope="run", store=Answers(0), on_unknown="block")
    assert (await agent(run).generate("Hi")).text == "ok"


# ── recording ──────────────────────────────────────────────────────────────────────────────────


async def test_what_a_run_spends_counts_for_the_next() -> None:
    """B-279."""
    store = InMemoryCostStore(prices=PRICES)
    guard = CostGuardProcessor(max_cost=8, store=store)
    model = ScriptedModel([answer("ok")])  # three tokens in, one out
    asked = agent(guard, model=model)
    results = [await asked.generate("Hi", request_context=USER) for _ in range(3)]
    assert [result.tripwire is None for result in results] == [True, True, False]
    assert spent(store) == 8
    assert (await asked.generate("Hi", request_context={"mastra__resourceId": "u2"})).text == "ok"


async def test_the_steps_of_one_run_count() -> None:
    """B-271: `run`."""

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    store = InMemoryCostStore(prices=PRICES)
    guard = CostGuardProcessor(max_cost=8, scope="run", store=store)
    model = ScriptedModel([answer(tool_calls=[tool_call("look")])])
    result = await agent(guard, model=model, tools=[look]).generate("Hi", max_steps=9)
    assert len(model.calls) == 2
    assert result.tripwire is not None


async def test_rejected_and_blocked_answers_count() -> None:
    """B-279: a provider is paid for them."""

    class Rejects:
        id = "rejects"

        def process_output_step(self, args: Any) -> None:
            args.abort("no", retry=args.retry_count < 2)

    store = InMemoryCostStore(prices=PRICES)
    guard = CostGuardProcessor(max_cost=100, store=store)
    model = ScriptedModel([answer("ok")])
    asked = agent(guard, model=model, output_processors=[Rejects()], max_processor_retries=5)
    result = await asked.generate("Hi", request_context=USER)
    assert result.tripwire is not None
    assert (len(model.calls), spent(store)) == (3, 12)


async def test_an_answer_that_was_cut_off_is_estimated() -> None:
    """The provider has not told what it had used."""

    class Cuts:
        id = "cuts"

        def process_output_stream(self, args: Any) -> Any:
            if args.part.type == "text-delta" and "stop" in args.part.payload.text:
                args.abort("no")
            return args.part

    store = InMemoryCostStore(prices=PRICES)
    guard = CostGuardProcessor(max_cost=1000, store=store)
    model = ScriptedModel([[text("word " * 20, "stop", "never seen")]])
    asked = agent(guard, model=model, output_processors=[Cuts()])
    result = await asked.generate("word " * 30, request_context=USER)
    assert result.tripwire is not None
    assert 50 <= spent(store) <= 75


async def test_what_the_provider_told_in_the_same_breath_counts() -> None:
    """An answer that came in one piece was blocked: its usage came with it."""

    class Cuts:
        id = "cuts"

        def process_output_stream(self, args: Any) -> Any:
            if args.part.type == "text-delta":
                args.abort("no")
            return args.part

    store = InMemoryCostStore(prices=PRICES)
    guard = CostGuardProcessor(max_cost=1000, store=store)
    usage = Usage(input_tokens=70, output_tokens=7)
    model = ScriptedModel([answer("word " * 20, usage=usage)], batch=99)
    await agent(guard, model=model, output_processors=[Cuts()]).generate("Hi", request_context=USER)
    assert spent(store) == 77


async def test_a_caller_who_leaves_is_counted_as_well() -> None:
    store = InMemoryCostStore(prices=PRICES)
    guard = CostGuardProcessor(max_cost=1000, store=store)
    model = ScriptedModel([[text("word " * 20, *["more "] * 20)]])
    run = await agent(guard, model=model).stream("word " * 30, request_context=USER)
    async for chunk in run:
        if chunk.type == "text-delta":
            break
    await run.aclose()
    assert 50 <= spent(store) <= 80


async def test_a_call_that_failed_costs_nothing_and_the_next_one_does() -> None:
    store = InMemoryCostStore(prices=PRICES)
    guard = CostGuardProcessor(max_cost=1000, store=store)
    model = ScriptedModel([APICallError("busy", status_code=503, is_retryable=True), answer("ok")])
    asked = agent(
        guard,
        model=model,
        max_retries=0,
        error_processors=[StreamErrorRetryProcessor(delay_ms=0)],
    )
    result = await asked.generate("Hi", request_context=USER)
    assert (result.text, spent(store)) == ("ok", 4)


async def test_runs_at_once_all_count() -> None:
    store = InMemoryCostStore(prices=PRICES)
    guard = CostGuardProcessor(max_cost=1000, store=store)
    asked = agent(guard, model=ScriptedModel([answer("ok")]))
    await asyncio.gather(*(asked.generate("Hi", request_context=USER) for _ in range(20)))
    assert spent(store) == 80


async def test_two_guards_with_one_store_count_a_call_once() -> None:
    store = InMemoryCostStore(prices=PRICES)
    guards = [CostGuardProcessor(max_cost=99, scope=s, store=store) for s in ("resource", "run")]
    await agent(*guards, model=ScriptedModel([answer("ok")])).generate("Hi", request_context=USER)
    assert spent(store) == 4


async def test_a_replayed_answer_is_free() -> None:
    class Replays:
        id = "replays"

        def process_llm_request(self, args: Any) -> Any:
            start = {"type": "text-start", "payload": {"id": "t"}}
            delta = {"type": "text-delta", "payload": {"id": "t", "text": "known"}}
            return {"response": {"chunks": [start, delta]}}

    store = InMemoryCostStore(prices=PRICES)
    guard = CostGuardProcessor(max_cost=99, store=store)
    result = await agent(guard, Replays()).generate("Hi", request_context=USER)
    assert (result.text, spent(store)) == ("known", 0)


async def test_each_model_that_answered_is_named() -> None:
    """B-277: also the one that a list fell back on."""
    first = ScriptedModel([APICallError("busy", status_code=500)], model_id="first")
    second = ScriptedModel([answer("ok")], model_id="second")
    store = InMemoryCostStore(prices={"second": {"input": 1e6, "output": 1e6}})
    guard = CostGuardProcessor(max_cost=99, store=store)
    await agent(guard, model=[first, second], max_retries=0).generate("Hi", request_context=USER)
    shares = store.get_metric_breakdown(CostQuery(scope="resource", scope_id="u1"))
    assert [(share.provider, share.model) for share in shares] == [("mock", "second")]


# ── hearing of calls ───────────────────────────────────────────────────────────────────────────


class Hears:
    id = "hears"

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def process_input_step(self, args: ProcessInputStepArgs) -> None:
        args.on_model_call(self.calls.append)


async def test_a_hook_hears_of_each_call() -> None:
    """`on_model_call`: what was sent, what came, what it has used."""
    hears = Hears()
    usage = Usage(input_tokens=5, output_tokens=2)
    model = ScriptedModel([answer("hel", "lo", usage=usage)])
    await agent(hears, model=model).generate("Hi", run_id="r1")
    (call,) = hears.calls
    assert (call.run_id, call.step_number, call.provider, call.model_id) == (
        "r1",
        0,
        "mock",
        "mock-1",
    )
    assert (call.text, call.answered, call.from_cache) == ("hello", True, False)
    assert call.usage.output_tokens == 2
    assert call.prompt[-1]["content"][0]["text"] == "Hi"


async def test_a_listener_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Raises:
        id = "raises"

        def process_input_step(self, args: ProcessInputStepArgs) -> None:
            args.on_model_call(lambda call: 1 / 0)

    hears = Hears()
    with caplog.at_level(logging.WARNING):
        assert (await agent(Raises(), hears).generate("Hi")).text == "ok"
    assert "ZeroDivisionError" in caplog.text
    assert len(hears.calls) == 1


def test_a_hook_that_is_called_alone_may_ask_for_it() -> None:
    hears = Hears()
    hears.process_input_step(hook_args(ProcessInputStepArgs, messages="Hi"))
    assert hears.calls == []
