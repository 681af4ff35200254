"""Traces for whatever reads OpenTelemetry, by OTLP over HTTP or any of its exporters."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

from ...errors import OptionError, ProcessionError
from ...extras import brought_by
from ...keywords import TakesOptions
from ..masking import Mask, Outgoing
from ..option_checks import function
from .semantic_conventions import conventional

with brought_by("otel", "opentelemetry"):
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
    from opentelemetry.trace.status import Status, StatusCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from ...trace_store import ExportedSpan

__all__ = ["MaskingSpanExporter", "OpenTelemetryExporter"]


class OpenTelemetryExporter(TakesOptions):
    """Sends spans to a collector or a backend, with the conventions for generative AI.

    `endpoint` is the full URL, mostly `http://…:4318/v1/traces`; without it the standard variables
    of the environment apply (`OTEL_EXPORTER_OTLP_ENDPOINT` and so on). `headers` are sent along.
    `exporter`, any exporter of the OpenTelemetry SDK, takes the place of both.
    `resource_attributes` stand beside `service_name` in the resource.
    """

    name = "opentelemetry"

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        exporter: SpanExporter | None = None,
        service_name: str = "procession",
        resource_attributes: Mapping[str, Any] | None = None,
    ) -> None:
        if exporter is not None and (endpoint is not None or headers is not None):
            raise OptionError(
                "OpenTelemetryExporter: endpoint and headers are those of an exporter that is made "
                "here; leave them out, or leave exporter out"
            )
        if endpoint is not None and not str(endpoint).startswith(("http://", "https://")):
            raise OptionError("OpenTelemetryExporter: endpoint must be a URL, http:// or https://")
        self._exporter = exporter or OTLPSpanExporter(endpoint=endpoint, headers=headers)
        self._resource = Resource.create(
            {**(resource_attributes or {}), "service.name": service_name}
        )
        self._scope = InstrumentationScope("procession", metadata.version("procession"))

    def export(self, spans: Sequence[ExportedSpan]) -> None:
        """Send them. Raises `ProcessionError` if the backend did not take them."""
        made = [self._readable(span) for span in spans]
        if self._exporter.export(made) is not SpanExportResult.SUCCESS:
            raise ProcessionError("the backend did not take the spans")

    def flush(self) -> None:
        """Bring on its way what the exporter keeps."""
        self._exporter.force_flush()

    def shutdown(self) -> None:
        """Close the connections."""
        self._exporter.shutdown()

    def _readable(self, span: ExportedSpan) -> ReadableSpan:
        told = conventional(span)
        parent = span.parent_span_id
        return ReadableSpan(
            name=told.name,
            context=_context(span.trace_id, span.id),
            parent=None if parent is None else _context(span.trace_id, parent),
            resource=self._resource,
            attributes=told.attributes,
            kind=SpanKind.CLIENT if told.is_client else SpanKind.INTERNAL,
            status=_status(span),
            start_time=_nanoseconds(span.start_time),
            end_time=_nanoseconds(span.end_time),
            instrumentation_scope=self._scope,
        )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(
        trace_id=int(trace_id, 16),
        span_id=int(span_id, 16),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )


def _status(span: ExportedSpan) -> Status:
    """A verdict is what a guard is for, and no error; only what has failed is one."""
    if span.status != "error":
        return Status(StatusCode.UNSET)
    info = span.error_info or {}
    return Status(StatusCode.ERROR, info.get("message") or info.get("name"))


def _nanoseconds(time: datetime) -> int:
    return int(time.timestamp()) * 1_000_000_000 + time.microsecond * 1000


class MaskingSpanExporter(SpanExporter):
    """Masks the spans of anybody before another exporter gets them (G-W1).

    For a tracer provider of your own that spans of other libraries go through:
    `BatchSpanProcessor(MaskingSpanExporter(exporter, mask))`. Attributes of spans and events, and
    what a status says, are masked; `counts` tells of how many texts and spans.
    """

    def __init__(self, exporter: SpanExporter, mask: Mask) -> None:
        if function("MaskingSpanExporter", "mask", mask) is None:
            raise OptionError("MaskingSpanExporter: mask must be a function of a text")
        self._exporter = exporter
        self._outgoing = Outgoing(mask)
        self.exported = 0

    @property
    def masked(self) -> int:
        """How many texts have been changed."""
        return self._outgoing.masked

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Mask and hand on."""
        made = [self._masked(span) for span in spans]
        self.exported += len(made)
        return self._exporter.export(made)

    def shutdown(self) -> None:
        """Shut the other one down."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the other one."""
        return self._exporter.force_flush(timeout_millis)

    def _masked(self, span: ReadableSpan) -> ReadableSpan:
        mask = self._outgoing.value
        events = [
            type(event)(mask(event.name), mask(dict(event.attributes or {})), event.timestamp)
            for event in span.events
        ]
        described = span.status.description
        status = span.status
        if described:
            status = Status(span.status.status_code, mask(described))
        return ReadableSpan(
            name=mask(span.name),
            context=span.get_span_context(),
            parent=span.parent,
            resource=span.resource,
            attributes=mask(dict(span.attributes or {})),
            events=events,
            links=span.links,
            kind=span.kind,
            status=status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )
