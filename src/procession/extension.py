"""The extension point: processors that the framework adds around the user's own (R-019, R-233).

Memory, workspaces and the like reach a run only through this. They survive a call's own lists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from .engine.workers import begin_work
from .message_list import MessageList
from .request_context import RequestContext

if TYPE_CHECKING:
    from .engine.run_state import RunState

__all__ = ["Around", "Extension", "Opening", "joined", "tell_the_end"]


class Opening(Struct, frozen=True, kw_only=True):
    """What an extension is told when a run is about to start."""

    run_id: str
    agent_id: str
    request_context: RequestContext
    message_list: MessageList


class Around(Struct, kw_only=True):
    """Processors to run before and after the user's lists."""

    before_input: Sequence[Any] = ()
    after_input: Sequence[Any] = ()
    before_output: Sequence[Any] = ()
    after_output: Sequence[Any] = ()
    error: Sequence[Any] = ()


class Extension(Protocol):
    """Adds processors to every run of an agent.

    A processor with the id of one in the user's list is left out (R-021).
    """

    def extend(self, opening: Opening, /) -> Around | Awaitable[Around]:
        """The processors for one run."""
        ...

    async def run_ended(self, run: RunState, /) -> None:
        """Called once per run, whatever its end; `run.status` tells which.

        It is called in a task of its own, which comes to its end though the caller is cancelled.
        What it raises fails a run that was successful until then, and is logged for any other.

        A run that was dropped before anybody had read it is told of on its event loop. Without that
        loop there is nobody to call.
        """
        ...


def joined(before: Sequence[Any], own: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    """The combined list; what the user has placed is not added again."""
    ids = {getattr(entry, "id", None) for entry in own}
    kept = [[entry for entry in added if entry.id not in ids] for added in (before, after)]
    return [*kept[0], *own, *kept[1]]


async def tell_the_end(run: RunState, problems: list[tuple[Extension, BaseException]]) -> None:
    """Call all extensions; what they raise goes into `problems`.

    Being cancelled meanwhile cuts nothing short: it is raised when all is done.
    """
    telling = begin_work(run.interruption, _tell_each(run, problems))
    cancelled: asyncio.CancelledError | None = None
    while not telling.done():
        try:
            await asyncio.wait([telling])
        except asyncio.CancelledError as error:
            cancelled = error
    telling.result()
    if cancelled is not None:
        raise cancelled


async def _tell_each(run: RunState, problems: list[tuple[Extension, BaseException]]) -> None:
    for extension in run.extensions:
        try:
            await extension.run_ended(run)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            problems.append((extension, error))
