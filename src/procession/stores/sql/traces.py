"""The domain `"observability"` in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ..queries import Paging, ids_of
from ..traces import TraceRow, page_of, rows_of, span_of, summary_of, wanted
from .columns import optional_plain, optional_safe, safe_text
from .script import Ask, AskMany, marks
from .threads import part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...trace_store import ExportedSpan, TraceFilter, TracePage
    from ..traces import Wanted
    from .script import Backend, Row, Script

__all__ = ["SqlTraces"]

_PUT_SPAN = """
    INSERT INTO procession_spans (trace, id, started_at, data) VALUES (?, ?, ?, ?)
    ON CONFLICT (trace, id) DO UPDATE SET
        started_at = excluded.started_at, data = excluded.data
"""
# A run that goes on after it has waited brings another root: the trace began with the first one.
_PUT_TRACE = """
    INSERT INTO procession_traces
        (trace, started_at, ended_at, entity_type, entity_id, entity_name, status, run_id, facts,
         data)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (trace) DO UPDATE SET
        ended_at = excluded.ended_at, status = excluded.status, data = excluded.data
    WHERE procession_traces.ended_at <= excluded.ended_at
"""
_COLUMNS = (
    "trace, started_at, ended_at, entity_type, entity_id, entity_name, status, run_id, facts, data"
)
_TEXTS = ("entity_type", "entity_id", "entity_name", "run_id")


class SqlTraces:
    """Traces; see `ObservabilityStore`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._find = backend.dialect.find

    async def save_spans(self, spans: Iterable[ExportedSpan]) -> None:
        """Write a batch of spans, each over an earlier one of its trace and id."""
        rows, roots = rows_of(spans)

        def script() -> Script[None]:
            # In order, so that no two writers wait for each other.
            yield AskMany(
                _PUT_SPAN, [(safe_text(r[0]), safe_text(r[1]), *r[2:]) for r in sorted(rows)]
            )
            yield AskMany(_PUT_TRACE, [_values(root) for root in sorted(roots, key=_first)])

        if rows:
            await self._backend.write(script)

    async def get_trace(self, trace_id: str) -> list[ExportedSpan]:
        """All spans of a trace, by the time they began; none if it is not there."""

        def script() -> Script[list[ExportedSpan]]:
            sql = "SELECT data FROM procession_spans WHERE trace = ? ORDER BY started_at, seq"
            rows = yield Ask(sql, (safe_text(trace_id),))
            return [span_of(data) for (data,) in rows]

        return await self._backend.read(script, single=True)

    async def list_traces(
        self,
        *,
        filter: TraceFilter | None = None,
        page: int = 0,
        per_page: int | Literal[False] = 50,
    ) -> TracePage:
        """A page of traces whose root span is there, the one that began last first."""
        asked, paging = wanted(filter), Paging.of(page, per_page)
        return await self._backend.read(lambda: self._list(asked, paging))

    def _list(self, asked: Wanted, paging: Paging) -> Script[TracePage]:
        tests = [f"{name} = ?" for name in asked.texts]
        values: list[Any] = [safe_text(value) for value in asked.texts.values()]
        for sign, time in ((">=", asked.first), ("<=", asked.last)):
            if time is not None:
                tests.append(f"started_at {sign} ?")
                values.append(time)
        for fact in asked.facts:
            tests.append(f"{self._find}(facts, ?) > 0")
            values.append(f"\n{fact}\n")
        where = " WHERE " + " AND ".join(tests) if tests else ""
        counted = yield Ask(f"SELECT count(*) FROM procession_traces{where}", values)
        sql = f"SELECT {_COLUMNS} FROM procession_traces{where} ORDER BY started_at DESC, seq DESC"
        rows = yield part(sql, values, paging)
        ids = [row[0] for row in rows]
        sql = (
            "SELECT trace, count(*) FROM procession_spans "
            f"WHERE trace IN ({marks(ids)}) GROUP BY trace"
        )
        spans = yield Ask(sql, ids)
        sizes: dict[str, int] = {trace: size for trace, size in spans}
        found = [summary_of(_row_of(row), sizes.get(row[0], 0)) for row in rows]
        return page_of(found, counted[0][0], paging)

    async def delete_traces(self, trace_ids: Iterable[str]) -> None:
        """Delete these traces, as far as they are there."""
        ids = [safe_text(id) for id in ids_of(trace_ids, "trace_ids")]

        def script() -> Script[None]:
            for table in ("procession_spans", "procession_traces"):
                yield AskMany(f"DELETE FROM {table} WHERE trace = ?", [(id,) for id in sorted(ids)])

        await self._backend.write(script)


def _first(row: TraceRow) -> tuple[str, int]:
    return row.trace, row.ended


def _values(row: TraceRow) -> tuple[Any, ...]:
    made = row._replace(**{name: optional_safe(getattr(row, name)) for name in _TEXTS})
    return made._replace(trace=safe_text(row.trace))


def _row_of(row: Row) -> TraceRow:
    made = TraceRow(*row)
    return made._replace(**{name: optional_plain(getattr(made, name)) for name in _TEXTS})
