"""What policies did in a run: each bypass is told, none of them with a word of the content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from ..spans import Span
from .facts import as_detail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..spans import Observer
    from .facts import Facts

__all__ = ["KEY", "PolicyEvent", "RunOfEvents", "events_of", "in_metadata", "note"]

KEY = "policyEvents"
"""Under this key the events stand in the metadata of `step-finish` and `finish`."""
MOST = 200
"""So many entries tell of steps; what comes after is counted for the whole run."""

_WITHOUT_STEP = frozenset({"process_input", "process_output_result", "run_ended"})


class PolicyEvent(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Something a policy did instead of a processor, or kept it from doing; `count` times.

    A judge that comes to no verdict is told in the same way, with what its `error_strategy` says.

    `action` is what was done: `blocked`, `bypassed` (the processor might as well have been absent),
    `degraded` (the fallback looked instead), `late` (a hook that could not be cut short took
    longer than its timeout; its outcome stands) or `observed` (nothing was done).

    `kind` is why: `timeout`, `error`, `circuit-open`, or `finding` for what an observed processor
    came to. `would` is what an observed one would have done: `block`, `retry` (a verdict, or
    `process_api_error`, asking for another attempt), `change`, `drop`, `write`, `signal`, `respond`
    (stand in for the model); for a failure what `on_error` says. `error` is the name of the
    exception's class.

    `detail` tells of a verdict that an observed built-in would have given, without a word of the
    content: its `strategy`, and the names of the `types` and `rules` that it goes by.

    `step_number` is `None` for hooks that belong to no step, and for what is counted for the whole
    run because there was too much of it.
    """

    processor_id: str
    hook: str
    action: str
    kind: str
    would: str | None = None
    error: str | None = None
    detail: dict[str, Any] | None = None
    step_number: int | None = None
    attempt: int = 0
    count: int = 1

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with camelCase keys; what does not apply is left out."""
        out: dict[str, Any] = {
            "processorId": self.processor_id,
            "hook": self.hook,
            "action": self.action,
            "kind": self.kind,
        }
        for key, value in (
            ("would", self.would),
            ("error", self.error),
            ("detail", self.detail),
            ("stepNumber", self.step_number),
        ):
            if value is not None:
                out[key] = value
        return {**out, "attempt": self.attempt, "count": self.count}


Noted = dict[tuple[Any, ...], int]
"""How often each thing happened: all fields of an event but its count, in order."""
_NAMES = PolicyEvent.__struct_fields__[:-1]
_DETAIL, _STEP = _NAMES.index("detail"), _NAMES.index("step_number")


class RunOfEvents(Protocol):
    """What is needed of a run."""

    run_id: str
    policy_events: Noted | None
    step_number: int
    retry_count: int

    @property
    def observer(self) -> Observer | None:
        """Who is told."""
        ...

    @property
    def step(self) -> Any:
        """The attempt under way."""
        ...


def note(
    run: RunOfEvents,
    processor_id: str,
    hook: str,
    *,
    action: str,
    kind: str,
    would: str | None = None,
    error: str | None = None,
    facts: Facts | None = None,
) -> bool:
    """Count an event; returns whether it is the first of its kind in this attempt.

    The observer is told then, and not a thousand times.
    """
    step = None if hook in _WITHOUT_STEP or run.step is None else run.step_number
    attempt = run.retry_count
    noted = run.policy_events
    if noted is None:
        noted = run.policy_events = {}
    key = (processor_id, hook, action, kind, would, error, facts, step, attempt)
    known = noted.get(key)
    if known is None and len(noted) >= MOST:
        key = (*key[:_DETAIL], None, None, 0)
        known = noted.get(key)
    noted[key] = (known or 0) + 1
    if known is None and run.observer is not None:
        detail = {"kind": kind, "would": would, "error": error, **(as_detail(facts) or {})}
        run.observer.span(
            Span(
                kind="policy",
                name=hook,
                run_id=run.run_id,
                processor_id=processor_id,
                step_number=step,
                attempt=attempt,
                outcome=action,
                detail={name: value for name, value in detail.items() if value is not None},
            )
        )
    return known is None


def events_of(noted: Mapping[tuple[Any, ...], int] | None) -> list[PolicyEvent]:
    """The events of a run so far, in the order in which they happened first."""
    return [_event(key, count) for key, count in (noted or {}).items()]


def _event(key: tuple[Any, ...], count: int) -> PolicyEvent:
    said: dict[str, Any] = dict(zip(_NAMES, key, strict=True))
    said["detail"] = as_detail(said["detail"])
    return PolicyEvent(**said, count=count)


def in_metadata(run: RunOfEvents, step_number: int | None = None) -> dict[str, Any]:
    """What the metadata of a chunk says of events: nothing at all where there are none.

    With a `step_number` only those of the present attempt at that step.
    """
    noted = run.policy_events
    if not noted:
        return {}
    place = (step_number, run.retry_count)
    found = [
        _event(key, count).to_json()
        for key, count in noted.items()
        if step_number is None or key[_STEP:] == place
    ]
    return {KEY: found} if found else {}
