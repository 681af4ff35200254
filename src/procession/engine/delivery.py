"""Delivering a chunk of the engine's own making: offered like any other, then on its way.

And what a run does piece by piece: phases, which yield what is written while they are at work.
"""

from __future__ import annotations

from contextlib import aclosing
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ..aio import Unnoticed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..chunks import Chunk
    from .run_state import RunState

    Phase = AsyncGenerator[list[Chunk], None] | CoroutineType[Any, Any, None]
    """A piece of a run: a coroutine where nobody could be heard meanwhile, which costs less."""

__all__ = ["batches", "deliver", "pass_on", "phase_of"]


def phase_of(run: RunState, work: CoroutineType[Any, Any, None], *, writes: bool) -> Phase:
    """`work` as a phase; `writes` says whether a hook may write while it is called."""
    return run.outbox.attend(work) if writes else work


async def batches(run: RunState, phase: Phase) -> AsyncGenerator[list[Chunk], None]:
    """What a phase delivers, for a phase that contains it."""
    if isinstance(phase, CoroutineType):
        await phase
    else:
        async with aclosing(Unnoticed(phase)) as written:
            async for batch in written:
                yield batch
    if run.out:
        yield run.take_out()


def deliver(run: RunState, chunk: Chunk) -> AsyncGenerator[list[Chunk], None]:
    """Offer a chunk, and yield what is to be delivered."""
    return batches(run, phase_of(run, pass_on(run, chunk), writes=run.gate.writes))


async def pass_on(run: RunState, chunk: Chunk, passed: list[Chunk] | None = None) -> None:
    """Offer a chunk, and put what came through into the batch under way."""
    through = await run.gate.through(chunk)
    if through is not None:
        run.out.append(through)
        if passed is not None:
            passed.append(through)
    if run.gate.late:
        await run.gate.let_in()
