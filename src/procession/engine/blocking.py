"""For scripts and notebooks: runs on an event loop of our own, in a thread, so that a caller may
stand inside a running loop or outside of any.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from ..chunks import Chunk
    from ..run import Run

__all__ = ["run_blocking", "stream_blocking"]

T = TypeVar("T")

_PATIENCE = 1.0

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _own_loop() -> asyncio.AbstractEventLoop:
    """The one loop all blocking calls share, so that connections can be used again."""
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_work, args=(_loop,), name="procession", daemon=True)
            thread.start()
            atexit.register(_wind_up, _loop, thread)
        return _loop


def _work(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _wind_up(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """When the program ends: end what still works on the loop, such as a pool of connections."""
    with suppress(Exception):
        asyncio.run_coroutine_threadsafe(_cancel_the_rest(), loop).result(2 * _PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE)


async def _cancel_the_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=_PATIENCE)


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end and return what it returns; Ctrl-C cancels it.

    Raises `RuntimeError` when called from code that itself runs on that loop (a hook or tool).
    """
    loop = _own_loop()
    if _running_loop() is loop:
        work.close()
        raise RuntimeError("a blocking call inside a hook or tool would wait for itself: await it")
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _next_of(chunks: Any) -> Any:
    return await anext(chunks, None)


async def _awaited(start: Callable[[], Awaitable[T]]) -> T:
    return await start()


def stream_blocking(start: Callable[[], Awaitable[Run]]) -> Iterator[Chunk]:
    """The chunks of a run, each pulled when it is asked for."""
    run = run_blocking(_awaited(start))
    chunks = run.full_stream
    try:
        while (chunk := run_blocking(_next_of(chunks))) is not None:
            yield chunk
        if run.error is not None:  # there is no run object here that would tell of it
            raise run.error
    finally:
        run_blocking(_closed(run, chunks))


async def _closed(run: Run, chunks: Any) -> None:
    await chunks.aclose()
    await run.aclose()
