"""Cancelling work at each point where it waits, one after the other."""

from __future__ import annotations

import asyncio
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator

__all__ = ["cancelled_everywhere"]


async def cancelled_everywhere(
    start: Callable[[int], Coroutine[Any, Any, Any]],
) -> AsyncIterator[tuple[int, BaseException | None]]:
    """Begin the work again and again, and cancel it when it waits for the n-th time.

    Each time the number and what the work raised is given, until it ends before it is cancelled.
    """
    number, done = 0, False
    while not done:
        reached: list[None] = []
        task = asyncio.ensure_future(_stopping(start(number), number, reached))
        raised: BaseException | None = None
        try:
            await task
        except BaseException as error:
            raised = error
        done = not reached
        yield number, raised
        number += 1


async def _stopping(work: Coroutine[Any, Any, Any], number: int, reached: list[None]) -> Any:
    return await _steps(work, number, reached)


@types.coroutine
def _steps(
    work: Coroutine[Any, Any, Any], number: int, reached: list[None]
) -> Generator[Any, Any, Any]:
    """Hand the work's waiting on, and count it."""
    send: Callable[[Any], Any] = work.send
    value: Any = None
    count = 0
    while True:
        try:
            waits_for = send(value)
        except StopIteration as ended:
            return ended.value
        if count == number:
            reached.append(None)
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        count += 1
        try:
            send, value = work.send, (yield waits_for)
        except BaseException as error:
            send, value = work.throw, error
