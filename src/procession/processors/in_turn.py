"""Work that may have to wait, written once for plain and for async callers.

A generator yields what is to be awaited. Where it yields nothing, its work is done in a plain call,
without a coroutine or a turn of the event loop (B-239).
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any, TypeVar

__all__ = ["Work", "done"]

T = TypeVar("T")

Work = Generator[Awaitable[Any], Any, T]
"""Yields awaitables, is sent what they come to, and returns its result."""


def done(work: Work[T]) -> T | Awaitable[T]:
    """The result of the work, or, when there is something to wait for, an awaitable of it."""
    try:
        waiting = next(work)
    except StopIteration as end:
        return end.value
    return _go_on(work, waiting)


async def _go_on(work: Work[T], waiting: Awaitable[Any]) -> T:
    try:
        while True:
            waiting = work.send(await waiting)
    except StopIteration as end:
        return end.value
    finally:
        work.close()
