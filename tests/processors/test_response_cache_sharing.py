"""Who shares answers of the response cache, and what one call may wish (C-020 to C-033)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import Agent, OptionError, RequestContext
from procession.cache import InMemoryServerCache
from procession.processors import (
    RESPONSE_CACHE_CONTEXT_KEY,
    ResponseCache,
)
from procession.request_context import MASTRA_RESOURCE_ID_KEY
from procession.testing import ScriptedModel
from tests.processors.caching import Notes, asked, cached, numbered


def as_resource(name: str, way: str) -> dict[str, Any]:
    if way == "context":
        return {"request_context": RequestContext({MASTRA_RESOURCE_ID_KEY: name})}
    if way == "thread":
        return {"memory": {"thread": f"of {name}", "resource": name}}
    return {"memory": {"resource": name}}


WAYS = ("context", "memory", "thread")


@pytest.mark.parametrize("way", WAYS)
async def test_nobody_gets_the_answer_of_another(way: str) -> None:
    """C-132, C-032, D18: by itself, as soon as the resource is known, however it was given."""
    agent = cached()
    texts = [(await asked(agent, "go", **as_resource(who, way)))[0] for who in ("a", "b", "a")]
    assert texts == ["one", "two", "one"]
    assert await asked(agent, "go") == ["three"]


@pytest.mark.parametrize("way", WAYS)
async def test_without_a_scope_all_share(way: str) -> None:
    """C-031, C-033: an entry without a scope is the one of those without a resource."""
    agent = cached(scope=None)
    texts = [(await asked(agent, "go", **as_resource(who, way)))[0] for who in ("a", "b")]
    assert [*texts, *await asked(agent, "go")] == ["one"] * 3


async def test_a_scope_of_ones_own() -> None:
    """C-030: per call before the constructor's, that before the resource."""
    model, cache = numbered(), InMemoryServerCache()
    org = cached(model, cache, scope="org-1")
    assert await asked(org, "go", **as_resource("a", "context")) == ["one"]
    assert await asked(org, "go", **as_resource("b", "context")) == ["one"]
    other = {"request_context": ResponseCache.context(scope="org-2")}
    assert await asked(org, "go", **other) == ["two"]
    nobody = {"request_context": ResponseCache.context(scope=None)}
    assert await asked(org, "go", **nobody) == ["three"]
    assert await asked(cached(model, cache, scope="org-2"), "go") == ["two"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), max_size=12))
@settings(deadline=None, max_examples=25)
def test_tenants_never_share(asking: list[tuple[str, str]]) -> None:
    """C-032: in any order of asking each hears only what was said to it."""

    async def play() -> None:
        model = ScriptedModel([f"answer {n}" for n in range(20)])
        agent = cached(model)
        told: dict[str, str] = {}
        for who, what in asking:
            (answer,) = await asked(agent, what, **as_resource(who, "memory"))
            assert told.setdefault(answer, who) == who
        assert len(model.calls) == len(set(asking))

    asyncio.run(play())


async def test_a_text_as_a_key_takes_no_notice_of_scopes() -> None:
    """C-049, C-050"""
    cache = Notes()
    agent = cached(cache=cache, key="pinned")
    for who in ("a", "b"):
        assert await asked(agent, who, **as_resource(who, "context")) == ["one"]
    assert list(cache.kept) == ["pinned"]


# ── one call's own wishes ──────────────────────────────────────────────────────────────────────


async def test_a_context_with_wishes_alone() -> None:
    """C-020, C-023"""
    context = ResponseCache.context(key="own", bust=True)
    assert context.keys() == [RESPONSE_CACHE_CONTEXT_KEY]
    cache = Notes()
    assert await asked(cached(cache=cache), "go", "go", request_context=context) == ["one", "two"]
    assert list(cache.kept) == ["own"]


def test_wishes_leave_the_rest_of_a_context_alone() -> None:
    """C-021, C-023: and are no part of what is written of it."""
    context = RequestContext({"user": "u-1"})
    assert ResponseCache.apply_context(context, bust=True) is context
    assert context.get("user") == "u-1"
    assert context.to_json() == {"user": "u-1"}
    assert "own-key" not in repr(ResponseCache.apply_context(context, key="own-key"))


async def test_what_a_call_does_not_wish_is_as_it_was() -> None:
    """C-022: field by field; a second set of wishes takes the place of the first."""
    cache = Notes()
    agent = cached(cache=cache, key="fixed", bust=True)
    context = ResponseCache.context(bust=False)
    assert await asked(agent, "go", "go", request_context=context) == ["one", "one"]
    ResponseCache.apply_context(context, key="other")
    assert await asked(agent, "go", "go", request_context=context) == ["two", "three"]
    assert list(cache.kept) == ["fixed", "other"]
    ResponseCache.apply_context(context, key=None)  # the derived one, this time
    await asked(agent, "go", request_context=context)
    assert [key for key in cache.kept if key.startswith("procession:")]


async def test_something_else_under_the_key_counts_for_nothing() -> None:
    """C-023: a client may send a context."""
    context = RequestContext({RESPONSE_CACHE_CONTEXT_KEY: {"key": "stolen", "bust": True}})
    cache = Notes()
    assert await asked(cached(cache=cache), "go", "go", request_context=context) == ["one", "one"]
    assert "stolen" not in cache.kept


@pytest.mark.parametrize("wrong", [{"key": ""}, {"key": 7}, {"scope": 7}, {"bust": "yes"}])
def test_wishes_that_cannot_be_met(wrong: dict[str, Any]) -> None:
    """C-024: told where they are made."""
    with pytest.raises(OptionError, match=next(iter(wrong))):
        ResponseCache.context(**wrong)


def test_wishes_that_there_are_none_of() -> None:
    """C-024: the cache, the time to live and the agent's id are the processor's."""
    for name in ("cache", "ttl", "agent_id", "keys"):
        wrong: Any = {name: "x"}
        with pytest.raises(TypeError, match=name):
            ResponseCache.context(**wrong)


async def test_a_sub_agent_keeps_its_own_answers() -> None:
    """C-025: with the same context, and the same cache for both."""
    cache = InMemoryServerCache()
    inner = cached(ScriptedModel(["inner"]), cache, agent_id="inner")
    outer = Agent(
        id="outer",
        model=ScriptedModel(["outer"]),
        input_processors=[ResponseCache(cache=cache, agent_id="outer")],
    )
    for _ in range(2):
        assert await asked(inner, "go") == ["inner"]
        assert await asked(outer, "go") == ["outer"]
