"""Several pieces of work at the same time: the first one that fails ends the others (W-066)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ..engine.workers import stop
from ..verdicts import verdict_in
from .endings import Suspended

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from .execution import Execution

__all__ = ["NOT_YET", "side_by_side"]

NOT_YET: Any = object()
"""Instead of an output that has to be waited for."""


async def side_by_side(execution: Execution, work: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """What each of them gives, in order.

    The first one that raises ends the others, which are cancelled and waited for; of several that
    raise at once a verdict counts before an error, and then the first of the list. One that is
    suspended ends nobody: it counts when the others have ended well.
    """
    if len(work) < 2:
        return [await each for each in work]
    order: list[BaseException] = []
    tasks = [execution.begin(_noted(each, order)) for each in work]
    try:
        open_ = set(tasks)
        while open_:
            done, open_ = await asyncio.wait(open_, return_when=asyncio.FIRST_COMPLETED)
            if any(_is_failed(task) for task in done):
                await stop(*open_)
                raise _first(order)
    except asyncio.CancelledError:
        await stop(*tasks)
        raise
    waiting = next((e for task in tasks if (e := task.exception()) is not None), None)
    if waiting is not None:
        raise waiting
    return [task.result() for task in tasks]


def _is_failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or not isinstance(task.exception(), Suspended | None)


async def _noted(work: Coroutine[Any, Any, Any], order: list[BaseException]) -> Any:
    try:
        return await work
    except BaseException as error:
        order.append(error)
        raise


def _first(order: Sequence[BaseException]) -> BaseException:
    """What is raised of all that was: a verdict is final, also one given on the way out."""
    verdicts = [wire for error in order if (wire := verdict_in(error)) is not None]
    real = [error for error in order if not isinstance(error, asyncio.CancelledError | Suspended)]
    return next(iter([*verdicts, *real, *order]), asyncio.CancelledError())
