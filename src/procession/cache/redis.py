"""`RedisCache`: a cache in a Redis or Valkey server, which many processes share (C-115).

It takes the extra `redis`: `pip install 'procession[redis]'`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from ..addresses import public_url
from ..errors import OptionError, StoreError
from ..extras import brought_by
from ..keywords import TakesOptions
from ..models.keeping import PerLoop
from .interface import ServerCache
from .options import time_to_live
from .values import dumped, loaded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from typing import Self

__all__ = ["RedisCache"]

T = TypeVar("T")

_SECONDS = 5.0
"""How long one command may take, and a connection to come about."""
_BATCH = 500

_PUSH_INDEXED = """
local index = redis.call('INCR', KEYS[2]) - 1
local rest = string.sub(ARGV[1], 2)
local comma = rest == '}' and '' or ','
redis.call('RPUSH', KEYS[1], '{"index":' .. index .. comma .. rest)
if ARGV[2] ~= '0' then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
return index
"""


class RedisCache(TakesOptions, ServerCache):
    """Keeps values in a Redis server, as JSON under `key_prefix`.

    `url` is `redis://`, `rediss://` or `unix://`; user and password may stand in it, and are shown
    nowhere. Connections are made when they are needed and closed when their event loop ends, or by
    `close`. `client` takes the place of `url`: a ready `redis.asyncio` client, which stays its
    owner's to close. `ttl_ms` is how long values are kept, in milliseconds; 0 is for ever. A list
    or a count lives that long from its last change.

    Raises `OptionError` for options that cannot work, `MissingExtraError` with the name of the
    extra where the package is missing, `StoreError` where the server cannot be asked.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        client: Any = None,
        key_prefix: str = "procession:cache:",
        ttl_ms: int = 300_000,
    ) -> None:
        owner = type(self).__name__
        with brought_by("redis", "redis"):
            import redis.asyncio as library
            from redis.exceptions import RedisError, ResponseError
        if (url is None) == (client is None):
            raise OptionError(f"{owner}: give url=…, or client=…, and not both")
        if not isinstance(key_prefix, str) or not key_prefix:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"{owner}: key_prefix must be a text that is not empty")
        self.key_prefix = key_prefix
        self.ttl_ms = time_to_live(owner, "ttl_ms", ttl_ms)
        self._errors, self._refused = RedisError, ResponseError
        self._library: Any = library
        self._url, self._given = url, client
        self._clients: PerLoop[Any] = PerLoop()
        if url is not None:
            self._check(owner, url)

    def __repr__(self) -> str:
        place = "a client of yours" if self._url is None else repr(public_url(self._url))
        return f"RedisCache({place})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections of this event loop; using the cache again makes new ones."""
        await self._clients.aclose()

    async def get(self, key: str) -> Any:
        """The value, or the list, under `key`; `None` when there is none, or no longer."""
        client = self._client()
        try:
            data = await self._asked(client.get(self._named(key)))
        except self._refused as error:
            if not _is_of_other_kind(error):
                raise self._unusable(error) from error
            return await self.list_from_to(key, 0)
        return None if data is None else loaded(data)

    async def set(self, key: str, value: Any, ttl_ms: int | None = None) -> None:
        """Keep a value; raises `InputError` for one that is no JSON data, bytes or time."""
        lives = self.ttl_ms if ttl_ms is None else ttl_ms
        data = dumped(value)
        await self._done(
            self._client().set(self._named(key), data, px=lives if lives > 0 else None)
        )

    async def delete(self, key: str) -> None:
        """Forget a key."""
        await self._done(self._client().delete(self._named(key)))

    async def clear(self) -> None:
        """Forget what stands under the prefix; everything else on the server stays."""
        await self._done(self._cleared())

    async def _cleared(self) -> None:
        client, found = self._client(), list[Any]()
        pattern = re.sub(r"([*?\[\]\\])", r"\\\1", self.key_prefix) + "*"
        async for key in client.scan_iter(match=pattern, count=_BATCH):
            found.append(key)
            if len(found) >= _BATCH:
                await client.unlink(*found)
                found.clear()
        if found:
            await client.unlink(*found)

    async def list_length(self, key: str) -> int:
        """How long a list is; 0 when there is none. Raises `StoreError` for a value."""
        return await self._done(self._client().llen(self._named(key)))

    async def list_push(self, key: str, value: Any) -> None:
        """Append to a list; raises `StoreError` where a value stands under the key."""
        name, data = self._named(key), dumped(value)
        async with self._client().pipeline(transaction=True) as work:
            work.rpush(name, data)
            if self.ttl_ms:
                work.pexpire(name, self.ttl_ms)
            await self._done(work.execute())

    async def list_from_to(self, key: str, start: int, end: int = -1) -> list[Any]:
        """The values from `start` to `end`, both included; raises `StoreError` for a value."""
        found = await self._done(self._client().lrange(self._named(key), start, end))
        return [loaded(data) for data in found]

    async def increment(self, key: str) -> int:
        """Count up by one; raises `StoreError` where something stands that is no whole number."""
        name = self._named(key)
        async with self._client().pipeline(transaction=True) as work:
            work.incr(name)
            if self.ttl_ms:
                work.pexpire(name, self.ttl_ms)
            return (await self._done(work.execute()))[0]

    async def list_push_indexed(
        self, list_key: str, counter_key: str, value: Mapping[str, Any]
    ) -> int:
        """Append a mapping with its own `index`, in one script on the server."""
        data = dumped({name: entry for name, entry in value.items() if name != "index"})
        names = self._named(list_key), self._named(counter_key)
        client = self._client()
        return await self._done(client.eval(_PUSH_INDEXED, 2, *names, data, self.ttl_ms))

    # ── the server ─────────────────────────────────────────────────────────────────────────────

    def _named(self, key: str) -> str:
        return self.key_prefix + key

    def _client(self) -> Any:
        if self._given is not None:
            return self._given
        found = self._clients.get()
        if found is None:
            found = self._connected()
            self._clients.put(self, found, found.aclose)
        return found

    def _connected(self) -> Any:
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        return self._library.Redis.from_url(
            self._url,
            socket_timeout=_SECONDS,
            socket_connect_timeout=_SECONDS,
            retry=Retry(NoBackoff(), 1),  # for a connection that was lost while nobody looked
        )

    def _check(self, owner: str, url: Any) -> None:
        try:
            self._library.ConnectionPool.from_url(url)
        except Exception:  # whose words may repeat parts of the address
            raise OptionError(
                f"{owner}: url must be an address such as redis://host:6379/0, rediss://… or "
                f"unix://…"
            ) from None

    async def _asked(self, command: Awaitable[T]) -> T:
        """What the server answers; its refusals are raised as they are."""
        try:
            return await command
        except self._refused:
            raise
        except self._errors as error:
            raise self._unusable(error) from error

    async def _done(self, command: Awaitable[T]) -> T:
        try:
            return await self._asked(command)
        except self._refused as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> StoreError:
        if _is_of_other_kind(error):
            return StoreError(f"{self!r}: what stands under this key is of another kind")
        kind = type(error).__name__
        return StoreError(f"{self!r} cannot be used ({kind}): check its address and that it is up")


def _is_of_other_kind(error: Exception) -> bool:
    words = str(error)
    return "WRONGTYPE" in words or "not an integer" in words
