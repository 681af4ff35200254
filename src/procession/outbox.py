"""What hooks and tools write to the client, and how it gets there while they go on.

A hook that runs inside the pull writes straight into the batch that the pull will deliver. Hooks
that may write, and tools, run beside the pull: what they write waits in a queue that the engine
empties as long as it waits for them, and the writer goes on once the consumer has got the chunk.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET

from .chunks import Chunk, ToolOutputPayload
from .errors import InputError
from .records import clean_json, clean_kept, clean_record, clean_text

if TYPE_CHECKING:
    from .run_state import RunState

__all__ = ["Outbox", "StreamWriter", "data_chunk"]

TO_ALL = -1
TO_CLIENT = 1_000_000


def data_chunk(given: Any) -> Chunk:
    """A chunk as its writer gave it, with clean texts.

    Raises `InputError` unless it is a `data-…` chunk that has a JSON form (R-196).
    """
    if isinstance(given, Chunk):
        chunk = given
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
            chunk.data = clean_json(chunk.data)
        clean_record(chunk)
    except InputError as error:
        raise InputError(f"writer.custom, chunk {clean_text(chunk.type)!r}: {error}") from None
    return chunk


class StreamWriter:
    """The writer a hook gets (`ProcessorStreamWriter`)."""

    __slots__ = ("_after", "_outbox")

    def __init__(self, outbox: Outbox, after: int) -> None:
        self._outbox = outbox
        self._after = after

    async def custom(
        self, chunk: Chunk | Mapping[str, Any], options: Mapping[str, Any] | None = None
    ) -> None:
        """Deliver a `data-…` chunk; another type raises `InputError` (R-195 to R-201)."""
        await self._outbox.write(data_chunk(chunk), self._after)


class CallWriter(StreamWriter):
    """The writer a tool gets: data chunks, and `tool-output` for anything else."""

    __slots__ = ("_tool_call_id", "_tool_name")

    def __init__(self, outbox: Outbox, tool_call_id: str, tool_name: str) -> None:
        super().__init__(outbox, TO_ALL)
        self._tool_call_id = tool_call_id
        self._tool_name = tool_name

    async def write(self, output: Any) -> None:
        """Deliver `output` at once, in a `tool-output` chunk.

        Raises `InputError` for plain data that contains itself or is nested too deeply.
        """
        try:
            output = clean_kept(output)
        except InputError as error:
            raise InputError(f"writer.write, tool {self._tool_name!r}: {error}") from None
        payload = ToolOutputPayload(
            tool_call_id=self._tool_call_id, tool_name=self._tool_name, output=output
        )
        await self._outbox.write(Chunk("tool-output", payload, from_="USER"), TO_ALL)


class Outbox:
    """Takes what is written during a run and brings it to the gate."""

    __slots__ = ("_attending", "_run", "_waiting", "_wake")

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._attending = 0
        self._waiting: deque[tuple[Chunk, int, asyncio.Future[None]]] = deque()
        self._wake: asyncio.Future[None] | None = None

    def writer(self, after: int = TO_ALL) -> StreamWriter:
        """A writer whose chunks are offered to the processors behind position `after`."""
        return StreamWriter(self, after)

    def writer_to_client(self) -> StreamWriter:
        """A writer whose chunks no processor is offered (R-198, `process_output_result`)."""
        return StreamWriter(self, TO_CLIENT)

    async def write(self, chunk: Chunk, after: int) -> None:
        """Bring a chunk on its way; returns when it has been delivered (R-517)."""
        if not self._attending or asyncio.current_task() is self._run.interruption.puller:
            # The pull itself runs the hook: what it writes goes into the batch under way.
            await self._run.deliver_written(chunk, after)
            return
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((chunk, after, taken))
        self.wake()
        await taken

    def hold(self) -> None:
        """From now on, what side tasks write waits until it is attended to."""
        self._attending += 1

    def let_go(self) -> None:
        """The opposite of `hold`."""
        self._attending -= 1

    def wake(self, _: object = None) -> None:
        """Something was written, or a task that is waited for has ended."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def attend(
        self, work: Coroutine[Any, Any, None], *, offering: bool = False
    ) -> AsyncGenerator[list[Chunk], None]:
        """Run `work` beside the stream; yields what it writes, and raises what it raises.

        `offering` says that the work is a chunk's way through the gate: until it is through, only
        what the stream hooks on its way write is let pass, for the gate serves one at a time.
        """
        task = asyncio.create_task(work)
        try:
            async with aclosing(self.until_done(task, offering=offering)) as written:
                async for batch in written:
                    yield batch
        finally:
            await stop(task)
        task.result()

    async def until_done(
        self, task: asyncio.Task[Any], *, offering: bool = False
    ) -> AsyncGenerator[list[Chunk], None]:
        """Yield what is written until `task` has ended (however it ends).

        Raises a verdict that was given beside the pull meanwhile.
        """
        run = self._run
        self.hold()
        task.add_done_callback(self.wake)
        try:
            while True:
                while (entry := self._next(offering)) is not None:
                    chunk, after, taken = entry
                    work = run.deliver_written(chunk, after)
                    if run.gate.writes:
                        async with aclosing(self.attend(work, offering=True)) as written:
                            async for batch in written:
                                yield batch
                    else:
                        await work
                    batch = run.take_out()
                    if not taken.done():
                        taken.set_result(None)
                    if batch:
                        yield batch
                if run.verdict is not None:
                    raise run.verdict
                if task.done():
                    return
                wake = self._wake = asyncio.get_running_loop().create_future()
                await wake
        finally:
            self.let_go()
            task.remove_done_callback(self.wake)

    def _next(self, offering: bool) -> tuple[Chunk, int, asyncio.Future[None]] | None:
        """The next chunk that may pass now."""
        for position, entry in enumerate(self._waiting):
            if not offering or entry[1] >= 0:
                del self._waiting[position]
                return entry
        return None


async def stop(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it is gone; what it raises then is nobody's concern."""
    if task.done():
        return
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # read, so that nobody is told it was lost
