"""E-70 to E-74: the guide's response cache."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent, RequestContext
from procession.cache import InMemoryServerCache
from procession.cache.redis import RedisCache
from procession.processors import CacheKeyInputs, ResponseCache, build_response_cache_key
from procession.request_context import MASTRA_RESOURCE_ID_KEY
from procession.testing import ScriptedModel, answer
from tests.seeds.threeways import only, play, three_ways
from tests.valkey import valkey

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.seeds.threeways import Outcome

__all__ = ["valkey"]


def answering(count: int = 9) -> ScriptedModel:
    return ScriptedModel([answer("answer ", f"{n}") for n in range(count)])


def agent_of(model: Any, *processors: Any, **options: Any) -> Agent:
    return Agent(id="cached-agent", model=model, input_processors=[*processors], **options)


def told(outcome: Outcome) -> tuple[Any, ...]:
    return outcome.text, outcome.output.usage, outcome.finish_reason


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + seconds)


# ── E-70 ───────────────────────────────────────────────────────────────────────────────────────


@three_ways
async def test_e70_quick_start(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """E-70 (C-070, C-072, C-117, C-130): the same without the model, for ten minutes."""
    model, looked = answering(), list[str]()
    guard = only("process_output_step", lambda args: looked.append(args.text))
    quick = ResponseCache(cache=InMemoryServerCache(), ttl=600)
    agent = agent_of(model, quick, output_processors=[guard])
    first, second = [await play(way, agent, "What is new?") for _ in range(2)]
    assert told(first) == told(second) and first.text == "answer 0"
    assert len(model.calls) == 1 and looked == ["answer 0"] * 2
    if first.chunks is not None:
        assert second.chunks is not None and first.kinds() == second.kinds()
    with monkeypatch.context() as patch:
        later(patch, 599)
        assert told(await play(way, agent, "What is new?")) == told(first)
    later(monkeypatch, 601)
    assert (await play(way, agent, "What is new?")).text == "answer 1"


def test_e70_quick_start_without_an_event_loop() -> None:
    """E-70: the same for scripts, each call of which may have a loop of its own."""
    model = answering()
    agent = agent_of(model, ResponseCache(cache=InMemoryServerCache(), ttl=600))
    assert [agent.generate_sync("What is new?").text for _ in range(2)] == ["answer 0"] * 2
    texts = [c.payload.text for c in agent.stream_sync("What is new?") if c.type == "text-delta"]
    assert "".join(texts) == "answer 0" and len(model.calls) == 1


# ── E-71 ───────────────────────────────────────────────────────────────────────────────────────


@three_ways
async def test_e71_overrides_of_one_call(way: str) -> None:
    """E-71 (C-020 to C-024, C-061): asked anew, under a key of its own, and the rest stays."""
    model = answering()
    agent = agent_of(model, ResponseCache(cache=InMemoryServerCache()))

    async def ask(context: RequestContext | None = None) -> str:
        options: dict[str, Any] = {} if context is None else {"request_context": context}
        return (await play(way, agent, "What is new?", **options)).text

    assert await ask() == "answer 0"
    own = ResponseCache.context(key="custom-key", bust=True)
    assert await ask(own) == "answer 1"
    assert await ask(ResponseCache.context(key="custom-key")) == "answer 1"
    assert await ask() == "answer 0"  # as configured: it was never replaced
    context = RequestContext({"tenant": "t-1"})
    assert ResponseCache.apply_context(context, bust=True) is context
    assert await ask(context) == "answer 2"
    assert context.get("tenant") == "t-1"
    assert await ask() == "answer 2"


# ── E-72 ───────────────────────────────────────────────────────────────────────────────────────

TENANTS: dict[str, Callable[[str], dict[str, Any]]] = {
    "context": lambda who: {"request_context": RequestContext({MASTRA_RESOURCE_ID_KEY: who})},
    "memory": lambda who: {"memory": {"thread": f"thread of {who}", "resource": who}},
}


@three_ways
@pytest.mark.parametrize("given", TENANTS)
@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"scope": "org-123"}, ["answer 0", "answer 0", "answer 0"]),
        ({"scope": None}, ["answer 0", "answer 0", "answer 0"]),
        ({}, ["answer 0", "answer 1", "answer 0"]),
    ],
    ids=["fixed", "none", "by-itself"],
)
async def test_e72_scope(way: str, given: str, options: dict[str, Any], texts: list[str]) -> None:
    """E-72 (C-030 to C-032, C-132, R-816): by resource, unless told otherwise."""
    agent = agent_of(answering(), ResponseCache(cache=InMemoryServerCache(), **options))
    asking = [TENANTS[given](who) for who in ("a", "b", "a")]
    found = [(await play(way, agent, "What is new?", **tenant)).text for tenant in asking]
    assert found == texts


# ── E-73 ───────────────────────────────────────────────────────────────────────────────────────


@three_ways
async def test_e73_redis(way: str, valkey: str) -> None:
    """E-73 (C-115): as E-70, on a server named by its address."""
    model = answering()
    async with RedisCache(valkey, key_prefix=f"test:{uuid.uuid4().hex}:") as cache:
        agent = agent_of(model, ResponseCache(cache=cache))
        first, second = [await play(way, agent, "What is new?") for _ in range(2)]
        assert told(first) == told(second) and len(model.calls) == 1
        await cache.clear()
        assert (await play(way, agent, "What is new?")).text == "answer 1"


def test_e73_redis_without_an_event_loop(valkey: str) -> None:
    """E-73: the same for scripts."""
    cache = RedisCache(valkey, key_prefix=f"test:{uuid.uuid4().hex}:")
    agent = agent_of(answering(), ResponseCache(cache=cache))
    assert [agent.generate_sync("What is new?").text for _ in range(3)] == ["answer 0"] * 3


class TwoMethods:
    """A cache class of one's own."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def get(self, key: str) -> Any:
        return json.loads(self.kept[key]) if key in self.kept else None

    async def set(self, key: str, value: Any, ttl_ms: int | None = None) -> None:
        self.kept[key] = json.dumps(value)


@three_ways
async def test_e73_a_cache_of_ones_own(way: str) -> None:
    """E-73 (C-096, C-112): `get` and `set` are all it needs."""
    model, cache = answering(), TwoMethods()
    agent = agent_of(model, ResponseCache(cache=cache))
    first, second = [await play(way, agent, "What is new?") for _ in range(2)]
    assert told(first) == told(second) and len(model.calls) == len(cache.kept) == 1


# ── E-74 ───────────────────────────────────────────────────────────────────────────────────────


def by_tail(inputs: CacheKeyInputs) -> str:
    return f"qa:{inputs.model.model_id}:{json.dumps(inputs.prompt)[-200:]}"


async def by_tail_async(inputs: CacheKeyInputs) -> str:
    return by_tail(inputs)


@three_ways
@pytest.mark.parametrize("key", [by_tail, by_tail_async])
async def test_e74_a_key_of_the_tail_of_the_prompt(way: str, key: Any) -> None:
    """E-74 (C-047, R-398): found under this key, for the same question behind other talk."""
    model, cache = answering(), TwoMethods()
    agent = agent_of(model, ResponseCache(cache=cache))
    image = {"type": "image", "image": b"\x89PNG", "mediaType": "image/png"}
    question = {"role": "user", "content": [image, {"type": "text", "text": "What is it? " * 30}]}
    for given in ([question], ["Hello", question]):
        context = ResponseCache.context(key=key)
        outcome = await play(way, agent, given, request_context=context)
        assert outcome.text == "answer 0"
    (found,) = cache.kept
    assert found.startswith("qa:mock-1:") and "What is it?" in found


@three_ways
async def test_e74_the_default_key_with_another_scope(way: str) -> None:
    """E-74 (C-046, C-051): shared by tenants that share nothing else."""
    agent = agent_of(answering(), ResponseCache(cache=InMemoryServerCache()))
    shared = lambda inputs: build_response_cache_key(inputs, scope="global")  # noqa: E731
    texts: list[str] = []
    for who in ("a", "b"):
        context = ResponseCache.context(key=shared)
        context.set(MASTRA_RESOURCE_ID_KEY, who)
        texts.append((await play(way, agent, "What is new?", request_context=context)).text)
    assert texts == ["answer 0"] * 2
    context = ResponseCache.context(scope="global")
    assert (await play(way, agent, "What is new?", request_context=context)).text == "answer 0"


@three_ways
async def test_e74_a_function_that_raises(way: str) -> None:
    """E-74 (C-048, C-135): the derived key is used."""

    def key(inputs: CacheKeyInputs) -> str:
        raise LookupError("no key")

    agent = agent_of(answering(), ResponseCache(cache=InMemoryServerCache()))
    context = ResponseCache.context(key=key)
    assert (await play(way, agent, "What is new?", request_context=context)).text == "answer 0"
    assert (await play(way, agent, "What is new?")).text == "answer 0"
