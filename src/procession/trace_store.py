"""Spans as they leave a process, and what keeps them: the domain `"observability"` (O-057)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypedDict

from msgspec import Struct, field

from .records import Record, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "ExportedSpan",
    "ObservabilityStore",
    "SpanStatus",
    "TraceFilter",
    "TracePage",
    "TraceSummary",
]

SpanStatus = Literal["ok", "error", "tripwire", "canceled", "suspended"]
"""`error`: it failed; `tripwire`: a processor blocked it; `canceled`: it was stopped, or left."""


class ExportedSpan(Record, kw_only=True):
    """A span that is over, as exporters get it (O-020): after masks and cuts.

    `type` and `name` say what it is. `entity_type`, `entity_id` and `entity_name` are those of the
    agent, processor or tool. `error_info` has the `name` of an error's class, and its `message`
    only where the words are our own. `input` and `output` are JSON data. An event has no duration.
    """

    id: str
    trace_id: str
    name: str
    type: str
    start_time: datetime
    end_time: datetime
    status: SpanStatus = "ok"
    parent_span_id: str | None = None
    is_event: bool = False
    is_internal: bool = False
    entity_type: str | None = None
    entity_id: str | None = None
    entity_name: str | None = None
    run_id: str | None = None
    input: Any = None
    output: Any = None
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    metadata: dict[str, Any] | None = None
    tags: list[str] | None = None
    request_context: dict[str, Any] | None = None
    error_info: dict[str, Any] | None = None

    @property
    def duration_ms(self) -> float:
        """How long it took, in milliseconds."""
        return (self.end_time - self.start_time).total_seconds() * 1000

    @property
    def is_root(self) -> bool:
        """Whether it is the first of its trace, or goes on where that had to wait."""
        return self.parent_span_id is None or "continues" in self.attributes

    def to_json(self) -> dict[str, Any]:
        """The JSON form; times as ISO 8601 text."""
        times = {"startTime": _to_text(self.start_time), "endTime": _to_text(self.end_time)}
        return {**super().to_json(), **times}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """From the JSON form."""
        times = {key: parse_time(data[key]) for key in ("startTime", "endTime")}
        return super().from_json({**data, **times})


def _to_text(time: datetime) -> str:
    """To the microsecond: most hooks take less than a millisecond."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class TraceSummary(Struct, kw_only=True):
    """What a list of traces shows of one: what its root span says, and how many spans it has."""

    trace_id: str
    name: str
    status: SpanStatus
    start_time: datetime
    end_time: datetime
    span_count: int
    entity_type: str | None = None
    entity_id: str | None = None
    entity_name: str | None = None
    run_id: str | None = None
    usage: dict[str, Any] | None = None
    tags: list[str] = field(default_factory=list[str])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def duration_ms(self) -> float:
        """How long it took, in milliseconds."""
        return (self.end_time - self.start_time).total_seconds() * 1000


class TracePage(Struct, kw_only=True):
    """A page of traces; `total` counts all that match, `per_page` is `False` for all."""

    traces: list[TraceSummary]
    total: int
    page: int
    per_page: int | Literal[False]
    has_more: bool


class TraceFilter(TypedDict, total=False):
    """What a trace must be: all that is given. Texts are compared as they are.

    `start` and `end`, both included, are about when it began; every tag must be there, and
    every entry of `metadata` be equal.
    """

    entity_type: str
    entity_id: str
    entity_name: str
    status: SpanStatus
    run_id: str
    start: datetime
    end: datetime
    tags: Sequence[str]
    metadata: Mapping[str, Any]


class ObservabilityStore(Protocol):
    """The domain `"observability"`: traces. Each method is one transaction."""

    async def save_spans(self, spans: Iterable[ExportedSpan]) -> None:
        """Write a batch of spans, each over an earlier one of its trace and id."""
        ...

    async def get_trace(self, trace_id: str) -> list[ExportedSpan]:
        """All spans of a trace, by the time they began; none if it is not there."""
        ...

    async def list_traces(
        self,
        *,
        filter: TraceFilter | None = None,
        page: int = 0,
        per_page: int | Literal[False] = 50,
    ) -> TracePage:
        """A page of traces whose root span is there, the one that began last first."""
        ...

    async def delete_traces(self, trace_ids: Iterable[str]) -> None:
        """Delete these traces, as far as they are there."""
        ...
