"""What happens in a run, written down: records of steps, results to go on from, events."""

from __future__ import annotations

import asyncio
from time import time
from typing import TYPE_CHECKING, Any, cast

from ..chunks import Usage
from ..ids import new_id
from ..records import error_form, plain
from ..verdicts import verdict_in
from .endings import Bailed, StepRecord, Suspended, way_out
from .events import EventPayload, StepWriter, WorkflowEvent
from .phases import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from .steps import Step

__all__ = ["Journal", "Key", "without_number"]

Key = tuple[str, ...]
"""Where a step stands: the ids of the workflows within, then its own, with its number in a loop."""


def _now() -> int:
    return int(time() * 1000)


class Journal:
    """Everything that is known of one run."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.records: dict[Key, StepRecord] = {}
        self.finished: dict[Key, Any] = {}
        """Outputs of steps that have ended well: they are not executed again (W-125)."""
        self.decisions: dict[Key, Any] = {}
        self.waiting: dict[Key, Any] = {}
        """Steps that are suspended, and what each of them said."""
        self.resuming: dict[Key, Any] = {}
        """Those of them that go on now, and with what."""
        self.path: list[str] = []
        self.usage = Usage()
        self.listener: Callable[[WorkflowEvent], None] | None = None

    # ── steps ──────────────────────────────────────────────────────────────────────────────────

    async def note(
        self,
        key: Key,
        step: Step,
        value: Any,
        work: Callable[[Any], Awaitable[Any]],
        *,
        entry: int | None = None,
    ) -> Any:
        """Execute a step and write down what comes of it; one that has ended well is not executed
        again, one that still waits goes on waiting.
        """
        if key in self.finished:
            return self.finished[key]
        resumed = None
        if key in self.waiting:
            if key not in self.resuming:
                raise Suspended(self.waiting[key])
            resumed = self.resuming.pop(key), self.waiting.pop(key)
        record = self._begun(key, step, value, resumed)
        call_id = new_id()
        self._tell(
            "workflow-step-start", self._about(step, call_id, record, payload=record.payload)
        )
        try:
            output = await work(resumed)
        except BaseException as error:
            self._ended_badly(key, step, call_id, record, error)
            raise
        self.finished[key] = output
        record.status, record.ended_at, record.output = "success", _now(), shown(output)
        self._tell("workflow-step-result", self._about(step, call_id, record, output=record.output))
        return output

    def _begun(self, key: Key, step: Step, value: Any, resumed: Any) -> StepRecord:
        known = self.records.get(key)
        if known is not None and known.status == "suspended":
            record = known
            record.status, record.resumed_at = "running", _now()
            if resumed is not None:
                record.resume_payload = plain(resumed[0])
        else:
            record = StepRecord(status="running", payload=shown(value), started_at=_now())
            self.records[key] = record
        if step.kind != "mapping":
            self.path.append(step.id)
        return record

    def _ended_badly(
        self, key: Key, step: Step, call_id: str, record: StepRecord, error: BaseException
    ) -> None:
        out = way_out(error)
        if isinstance(out, Suspended):
            if not hasattr(out, "noted"):
                self.waiting[key] = out.payload
                cast("Any", out).noted = True
            record.status, record.suspended_at = "suspended", _now()
            record.suspend_payload = out.payload
            about = self._about(step, call_id, record, suspend_payload=out.payload)
            self._tell("workflow-step-suspended", about)
            return
        record.ended_at = _now()
        record.status = "failed"
        if isinstance(out, Bailed):
            record.status, record.output = "success", shown(out.value)
        elif verdict_in(error) is not None:
            record.status = "tripwire"
        elif isinstance(error, asyncio.CancelledError):
            record.status = "canceled"
        else:
            record.error = error_form(error)
        about = self._about(step, call_id, record, error=record.error, output=record.output)
        self._tell("workflow-step-result", about)

    async def decided(self, key: Key, decide: Callable[[], Awaitable[Any]]) -> Any:
        """What a condition has come to, once and for all."""
        if key not in self.decisions:
            self.decisions[key] = await decide()
        return self.decisions[key]

    def steps(self) -> Mapping[str, StepRecord]:
        """Copies of the records by step id; of those within other workflows by `outer.inner`."""
        return {
            ".".join(map(without_number, key)): record.replace()
            for key, record in self.records.items()
        }

    def select(self, path: Iterable[str], number: int | None) -> list[Key]:
        """The suspended steps that are meant by a path, or all."""
        wanted = tuple(path)
        found = [key for key in self.waiting if not wanted or _matches(key, wanted)]
        if number is None:
            return found
        return [key for key in found if key[-1].endswith(f"#{number}")]

    def innermost(self) -> list[list[str]]:
        """The paths of the steps that wait."""
        return [[without_number(part) for part in key] for key in self.waiting]

    # ── events ─────────────────────────────────────────────────────────────────────────────────

    def writer(self, step: Step) -> StepWriter:
        """What a step writes with."""
        return StepWriter(self, step)

    def written(self, step: Step, output: Any) -> None:
        """A step has written something."""
        self._tell("workflow-step-output", lambda: EventPayload(id=step.id, output=output))

    def progress(self, step: Step, number: int, total: int) -> None:
        """A step has dealt with one entry of a list."""
        self._tell(
            "workflow-step-progress",
            lambda: EventPayload(id=step.id, number=number, total=total, status="success"),
        )

    def tell(self, kind: str, **payload: Any) -> None:
        """Tell of the whole run."""
        self._tell(kind, lambda: EventPayload(**payload))

    @staticmethod
    def _about(
        step: Step, call_id: str, record: StepRecord, **more: Any
    ) -> Callable[[], EventPayload]:
        return lambda: EventPayload(
            id=step.id,
            call_id=call_id,
            status=record.status,
            started_at=record.started_at,
            ended_at=record.ended_at,
            **more,
        )

    def _tell(self, kind: str, payload: Callable[[], EventPayload]) -> None:
        if self.listener is not None:
            self.listener(WorkflowEvent(type=kind, run_id=self.run_id, payload=payload()))


def without_number(part: str) -> str:
    """The id of a step in a key, whichever of its executions is meant."""
    head, mark, number = part.rpartition("#")
    return head if mark and number.isdigit() else part


def _matches(key: Key, wanted: Key) -> bool:
    plain_key = tuple(map(without_number, key))
    return plain_key == wanted or plain_key[-1:] == wanted or key == wanted
