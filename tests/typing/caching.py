"""The response cache and its caches, as type checkers see them."""

from typing import Any

from procession import Agent, CachedLLMStepResponse, ProcessLLMResponseArgs, RequestContext
from procession.cache import InMemoryServerCache, MastraServerCache, ServerCache, SQLiteCache
from procession.cache.redis import RedisCache
from procession.processors import (
    RESPONSE_CACHE_CONTEXT_KEY,
    CacheKeyInputs,
    CacheOfResponses,
    ResponseCache,
    build_response_cache_key,
)


class Drawer:
    """A cache of one's own."""

    def get(self, key: str) -> Any:
        """The value."""

    async def set(self, key: str, value: Any, ttl_ms: int) -> None:
        """Keep a value."""


def by_model(inputs: CacheKeyInputs) -> str:
    """A key."""
    return f"{inputs.model.model_id}:{build_response_cache_key(inputs, scope=None)}"


async def later(inputs: CacheKeyInputs) -> str:
    """A key that is waited for."""
    return build_response_cache_key(inputs.replace(step_number=0))


async def kept(cache: ServerCache) -> int:
    """What a cache can do."""
    await cache.set("key", {"a": 1}, 1000)
    return await cache.increment("count") + await cache.list_length("list")


def hear(args: ProcessLLMResponseArgs) -> None:
    """Who hears what tools return."""
    heard: dict[str, object] = {}
    args.on_tool_result(lambda tool_call_id, result: heard.update({tool_call_id: result}))


caches: list[CacheOfResponses] = [
    InMemoryServerCache(),
    InMemoryServerCache(10, 0),
    SQLiteCache("cache.db"),
    RedisCache("redis://cache.example.com"),
    Drawer(),
]
again: MastraServerCache = InMemoryServerCache()
processors = [ResponseCache(cache=cache, ttl=600, key=by_model) for cache in caches]
nothing = ResponseCache()  # refused when it runs: a cache is what it is for
wrong = ResponseCache(cache=7)  # type: ignore[arg-type] # it can do nothing
off = ResponseCache(cache=None, scope=None, ttl=None)
context: RequestContext = ResponseCache.context(key=later, scope="org-1", bust=True)
ResponseCache.context(ttl=5)  # type: ignore[call-arg] # it belongs to the processor
there: bool = ResponseCache.apply_context(context, key="own").has(RESPONSE_CACHE_CONTEXT_KEY)
known = CachedLLMStepResponse(chunks=[], tool_results={"c1": 1})
agent = Agent(id="typed", model="openai/gpt-5", input_processors=processors)
