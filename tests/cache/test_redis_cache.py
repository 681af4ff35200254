"""`RedisCache`: what stands on the server, connections, and what nobody is told (C-115, C-116)."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import sys
import traceback
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import redis.asyncio

from procession.cache.redis import RedisCache
from procession.errors import OptionError, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PASSWORD = "open-sesame-42"


@pytest.fixture
def prefix() -> str:
    return f"test:{uuid.uuid4().hex}:"


@pytest.fixture
async def server(valkey: str) -> AsyncIterator[redis.asyncio.Redis]:
    """A client of one's own, to look what is there."""
    client = redis.asyncio.Redis.from_url(valkey)
    yield client
    await client.aclose()


async def test_values_are_json_under_the_prefix(
    valkey: str, server: redis.asyncio.Redis, prefix: str
) -> None:
    """C-115: with a form of their own for bytes and times, and a time to live on the server."""
    async with RedisCache(valkey, key_prefix=prefix) as cache:
        moment = datetime(2026, 1, 2, tzinfo=UTC)
        await cache.set("key", {"file": b"\x01", "at": moment}, 60_000)
        await cache.set("ever", 1, 0)
        found: Any = await server.get(prefix + "key")
        assert json.loads(found) == {
            "file": {"$bytes": "AQ=="},
            "at": {"$time": "2026-01-02T00:00:00+00:00"},
        }
        assert 0 < await server.pttl(prefix + "key") <= 60_000
        assert await server.pttl(prefix + "ever") == -1
        await cache.set("usual", 1)
        assert 60_000 < await server.pttl(prefix + "usual") <= 300_000


async def test_clearing_leaves_what_others_have(
    valkey: str, server: redis.asyncio.Redis, prefix: str
) -> None:
    """C-115: also when the prefix looks like a pattern, and when there is a lot."""
    other = f"{prefix}xyz"
    await server.set(other, "mine")
    async with RedisCache(valkey, key_prefix=f"{prefix}[a-z]*?") as cache:
        for number in range(1200):
            await cache.set(str(number), number)
        await cache.clear()
        assert await cache.get("0") is None and await cache.get("1199") is None
    assert await server.get(other) == b"mine"


async def test_a_client_of_ones_own_stays_open(
    server: redis.asyncio.Redis, valkey: str, prefix: str
) -> None:
    """C-115: it is its owner's to close, and may give texts instead of bytes."""
    texts = redis.asyncio.Redis.from_url(valkey, decode_responses=True)
    for client in (server, texts):
        async with RedisCache(client=client, key_prefix=prefix) as cache:
            await cache.set("key", {"a": b"b"})
            assert await cache.get("key") == {"a": b"b"}
            assert repr(cache) == "RedisCache(a client of yours)"
        assert await client.ping()
    await texts.aclose()


async def connections(server: redis.asyncio.Redis, name: str) -> int:
    return sum(entry["name"] == name for entry in await server.client_list())


async def test_connections_are_closed(
    valkey: str, server: redis.asyncio.Redis, prefix: str
) -> None:
    """C-115: by `close`, when the cache is gone, and when the event loop ends."""
    name = prefix.replace(":", "-")
    url = f"{valkey}?client_name={name}"
    cache = RedisCache(url)
    await cache.get("key")
    assert await connections(server, name) == 1
    await cache.close()
    assert await connections(server, name) == 0
    await cache.get("key")
    del cache
    gc.collect()
    while await connections(server, name):  # noqa: ASYNC110  # nobody tells of it
        await asyncio.sleep(0.002)

    kept: list[RedisCache] = []

    def elsewhere() -> None:
        kept.append(RedisCache(url))
        asyncio.run(kept[0].get("key"))

    await asyncio.to_thread(elsewhere)
    assert await connections(server, name) == 0
    assert await kept[0].get("key") is None
    await kept[0].close()


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.mark.parametrize("place", ["password", "query"])
async def test_secrets_of_the_address_are_shown_nowhere(valkey: str, place: str) -> None:
    """C-115: neither in `repr` nor in any error, with all that is behind it."""
    down = f"127.0.0.1:{closed_port()}"
    for host in (down, valkey.removeprefix("redis://")):
        url = f"redis://user:{PASSWORD}@{host}/0"
        if place == "query":
            url = f"redis://{host}/0?username=user&password={PASSWORD}"
        async with RedisCache(url) as cache:
            assert PASSWORD not in repr(cache) and host in repr(cache)
            with pytest.raises(StoreError, match="check its address and that it is up") as raised:
                await cache.set("key", 1)
        told = "".join(traceback.format_exception(raised.value, chain=True))
        assert PASSWORD not in told.replace(__file__, "")


@pytest.mark.parametrize(
    "url",
    [
        f"redis://user:{PASSWORD}",
        f"http://user:{PASSWORD}@127.0.0.1",
        f"redis://[{PASSWORD}",
        f"redis://127.0.0.1/0?db={PASSWORD}",
        PASSWORD,
        7,
    ],
)
def test_addresses_that_are_none(url: Any) -> None:
    """C-115: they are told when the cache is made, without a word of what was given."""
    with pytest.raises(OptionError, match="url must be an address such as redis://") as raised:
        RedisCache(url)
    told = "".join(traceback.format_exception(raised.value))
    assert PASSWORD not in told.replace("{PASSWORD}", "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give url=…, or client=…"),
        ({"url": "redis://127.0.0.1", "client": object()}, "not both"),
        ({"url": "redis://127.0.0.1", "key_prefix": ""}, "key_prefix must be a text"),
        ({"url": "redis://127.0.0.1", "ttl_ms": -1}, "ttl_ms must be"),
        ({"url": "redis://127.0.0.1", "prefix": "x"}, "did you mean 'key_prefix'"),
    ],
)
def test_options_that_cannot_work(options: dict[str, Any], said: str) -> None:
    """They are told when the cache is made."""
    with pytest.raises(OptionError, match=said):
        RedisCache(**options)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """C-116: when one is made, not when the module is imported."""
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'procession\[redis\]'"):
        RedisCache("redis://127.0.0.1")


async def test_a_server_that_went_away_and_came_back(valkey: str, prefix: str) -> None:
    """A connection that was closed in the meantime is made anew, without an error."""
    async with RedisCache(valkey, key_prefix=prefix) as cache:
        await cache.set("key", 1)
        client = redis.asyncio.Redis.from_url(valkey)
        own = await client.client_id()
        for entry in await client.client_list():
            if int(entry["id"]) != own:
                await client.client_kill_filter(_id=entry["id"])
        await client.aclose()
        assert await cache.get("key") == 1
