"""What a step is told when it is executed (W-026)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import ConfigurationError
from ..records import clean_json, own
from .endings import Bailed, Suspended

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..abort_signal import AbortSignal
    from ..request_context import RequestContext
    from .execution import Execution
    from .steps import Step

__all__ = ["StepContext"]


class StepContext:
    """The one argument of a step's function, of conditions, and of mappings."""

    __slots__ = (
        "_execution",
        "_step",
        "input_data",
        "iteration_count",
        "resume_data",
        "retry_count",
        "suspend_data",
    )

    def __init__(self, execution: Execution, input_data: Any, step: Step | None = None) -> None:
        self._execution = execution
        self._step = step
        self.input_data = input_data
        """What the stage before has given."""
        self.retry_count = 0
        """How often this step has failed and was tried again (W-127)."""
        self.iteration_count = 0
        """In conditions of loops: how often the step was executed, from 1 (W-095)."""
        self.resume_data: Any = None
        """What the run is resumed with, in the step that has waited (W-125)."""
        self.suspend_data: Any = None
        """What the step said when it was suspended."""

    def get_step_result(self, step: Any) -> Any:
        """The output of a step of this workflow, by itself or its id; `None` before it has one."""
        return self._execution.results.get(step if isinstance(step, str) else step.id)

    def get_init_data(self) -> Any:
        """The input of the workflow."""
        return self._execution.init

    @property
    def request_context(self) -> RequestContext:
        """The request's own values."""
        return self._execution.request_context

    @property
    def run_id(self) -> str:
        """The id of the run: of the agent's, where the workflow stands for a processor."""
        return self._execution.run_id

    @property
    def workflow_id(self) -> str:
        """The id of the workflow that the step belongs to."""
        return self._execution.workflow.id

    @property
    def writer(self) -> Any:
        """`await writer.custom(chunk)` delivers a `data-…` chunk; `None` in the phase `input`."""
        return self._execution.writer_of(self._step)

    @property
    def abort_signal(self) -> AbortSignal | None:
        """Fires when the run is to stop."""
        return self._execution.abort_signal

    @property
    def tracing_context(self) -> Any:
        """Set when tracing is active."""
        return self._execution.tracing_context

    @property
    def app(self) -> Any:
        """The application that the workflow is registered on, if any."""
        return self._execution.workflow.app

    @property
    def mastra(self) -> Any:
        """The same as `app`."""
        return self._execution.workflow.app

    @property
    def state(self) -> dict[str, Any]:
        """What the steps of a run share; see `set_state` (W-129)."""
        return self._execution.state.values

    async def set_state(self, values: Mapping[str, Any]) -> None:
        """Replace the shared state, which is kept while the run is suspended.

        Raises `InputError` for one that does not fit the workflow's `state_schema`.
        """
        self._execution.state.replace(values)

    def suspend(self, payload: Any = None) -> NoReturn:
        """End this step here: it is executed again with `resume_data` (W-124).

        Never returns. Raises `InputError` for a payload without a JSON form, or one that does not
        fit the step's `suspend_schema`.
        """
        if self._step is None:
            raise ConfigurationError("only steps can be suspended, not conditions")
        if self._step.suspend is not None:
            owner = f"what step {self._step.id!r} is suspended with"
            payload = self._step.suspend.check(payload, owner)
        raise Suspended(own(clean_json(payload)))

    def bail(self, value: Any = None) -> NoReturn:
        """End the workflow here, successfully, with this value (W-126). Never returns."""
        raise Bailed(value)
