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

__all__ = ["side_by_side"]


async def side_by_side(execution: Execution, work: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """What each of them gives, in order.

    The first one that raises ends the others, which are cancelled and waited for; of several that
    raise at once a verdict counts before an error, and then the first of the list. One that is
    suspended ends nobody: it counts when the others have ended well.
    """
    if len(work) < 2:
        return [await each for each in work]
    tasks = [execution.begin(each) for each in work]
    try:
        open_ = set(tasks)
        while open_:
            done, open_ = await asyncio.wait(open_, return_when=asyncio.FIRST_COMPLETED)
            failed = [task for task in tasks if task in done and _is_failed(task)]
            if failed:
                await stop(*open_)
                raise _first(failed, [task for task in tasks if task.done()])
    except asyncio.CancelledError:
        await stop(*tasks)
        raise
    waiting = next((e for task in tasks if (e := task.exception()) is not None), None)
    if waiting is not None:
        raise waiting
    return [task.result() for task in tasks]


def _is_failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or not isinstance(task.exception(), Suspended | None)


def _first(failed: Sequence[asyncio.Task[Any]], ended: Sequence[asyncio.Task[Any]]) -> Any:
    """What is raised of all that was: a verdict is final, also one given on the way out."""
    errors = [_error_of(task) for task in (*failed, *ended)]
    verdicts = [wire for error in errors if (wire := verdict_in(error)) is not None]
    real = [error for error in errors if not isinstance(error, _NOTHING)]
    return next(iter([*verdicts, *real, *errors]))


_NOTHING = (asyncio.CancelledError, Suspended, type(None))


def _error_of(task: asyncio.Task[Any]) -> BaseException | None:
    return asyncio.CancelledError() if task.cancelled() else task.exception()
