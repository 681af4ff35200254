"""A run of a workflow on its own: started, streamed, resumed, cancelled (W-120 to W-130)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..abort_signal import AbortController
from ..engine.interruption import Interruption
from ..engine.workers import stop
from ..errors import InputError
from ..ids import new_id
from ..records import error_form
from ..request_context import RequestContext
from ..results import Tripwire
from ..verdicts import verdict_in
from .endings import Suspended, WorkflowError, WorkflowResult, way_out
from .events import WorkflowStream
from .execution import Execution, SharedState
from .journal import Journal
from .phases import shown
from .resuming import step_at, waiting_keys
from .run_host import RunHost
from .snapshots import Snapshots
from .stages import asked_with

if TYPE_CHECKING:
    from ..abort_signal import AbortSignal
    from .endings import RunStatus
    from .workflow import Workflow

__all__ = ["WorkflowRun"]

_log = logging.getLogger("procession.workflows")

Context = RequestContext | Mapping[str, Any] | None


class WorkflowRun:
    """One run; made by `workflow.create_run()`. It is started once, and resumed as often as it is
    suspended.
    """

    def __init__(self, workflow: Workflow, run_id: str, resource_id: str | None) -> None:
        self.workflow = workflow
        self.run_id = run_id
        self.resource_id = resource_id
        self.status: RunStatus | str = "pending"
        """`pending`, `running`, or what the run has come to."""
        self._journal = Journal(run_id)
        self._snapshots = Snapshots(workflow, run_id)
        self._input: Any = None
        self._state: Mapping[str, Any] = {}
        self._context = RequestContext()
        self._controller = AbortController()
        self._task: asyncio.Task[Any] | None = None

    @classmethod
    async def create(
        cls, workflow: Workflow, run_id: str | None, resource_id: str | None
    ) -> WorkflowRun:
        """A new run, or the one of this id that is suspended."""
        made = cls(workflow, run_id or new_id(), resource_id)
        kept = await made._snapshots.read() if run_id is not None else None
        if kept is not None:
            made._journal = kept.journal
            made._input, made._state = kept.input, kept.state
            made._context = RequestContext(kept.request_context)
            made.resource_id = resource_id or kept.resource_id
            made.status = "suspended"
        return made

    # ── doing ──────────────────────────────────────────────────────────────────────────────────

    async def start(
        self,
        *,
        input_data: Any = None,
        request_context: Context = None,
        initial_state: Mapping[str, Any] | None = None,
        abort_signal: AbortSignal | None = None,
    ) -> WorkflowResult:
        """Run to the end, or until a step is suspended.

        What steps raise is in the result. Raises `InputError` for an input, a state or a request
        context that do not fit, for a run that was started before, and what `on_start` raises.
        """
        if self.status != "pending":
            raise InputError(f"run {self.run_id!r} was started before: create another one")
        self._take(input_data, request_context, initial_state)
        on_start = self.workflow.options.get("on_start")
        if on_start is not None:
            await asked_with(on_start, self)
        return await self._run(abort_signal)

    def stream(
        self,
        *,
        input_data: Any = None,
        request_context: Context = None,
        initial_state: Mapping[str, Any] | None = None,
        abort_signal: AbortSignal | None = None,
    ) -> WorkflowStream:
        """As `start`, event by event (W-123)."""
        return self._streamed(
            lambda: self.start(
                input_data=input_data,
                request_context=request_context,
                initial_state=initial_state,
                abort_signal=abort_signal,
            )
        )

    async def resume(
        self,
        step: Any = None,
        *,
        resume_data: Any = None,
        for_each_index: int | None = None,
        request_context: Context = None,
        abort_signal: AbortSignal | None = None,
    ) -> WorkflowResult:
        """Go on: a step that waits is executed again, with `resume_data` (W-124, W-125).

        `step` is the step, its id, or the path to it; it may be left out when one step waits. Of a
        step for each entry of a list, `for_each_index` says which. Raises `InputError` when there
        is no such step, or more than one, or when the data do not fit its `resume_schema`.
        """
        keys = waiting_keys(self, self._journal, step, for_each_index)
        schema = step_at(self.workflow, keys[0]).resume
        if schema is not None:
            owner = f"what step {keys[0][-1]!r} is resumed with"
            resume_data = schema.check(resume_data, owner)
        await self._snapshots.take()
        if request_context:
            for key, value in _context_of(request_context).entries():
                self._context.set(key, value)
        self._journal.resuming = dict.fromkeys(keys, resume_data)
        return await self._run(abort_signal)

    def resume_stream(self, step: Any = None, **options: Any) -> WorkflowStream:
        """As `resume`, event by event."""
        return self._streamed(lambda: self.resume(step, **options))

    async def cancel(self) -> None:
        """End the run: its status is `canceled`, and nothing of it goes on when this returns.

        Steps that are at work see the abort signal before they are cancelled.
        """
        self._controller.abort("the run was cancelled")
        if self._task is not None and self._task is not asyncio.current_task():
            await stop(self._task)
        if self.status == "suspended":
            await self._snapshots.take()
        if self.status in ("pending", "suspended"):
            self.status = "canceled"

    def _streamed(self, begin: Callable[[], Any]) -> WorkflowStream:
        stream = WorkflowStream(lambda: self._journal, begin)
        self._journal.listener = stream.tell
        return stream

    # ── being at work ──────────────────────────────────────────────────────────────────────────

    def _take(self, input_data: Any, context: Context, state: Mapping[str, Any] | None) -> None:
        workflow = self.workflow
        if workflow.input is not None and workflow.validates:
            owner = f"the input of workflow {workflow.id!r}"
            input_data = workflow.input.check(input_data, owner)
        self._context = _context_of(context)
        if workflow.request_context is not None:
            workflow.request_context.check(dict(self._context.all), "the request context")
        self._state = SharedState(workflow.state, state or {}).values
        self._input = input_data

    async def _run(self, signal: AbortSignal | None) -> WorkflowResult:
        """The run as a task of its own, so that it can be cancelled alone."""
        self.status = "running"
        self._controller = AbortController()
        undo = signal.add_callback(self._stop_soon()) if signal is not None else None
        task = self._task = asyncio.ensure_future(self._whole())
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            self._controller.abort("the caller was cancelled")
            self.status = "canceled"
            await stop(task)
            raise
        finally:
            self._task = None
            if undo is not None:
                undo()
        result = await self._result(task)
        self.status = result.status
        self._journal.tell(
            "workflow-finish",
            status=result.status,
            output=shown(result.result),
            id=self.workflow.id,
        )
        self._journal.listener = None
        await self._tell_end(result)
        return result

    def _stop_soon(self) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def fired() -> None:
            self._controller.abort("the caller's signal has fired")
            loop.call_soon_threadsafe(self._stop_task)

        return fired

    def _stop_task(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _whole(self) -> Any:
        workflow, signal = self.workflow, self._controller.signal
        interruption = Interruption(None)
        interruption.puller = asyncio.current_task()
        state = SharedState(workflow.state, self._state)
        self._journal.tell("workflow-start", id=workflow.id, payload=shown(self._input))
        host = RunHost(self.run_id, self._context, interruption, signal, self._journal)
        execution = Execution(
            workflow,
            self._input,
            run_id=self.run_id,
            request_context=self._context,
            interruption=interruption,
            host=host,
            state=state,
            journal=self._journal,
            abort_signal=signal,
        )
        try:
            value = await execution.whole(self._input)
            if workflow.output is not None and workflow.validates:
                value = workflow.output.check(value, f"the output of workflow {workflow.id!r}")
            return value
        finally:
            self._state = execution.state.values

    async def _result(self, task: asyncio.Task[Any]) -> WorkflowResult:
        if task.cancelled():
            return self._made("canceled")
        error = task.exception()
        if error is None:
            return self._made("success", result=task.result())
        wire, out = verdict_in(error), way_out(error)
        if wire is not None:
            tripwire = Tripwire(
                reason=wire.reason,
                processor_id=wire.processor_id or self.workflow.id,
                retry=wire.retry,
                metadata=wire.metadata,
            )
            return self._made("tripwire", tripwire=tripwire)
        if isinstance(out, Suspended):
            await self._snapshots.keep(self._journal, self._input, self._state, self._context, self)
            waiting = self._journal.waiting
            return self._made(
                "suspended",
                suspended=self._journal.innermost(),
                suspend_payload={key[-1]: payload for key, payload in waiting.items()},
            )
        if not isinstance(error, Exception):
            raise error
        form = error_form(error)
        told = WorkflowError(name=form["name"], message=form["message"])
        return self._made("failed", error=told, exception=error)

    def _made(self, status: RunStatus, **more: Any) -> WorkflowResult:
        return WorkflowResult(
            status=status,
            run_id=self.run_id,
            input=self._input,
            steps=self._journal.steps(),
            path=list(self._journal.path),
            state=dict(self._state),
            **more,
        )

    async def _tell_end(self, result: WorkflowResult) -> None:
        """The callbacks; what they raise counts for nothing (W-128)."""
        names = ["on_finish"] + (["on_error"] if result.status in ("failed", "tripwire") else [])
        for name in names:
            callback = self.workflow.options.get(name)
            if callback is None:
                continue
            try:
                await asked_with(callback, result)
            except Exception as error:
                _log.warning(
                    "workflow %r: %s raised %s", self.workflow.id, name, type(error).__name__
                )


def _context_of(given: Context) -> RequestContext:
    return given if isinstance(given, RequestContext) else RequestContext(given)
