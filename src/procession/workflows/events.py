"""What a run of a workflow tells while it goes on (W-123)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import field

from ..engine.outbox import data_chunk, object_chunk
from ..engine.workers import stop
from ..message_list import MessageList
from ..records import Record, clean_kept, own

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
    from types import TracebackType
    from typing import Self

    from ..chunks import Usage
    from .endings import WorkflowResult
    from .journal import Journal
    from .steps import Step

__all__ = ["EventPayload", "StepWriter", "WorkflowEvent", "WorkflowStream"]


class EventPayload(Record, kw_only=True, repr_omit_defaults=True):
    """What an event is about: a step, by its id and that of its call, or the whole run.

    `number` and `total` tell how far a step has come with the entries of a list.
    """

    id: str | None = None
    call_id: str | None = None
    status: str | None = None
    payload: Any = None
    output: Any = None
    error: dict[str, Any] | None = None
    suspend_payload: Any = None
    started_at: int | None = None
    ended_at: int | None = None
    number: int | None = None
    total: int | None = None


class WorkflowEvent(Record, kw_only=True):
    """One event. `type` is `workflow-start`, `workflow-step-start`, `workflow-step-output`,
    `workflow-step-progress`, `workflow-step-suspended`, `workflow-step-result` or
    `workflow-finish`.
    """

    type: str
    run_id: str
    payload: EventPayload
    from_: str = field(default="WORKFLOW", name="from")


class StepWriter:
    """What a step writes with, in a run of a workflow's own: its chunks are events."""

    __slots__ = ("_journal", "_step")

    def __init__(self, journal: Journal, step: Step) -> None:
        self._journal = journal
        self._step = step

    async def custom(self, chunk: Any, options: Mapping[str, Any] | None = None) -> None:
        """Tell of a `data-…` chunk; another type raises `InputError`."""
        self._journal.written(self._step, data_chunk(chunk))

    async def object(
        self, value: Any, *, final: bool = False, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Tell of an object."""
        self._journal.written(self._step, object_chunk(value, final, metadata))

    async def write(self, output: Any) -> None:
        """Tell of anything that has a JSON form."""
        self._journal.written(self._step, own(clean_kept(output)))

    async def send_signal(self, signal: Any) -> Any:
        """Tell of a reminder, which has no conversation to be added to."""
        made = MessageList().add_signal(signal, "input")
        self._journal.written(self._step, made)
        return made

    async def pass_on(self, chunk: Any) -> None:
        """Tell of a chunk of an agent's."""
        self._journal.written(self._step, chunk)

    def count_usage(self, usage: Usage) -> None:
        """Count the tokens of an agent's run."""
        self._journal.usage = self._journal.usage + usage


class WorkflowStream:
    """A run of a workflow, event by event; made by `run.stream(…)`.

    Iterate it, or `full_stream`; await `result` for the outcome. The run begins with the first of
    these. Leaving `async with`, or `aclose()`, ends it. One consumer reads the events.
    """

    def __init__(
        self,
        journal: Callable[[], Journal],
        start: Callable[[], Awaitable[WorkflowResult]],
    ) -> None:
        self._journal_of = journal
        self._start = start
        self._events: asyncio.Queue[WorkflowEvent | None] = asyncio.Queue()
        self._task: asyncio.Task[WorkflowResult] | None = None
        self._status = "pending"

    def _begun(self) -> asyncio.Task[WorkflowResult]:
        if self._task is None:
            self._status = "running"
            self._task = asyncio.ensure_future(self._run())
        return self._task

    async def _run(self) -> WorkflowResult:
        try:
            result = await self._start()
            self._status = result.status
            return result
        except BaseException:
            self._status = "failed"
            raise
        finally:
            self._events.put_nowait(None)

    def tell(self, event: WorkflowEvent) -> None:
        """Hand on an event."""
        self._events.put_nowait(event)

    @property
    def status(self) -> str:
        """`pending`, `running`, or the status that the run has ended with."""
        return self._status

    @property
    def usage(self) -> Usage:
        """The tokens of the agents so far."""
        return self._journal_of().usage

    @property
    def result(self) -> Awaitable[WorkflowResult]:
        """What the run has come to; raises `InputError` for an input that does not fit."""
        return self._ended()

    async def _ended(self) -> WorkflowResult:
        task = self._begun()
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                await self.aclose()
            raise

    @property
    def full_stream(self) -> AsyncIterator[WorkflowEvent]:
        """The events, as they come."""
        return self._read()

    def __aiter__(self) -> AsyncIterator[WorkflowEvent]:
        return self._read()

    async def _read(self) -> AsyncGenerator[WorkflowEvent, None]:
        task = self._begun()
        try:
            while (event := await self._events.get()) is not None:
                yield event
        except BaseException:
            await self.aclose()
            raise
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is not None:
            task.result()

    async def aclose(self) -> None:
        """End the run, if it has not ended; no task is left when this returns."""
        if self._task is not None:
            await stop(self._task)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
