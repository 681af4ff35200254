"""Traces of runs: a tree of spans for each, masked and sampled, sent wherever traces are read."""

from typing import TYPE_CHECKING, Any

from ..trace_store import ExportedSpan
from ..tracing_context import AnySpan, TracingContext, current_span
from .exporter import ExportCounts, Exporter
from .exporters.in_memory import InMemoryExporter
from .exporters.jsonl import JsonlExporter
from .exporters.store import StoreExporter
from .exporters.text import ConsoleExporter
from .masking import SensitiveDataFilter
from .observability import Observability
from .preparing import SpanProcessor
from .sampling import RootSpan
from .tracing import Tracing
from .tree import Node, render, tree_of

if TYPE_CHECKING:
    from .exporters.opentelemetry import MaskingSpanExporter, OpenTelemetryExporter

__all__ = [
    "AnySpan",
    "ConsoleExporter",
    "ExportCounts",
    "ExportedSpan",
    "Exporter",
    "InMemoryExporter",
    "JsonlExporter",
    "MaskingSpanExporter",
    "Node",
    "Observability",
    "OpenTelemetryExporter",
    "RootSpan",
    "SensitiveDataFilter",
    "SpanProcessor",
    "StoreExporter",
    "Tracing",
    "TracingContext",
    "current_span",
    "render",
    "tree_of",
]


def __getattr__(name: str) -> Any:
    if name in ("OpenTelemetryExporter", "MaskingSpanExporter"):  # they need the extra `otel`
        from .exporters import opentelemetry

        return getattr(opentelemetry, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
