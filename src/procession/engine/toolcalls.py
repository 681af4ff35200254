"""Running the tools a step asked for: side by side, results handed on in the order of the calls."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from contextlib import suppress
from contextvars import copy_context
from itertools import islice
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET, Struct

from ..abort_signal import AbortController
from ..errors import ConfigurationError, ToolError
from ..logs import log_fields, one_line
from ..processor import ToolCallInfo
from ..records import clean_json, clean_text, own
from ..tools import Tool, ToolContext, suspension_in, takes_two
from ..waiting import fingerprint
from .outbox import CallWriter
from .pipeline import sign, verdict_in
from .workers import begin_work, stop

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Sequence

    from ..waiting import Decision
    from .answer import Call
    from .run_state import RunState
    from .step import Step

__all__ = ["Outcome", "ToolRunner"]

_log = logging.getLogger("procession.engine")

CONCURRENCY = 10
"""How many tools run at the same time (R-217)."""
NAMES_SHOWN = 50
"""How many tools are named to a model that asked for one that does not exist."""

T = TypeVar("T")


class Outcome(Struct):
    """How a tool call ended.

    `kind` is `result` (the tool returned, or its result was known), `refused` (its arguments did
    not fit: the model is told in a result, R-532), `error` (it raised, or could not be run),
    `denied` (it was not allowed), `client` (not ours to run), or that it has not ended: `approval`
    (somebody has to allow it) or `suspended` (the tool waits for data, R-572).
    """

    kind: str
    value: Any = None
    error: BaseException | None = None


class ToolRunner:
    """Runs one step's tool calls. Use as an async context manager: leaving it leaves no task."""

    def __init__(self, run: RunState, step: Step) -> None:
        self._run = run
        self._tools = step.usable_tools()
        self._decisions = step.decisions
        self._known = step.known_results
        self._waiting: deque[Call] = deque()
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
        self._waiting.clear()
        tasks = self._tasks.values()
        if not all(task.done() for task in tasks):
            self._stop.abort("the run was closed")
        await stop(*tasks)

    def start(self, calls: Sequence[Call]) -> None:
        """Start all calls, in their order; at most `CONCURRENCY` run at a time (R-217).

        One after the other where one of them may have to be approved. A call with nobody beside
        it needs no task: it runs where its outcome is waited for.
        """
        if len(calls) == 1 and not self._may_write(calls[0]):
            return
        self._waiting += calls
        at_once = 1 if any(map(self._may_ask, calls)) else CONCURRENCY
        for _ in calls[:at_once]:
            self._start_next()

    def task_of(self, call: Call) -> asyncio.Task[Outcome] | None:
        """The task that runs a call; it is there once all calls before have come to their end."""
        return self._tasks.get(call.id)

    async def outcome(self, call: Call) -> Outcome:
        """How a call has ended, whose task is done if it has one; raises a verdict."""
        task = self._tasks.get(call.id)
        if task is None:
            return await self._in_place(call)
        return _cancelled(call) if task.cancelled() else task.result()

    async def _in_place(self, call: Call) -> Outcome:
        """Run a call within the pull, whose cancellation counts even if the tool swallows it."""
        puller = asyncio.current_task()
        assert puller is not None
        before = puller.cancelling()
        try:
            outcome = await apart(self._run_one(call))
        except asyncio.CancelledError:
            if puller.cancelling() > before:
                raise
            return _cancelled(call)
        if puller.cancelling() > before:
            raise asyncio.CancelledError
        return outcome

    def _may_write(self, call: Call) -> bool:
        """Whether someone may write while the call runs: the tool itself, or a hook's own task."""
        run, tool = self._run, self._tools.get(call.name)
        takes_context = tool is not None and tool.takes_context
        return takes_context or run.pipeline.lets_writers_out or run.step_chain.writes

    def _start_next(self) -> None:
        call = self._waiting.popleft()
        work = self._run_one(call)
        self._tasks[call.id] = begin_work(self._run.interruption, work)

    async def _run_one(self, call: Call) -> Outcome:
        outbox = self._run.outbox  # which the run lets go of, even if a tool has closed it
        observer, mark = self._run.observer, None
        if observer is not None:
            mark = observer.tool_begins(self._run, call, self._tools)
        try:
            outcome = await self._execute(call)
            if observer is not None:
                observer.tool_ended(self._run, call, mark, outcome.kind, outcome.error)
            return outcome
        except BaseException as error:
            if observer is not None:
                observer.tool_ended(self._run, call, mark, None, error)
            wire = verdict_in(error)
            if wire is None:
                raise
            sign(wire, call.name, "tool")
            said = one_line(wire.reason)
            _log.info("tool %r aborted: %s", call.name, said, extra=log_fields(run=self._run))
            self._run.halt = wire  # a verdict does not wait for the tools before it
            raise wire from None
        finally:
            if self._waiting:
                self._start_next()
            outbox.wake()

    def _may_ask(self, call: Call) -> bool:
        """Whether a call may have to wait for approval."""
        tool = self._tools.get(call.name)
        return tool is not None and bool(tool.require_approval or self._run.require_tool_approval)

    async def _execute(self, call: Call) -> Outcome:
        if call.id in self._known:
            return Outcome("result", value=own(self._known[call.id]))
        decision = self._decisions.get(call.id)
        if decision is not None and not decision.allowed:
            return Outcome("denied", value=decision.reason)
        tool = self._tools.get(call.name)
        if tool is None:
            return _failed(f"There is no tool {call.name!r}. Available tools: {self._names()}")
        if tool.execute is None:
            return Outcome("client")
        if call.arguments is UNSET:
            return _failed(f"The arguments for tool {call.name!r} are not valid JSON")
        try:
            arguments = tool.validate(call.to_run_with)
        except ToolError as error:
            refusal = {
                "error": True,
                "message": str(error),
                "validationErrors": error.problems,
            }
            return Outcome("refused", value=refusal)
        except ConfigurationError as error:
            return Outcome("error", error=error)
        if decision is None and self._may_ask(call) and await self._asks(tool, call, arguments):
            return Outcome("approval")
        if decision is not None and fingerprint(call.part.tool_invocation.args) != decision.shown:
            return _failed(f"The arguments for tool {call.name!r} are not those that were approved")
        return await self._call(tool, call, arguments, decision)

    async def _asks(self, tool: Tool, call: Call, arguments: Any) -> bool:
        """Whether the call has to be approved. A rule that fails is one that says yes."""
        own, callers = tool.require_approval, self._run.require_tool_approval
        both = callable(own) and takes_two(own)
        told = (arguments, self._context(call)) if both else (arguments,)
        try:
            return await _said(own, *told) or await _said(callers, _info(call))
        except Exception as error:
            _log.warning(
                "tool %r: require_approval raised %s; the call waits for approval",
                call.name,
                type(error).__name__,
            )
            return True

    def _names(self) -> str:
        """The tools' names, as many as a model can be expected to read."""
        names = list(islice(self._tools, NAMES_SHOWN))
        more = len(self._tools) - len(names)
        return (", ".join(names) or "none") + (f", and {more} more" if more else "")

    async def _call(
        self, tool: Tool, call: Call, arguments: Any, decision: Decision | None
    ) -> Outcome:
        context = self._context(call, decision) if tool.takes_context else None
        try:
            value = own(clean_json(await tool.run(arguments, context)))
        except Exception as error:
            return Outcome("error", error=error)
        except BaseException as error:
            held = suspension_in(error)
            if held is None or verdict_in(error) is not None:
                raise
            return Outcome("suspended", value=held.payload)
        return Outcome("result", value=value)

    def _context(self, call: Call, decision: Decision | None = None) -> ToolContext:
        run = self._run
        return ToolContext(
            tool_call_id=call.id,
            run_id=run.run_id,
            request_context=run.request_context,
            writer=CallWriter(run.outbox, call.id, call.name),
            abort_signal=self._stop.signal,
            messages=run.message_list.messages(),
            shown_args=own(call.part.tool_invocation.args),
            thread_id=run.message_list.thread_id,
            resource_id=run.message_list.resource_id,
            resumed=decision is not None and decision.for_data,
            resume_data=None if decision is None else decision.data,
        )


@coroutine
def apart(work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Await a coroutine in a context of its own, as a task would, without making one."""
    step, resume, value = copy_context().run, work.send, None
    while True:
        try:
            awaited = step(resume, value)
        except StopIteration as end:
            return end.value
        try:
            resume, value = work.send, (yield awaited)
        except BaseException as error:
            resume, value = work.throw, error


async def _said(rule: Any, *told: Any) -> bool:
    """What a rule says, which may be a plain yes or no, or a function."""
    said = rule(*told) if callable(rule) else rule
    return bool(await said if inspect.isawaitable(said) else said)


def _info(call: Call) -> ToolCallInfo:
    args = call.part.tool_invocation.args
    return ToolCallInfo(tool_name=call.name, tool_call_id=call.id, args=args)


def _failed(problem: str) -> Outcome:
    return Outcome("error", error=ToolError(problem))


def _cancelled(call: Call) -> Outcome:
    return _failed(f"tool {call.name!r} was cancelled")


def error_text(error: BaseException) -> str:
    """What the model is told of a tool's error."""
    text = ""
    with suppress(Exception):
        text = str(error)
    return clean_text(text) or type(error).__name__
