"""Tasks that the engine makes for hooks, tools and extensions, and the runs that wait for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from .interruption import Interruption

__all__ = ["awaits", "begin_work", "stop"]

T = TypeVar("T")

_owners: WeakKeyDictionary[asyncio.Task[Any], Interruption] = WeakKeyDictionary()
"""The run that waits for a task, known by what interrupts it."""


def begin_work(run: Interruption, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task that a run waits for."""
    task = asyncio.create_task(work)
    _owners[task] = run
    return task


def awaits(run: Interruption, task: asyncio.Task[Any] | None) -> bool:
    """Whether a run waits for a task: then the task would wait for itself, if it read the run.

    It may be at work for a run within the run: a tool that calls an agent.
    """
    while task is not None:
        owner = _owners.get(task)
        if task is run.puller or owner is run:
            return True
        task = None if owner is None else owner.puller
    return False


async def stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, all at once, and wait until they are gone; what they raise then counts for
    nothing.

    Being cancelled meanwhile does not end the wait: no task may be left behind. One of them may
    be the caller itself, who is cancelled, but not waited for.
    """
    cancelled: asyncio.CancelledError | None = None
    own = asyncio.current_task()
    if own in tasks:
        own.cancel()
    while left := [task for task in tasks if not task.done() and task is not own]:
        for task in left:
            task.cancel()
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cancelled = error
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # read, so that nobody is told it was lost
    if cancelled is not None:
        raise cancelled
