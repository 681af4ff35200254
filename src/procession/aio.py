"""What asyncio does too slowly for the chunk path, or too soon.

`asyncio.current_task` is written in C from 3.12 on. Before, its table of tasks is looked into.

An event loop notes every async generator that begins, and at its end closes them all at the same
time. Those that one of ours iterates are closed by that one, in order: if the loop closes them too,
it finds them running and complains. So ours begin unnoticed.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator

__all__ = ["Unnoticed", "Within", "begin", "current_task"]

T = TypeVar("T")

current_task: Callable[[Any], asyncio.Task[Any] | None]
"""The task that is running in a loop, which must be the running one."""

if sys.version_info >= (3, 12):
    current_task = asyncio.current_task
else:
    from asyncio import tasks

    table: dict[Any, asyncio.Task[Any]] = getattr(tasks, "_current_tasks")  # noqa: B009
    current_task = table.get


def begin(generator: AsyncIterator[T]) -> Awaitable[T]:
    """`anext(generator)`, the first time, for whoever closes the generator himself."""
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, hooks.finalizer)
    try:
        return generator.__anext__()
    finally:
        sys.set_asyncgen_hooks(*hooks)


class Unnoticed(Generic[T]):
    """An async generator that begins unnoticed; for loops that close it when they are left."""

    __slots__ = ("_begun", "_generator")

    def __init__(self, generator: AsyncGenerator[T, None]) -> None:
        self._generator = generator
        self._begun = False

    def __aiter__(self) -> Unnoticed[T]:
        return self

    def __anext__(self) -> Awaitable[T]:
        if self._begun:
            return self._generator.__anext__()
        self._begun = True
        return begin(self._generator)

    def aclose(self) -> Awaitable[None]:
        """Close the generator."""
        return self._generator.aclose()


class Within(Generic[T]):
    """Waits for something; generators that begin within, whatever library they are of, do so
    unnoticed. For what is closed as a whole.
    """

    __slots__ = ("_steps",)

    def __init__(self, work: Awaitable[T]) -> None:
        self._steps = work.__await__()

    def __await__(self) -> Generator[Any, Any, T]:
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            hooks = sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(None, hooks.finalizer)
            try:
                step = self._steps.send(sent) if thrown is None else self._steps.throw(thrown)
            except StopIteration as end:
                return end.value
            finally:
                sys.set_asyncgen_hooks(*hooks)
            sent = thrown = None
            try:
                sent = yield step
            except BaseException as error:
                thrown = error
