"""Delivering a chunk of the engine's own making: offered like any other, then on its way."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .chunks import Chunk
    from .run_state import RunState

__all__ = ["deliver", "pass_on"]


async def deliver(
    run: RunState, chunk: Chunk, passed: list[Chunk] | None = None
) -> AsyncGenerator[list[Chunk], None]:
    """Offer a chunk, and yield what is to be delivered; `passed` takes in what came through."""
    if run.gate.writes:
        work = pass_on(run, chunk, passed)
        async with aclosing(run.outbox.attend(work)) as written:
            async for batch in written:
                yield batch
    else:
        await pass_on(run, chunk, passed)
    if run.out:
        yield run.take_out()


async def pass_on(run: RunState, chunk: Chunk, passed: list[Chunk] | None = None) -> None:
    """Offer a chunk, and put what came through into the batch under way."""
    through = await run.gate.through(chunk)
    if through is not None:
        run.out.append(through)
        if passed is not None:
            passed.append(through)
