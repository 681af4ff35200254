"""The domain `"observability"` in this process."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Literal

from ..queries import Paging, ids_of
from ..traces import page_of, rows_of, span_of, summary_of, wanted
from .rows import part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...trace_store import ExportedSpan, TraceFilter, TracePage
    from ..traces import SpanRow, TraceRow

__all__ = ["Traces"]


class Traces:
    """Traces; see `ObservabilityStore`."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._spans: dict[str, dict[str, SpanRow]] = {}
        self._traces: dict[str, TraceRow] = {}

    async def save_spans(self, spans: Iterable[ExportedSpan]) -> None:
        """Write a batch of spans, each over an earlier one of its trace and id."""
        rows, roots = rows_of(spans)
        with self._lock:
            for row in rows:
                self._spans.setdefault(row.trace, {})[row.id] = row
            for root in sorted(roots, key=lambda root: root.ended):
                self._put(root)

    def _put(self, root: TraceRow) -> None:
        known = self._traces.get(root.trace)
        if known is None:
            self._traces[root.trace] = root
        elif known.ended <= root.ended:
            # A run that goes on after it has waited: the trace began with the first root.
            made = known._replace(ended=root.ended, status=root.status, data=root.data)
            self._traces[root.trace] = made

    async def get_trace(self, trace_id: str) -> list[ExportedSpan]:
        """All spans of a trace, by the time they began; none if it is not there."""
        with self._lock:
            rows = sorted(self._spans.get(trace_id, {}).values(), key=lambda row: row.started)
            return [span_of(row.data) for row in rows]

    async def list_traces(
        self,
        *,
        filter: TraceFilter | None = None,
        page: int = 0,
        per_page: int | Literal[False] = 50,
    ) -> TracePage:
        """A page of traces whose root span is there, the one that began last first."""
        asked, paging = wanted(filter), Paging.of(page, per_page)
        with self._lock:
            found = [row for row in reversed(self._traces.values()) if asked.fits(row)]
            found.sort(key=lambda row: row.started, reverse=True)
            shown = [summary_of(row, len(self._spans[row.trace])) for row in part(found, paging)]
            return page_of(shown, len(found), paging)

    async def delete_traces(self, trace_ids: Iterable[str]) -> None:
        """Delete these traces, as far as they are there."""
        ids = ids_of(trace_ids, "trace_ids")
        with self._lock:
            for id in ids:
                self._spans.pop(id, None)
                self._traces.pop(id, None)
