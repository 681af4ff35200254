"""The run handle: what `agent.stream()` gives, and what everyone reads the run through.

The engine is pulled by whoever reads: iterating a stream, or awaiting one of its values. What was
delivered is kept, so that a stream can be read more than once (R-537).
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from .aio import current_task
from .closing import cut_off, settle
from .output import FullOutput

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
    from types import TracebackType

    from .chunks import Chunk, Usage
    from .loop import Loop
    from .message_list import MessageList
    from .results import ResponseInfo, StepResult, Tripwire

__all__ = ["MastraModelOutput", "Run", "Starting"]

T = TypeVar("T")

CONTENT = frozenset(
    {
        "text-delta",
        "reasoning-delta",
        "source",
        "file",
        "tool-call-input-streaming-start",
        "tool-call-delta",
        "tool-call",
        "tool-result",
        "tool-error",
        "object",
        "raw",
    }
)
"""What `on_chunk` is called for (R-554)."""


class Value(Generic[T]):
    """A value that is there once the run has ended: `await run.text`.

    Awaiting it drives the run to its end; it may be awaited again, and by several tasks.
    """

    __slots__ = ("_name", "_run")

    def __init__(self, run: Run, name: str) -> None:
        self._run = run
        self._name = name

    def __await__(self) -> Generator[Any, None, T]:
        return cast("Generator[Any, None, T]", self._run.value(self._name).__await__())


class Run:
    """A run of an agent (the reference's `MastraModelOutput`, R-536).

    Iterate it, or `full_stream`, for chunks; await `text`, `usage`, `steps`, … for the outcome.
    Leaving the loop early pauses the run; `aclose`, leaving `async with`, or dropping the object
    closes the model's connection and leaves no task behind.
    """

    def __init__(self, loop: Loop) -> None:
        self._state = loop.run
        self._engine: AsyncGenerator[list[Chunk], None] = loop.chunks()
        self._delivered: list[Chunk] = []
        self._done = False
        self._busy = False
        self._watched = "on_chunk" in self._state.callbacks
        self._others: list[asyncio.Future[None]] = []
        if self._state.on_release is not None:
            # A run that is dropped unread has no end of its own at which it could be let go.
            weakref.finalize(self, self._state.on_release).atexit = False

    # ── what is known from the start ───────────────────────────────────────────────────────────

    @property
    def run_id(self) -> str:
        """The run's id, on every chunk."""
        return self._state.run_id

    @property
    def message_id(self) -> str:
        """The id of the message that the answer goes into."""
        return self._state.message_id

    @property
    def message_list(self) -> MessageList:
        """The run's message list."""
        return self._state.message_list

    @property
    def tripwire(self) -> Tripwire | None:
        """Who stopped the run and why, once that has happened (R-168)."""
        return self._state.tripwire

    @property
    def error(self) -> BaseException | None:
        """The exception the run failed with, as it was raised (R-552)."""
        return self._state.error

    @property
    def status(self) -> str:
        """`running`, `success`, `failed`, `canceled` or `tripwire` (R-547)."""
        return self._state.status

    # ── streams ────────────────────────────────────────────────────────────────────────────────

    @property
    def full_stream(self) -> AsyncGenerator[Chunk, None]:
        """All delivered chunks, from the beginning each time (R-537)."""
        return self._chunks()

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self._chunks()

    @property
    def text_stream(self) -> AsyncGenerator[str, None]:
        """The text of all text deltas, after processors (R-538)."""
        return self._texts()

    async def _chunks(self) -> AsyncGenerator[Chunk, None]:
        # The pull is written out here, for it happens once per read; `_pull` is the same.
        delivered = self._delivered
        stop, advance = self._state.interruption, self._engine.__anext__
        loop = asyncio.get_running_loop()
        position = 0
        while True:
            while position < len(delivered):
                chunk = delivered[position]
                position += 1
                yield chunk
            if self._done:
                return
            if self._busy or self._watched:
                await self._pull()
                continue
            self._busy = True
            stop.puller = current_task(loop)
            try:
                delivered += await advance()
            except StopAsyncIteration:
                self._done = True
            except BaseException:
                self._done = True
                raise
            finally:
                stop.puller = None
                self._busy = False
                if self._others:
                    self._wake_others()

    async def _texts(self) -> AsyncGenerator[str, None]:
        async for chunk in self._chunks():
            if chunk.type == "text-delta":
                yield chunk.payload.text

    async def _pull(self) -> None:
        """Let the engine go on until it has delivered something, or has ended.

        One reader drives the engine; others wait until it has.
        """
        if self._busy:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._others.append(turn)
            await turn
            return
        self._busy = True
        state = self._state
        stop = state.interruption
        stop.puller = current_task(asyncio.get_running_loop())
        try:
            batch = await self._engine.__anext__()
            self._delivered += batch
            if self._watched:
                await self._call_back(batch)
        except StopAsyncIteration:
            self._done = True
        except BaseException:
            self._done = True
            raise
        finally:
            stop.puller = None
            self._busy = False
            if self._others:
                self._wake_others()

    async def _call_back(self, batch: list[Chunk]) -> None:
        for chunk in batch:
            if chunk.type in CONTENT:
                await self._state.call_back("on_chunk", chunk)

    def _wake_others(self) -> None:
        others, self._others = self._others, []
        for turn in others:
            if not turn.done():
                turn.set_result(None)

    async def drain(self) -> None:
        """Let the run go on to its end."""
        while not self._done:
            await self._pull()

    # ── values ─────────────────────────────────────────────────────────────────────────────────

    async def value(self, name: str) -> Any:
        """The value `name` at the end of the run; raises what a hook raised (R-553)."""
        await self.drain()
        if self._state.raises and self._state.error is not None:
            raise self._state.error
        return getattr(FullOutput(self._state), name)

    @property
    def text(self) -> Awaitable[str]:
        """The text of all accepted steps, as processors left it (R-542)."""
        return Value(self, "text")

    @property
    def usage(self) -> Awaitable[Usage]:
        """The tokens of the run, rejected attempts included (R-543)."""
        return Value(self, "usage")

    @property
    def total_usage(self) -> Awaitable[Usage]:
        """The same as `usage`."""
        return Value(self, "total_usage")

    @property
    def finish_reason(self) -> Awaitable[str | None]:
        """Why the run ended (R-519)."""
        return Value(self, "finish_reason")

    @property
    def steps(self) -> Awaitable[list[StepResult]]:
        """All steps; rejected and blocked attempts are marked as such."""
        return Value(self, "steps")

    @property
    def tool_calls(self) -> Awaitable[list[Chunk]]:
        """The `tool-call` chunks of accepted steps (R-544)."""
        return Value(self, "tool_calls")

    @property
    def tool_results(self) -> Awaitable[list[Chunk]]:
        """The `tool-result` chunks of accepted steps."""
        return Value(self, "tool_results")

    @property
    def reasoning(self) -> Awaitable[list[Chunk]]:
        """The reasoning chunks of accepted steps."""
        return Value(self, "reasoning")

    @property
    def reasoning_text(self) -> Awaitable[str | None]:
        """The reasoning joined, or `None`."""
        return Value(self, "reasoning_text")

    @property
    def sources(self) -> Awaitable[list[Chunk]]:
        """The `source` chunks."""
        return Value(self, "sources")

    @property
    def files(self) -> Awaitable[list[Chunk]]:
        """The `file` chunks."""
        return Value(self, "files")

    @property
    def warnings(self) -> Awaitable[list[Any]]:
        """Warnings of the last model call, and the engine's own."""
        return Value(self, "warnings")

    @property
    def response(self) -> Awaitable[ResponseInfo]:
        """What is known of the last response, and the run's messages (R-545)."""
        return Value(self, "response")

    @property
    def request(self) -> Awaitable[dict[str, Any]]:
        """What was sent last, where the model tells."""
        return Value(self, "request")

    @property
    def provider_metadata(self) -> Awaitable[dict[str, Any] | None]:
        """What the provider said about its last response."""
        return Value(self, "provider_metadata")

    async def consume_stream(self) -> None:
        """Read the run to its end and forget the chunks (R-541). Hook failures do not raise."""
        await self.drain()

    async def get_full_output(self) -> FullOutput:
        """Everything in one object, as `generate` returns it; raises as `generate` does (R-550)."""
        await self.drain()
        if self._state.error is not None:
            raise self._state.error
        return FullOutput(self._state)

    # ── leaving ────────────────────────────────────────────────────────────────────────────────

    async def aclose(self) -> None:
        """Stop the run, if it has not ended: close the connection, cancel tools, settle."""
        if self._busy:
            self._state.interruption.interrupt(anywhere=True)
            while self._busy:
                await self._pull()
            await self.drain()
            return
        self._done = True
        await self._engine.aclose()
        if not self._state.ended:  # it was never read: nothing of it has begun
            cut_off(self._state)
            await settle(self._state)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


MastraModelOutput = Run


class Starting:
    """A run about to start: `await agent.stream(…)`, or `async with agent.stream(…) as run`."""

    __slots__ = ("_open", "_run")

    def __init__(self, open_run: Callable[[], Awaitable[Run]]) -> None:
        self._open = open_run
        self._run: Run | None = None

    def __await__(self) -> Generator[Any, None, Run]:
        return self._open().__await__()

    async def __aiter__(self) -> AsyncGenerator[Chunk, None]:
        """The chunks, for who needs nothing else: `async for chunk in agent.stream(…)`."""
        async with self as run:
            async for chunk in run:
                yield chunk

    async def __aenter__(self) -> Run:
        self._run = await self._open()
        return self._run

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._run is not None:
            await self._run.aclose()
