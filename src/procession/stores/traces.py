"""Rows of spans and traces, and what may be asked of them; the same for every store."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..errors import InputError
from ..trace_store import ExportedSpan, TracePage, TraceSummary
from .encoding import fact_of, facts_of, from_json, moment, stamp, to_json
from .queries import checked_mapping, wanted_facts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .queries import Paging

__all__ = ["SpanRow", "TraceRow", "Wanted", "page_of", "rows_of", "span_of", "summary_of", "wanted"]

_TEXTS = ("entity_type", "entity_id", "entity_name", "status", "run_id")
_KNOWN = (*_TEXTS, "start", "end", "tags", "metadata")


class SpanRow(NamedTuple):
    """A span as it is kept: its place in its trace, and its JSON form."""

    trace: str
    id: str
    started: int
    data: str


class TraceRow(NamedTuple):
    """What is kept of a trace beside its spans, read off its root span; `data` is JSON."""

    trace: str
    started: int
    ended: int
    entity_type: str | None
    entity_id: str | None
    entity_name: str | None
    status: str
    run_id: str | None
    facts: str | None
    data: str


def rows_of(spans: Iterable[Any]) -> tuple[list[SpanRow], list[TraceRow]]:
    """The rows of a batch. Raises `InputError` for what is no exported span."""
    found: list[SpanRow] = []
    roots: list[TraceRow] = []
    for span in spans:
        if not isinstance(span, ExportedSpan):
            raise InputError(f"spans must be a list of ExportedSpan, not {type(span).__name__}")
        started = stamp(span.start_time)
        found.append(SpanRow(span.trace_id, span.id, started, to_json(span.to_json())))
        if span.is_root:
            roots.append(_root(span, started))
    return found, roots


def _root(span: ExportedSpan, started: int) -> TraceRow:
    tags = [fact for tag in span.tags or () if (fact := fact_of("tag", tag)) is not None]
    facts = facts_of(span.metadata) or ("\n" if tags else None)
    data = {
        "name": span.name,
        "usage": span.attributes.get("usage"),
        "tags": span.tags or [],
        "metadata": span.metadata or {},
    }
    return TraceRow(
        trace=span.trace_id,
        started=started,
        ended=stamp(span.end_time),
        entity_type=span.entity_type,
        entity_id=span.entity_id,
        entity_name=span.entity_name,
        status=span.status,
        run_id=span.run_id,
        facts=None if facts is None else facts + "".join(f"#{tag}\n" for tag in tags),
        data=to_json(data),
    )


def span_of(data: str) -> ExportedSpan:
    """The span of a row."""
    return ExportedSpan.from_json(from_json(data))


def summary_of(row: TraceRow, spans: int) -> TraceSummary:
    """What a list shows of a trace."""
    said = from_json(row.data)
    return TraceSummary(
        trace_id=row.trace,
        name=said["name"],
        status=cast("Any", row.status),
        start_time=moment(row.started),
        end_time=moment(row.ended),
        span_count=spans,
        entity_type=row.entity_type,
        entity_id=row.entity_id,
        entity_name=row.entity_name,
        run_id=row.run_id,
        usage=said.get("usage"),
        tags=said["tags"],
        metadata=said["metadata"],
    )


class Wanted(NamedTuple):
    """A filter, checked: equal texts by column, first and last microsecond, facts."""

    texts: dict[str, str]
    first: int | None
    last: int | None
    facts: tuple[str, ...]

    def fits(self, row: TraceRow) -> bool:
        """Whether a trace is one of those that are asked for."""
        if self.first is not None and row.started < self.first:
            return False
        if self.last is not None and row.started > self.last:
            return False
        if any(getattr(row, name) != value for name, value in self.texts.items()):
            return False
        return all(f"\n{fact}\n" in (row.facts or "") for fact in self.facts)


def wanted(given: Any) -> Wanted:
    """A trace filter, checked."""
    asked = checked_mapping(given, "filter", _KNOWN)
    texts: dict[str, str] = {}
    for name in _TEXTS:
        value = asked.get(name)
        if value is not None and not isinstance(value, str):
            raise InputError(f"filter: {name} must be a text, not {type(value).__name__}")
        if value is not None:
            texts[name] = value
    tags: Any = asked.get("tags") or ()
    if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
        raise InputError("filter: tags must be a list of texts")
    marks = [f"#{fact_of('tag', tag)}" for tag in tags]
    facts = (*wanted_facts(asked.get("metadata")), *marks)
    return Wanted(texts, _time(asked, "start"), _time(asked, "end"), facts)


def _time(asked: dict[str, Any], name: str) -> int | None:
    value = asked.get(name)
    if value is not None and not isinstance(value, datetime):
        raise InputError(f"filter: {name} must be a datetime, not {type(value).__name__}")
    return None if value is None else stamp(value)


def page_of(traces: list[TraceSummary], total: int, paging: Paging) -> TracePage:
    """A page of traces."""
    return TracePage(
        traces=traces,
        total=total,
        page=paging.page,
        per_page=paging.per_page,
        has_more=paging.more(total, len(traces)),
    )
