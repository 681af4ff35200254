"""The extension point: processors that the framework adds around the user's own (R-019, R-233).

Memory, workspaces and the like reach a run only through this. They survive a call's own lists.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec import Struct

from .engine.leaving import telling_processors
from .engine.own_loop import wait_for_settled
from .engine.workers import begin_work
from .errors import ConfigurationError
from .message_list import MessageList
from .request_context import RequestContext
from .tools import Tool

if TYPE_CHECKING:
    from .engine.run_state import RunState

__all__ = ["Around", "Extension", "Opening", "check_extensions", "joined", "tell_the_end"]


PATIENCE = 10.0
"""Seconds that who is told of the end has left, once the caller has been cancelled."""


class Opening(Struct, frozen=True, kw_only=True):
    """What an extension is told when a run is about to start."""

    run_id: str
    agent_id: str
    request_context: RequestContext
    message_list: MessageList
    memory: Mapping[str, Any] | None = None
    """The call's `memory` option, as it was given."""
    input_processors: Sequence[Any] = ()
    """The user's own lists."""
    output_processors: Sequence[Any] = ()
    continues: bool = False
    """Whether the run has waited for somebody's word, and goes on now."""


class Around(Struct, kw_only=True):
    """Processors to run before and after the user's lists, and tools to be offered beside his.

    A tool with the name of one of the user's is left out.
    """

    before_input: Sequence[Any] = ()
    after_input: Sequence[Any] = ()
    before_output: Sequence[Any] = ()
    after_output: Sequence[Any] = ()
    error: Sequence[Any] = ()
    tools: Mapping[str, Tool] = {}


class Extension(Protocol):
    """Adds processors to every run of an agent.

    A processor with the id of one in the user's list is left out (R-021). An extension that has a
    method `run_ended(run)` is told of the end of each run, as processors are. Who goes on with
    something behind runs should have a method `settled()`, which returns when that is done: after
    `generate_sync` and `stream_sync` the program does not end before it, for 10 seconds at most.
    """

    def extend(self, opening: Opening, /) -> Around | Awaitable[Around]:
        """The processors for one run."""
        ...


def check_extensions(entries: Any) -> tuple[Extension, ...]:
    """The extensions; raises `ConfigurationError` for one that does not extend anything."""
    if isinstance(entries, str | bytes) or not isinstance(entries, Iterable):
        raise ConfigurationError(f"extensions must be a list, not {type(entries).__name__}")
    found: tuple[Any, ...] = tuple(cast("Iterable[Any]", entries))
    for entry in found:
        if not callable(getattr(entry, "extend", None)):
            kind = type(entry).__name__
            raise ConfigurationError(f"extensions: {kind} has no method extend()")
    return found


def joined(before: Sequence[Any], own: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    """The combined list; what the user has placed is not added again."""
    ids = {getattr(entry, "id", None) for entry in own}
    kept = [[entry for entry in added if entry.id not in ids] for added in (before, after)]
    return [*kept[0], *own, *kept[1]]


async def tell_the_end(run: RunState, problems: list[tuple[str, BaseException]]) -> None:
    """Tell processors and extensions; who raised what goes into `problems`.

    Being cancelled meanwhile cuts nothing short that ends within `PATIENCE` seconds: it is raised
    when all is done. What hangs for longer is cancelled as well.
    """
    telling = begin_work(run.interruption, _tell_each(run, problems))
    cancelled: asyncio.CancelledError | None = None
    while not telling.done():
        try:
            await asyncio.wait([telling], timeout=None if cancelled is None else PATIENCE)
        except asyncio.CancelledError as error:
            cancelled = error
        else:
            if not telling.done():
                telling.cancel()  # what hangs; the next one is told
    wait_for_settled((*run.pipeline.closers, *run.extensions))
    if not telling.cancelled():
        telling.result()
    if cancelled is not None:
        raise cancelled


async def _tell_each(run: RunState, problems: list[tuple[str, BaseException]]) -> None:
    observer = run.observer
    for teller, run_ended, told in chain(telling_processors(run), _extensions(run)):
        mark = None if observer is None else observer.ending_begins(run, run_ended)
        try:
            returned = run_ended(told)
            if inspect.isawaitable(returned):
                await returned
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            problems.append((teller, error))
            if observer is not None:
                observer.ending_ended(run, mark, error)
        else:
            if observer is not None:
                observer.ending_ended(run, mark, None)


def _extensions(run: RunState) -> Iterator[tuple[str, Any, Any]]:
    for extension in run.extensions:
        run_ended = getattr(extension, "run_ended", None)
        if run_ended is not None:
            yield f"extension {type(extension).__name__}", run_ended, run
