"""`InMemoryServerCache`: what goes first, and when (C-113, C-117)."""

from __future__ import annotations

from typing import Any

import pytest

from procession.cache import InMemoryServerCache
from procession.errors import OptionError
from tests.cache.backends import later


async def test_it_needs_no_arguments() -> None:
    """C-117, C-113: a thousand keys, for five minutes."""
    cache = InMemoryServerCache()
    assert (cache.max_size, cache.ttl_ms) == (1000, 300_000)
    assert repr(cache) == "InMemoryServerCache(max_size=1000, ttl_ms=300000)"


async def test_the_least_recently_used_goes_first() -> None:
    """C-113: reading is a use."""
    cache = InMemoryServerCache(3)
    for key in "abc":
        await cache.set(key, key)
    await cache.get("a")
    await cache.list_push("list", 1)
    await cache.get("missing")
    await cache.increment("count")
    assert [key for key in "abc" if await cache.get(key)] == ["a"]
    assert await cache.get("list") == [1] and await cache.get("count") == 1


async def test_values_live_as_long_as_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """C-113: five minutes, or a time of their own."""
    cache = InMemoryServerCache()
    await cache.set("usual", 1)
    await cache.set("long", 1, 600_000)
    await cache.set("ever", 1, 0)
    for seconds, left in ((299, "usual long ever"), (301, "long ever"), (601, "ever")):
        with monkeypatch.context() as patch:
            later(patch, seconds)
            names = ("usual", "long", "ever")
            assert [name for name in names if await cache.get(name)] == left.split()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_size": 0}, "max_size must be a whole number of at least 1"),
        ({"max_size": True}, "max_size must be"),
        ({"ttl_ms": -1}, "ttl_ms must be a whole number of milliseconds, or 0 for no end"),
        ({"ttl_ms": 1.5}, "ttl_ms must be"),
        ({"ttl": 5}, "did you mean 'ttl_ms'"),
    ],
)
def test_options_that_cannot_work(options: dict[str, Any], said: str) -> None:
    """They are told when the cache is made."""
    with pytest.raises(OptionError, match=said):
        InMemoryServerCache(**options)
