"""Tracing as checkers see it: exporters of one's own, spans, stores of traces."""

from collections.abc import Sequence
from typing import Any, assert_type

from procession import Agent, FullOutput
from procession.processor import ProcessInputArgs
from procession.stores import SQLiteStore
from procession.trace_store import ObservabilityStore, TracePage
from procession.tracing import (
    AnySpan,
    ConsoleExporter,
    ExportedSpan,
    InMemoryExporter,
    JsonlExporter,
    Observability,
    OpenTelemetryExporter,
    StoreExporter,
    Tracing,
    current_span,
    tree_of,
)


class Counting:
    """Needs no base class."""

    name = "counting"

    def export(self, spans: Sequence[ExportedSpan], /) -> None: ...
    async def flush(self) -> None: ...
    def shutdown(self) -> None: ...


class NoExporter:
    name = "none"


STORE = SQLiteStore("a.db")
TRACING = Tracing(
    [
        Counting(),
        InMemoryExporter(),
        ConsoleExporter(),
        JsonlExporter("a.jsonl"),
        StoreExporter(STORE),
        OpenTelemetryExporter("http://127.0.0.1:4318/v1/traces"),
    ],
    sampling=0.1,
    mask=str.lower,
    span_output_processors=[lambda span: None],
)
Agent(id="a", observer=TRACING)
Agent(id="a", observer=Observability({"a": TRACING, "b": {"sampling": "never"}}))
Tracing([NoExporter()])  # type: ignore[list-item]
Tracing(sampling=lambda root: "yes")  # type: ignore[arg-type, return-value]
Tracing(content="all")  # type: ignore[arg-type]


def hook(args: ProcessInputArgs[Any]) -> None:
    span = current_span.get()
    assert_type(span, AnySpan | None)
    if span is not None:
        with span.create_child_span(name="query") as query:
            assert_type(query, AnySpan)
            query.update(attributes={"rows": 1})
            query.finish()  # type: ignore[attr-defined]


async def call(agent: Agent) -> None:
    result = await agent.generate("go", tracing_options={"tags": ["a"], "root_span_name": "x"})
    assert_type(result, FullOutput[Any])
    assert_type(result.trace_id, str | None)
    await agent.generate("go", tracing_options={"tag": ["a"]})  # type: ignore[arg-type]


async def read() -> None:
    traces = STORE.get_store("observability")
    assert_type(traces, ObservabilityStore)
    page = await traces.list_traces(filter={"status": "error", "tags": ["a"]}, per_page=False)
    assert_type(page, TracePage)
    found = await traces.get_trace("0" * 32)
    assert_type(found, list[ExportedSpan])
    assert_type(tree_of(found)[0].span, ExportedSpan)
    await traces.list_traces(filter={"status": "great"})  # type: ignore[arg-type]
