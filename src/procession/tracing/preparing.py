"""What each span goes through before an exporter gets it: filters, processors, mask (O-053)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from ..errors import OptionError
from .harmless import log
from .masking import Outgoing, SensitiveDataFilter

if TYPE_CHECKING:
    from ..trace_store import ExportedSpan
    from .exporter import ExportCounts
    from .masking import Mask

__all__ = ["Preparation", "SpanProcessor", "processors_of"]

SpanProcessor = Callable[["ExportedSpan"], "ExportedSpan | None"]
"""Changes a span on its way out, or drops it (`None`); given in a list, they work in order."""


class Preparation:
    """One for all exporters of a tracing, in this order: types, filter, processors, mask."""

    __slots__ = ("_excluded", "_filter", "_mask", "_processors")

    def __init__(
        self,
        excluded: frozenset[str],
        filter: Callable[[ExportedSpan], bool] | None,
        processors: Sequence[SpanProcessor],
        mask: Mask | None,
    ) -> None:
        self._excluded, self._filter = excluded, filter
        self._processors, self._mask = processors, mask

    def __call__(self, spans: Sequence[ExportedSpan], counts: ExportCounts) -> list[ExportedSpan]:
        """The spans as they may leave; what has become of the others is counted."""
        outgoing = Outgoing(self._mask)
        found: list[ExportedSpan] = []
        for span in spans:
            made = self._processed(span)
            if made is None:
                counts.filtered += 1
            else:
                found.append(outgoing.masked_span(made))
        counts.masked += outgoing.masked
        return found

    def _processed(self, span: ExportedSpan) -> ExportedSpan | None:
        if span.type in self._excluded:
            return None
        made: ExportedSpan | None = replace(span)
        try:
            if self._filter is not None and not self._filter(made):
                return None
            for process in self._processors:
                made = process(made)
                if made is None:
                    return None
        except Exception as error:  # what it was to take out must not leave
            log.warning("a span processor raised %s: the span is dropped", type(error).__name__)
            return None
        return made


def processors_of(given: Any, filter: Any) -> list[SpanProcessor]:
    """The processors, the filter for sensitive data last. Raises `OptionError`."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise OptionError("Tracing: span_output_processors must be a list of functions")
    found: list[Any] = [*cast("Sequence[Any]", given)]
    if not all(map(callable, found)):
        raise OptionError("Tracing: each of span_output_processors must be a function of a span")
    if isinstance(filter, SensitiveDataFilter):
        return [*found, filter]
    if not isinstance(filter, bool):
        raise OptionError(
            "Tracing: sensitive_data_filter must be True, False or a SensitiveDataFilter"
        )
    return [*found, SensitiveDataFilter()] if filter else found
