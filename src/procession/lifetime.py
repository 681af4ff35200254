"""Starting things in order, and closing them in the reverse one, whatever fails on the way."""

from __future__ import annotations

import asyncio
import inspect
import logging
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

__all__ = ["Known", "Lifetime", "close_all", "closer_of", "finished"]

_log = logging.getLogger("procession.app")


def closer_of(thing: Any) -> Callable[[], Any] | None:
    """What closes a thing: its `aclose`, else its `close`; `None` for what needs no closing."""
    if thing is None or isinstance(thing, type):
        return None
    for name in ("aclose", "close"):
        method = getattr(thing, name, None)
        if callable(method):
            return method
    return None


async def close_all(things: Iterable[Any]) -> None:
    """Close each thing that can be closed, also if closing one fails; the first failure is raised.

    The other failures are logged, by their kind.
    """
    failures: list[Exception] = []
    for thing in things:
        close = closer_of(thing)
        if close is None:
            continue
        try:
            await _called(close)
        except Exception as error:  # the others are closed all the same
            if failures:
                _log.warning("closing %s failed: %s", _kind(thing), type(error).__name__)
            failures.append(error)
    if failures:
        raise failures[0]


async def finished(work: Coroutine[Any, Any, None]) -> None:
    """Until `work` is done: being cancelled cuts nothing of it short, and is raised then."""
    doing = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not doing.done():
        try:
            await asyncio.wait([doing])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        with suppress(Exception):
            doing.result()
        raise cancelled
    doing.result()


class Known:
    """Objects by what they are, not by what they equal, in the order in which they came.

    It keeps none of them alive. What cannot be referred to weakly is never known.
    """

    def __init__(self) -> None:
        self._held: dict[int, weakref.ref[Any]] = {}

    def __iter__(self) -> Iterator[Any]:
        found = [reference() for reference in list(self._held.values())]
        return iter([thing for thing in found if thing is not None])

    def add(self, thing: Any) -> bool:
        """Take in an object; whether it was not known."""
        held, key = self._held, id(thing)
        known = held.get(key)
        if known is not None and known() is thing:
            return False

        def forget(gone: weakref.ref[Any]) -> None:
            if held.get(key) is gone:
                del held[key]

        with suppress(TypeError):
            held[key] = weakref.ref(thing, forget)
        return True


class Lifetime:
    """What is started together, and closed together, last first."""

    def __init__(self) -> None:
        self._things = Known()

    def attach(self, thing: Any) -> None:
        """Take in a thing that can be closed; once, however often it comes."""
        if closer_of(thing) is not None:
            self._things.add(thing)

    async def start(self) -> None:
        """Start what has a `start()`, in order. If one cannot, those before it are closed again.

        What it raised leaves, with a note that says what could not be started.
        """
        started: list[Any] = []
        for thing in self._things:
            start = getattr(thing, "start", None)
            if not callable(start):
                continue
            started.append(thing)  # it may have got half way
            try:
                await _called(start)
            except BaseException as error:
                error.add_note(f"raised when the app was starting its {_kind(thing)}")
                with suppress(Exception):
                    await finished(close_all(reversed(started)))
                raise

    async def close(self) -> None:
        """Close all, as `close_all` does; being cancelled cuts nothing short."""
        await finished(close_all(reversed(list(self._things))))


async def _called(method: Callable[[], Any]) -> None:
    returned = method()
    if inspect.isawaitable(returned):
        await returned


def _kind(thing: Any) -> str:
    return type(thing).__name__
