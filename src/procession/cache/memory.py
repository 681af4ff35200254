"""`InMemoryServerCache`: a cache in this process, for development and for a single server."""

from __future__ import annotations

import time
from collections import OrderedDict
from threading import Lock
from typing import Any

from msgspec import Struct

from ..errors import StoreError
from ..keywords import TakesOptions
from .interface import ServerCache, end_of
from .options import most, time_to_live
from .values import dumped, loaded

__all__ = ["InMemoryServerCache"]


class _Kept(Struct):
    """What stands under a key: a value, a list of values, or a count."""

    value: bytes | list[bytes] | int
    until: float | None


class InMemoryServerCache(TakesOptions, ServerCache):
    """Keeps values in this process: the least recently used one goes first (C-113).

    `max_size` is how many keys are kept, `ttl_ms` how long, in milliseconds; 0 is for ever. A list
    or a count lives that long from its last change. Raises `OptionError` for what is neither.
    """

    def __init__(self, max_size: int = 1000, ttl_ms: int = 300_000) -> None:
        owner = type(self).__name__
        self.max_size = most(owner, "max_size", max_size)
        self.ttl_ms = time_to_live(owner, "ttl_ms", ttl_ms)
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = Lock()  # agents in several threads may share it

    def __repr__(self) -> str:
        return f"InMemoryServerCache(max_size={self.max_size}, ttl_ms={self.ttl_ms})"

    async def get(self, key: str) -> Any:
        """The value, or the list, under `key`; `None` when there is none, or no longer."""
        with self._lock:
            kept = self._find(key)
            value = None if kept is None else kept.value
            if isinstance(value, list):
                value = value.copy()
        if isinstance(value, list):
            return [loaded(entry) for entry in value]
        return loaded(value) if isinstance(value, bytes) else value

    async def set(self, key: str, value: Any, ttl_ms: int | None = None) -> None:
        """Keep a value; raises `InputError` for one that is no JSON data, bytes or time."""
        data = dumped(value)
        with self._lock:
            self._put(key, data, ttl_ms)

    async def delete(self, key: str) -> None:
        """Forget a key."""
        with self._lock:
            self._kept.pop(key, None)

    async def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()

    async def list_length(self, key: str) -> int:
        """How long a list is; 0 when there is none. Raises `StoreError` for a value."""
        with self._lock:
            return len(self._list(key))

    async def list_push(self, key: str, value: Any) -> None:
        """Append to a list; raises `StoreError` where a value stands under the key."""
        data = dumped(value)
        with self._lock:
            entries = self._list(key)
            entries.append(data)
            self._put(key, entries, None)

    async def list_from_to(self, key: str, start: int, end: int = -1) -> list[Any]:
        """The values from `start` to `end`, both included; raises `StoreError` for a value."""
        with self._lock:
            found = self._list(key)[start : end_of(end)]
        return [loaded(entry) for entry in found]

    async def increment(self, key: str) -> int:
        """Count up by one; raises `StoreError` where something stands that is no whole number."""
        with self._lock:
            kept = self._find(key)
            value: Any = 0 if kept is None else kept.value
            count = loaded(value) if isinstance(value, bytes) else value
            if type(count) is not int:
                raise StoreError(f"{self!r}: what stands under this key cannot be counted up")
            self._put(key, count + 1, None)
            return count + 1

    def _find(self, key: str) -> _Kept | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.until is not None and kept.until <= time.time():
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return kept

    def _list(self, key: str) -> list[bytes]:
        kept = self._find(key)
        if kept is None:
            return []
        if not isinstance(kept.value, list):
            raise StoreError(f"{self!r}: a value stands under this key, not a list")
        return kept.value

    def _put(self, key: str, value: bytes | list[bytes] | int, ttl_ms: int | None) -> None:
        lives = self.ttl_ms if ttl_ms is None else ttl_ms
        self._kept[key] = _Kept(value, time.time() + lives / 1000 if lives > 0 else None)
        self._kept.move_to_end(key)
        while len(self._kept) > self.max_size:
            self._kept.popitem(last=False)
