"""Running the tools a step asked for: side by side, results handed on in the order of the calls."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from .abort_signal import AbortController
from .errors import ConfigurationError, ToolError, TripWire
from .outbox import CallWriter, stop
from .pipeline import verdict_in
from .records import clean_json, clean_text
from .tools import Tool, ToolContext

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from .answer import Call
    from .chunks import Chunk
    from .run_state import RunState
    from .step import Step

__all__ = ["Outcome", "ToolRunner"]

CONCURRENCY = 10
"""How many tools run at the same time (R-217)."""


class Outcome(Struct):
    """How a tool call ended.

    `kind` is `result` (the tool returned), `refused` (its arguments did not fit: the model is told
    in a result, R-532), `error` (it raised, or could not be run) or `client` (not ours to run).
    """

    kind: str
    value: Any = None
    error: BaseException | None = None


class ToolRunner:
    """Runs one step's tool calls. Use as an async context manager: leaving it leaves no task."""

    def __init__(self, run: RunState, step: Step) -> None:
        self._run = run
        self._tools = step.usable_tools()
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._tasks: dict[str, asyncio.Task[Outcome]] = {}
        self._stop = AbortController()
        self._undo = lambda: None

    async def __aenter__(self) -> ToolRunner:
        """Tools hear the caller's wish to stop, and also that the run was closed."""
        self._run.outbox.hold()
        signal = self._run.abort_signal
        if signal is not None:
            self._undo = signal.add_callback(lambda: self._stop.abort(signal.reason))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._undo()
        self._run.outbox.let_go()
        left = [task for task in self._tasks.values() if not task.done()]
        if left:
            self._stop.abort("the run was closed")
            for task in left:
                await stop(task)
        for task in self._tasks.values():
            if not task.cancelled():
                task.exception()  # read, so that nobody is told it was lost

    def start(self, calls: Sequence[Call]) -> None:
        """Start all calls, in their order; at most `CONCURRENCY` run at a time."""
        for call in calls:
            self._tasks[call.id] = asyncio.create_task(self._limited(call))

    async def outcome(self, call: Call, found: list[Outcome]) -> AsyncGenerator[list[Chunk], None]:
        """Wait for one call; yields what tools write, and leaves the outcome in `found`."""
        task = self._tasks[call.id]
        async with aclosing(self._run.outbox.until_done(task)) as written:
            async for batch in written:
                yield batch
        if task.cancelled():
            found.append(Outcome("error", error=ToolError(f"tool {call.name!r} was cancelled")))
        else:
            found.append(task.result())

    async def _limited(self, call: Call) -> Outcome:
        async with self._slots:
            try:
                return await self._execute(call)
            except TripWire as wire:  # a verdict does not wait for the tools before it
                self._run.verdict = wire
                self._run.outbox.wake()
                raise

    async def _execute(self, call: Call) -> Outcome:
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            return _failed(f"There is no tool {call.name!r}. Available tools: {names}")
        if tool.execute is None:
            return Outcome("client")
        if call.arguments is UNSET:
            return _failed(f"The arguments for tool {call.name!r} are not valid JSON")
        try:
            arguments = tool.validate(call.part.tool_invocation.args)
        except ToolError as error:
            refusal = {
                "error": True,
                "message": str(error),
                "validationErrors": error.problems,
            }
            return Outcome("refused", value=refusal)
        except ConfigurationError as error:
            return Outcome("error", error=error)
        return await self._call(tool, call, arguments)

    async def _call(self, tool: Tool, call: Call, arguments: Any) -> Outcome:
        run = self._run
        context = ToolContext(
            tool_call_id=call.id,
            run_id=run.run_id,
            request_context=run.request_context,
            writer=CallWriter(run.outbox, call.id, call.name),
            abort_signal=self._stop.signal,
            messages=run.message_list.messages() if tool.takes_context else [],
            thread_id=run.message_list.thread_id,
            resource_id=run.message_list.resource_id,
        )
        try:
            value = clean_json(await tool.run(arguments, context))
        except BaseException as error:
            wire = verdict_in(error)
            if wire is not None:
                wire.processor_id = wire.processor_id or call.name
                wire.reason = wire.reason or f"blocked by tool {call.name!r}"
                raise wire from None
            if isinstance(error, Exception):
                return Outcome("error", error=error)
            raise
        return Outcome("result", value=value)


def _failed(problem: str) -> Outcome:
    return Outcome("error", error=ToolError(problem))


def error_text(error: BaseException) -> str:
    """What the model is told of a tool's error."""
    text = ""
    with suppress(Exception):
        text = str(error)
    return clean_text(text) or type(error).__name__
