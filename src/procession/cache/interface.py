"""What a cache can be asked to do (C-110, C-111)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MastraServerCache", "ServerCache", "end_of"]


class ServerCache(ABC):
    """A store of values that may be gone at any time.

    Values are JSON data, and may hold bytes and times. What is returned is the caller's own:
    changing it changes nothing in the cache (C-114). Times to live are in milliseconds; `None`
    stands for the cache's own, `0` for ever (C-113).

    A cache that cannot be reached, or that holds something that cannot be read, raises; so does an
    operation on lists for a key that holds a value. `ResponseCache` calls `get` and `set` only.
    """

    @abstractmethod
    async def get(self, key: str) -> Any:
        """The value, or the list, under `key`; `None` when there is none, or no longer."""

    @abstractmethod
    async def set(self, key: str, value: Any, ttl_ms: int | None = None) -> None:
        """Keep a value; it takes the place of whatever was there."""

    @abstractmethod
    async def delete(self, key: str) -> None:
        """Forget a key."""

    @abstractmethod
    async def clear(self) -> None:
        """Forget everything."""

    @abstractmethod
    async def list_length(self, key: str) -> int:
        """How long a list is; 0 when there is none."""

    @abstractmethod
    async def list_push(self, key: str, value: Any) -> None:
        """Append to a list, which begins with the first value."""

    @abstractmethod
    async def list_from_to(self, key: str, start: int, end: int = -1) -> list[Any]:
        """The values from position `start` to `end`, both included; -1 is the last one."""

    @abstractmethod
    async def increment(self, key: str) -> int:
        """Count up by one; the first call gives 1."""

    async def list_push_indexed(
        self, list_key: str, counter_key: str, value: Mapping[str, Any]
    ) -> int:
        """Append a mapping with its own `index`, counted under `counter_key`; returns that index.

        The first one is 0. A cache that several processes share does both at once.
        """
        index = await self.increment(counter_key) - 1
        await self.list_push(list_key, {**value, "index": index})
        return index


MastraServerCache = ServerCache


def end_of(end: int) -> int | None:
    """Where a slice stops that ends with position `end`, which counts from the last one if < 0."""
    return None if end == -1 else end + 1
