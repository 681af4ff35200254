"""Listening to the model: every chunk passes the gate as it comes (R-046 to R-049)."""

from __future__ import annotations

from contextlib import aclosing
from time import perf_counter
from typing import TYPE_CHECKING

from .asking import ModelFailure, ask
from .choices import model_request
from .delivery import deliver
from .frames import step_start_chunk
from .intake import Intake
from .interruption import Interrupted
from .tracks import report_call

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from .chunks import Chunk
    from .run_state import RunState
    from .step import Step

__all__ = ["listen"]


async def listen(run: RunState, step: Step) -> AsyncGenerator[list[Chunk], None]:
    """Ask the model, or replay a response, and let what it delivers pass.

    Raises `ModelFailure` when the call fails, `TripWire` for a verdict; either way the model's
    connection is closed when this returns.
    """
    step.asked = True
    intake = Intake(run, step)
    stop = run.interruption
    source = _replayed(step.replay) if step.replay else ask(run, model_request(run, step))
    started = perf_counter()
    stop.waiting = True
    try:
        async for read in source:
            stop.waiting = False
            if intake.writes:
                async with aclosing(run.outbox.attend(intake.take(read))) as written:
                    async for batch in written:
                        yield batch
            else:
                await intake.take(read)
            if run.out:
                yield run.take_out()
            stop.check()
            stop.waiting = True
    except ModelFailure as failure:
        if stop.is_behind(failure):
            raise Interrupted from failure
        raise
    finally:
        stop.waiting = False
        await source.aclose()
        report_call(run, step, perf_counter() - started)
    await intake.end()
    if run.out:
        yield run.take_out()


async def begin(run: RunState, step: Step) -> AsyncGenerator[list[Chunk], None]:
    """`step-start` of a call that failed before anything came (R-047)."""
    if not step.started:
        step.started = True
        async with aclosing(deliver(run, step_start_chunk(run, step))) as delivered:
            async for batch in delivered:
                yield batch


async def _replayed(chunks: list[Chunk]) -> AsyncGenerator[Sequence[Chunk], None]:
    yield [chunk for chunk in chunks if chunk.type != "step-start"]
