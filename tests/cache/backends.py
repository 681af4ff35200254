"""Every cache, made for one test, for tests that hold for all of them."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from procession.cache import InMemoryServerCache, ServerCache, SQLiteCache
from procession.cache.redis import RedisCache

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BACKENDS = ("memory", "sqlite", "redis")

every_cache = pytest.mark.parametrize("backend", BACKENDS)


class Plain(ServerCache):
    """A cache of a user's own, which has nothing but what is asked of it (C-110)."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    async def get(self, key: str) -> Any:
        return self.kept.get(key)

    async def set(self, key: str, value: Any, ttl_ms: int | None = None) -> None:
        self.kept[key] = value

    async def delete(self, key: str) -> None:
        self.kept.pop(key, None)

    async def clear(self) -> None:
        self.kept.clear()

    async def list_length(self, key: str) -> int:
        return len(self.kept.get(key, ()))

    async def list_push(self, key: str, value: Any) -> None:
        self.kept.setdefault(key, []).append(value)

    async def list_from_to(self, key: str, start: int, end: int = -1) -> list[Any]:
        return self.kept.get(key, [])[start : None if end == -1 else end + 1]

    async def increment(self, key: str) -> int:
        self.kept[key] = self.kept.get(key, 0) + 1
        return self.kept[key]


def maker(backend: str, folder: Path, request: pytest.FixtureRequest) -> Callable[..., ServerCache]:
    """How to make a cache of that kind, empty the first time and the same one every time."""
    if backend == "sqlite":
        return lambda **options: SQLiteCache(folder / "cache.db", **options)
    if backend == "redis":
        url, prefix = request.getfixturevalue("valkey"), f"test:{uuid.uuid4().hex}:"
        return lambda **options: RedisCache(url, key_prefix=prefix, **options)
    return InMemoryServerCache


async def closed(cache: Any) -> None:
    """Close a cache that can be closed."""
    close = getattr(cache, "close", None)
    if close is not None:
        await close()


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """From now on it is so many seconds later, for caches that look at the clock."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + seconds)


async def gone(cache: ServerCache, key: str) -> None:
    """Return when a value is no longer there. A server has a clock of its own."""
    while await cache.get(key) is not None:  # noqa: ASYNC110  # nobody tells of it
        await asyncio.sleep(0.002)
