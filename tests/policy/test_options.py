"""Options of policies: wrong ones fail when they are made, by name."""

from __future__ import annotations

from typing import Any

import pytest

from procession import Agent, Breaker, ConfigurationError, Policy, processor
from procession.processors import (
    BatchPartsProcessor,
    PrefillErrorHandler,
    ProviderHistoryCompat,
    StreamErrorRetryProcessor,
    StructuredOutputProcessor,
    ToolCallFilter,
    UnicodeNormalizer,
)
from procession.testing import ScriptedModel, answer
from tests.laws.kit import Hook
from tests.policy.kit import Stand


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": "1"}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"on_error": "permit"}, "on_error"),
        ({"on_error": None}, "on_error"),
        ({"on_error": "degrade"}, "fallback"),
        ({"fallback": Stand()}, "fallback"),
        ({"on_error": "allow", "fallback": Stand()}, "fallback"),
        ({"on_error": "degrade", "fallback": Stand}, "fallback"),
        ({"on_error": "degrade", "fallback": "stand"}, "fallback"),
        ({"breaker": 5}, "breaker"),
        ({"observe": 1}, "observe"),
    ],
)
def test_policy(options: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"Policy: .*{name}"):
        Policy(**options)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"failures": 0}, "failures"),
        ({"failures": 1.5}, "failures"),
        ({"failures": True}, "failures"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": "30"}, "seconds"),
    ],
)
def test_breaker(options: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"Breaker: {name}"):
        Breaker(**options)


def test_fallback_with_a_policy() -> None:
    stand: Any = Stand()
    stand.policy = Policy()
    with pytest.raises(ConfigurationError, match="policy of its own"):
        Policy(on_error="degrade", fallback=stand)


def _agent(*processors: Any) -> Agent:
    model = ScriptedModel([answer("hi")])
    return Agent(id="a", model=model, input_processors=processors, output_processors=processors)


def _pass(args: Any) -> Any:
    return args.part


def test_fallback_without_the_hook() -> None:
    """Who falls back on it must be able to: found when the agent is made."""
    stand = processor(id="stand", process_output_step=lambda args: None)
    policy = Policy(on_error="degrade", fallback=stand)
    guard = processor(id="guard", process_output_stream=_pass, policy=policy)
    with pytest.raises(ConfigurationError, match="'guard': its fallback 'stand' has no process_ou"):
        _agent(guard)


def test_fallback_that_keeps_chunks() -> None:
    stand = processor(id="stand", process_output_stream=_pass, flush=lambda state: None)
    policy = Policy(on_error="degrade", fallback=stand)
    guard = processor(id="guard", process_output_stream=_pass, policy=policy)
    with pytest.raises(ConfigurationError, match="'stand' has a flush"):
        _agent(guard)


@pytest.mark.parametrize("policy", ["allow", {"on_error": "allow"}, Policy])
def test_not_a_policy(policy: Any) -> None:
    """Something else in its place would be no policy at all, and nobody would know."""
    with pytest.raises(ConfigurationError, match="'guard': policy must be a Policy"):
        processor(id="guard", process_output_stream=_pass, policy=policy)
    made: Any = Hook("process_output_stream", _pass, "guard")
    made.policy = policy
    with pytest.raises(ConfigurationError, match="'guard': policy must be a Policy"):
        _agent(made)


def test_a_misspelt_policy() -> None:
    made: Any = type("Guard", (), {"id": "guard", "process_input": _pass, "Policy": Policy()})()
    with pytest.raises(ConfigurationError, match="did you mean 'policy'"):
        _agent(made)


def test_repr() -> None:
    policy = Policy(
        on_error="degrade", fallback=Stand(), timeout=2, breaker=Breaker(), observe=True
    )
    assert repr(policy) == (
        "Policy(on_error='degrade', timeout=2, fallback='stand', "
        "breaker=Breaker(failures=5, seconds=30), observe=True)"
    )


BUILT_INS = [
    BatchPartsProcessor,
    PrefillErrorHandler,
    ProviderHistoryCompat,
    StreamErrorRetryProcessor,
    ToolCallFilter,
    UnicodeNormalizer,
]


@pytest.mark.parametrize("kind", BUILT_INS)
def test_built_ins(kind: Any) -> None:
    """Every built-in takes a policy."""
    policy = Policy(observe=True)
    assert kind(policy=policy).policy is policy and kind().policy is None
    with pytest.raises(ConfigurationError, match="policy must be a Policy"):
        kind(policy="observe")


def test_second_model() -> None:
    policy = Policy(timeout=5)
    made = StructuredOutputProcessor(schema={}, model="example/one", policy=policy)
    assert made.policy is policy


async def test_watching_a_built_in() -> None:
    output = await _agent(UnicodeNormalizer(policy=Policy(observe=True))).generate("ﬁne")
    assert output.messages[0].text == "ﬁne"
    assert [event.would for event in output.policy_events] == ["change"]


@pytest.mark.parametrize("observe", [False, True])
async def test_a_processor_that_cannot_work(observe: bool) -> None:
    """B-021: a mistake in the set-up fails the run: it is to be mended, not bypassed."""

    def hook(args: Any) -> None:
        raise ConfigurationError("no model")

    guard = processor(
        id="guard", process_input=hook, policy=Policy(on_error="allow", observe=observe)
    )
    if observe:
        assert (await _agent(guard).generate("go")).policy_events[0].kind == "error"
        return
    with pytest.raises(ConfigurationError, match="no model"):
        await _agent(guard).generate("go")
