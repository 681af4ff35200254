"""Hooks that keep chunks back on their own, and when they are asked to let go of them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from ..aio import Unnoticed
from .workers import begin_work, stop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from ..chunks import Chunk
    from ..hold import Watch
    from ..hook_args import ProcessOutputStreamArgs
    from .run_state import RunState

__all__ = ["Flush", "Hearing", "LetsGo", "StandsAtGate"]


class LetsGo(Protocol):
    """What keeps chunks at a post of the gate, and lets go of them."""

    @property
    def is_set(self) -> bool:
        """Whether there is something that the wait for the model is to be interrupted for."""
        ...

    @property
    def is_due(self) -> bool:
        """Whether the time for that has come."""
        ...

    @property
    def is_beside(self) -> bool:
        """Whether hooks are at work beside the stream."""
        ...

    def __call__(self, args: ProcessOutputStreamArgs[Any], /) -> Any:
        """Let go of all there is: it is returned, or has left when this is done."""
        ...

    def when_due(self, args: ProcessOutputStreamArgs[Any], /) -> Any:
        """Let go of that for which the time has come."""
        ...

    def cancel(self) -> None:
        """Forget what is there: another attempt begins, or nothing follows."""
        ...


class StandsAtGate(LetsGo, Protocol):
    """What a processor brings along that stands for several, each with its own way of keeping
    chunks back (`stand_at_gate`).
    """

    watches: Sequence[Watch]
    """What cuts the text that it is handed, if anything does."""

    async def hook(self, args: ProcessOutputStreamArgs[Any], /) -> Any:
        """In the place of a hook."""
        ...

    def posts_for_objects(self) -> list[Any]:
        """The posts within whose hooks are called with the leaves of objects."""
        ...

    async def stop(self) -> None:
        """Nothing is at work beside the stream any more when this returns."""
        ...


class Flush:
    """A processor's `flush`, and the time at which it is due."""

    is_beside = False

    __slots__ = ("_function", "_timer", "_wake", "is_due")

    def __init__(
        self,
        function: Callable[[Any], Any],
        args: ProcessOutputStreamArgs[Any],
        wake: Callable[[], None],
    ) -> None:
        self._function = function
        self._timer: asyncio.TimerHandle | None = None
        self._wake = wake
        self.is_due = False
        args.set_timer = self._within

    def __call__(self, args: ProcessOutputStreamArgs[Any]) -> Any:
        """What the processor lets go of."""
        self.cancel()
        return self._function(args.state)

    when_due = __call__

    @property
    def is_set(self) -> bool:
        """Whether there is a time at which it is due, past or to come."""
        return self._timer is not None

    def cancel(self) -> None:
        """No time is set any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.is_due = None, False

    def _within(self, seconds: float) -> None:
        self.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)

    def _ring(self) -> None:
        self.is_due = True
        self._wake()


_OVER: Any = object()


class Hearing:
    """A read of the model's that is waited for, while timers are heard."""

    __slots__ = ("_run", "_task")

    def __init__(self, run: RunState, following: Awaitable[Any]) -> None:
        self._run = run
        self._task = begin_work(run.interruption, _read(following))

    async def batches(self) -> AsyncGenerator[list[Chunk], None]:
        """Yield what hooks let go of until the read is there, or will never be."""
        run, task = self._run, self._task
        gate, outbox, interruption = run.gate, run.outbox, run.interruption
        task.add_done_callback(outbox.wake)
        try:
            while not task.done():
                interruption.waiting = False
                if gate.is_due:
                    work = gate.let_go_of_own(due=True)
                    if gate.writes:
                        async with aclosing(Unnoticed(outbox.attend(work))) as written:
                            async for batch in written:
                                yield batch
                    else:
                        await work
                    if run.out:
                        yield run.take_out()
                    continue  # meanwhile the read may have come, or something may be due
                interruption.check()
                if run.out:
                    yield run.take_out()
                    continue
                interruption.waiting = True
                await outbox.wait()
            interruption.waiting = True
        finally:
            task.remove_done_callback(outbox.wake)
            await stop(task)

    def read(self) -> Any:
        """What the model has delivered; raises what it raised."""
        found = self._task.result()
        if found is _OVER:
            raise StopAsyncIteration
        return found


async def _read(following: Awaitable[Any]) -> Any:
    try:
        return await following
    except StopAsyncIteration:
        return _OVER
