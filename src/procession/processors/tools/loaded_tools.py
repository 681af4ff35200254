"""Which tools of a library are loaded: remembered per conversation, or read off the messages."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypedDict, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...messages import Message, Part

__all__ = ["LoadedTools", "ToolSearchStats", "named_in"]

MOST_THREADS = 10_000
"""So many threads are remembered at most; those that were not used for longest go first."""
MOST_NAMES = 1_000
"""So many tools per thread, for names may come and go with each request; the oldest go first."""


_Key = tuple[str, str | None]
"""A thread, and the resource whose it is, if that is known."""


class ToolSearchStats(TypedDict):
    """How many threads have loaded tools, and when the one was used that was not for longest.

    The time is in milliseconds since 1970; `None` when there is none.
    """

    thread_count: int
    oldest_access_time: float | None


class LoadedTools:
    """The names of loaded tools, by thread; they are forgotten after `ttl` seconds of disuse.

    Threads of different resources are different ones, whatever they are called: ids that clients
    choose are no secret.
    Safe to use from several event loops. Nothing runs in the background: what has expired goes
    when the next one looks.
    """

    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._threads: OrderedDict[_Key, tuple[float, dict[str, None]]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, thread: str, resource: str | None = None) -> list[str]:
        """The tools loaded in a thread, in the order of loading; looking counts as use."""
        with self._lock:
            self._drop_expired()
            held = self._threads.get((thread, resource))
            if held is None:
                return []
            self._use((thread, resource), held[1])
            return list(held[1])

    def add(self, thread: str, names: Iterable[str], resource: str | None = None) -> None:
        """Load tools in a thread."""
        with self._lock:
            self._drop_expired()
            held = self._threads.get((thread, resource))
            loaded = {} if held is None else held[1]
            loaded.update(dict.fromkeys(names))
            while len(loaded) > MOST_NAMES:
                del loaded[next(iter(loaded))]
            if loaded:
                self._use((thread, resource), loaded)
            while len(self._threads) > MOST_THREADS:
                self._threads.popitem(last=False)

    def clear(self, thread: str | None = None) -> None:
        """Forget what is loaded in a thread, of whatever resource; without one, everywhere."""
        with self._lock:
            if thread is None:
                self._threads.clear()
            else:
                for key in [key for key in self._threads if key[0] == thread]:
                    del self._threads[key]

    def stats(self) -> ToolSearchStats:
        """What is remembered at the moment, what has expired not counted."""
        with self._lock:
            self._drop_expired()
            used = next(iter(self._threads.values()))[0] if self._threads else None
            ago = None if used is None else time.monotonic() - used
            return {
                "thread_count": len(self._threads),
                "oldest_access_time": None if ago is None else (time.time() - ago) * 1000,
            }

    def clean_up(self) -> int:
        """Forget what has expired; how many threads that were."""
        with self._lock:
            return self._drop_expired()

    def _use(self, key: _Key, loaded: dict[str, None]) -> None:
        self._threads[key] = time.monotonic(), loaded
        self._threads.move_to_end(key)

    def _drop_expired(self) -> int:
        """They stand in the order of their last use, so this looks at no more than it drops."""
        dropped = 0
        latest = time.monotonic() - self._ttl
        while self._ttl and self._threads and next(iter(self._threads.values()))[0] < latest:
            self._threads.popitem(last=False)
            dropped += 1
        return dropped


def named_in(messages: Iterable[Message], loading: frozenset[str]) -> list[str]:
    """The tools that results of the tools `loading` name as loaded, in the order of loading."""
    found: dict[str, None] = {}
    for message in messages:
        for part in message.content.parts:
            if part.type == "tool-invocation":
                found.update(dict.fromkeys(_named_by(part, loading)))
    return list(found)


def _named_by(part: Part, loading: frozenset[str]) -> Iterator[str]:
    call: Any = getattr(part, "tool_invocation", None)
    if call is None or call.state != "result" or call.tool_name not in loading:
        return
    result = _mapping(call.result)
    if result.get("success") is True:
        yield from _texts([result.get("toolName")])
    yield from _texts(result.get("loaded"))
    yield from _texts(result.get("alreadyLoaded"))
    yield from _texts([_mapping(hit).get("name") for hit in _listed(result.get("results"))])


def _texts(value: Any) -> Iterator[str]:
    return (entry for entry in _listed(value) if isinstance(entry, str))


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
