"""The run handle: what `agent.stream()` gives, and what everyone reads the run through.

Iterating a stream, or awaiting one of its values, pulls the engine; what was delivered is kept on
a tape, so that a stream can be read more than once (R-537).
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from .engine.reminders import accept_signal
from .engine.tape import Tape
from .errors import ConfigurationError
from .output import FullOutput, Obj, trace_id_of
from .policy import events_of
from .structured.object_chunk import elements

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
    from types import TracebackType

    from .chunks import Chunk, Usage
    from .engine.loop import Loop
    from .message_list import MessageList
    from .policy import PolicyEvent
    from .results import ResponseInfo, StepResult, Tripwire
    from .signals import Signal

__all__ = ["MastraModelOutput", "Run", "Starting"]

T = TypeVar("T")


class Value(Generic[T]):
    """A value that is there once the run has ended: `await run.text`.

    Awaiting it drives the run to its end; it may be awaited again, and by several tasks.
    """

    __slots__ = ("_name", "_run")

    def __init__(self, run: Run[Any], name: str) -> None:
        self._run = run
        self._name = name

    def __await__(self) -> Generator[Any, None, T]:
        return cast("Generator[Any, None, T]", self._run.value(self._name).__await__())


class Run(Generic[Obj]):
    """A run of an agent (the reference's `MastraModelOutput`, R-536).

    Iterate it, or `full_stream`, for chunks; await `text`, `usage`, `steps`, … for the outcome.
    Leaving the loop early pauses the run; `aclose`, leaving `async with`, or dropping the object
    closes the model's connection and leaves no task behind.
    """

    def __init__(self, loop: Loop) -> None:
        self._state = loop.run
        self._tape = Tape(loop)

    # ── what is known from the start ───────────────────────────────────────────────────────────

    @property
    def run_id(self) -> str:
        """The run's id, on every chunk."""
        return self._state.run_id

    @property
    def trace_id(self) -> str | None:
        """The id of its trace; `None` when it is not traced, or not sampled (O-056)."""
        return trace_id_of(self._state)

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
    def policy_events(self) -> list[PolicyEvent]:
        """What policies of processors have done so far: bypasses, failures, observations."""
        return events_of(self._state.policy_events)

    @property
    def error(self) -> BaseException | None:
        """The exception the run failed with, as it was raised (R-552)."""
        return self._state.error

    @property
    def status(self) -> str:
        """`running`, `success`, `failed`, `canceled`, `tripwire` or `suspended` (R-547)."""
        return self._state.status

    # ── streams ────────────────────────────────────────────────────────────────────────────────

    @property
    def full_stream(self) -> AsyncGenerator[Chunk, None]:
        """All delivered chunks, from the beginning each time (R-537)."""
        return self._tape.read()

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self._tape.read()

    @property
    def text_stream(self) -> AsyncGenerator[str, None]:
        """The text of all text deltas, after processors (R-538)."""
        return self._texts()

    async def _texts(self) -> AsyncGenerator[str, None]:
        async for chunk in self._tape.read():
            if chunk.type == "text-delta":
                yield chunk.payload.text

    @property
    def object_stream(self) -> AsyncGenerator[Any, None]:
        """The object as far as it has come, each time more of it has (R-538).

        Raises `ConfigurationError` at its end when nobody has asked this run for an object.
        """
        return self._objects()

    async def _objects(self) -> AsyncGenerator[Any, None]:
        seen = False
        async for chunk in self._tape.read():
            seen = seen or chunk.type.startswith("object")
            if chunk.type == "object":
                yield chunk.object
        self._check_asked("object_stream", seen=seen)

    def _check_asked(self, name: str, *, seen: bool) -> None:
        line = self._state.pipeline
        makers = (
            line.process_output_step or line.process_output_stream or line.process_output_result
        )
        if seen or makers or self.status != "success":
            return  # who asks for an object has a processor there that makes it
        raise ConfigurationError(
            f"{name}: this run was not asked for an object; ask with "
            f"structured_output={{'schema': …}}"
        )

    @property
    def element_stream(self) -> AsyncGenerator[Any, None]:
        """Each element of a list that was asked for, once it is complete; plain data (R-538).

        An answer that is rejected and made again gives its elements again. Raises
        `ConfigurationError` at its end for an object that is no list, and when nobody has asked
        this run for one.
        """
        return self._elements()

    async def _elements(self) -> AsyncGenerator[Any, None]:
        async with aclosing(elements(self._seen_objects())) as found:
            async for element in found:
                yield element

    async def _seen_objects(self) -> AsyncGenerator[Chunk, None]:
        """The chunks; what cannot have elements is told behind the last one."""
        last: Chunk | None = None
        async for chunk in self._tape.read():
            if chunk.type == "object-result":
                last = chunk
            yield chunk
        self._check_asked("element_stream", seen=last is not None)
        made: Any = None if last is None or last.metadata else last.to_json().get("object")
        if made is not None and not isinstance(made, list):
            raise ConfigurationError(
                f"element_stream: the elements are those of a list, and the object is of type "
                f"{type(made).__name__}; read object_stream"
            )

    # ── values ─────────────────────────────────────────────────────────────────────────────────

    async def value(self, name: str) -> Any:
        """The value `name` at the end of the run; raises what a hook raised (R-553)."""
        await self._tape.drain()
        if self._state.raises and self._state.error is not None:
            raise self._state.error
        return getattr(FullOutput(self._state), name)

    @property
    def text(self) -> Awaitable[str]:
        """The text of all accepted steps, as processors left it (R-542)."""
        return Value(self, "text")

    @property
    def object(self) -> Awaitable[Obj]:
        """The object that was asked for; raises what the run failed with (R-564, R-565)."""
        return Value(self, "object")

    @property
    def used_fallback_value(self) -> Awaitable[bool]:
        """Whether `object` is the fallback value (R-566)."""
        return Value(self, "used_fallback_value")

    @property
    def processor_usage(self) -> Awaitable[Usage]:
        """The tokens that processors have spent on models of their own; not part of `usage`."""
        return Value(self, "processor_usage")

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
    def waiting(self) -> Awaitable[list[Chunk]]:
        """The chunks of the tool calls that wait, when the run has status `suspended` (R-570)."""
        return Value(self, "waiting")

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
        await self._tape.drain()

    async def get_full_output(self) -> FullOutput[Obj]:
        """Everything in one object, as `generate` returns it; raises as `generate` does (R-550)."""
        await self._tape.drain()
        if self._state.error is not None:
            raise self._state.error
        return FullOutput(self._state)

    # ── talking to it ──────────────────────────────────────────────────────────────────────────

    async def send_signal(self, signal: Any) -> Signal:
        """Tell the model something while the run goes on, from any task of its event loop.

        `signal` is a `Signal`, or a mapping with `type` and `contents`. The step that begins next
        shows it to the model. If none does, it stands behind the answer, where memory stores it for
        the next turn, unless it is transient. It is returned at once.

        Raises `InputError` for what is no signal, `ProcessionError` when the run has ended.
        """
        return accept_signal(self._state, signal)

    # ── leaving ────────────────────────────────────────────────────────────────────────────────

    async def aclose(self) -> None:
        """Stop the run, if it has not ended: close the connection, cancel tools, settle."""
        await self._tape.close()

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


class Starting(Generic[Obj]):
    """A run about to start: `await agent.stream(…)`, or `async with agent.stream(…) as run`."""

    __slots__ = ("_open", "_run")

    def __init__(self, open_run: Callable[[], Awaitable[Run[Obj]]]) -> None:
        self._open = open_run
        self._run: Run[Obj] | None = None

    def __await__(self) -> Generator[Any, None, Run[Obj]]:
        return self._open().__await__()

    async def __aiter__(self) -> AsyncGenerator[Chunk, None]:
        """The chunks, for who needs nothing else: `async for chunk in agent.stream(…)`."""
        async with self as run:
            async for chunk in run:
                yield chunk

    async def __aenter__(self) -> Run[Obj]:
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
