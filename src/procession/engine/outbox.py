"""What hooks and tools write to the client, and how it gets there while they go on.

Whoever writes brings the chunk through the gate itself, into the batch that the pull will deliver.
Hooks that may write, and tools, run beside the pull, which listens as long as it waits for them:
then the writer goes on once the consumer has got the chunk.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from copy import copy
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET

from ..aio import Unnoticed
from ..chunks import Chunk, ToolOutputPayload
from ..errors import InputError, ProcessionError
from ..records import clean_json, clean_kept, clean_record, clean_text, own
from ..structured.object_chunk import ObjectChunk, Validated
from ..structured.partial_json import PartialValue
from .reminders import send_signal
from .screening import Screen
from .workers import begin_work, stop

if TYPE_CHECKING:
    from ..signals import Signal
    from .run_state import RunState

__all__ = ["Outbox", "StreamWriter", "data_chunk", "object_chunk"]

TO_ALL = -1
TO_CLIENT = 1_000_000


def data_chunk(given: Any) -> Chunk:
    """A chunk as its writer gave it, with clean texts.

    Raises `InputError` unless it is a `data-…` chunk that has a JSON form (R-196).
    """
    if isinstance(given, Chunk):
        chunk = copy(given)
    elif isinstance(given, Mapping):
        chunk = Chunk.from_json(dict(cast("Mapping[str, Any]", given)))
    else:
        raise InputError(f"writer.custom takes a chunk or a mapping, not {type(given).__name__}")
    if not chunk.type.startswith("data-"):
        raise InputError(
            f"writer.custom: the type must begin with 'data-', for example 'data-status'; "
            f"got {chunk.type!r}"
        )
    try:
        if chunk.data is not UNSET:
            chunk.data = own(clean_json(chunk.data))
        clean_record(chunk)
    except InputError as error:
        raise InputError(f"writer.custom, chunk {clean_text(chunk.type)!r}: {error}") from None
    return chunk


def object_chunk(value: Any, final: bool, metadata: Mapping[str, Any] | None) -> Chunk:
    """A chunk with an object; raises `InputError` for a value without a JSON form."""
    if not isinstance(value, PartialValue | Validated):
        value = own(clean_json(value))
    kind = "object-result" if final else "object"
    return ObjectChunk.of(kind, value, metadata=clean_kept(dict(metadata)) if metadata else None)


class StreamWriter:
    """The writer a hook gets (`ProcessorStreamWriter`)."""

    __slots__ = ("_after", "_outbox")

    def __init__(self, outbox: Outbox, after: int) -> None:
        self._outbox = outbox
        self._after = after

    async def custom(
        self, chunk: Chunk | Mapping[str, Any], options: Mapping[str, Any] | None = None
    ) -> None:
        """Deliver a `data-…` chunk; another type raises `InputError` (R-195 to R-201).

        Raises `ProcessionError` when the run has ended.
        """
        await self._outbox.write(data_chunk(chunk), self._after)

    async def object(
        self, value: Any, *, final: bool = False, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Deliver an `object` chunk, or with `final` the `object-result` (R-562)."""
        await self._outbox.write(object_chunk(value, final, metadata), self._after)

    def screen(self) -> Screen:
        """The run's guards that look at objects: who makes one brings it past them first."""
        return Screen(self._outbox.run)

    async def send_signal(self, signal: Any) -> Signal:
        """Add a reminder to the conversation (R-713 to R-718)."""
        return await send_signal(self._outbox.run, signal, self)


class CallWriter(StreamWriter):
    """The writer a tool gets: data chunks, and `tool-output` for anything else."""

    __slots__ = ("_tool_call_id", "_tool_name")

    def __init__(self, outbox: Outbox, tool_call_id: str, tool_name: str) -> None:
        super().__init__(outbox, TO_ALL)
        self._tool_call_id = tool_call_id
        self._tool_name = tool_name

    async def custom(
        self, chunk: Chunk | Mapping[str, Any], options: Mapping[str, Any] | None = None
    ) -> None:
        """Deliver a `data-…` chunk; another type raises `InputError`."""
        await self._outbox.write(data_chunk(chunk), TO_ALL, patient=True)

    async def write(self, output: Any) -> None:
        """Deliver `output` at once, in a `tool-output` chunk.

        Raises `InputError` for plain data that contains itself or is nested too deeply.
        """
        try:
            output = own(clean_kept(output))
        except InputError as error:
            raise InputError(f"writer.write, tool {self._tool_name!r}: {error}") from None
        payload = ToolOutputPayload(
            tool_call_id=self._tool_call_id, tool_name=self._tool_name, output=output
        )
        chunk = Chunk("tool-output", payload, from_="USER")
        await self._outbox.write(chunk, TO_ALL, patient=True)


class Outbox:
    """Takes what is written during a run and brings it to the gate."""

    __slots__ = ("_held", "_listening", "_untold", "_wake", "run")

    def __init__(self, run: RunState) -> None:
        self.run = run
        self._held = False
        self._listening = 0
        self._untold: list[asyncio.Future[None]] = []
        self._wake: asyncio.Future[None] | None = None

    def writer(self, after: int = TO_ALL) -> StreamWriter:
        """A writer whose chunks are offered to the processors behind position `after`."""
        return StreamWriter(self, after)

    def writer_to_client(self) -> StreamWriter:
        """A writer whose chunks no processor is offered (R-198, `process_output_result`)."""
        return StreamWriter(self, TO_CLIENT)

    async def write(self, chunk: Chunk, after: int, *, patient: bool = False) -> None:
        """Bring a chunk on its way; returns when it has been delivered (R-517).

        A chunk that would have to pass a post where another one is being looked at follows behind
        that one. Then, and when the pull is busy with a hook that may be waiting for this very
        call, a hook does not wait for the delivery. Tools, which no hook waits for, are `patient`:
        they always do, so that they cannot write faster than is read.
        """
        if self.run.settled:
            raise ProcessionError("the run has ended: nothing can be written to its stream")
        if self.run.halt is not None:
            raise self.run.halt  # a verdict was given: who made light of it asks nobody again
        if after < self.run.gate.turns.at:
            told = asyncio.get_running_loop().create_future() if patient else None
            self.run.gate.late.append((chunk, after, told))
            await (told if told is not None else asyncio.sleep(0))
            return
        try:
            await self.run.deliver_written(chunk, after)
        except BaseException:
            self.wake()
            raise
        if self._listening or (patient and self._held):
            if asyncio.current_task() is self.run.interruption.reader:
                return  # who reads the run cannot wait for its own reading
            told = asyncio.get_running_loop().create_future()
            self.tell_later(told)
            await told

    def hold(self) -> None:
        """From now on tools run, which wait until what they write has been delivered."""
        self._held = True

    def let_go(self) -> None:
        """The opposite of `hold`; who still waits is told."""
        self._held = False
        self._tell(self._untold)

    def tell_later(self, told: asyncio.Future[None]) -> None:
        """Resolve `told` when what is in the batch now has been delivered."""
        self._untold.append(told)
        self.wake()

    def wake(self, _: object = None) -> None:
        """Something was written, or a task that is waited for has ended."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def wait(self) -> None:
        """Until `wake` is called."""
        wake = self._wake = asyncio.get_running_loop().create_future()
        await wake

    async def attend(self, work: Coroutine[Any, Any, None]) -> AsyncGenerator[list[Chunk], None]:
        """Run `work` beside the stream; yields what it writes, and raises what it raises."""
        task = begin_work(self.run.interruption, work)
        try:
            async with aclosing(Unnoticed(self.until_done(task))) as written:
                async for batch in written:
                    yield batch
        finally:
            await stop(task)
        task.result()

    async def until_done(self, task: asyncio.Task[Any]) -> AsyncGenerator[list[Chunk], None]:
        """Yield what is written until `task` has ended (however it ends).

        Raises what a guard said of something written beside the pull meanwhile.
        """
        run = self.run
        self._listening += 1
        task.add_done_callback(self.wake)
        try:
            while True:
                untold, self._untold = self._untold, []
                if run.out:
                    yield run.take_out()
                self._tell(untold)
                if run.halt is not None:
                    raise run.halt
                if run.out or self._untold:
                    continue
                if task.done():
                    return
                wake = self._wake = asyncio.get_running_loop().create_future()
                await wake
        finally:
            self._listening -= 1
            task.remove_done_callback(self.wake)
            self._tell(self._untold)

    @staticmethod
    def _tell(untold: list[asyncio.Future[None]]) -> None:
        for told in untold:
            if not told.done():
                told.set_result(None)
        untold.clear()
