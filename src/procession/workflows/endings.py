"""Ways out of a step that are neither a result nor an error, and what a run comes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from msgspec import Struct, field

from ..records import Record
from ..results import Tripwire

__all__ = [
    "Bailed",
    "RunStatus",
    "StepRecord",
    "Suspended",
    "WorkflowError",
    "WorkflowResult",
    "way_out",
]

RunStatus = Literal["success", "failed", "tripwire", "suspended", "canceled"]


class Suspended(BaseException):
    """A step waits for data: no error, so no `except Exception` of a step holds it up (W-124)."""

    def __init__(self, payload: Any) -> None:
        super().__init__("this step waits for data")
        self.payload = payload


class Bailed(BaseException):
    """A step ends its workflow with a value (W-126)."""

    def __init__(self, value: Any) -> None:
        super().__init__("this workflow is over")
        self.value = value


def way_out(error: BaseException) -> Suspended | Bailed | None:
    """What `error` is or holds of these: task groups wrap it in an exception group."""
    if isinstance(error, Suspended | Bailed):
        return error
    if isinstance(error, BaseExceptionGroup):
        inner = map(way_out, cast("BaseExceptionGroup[BaseException]", error).exceptions)
        return next((found for found in inner if found is not None), None)
    return None


class WorkflowError(Struct, frozen=True, kw_only=True):
    """What a run failed with: the name of the exception and its text (W-121)."""

    name: str
    message: str


class StepRecord(Record, kw_only=True, repr_omit_defaults=True):
    """What is known of one step of a run (W-121).

    `status` is `running`, `success`, `failed`, `tripwire`, `suspended` or `canceled`. Of a step
    that was executed several times this is the last time. `started_at` and `ended_at` are
    milliseconds since 1970.
    """

    status: str
    payload: Any = None
    output: Any = None
    error: dict[str, Any] | None = None
    suspend_payload: Any = None
    resume_payload: Any = None
    started_at: int | None = None
    ended_at: int | None = None
    suspended_at: int | None = None
    resumed_at: int | None = None


class WorkflowResult(Struct, frozen=True, kw_only=True):
    """What a run has come to (W-121).

    `status` says which of the last four is given: `result` with `success`, `error` with `failed`
    (and `exception`, the exception itself), `tripwire` with `tripwire`, `suspended` with
    `suspended`: the paths of the steps that wait, and in `suspend_payload` what each of them said,
    by its id. `steps` are records by step id; `path` the ids of the steps that were executed, in
    the order in which they began.
    """

    status: RunStatus
    run_id: str
    input: Any
    steps: Mapping[str, StepRecord]
    path: list[str]
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    result: Any = None
    error: WorkflowError | None = None
    exception: BaseException | None = None
    tripwire: Tripwire | None = None
    suspended: list[list[str]] = field(default_factory=list[list[str]])
    suspend_payload: dict[str, Any] = field(default_factory=dict[str, Any])
