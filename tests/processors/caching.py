"""What the tests of the response cache have in common."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from procession import Agent
from procession.cache import InMemoryServerCache
from procession.processors import ResponseCache
from procession.testing import ScriptedModel, answer, tool_call

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FailingCache", "Notes", "asked", "cached", "loop_model", "numbered", "stored"]


class Notes:
    """A cache that has no more than it needs, and notes what it is asked (C-096, C-112)."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.log: list[tuple[Any, ...]] = []

    def get(self, key: str) -> Any:
        self.log.append(("get", key))
        return self.kept.get(key)

    def set(self, key: str, value: Any, ttl_ms: int) -> None:
        self.log.append(("set", key, ttl_ms))
        self.kept[key] = value


class FailingCache:
    """Raises, hangs or gives something else, at one of its two methods."""

    def __init__(self, at: str, how: Any) -> None:
        self.at, self.how = at, how
        self.asked = 0

    async def get(self, key: str) -> Any:
        return await self._answer("get")

    async def set(self, key: str, value: Any, ttl_ms: int) -> Any:
        return await self._answer("set")

    async def _answer(self, name: str) -> Any:
        self.asked += self.at == name
        if self.at != name:
            return None
        if isinstance(self.how, BaseException):
            raise self.how
        if self.how == "hangs":
            await asyncio.Event().wait()
        return self.how


def numbered() -> ScriptedModel:
    """Answers `one`, `two`, `three`, so that a live answer shows."""
    return ScriptedModel(["one", "two", "three", "four", "five", "six"])


def cached(model: Any = None, cache: Any = None, **options: Any) -> Agent:
    """An agent with a response cache; options that are the cache's go to it."""
    own = {
        name: options.pop(name)
        for name in ("ttl", "scope", "key", "bust", "agent_id", "timeout", "policy")
        if name in options
    }
    cache = InMemoryServerCache() if cache is None else cache
    before = options.pop("before", [])
    after = options.pop("after", [])
    lists = [*before, ResponseCache(cache=cache, **own), *after]
    return Agent(id="help", model=model or numbered(), input_processors=lists, **options)


async def asked(agent: Agent, *questions: Any, **options: Any) -> list[str]:
    """The texts of the answers, one after the other."""
    return [(await agent.generate(question, **options)).text for question in questions]


def loop_model(*calls: dict[str, Any]) -> ScriptedModel:
    """Asks for tools, then says `done`; again and again."""
    steps: list[Any] = [answer(tool_calls=calls or (tool_call("stock", {"item": "bolt"}),)), "done"]
    return ScriptedModel(steps * 6)


def stored(cache: Notes) -> Iterable[dict[str, Any]]:
    """What a cache holds."""
    return list(cache.kept.values())
