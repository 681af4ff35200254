"""A workflow at work: stage after stage, each step with its checks and its retries."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..engine.workers import begin_work
from .branches import NOT_YET
from .context import StepContext
from .endings import Bailed, way_out
from .phases import PHASES
from .values import StepValue

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ..abort_signal import AbortSignal
    from ..engine.interruption import Interruption
    from ..request_context import RequestContext
    from .journal import Journal
    from .schemas import Schema
    from .stages import Stage
    from .steps import Step
    from .workflow import Workflow

__all__ = ["Execution", "Host", "SharedState"]


class Host(Protocol):
    """Where processor steps are called: in a run of an agent's, or in one of the workflow's own."""

    async def call(self, step: Step, value: Any, path: tuple[str, ...]) -> Any:
        """What the processor's hook of this phase makes of the value; `path` tells the places of
        steps in the graph apart.
        """
        ...

    def fork(self, value: Any) -> Any:
        """The value, with messages, chunk and settings of its own."""
        ...


class SharedState:
    """What the steps of a run share (W-129)."""

    __slots__ = ("_schema", "values")

    def __init__(self, schema: Schema | None, values: Mapping[str, Any]) -> None:
        self._schema = schema
        self.values: dict[str, Any] = {}
        if values or schema is not None:
            self.replace(values)

    def replace(self, values: Mapping[str, Any]) -> None:
        """Put new values in place of the old."""
        if self._schema is not None:
            values = self._schema.check(dict(values), "the state")
        self.values = dict(values)


class Execution:
    """One pass through a workflow's graph, or through that of a workflow within.

    `results` are the outputs of steps by id. `journal` writes down what happens, if anybody wants
    to know; where a workflow stands for a processor nobody does (W-072).
    """

    __slots__ = (
        "abort_signal",
        "host",
        "init",
        "interruption",
        "journal",
        "path",
        "request_context",
        "results",
        "run_id",
        "state",
        "tracing_context",
        "workflow",
        "writer",
    )

    def __init__(
        self,
        workflow: Workflow,
        init: Any,
        *,
        run_id: str,
        request_context: RequestContext,
        interruption: Interruption,
        host: Host,
        state: SharedState,
        journal: Journal | None = None,
        abort_signal: AbortSignal | None = None,
        tracing_context: Any = None,
        writer: Any = None,
    ) -> None:
        self.workflow = workflow
        self.init = init
        self.results: dict[str, Any] = {}
        self.path: tuple[str, ...] = ()
        self.run_id = run_id
        self.request_context = request_context
        self.interruption = interruption
        self.host = host
        self.state = state
        self.journal = journal
        self.abort_signal = abort_signal
        self.tracing_context = tracing_context
        self.writer = writer

    def within(self, step: Step, value: Any, key: str) -> Execution:
        """The pass through a workflow that is a step of this one."""
        made = copy(self)
        made.workflow, made.init, made.results = step.made_of, value, {}
        made.path = (*self.path, key)
        return made

    async def stages(self, stages: Sequence[Stage], value: Any) -> Any:
        """One stage after the other."""
        for stage in stages:
            value = await stage.run(self, value)
        return value

    async def whole(self, value: Any) -> Any:
        """All stages of the workflow; a step may end it before (W-126)."""
        try:
            return await self.stages(self.workflow.stages, value)
        except BaseException as error:
            out = way_out(error)
            if isinstance(out, Bailed):
                return out.value
            raise

    # ── what stages need ───────────────────────────────────────────────────────────────────────

    def begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task for a branch."""
        return begin_work(self.interruption, work)

    def fork(self, value: Any) -> Any:
        """A value for one branch: that of a processor step is copied, so that branches cannot reach
        into each other's (W-063, W-064).
        """
        return self.host.fork(value) if _is_step_value(value) else value

    def at_once(self, step: Step, value: Any) -> Any:
        """The output of a step that needs not be waited for; `NOT_YET` where that is not known."""
        return NOT_YET

    async def decided(self, id: str, decide: Callable[[], Awaitable[Any]], number: int = 0) -> Any:
        """What a condition has come to: when a run is resumed, what it came to before."""
        if self.journal is None:
            return await decide()
        return await self.journal.decided((*self.path, id, str(number)), decide)

    def progress(self, step: Step, number: int, total: int) -> None:
        """One entry of a list is done."""
        if self.journal is not None:
            self.journal.progress(step, number, total)

    def writer_of(self, step: Step | None) -> Any:
        """What a step writes with."""
        if self.journal is None or step is None:
            return self.writer
        return self.journal.writer(step)

    # ── steps ──────────────────────────────────────────────────────────────────────────────────

    async def step(self, step: Step, value: Any, *, number: int = -1, within: int = 0) -> Any:
        """Execute a step, unless it has ended well before the run was suspended.

        `number` tells the executions of one step apart, in loops and lists; of a list of so many
        entries `within` is how many there are.
        """
        key = step.id if number < 0 else f"{step.id}#{number}"
        journal = self.journal
        if journal is None:
            output = await self._attempts(step, value, key, None)
        else:
            output = await journal.note(
                (*self.path, key),
                step,
                value,
                lambda resumed: self._attempts(step, value, key, resumed),
                entry=number if within else None,
            )
        self.results[step.id] = output
        return output

    async def _attempts(self, step: Step, value: Any, key: str, resumed: Any) -> Any:
        if step.input is not None and not isinstance(value, StepValue):
            value = self._checked(step.input, value, f"the input of step {step.id!r}")
        retries, pause = self.workflow.retries_of(step)
        count = 0
        while True:
            given = self.fork(value) if retries else value
            try:
                output = await self._called(step, given, key, count, resumed)
                if step.output is None or isinstance(output, StepValue):
                    return output
                return self._checked(step.output, output, f"the output of step {step.id!r}")
            except Exception:
                if count >= retries:
                    raise
                count += 1
            await asyncio.sleep(pause)

    async def _called(self, step: Step, value: Any, key: str, count: int, resumed: Any) -> Any:
        if step.kind == "processor":
            return await self.host.call(step, value, (*self.path, key))
        if step.kind == "workflow":
            return await self.within(step, value, key).whole(value)
        context = StepContext(self, value, step)
        context.retry_count = count
        if resumed is not None:
            context.resume_data, context.suspend_data = resumed
        if step.request_context is not None:
            owner = f"the request context of step {step.id!r}"
            step.request_context.check(dict(self.request_context.all), owner)
        assert step.execute is not None
        returned = step.execute(context)
        return await returned if inspect.isawaitable(returned) else returned

    def _checked(self, schema: Schema | None, value: Any, owner: str) -> Any:
        if schema is None or not self.workflow.validates:
            return value
        return schema.check(value, owner)


def _is_step_value(value: Any) -> bool:
    return isinstance(value, Mapping) and cast("Mapping[Any, Any]", value).get("phase") in PHASES
