"""Listening to the model: every chunk passes the gate as it comes (R-046 to R-049)."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..aio import Unnoticed
from ..aio import begin as begin_unnoticed
from ..errors import ModelError
from .asking import ModelFailure, read_failure, retries_of
from .choices import model_request
from .delivery import deliver
from .flushing import Hearing
from .frames import step_start_chunk
from .intake import Intake
from .interruption import Interrupted
from .tracks import report_call

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from ..chunks import Chunk
    from ..retrying import Retries
    from .run_state import RunState
    from .step import Step

__all__ = ["begin", "listen"]


# One frame for a read, not several.
async def listen(run: RunState, step: Step) -> AsyncGenerator[list[Chunk], None]:  # noqa: C901, PLR0915
    """Ask the model, or replay a response, and let what it delivers pass.

    Raises `ModelFailure` when the call fails, `TripWire` for a verdict; either way the model's
    connection is closed when this returns.
    """
    step.asked = True
    intake, stop, out = Intake(run, step), run.interruption, run.out
    request = model_request(run, step)
    retries = retries_of(step, request)
    read: Any = ()
    gate = run.gate
    while True:
        started = perf_counter()
        source = _source(step, request)
        pause: float | None = None
        failure: Exception | None = None
        stop.waiting = True  # and only while the model is waited for: failures are its own then
        try:
            following = begin_unnoticed(source)
            while True:
                try:
                    if gate.flushes and gate.has_timers:
                        hearing = Hearing(run, following)
                        async with aclosing(Unnoticed(hearing.batches())) as written:
                            async for batch in written:
                                yield batch
                        read = hearing.read()
                    else:
                        read = await following
                except StopAsyncIteration:
                    break
                stop.waiting = False
                if intake.writes:
                    taking = Unnoticed(run.outbox.attend(intake.take(read)))
                    async with aclosing(taking) as written:
                        async for batch in written:
                            yield batch
                else:
                    await intake.take(read)
                if out:
                    batch = out.copy()
                    out.clear()
                    yield batch
                if stop.is_armed:
                    stop.check()
                stop.waiting = True
                following = source.__anext__()
        except Exception as error:
            failure = error
            pause = _pause_after(run, step, retries, error, read)
        finally:
            unread: Sequence[Chunk] = () if stop.waiting else read
            stop.waiting = False
            await _close(source)
            error = failure or sys.exception()
            report_call(run, step, perf_counter() - started, unread, error)
        if pause is None:
            break
        stop.waiting = True
        await asyncio.sleep(pause)
    await intake.end()
    if out:
        yield run.take_out()


def _source(step: Step, request: Any) -> Any:
    if step.replay is not None:
        return _replayed(step.replay)
    source: Any = step.model.stream(request)
    if not hasattr(source, "__aiter__"):
        if hasattr(source, "close"):
            source.close()  # a coroutine would complain that nobody awaited it
        raise ModelFailure(
            ModelError(
                f"model {step.model_id!r}: stream(request) must be an async generator of lists of "
                f"chunks, not {type(source).__name__}"
            )
        )
    return source


def _pause_after(run: RunState, step: Step, retries: Retries, error: Exception, read: Any) -> float:
    """How long to wait before the call is tried again; raises when it is not."""
    stop = run.interruption
    if isinstance(error, ModelFailure | Interrupted):
        raise error
    if not stop.waiting:  # a hook raised, unless what the model delivered could not be taken in
        failure = read_failure(run, step, read, error)
        if failure is not None:
            raise failure from error
        raise error
    if stop.is_behind(error):
        raise Interrupted from error
    if _is_cancelled():
        raise asyncio.CancelledError from error
    pause = None if step.started else retries.pause_after(error)
    if pause is None:
        raise ModelFailure(error) from error
    return pause


def _is_cancelled() -> bool:
    """Whether an error is how a cancelled caller shows: transports make errors of that."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _close(source: Any) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()


async def begin(run: RunState, step: Step) -> AsyncGenerator[list[Chunk], None]:
    """`step-start` of a call that failed before anything came (R-047)."""
    if not step.started:
        step.started = True
        async with aclosing(deliver(run, step_start_chunk(run, step))) as delivered:
            async for batch in delivered:
                yield batch


async def _replayed(chunks: list[Chunk]) -> AsyncGenerator[Sequence[Chunk], None]:
    yield [chunk for chunk in chunks if chunk.type != "step-start"]
