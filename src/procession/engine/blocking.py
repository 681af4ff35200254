"""For scripts and notebooks: runs on an event loop of our own, in a thread, so that a caller may
stand inside a running loop or outside of any.
"""

from __future__ import annotations

from threading import current_thread
from typing import TYPE_CHECKING, Any

from .own_loop import Held, run_blocking

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from threading import Thread

    from ..chunks import Chunk
    from ..run import Run

__all__ = ["run_blocking", "stream_blocking"]


def stream_blocking(start: Callable[[], Awaitable[Run]]) -> Iterator[Chunk]:
    """The chunks of a run, each pulled when it is asked for."""
    chunks, run, held = run_blocking(_opened(start, current_thread()))
    try:
        while (chunk := run_blocking(_next_of(chunks))) is not None:
            yield chunk
        if run.error is not None:  # there is no run object here that would tell of it
            raise run.error
    finally:
        held.close()


async def _opened(start: Callable[[], Awaitable[Run]], thread: Thread) -> tuple[Any, Run, Held]:
    run = await start()
    chunks = run.full_stream

    async def close() -> None:
        await run.aclose()  # it ends who reads, if anybody still does
        await chunks.aclose()

    return chunks, run, Held(close, thread)


async def _next_of(chunks: Any) -> Any:
    return await anext(chunks, None)
