"""Spans kept in this process: for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...keywords import TakesOptions
from ...stores.option_checks import count
from ..tree import tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...trace_store import ExportedSpan
    from ..tree import Node

__all__ = ["InMemoryExporter"]


class InMemoryExporter(TakesOptions):
    """Keeps the last `most` spans. They are there as soon as a run has ended, without a flush."""

    name = "in-memory"
    inline = True

    def __init__(self, most: int = 10_000) -> None:
        self._most = count("InMemoryExporter", "most", most, least=1)
        self.spans: list[ExportedSpan] = []

    def export(self, spans: Sequence[ExportedSpan]) -> None:
        """Keep them."""
        self.spans.extend(spans)
        del self.spans[: -self._most]

    def flush(self) -> None:
        """Nothing is on its way."""

    def shutdown(self) -> None:
        """What is kept stays."""

    def clear(self) -> None:
        """Forget all."""
        self.spans.clear()

    def of_type(self, type: str) -> list[ExportedSpan]:
        """The spans of one type, by the time they began."""
        return sorted((s for s in self.spans if s.type == type), key=lambda s: s.start_time)

    def tree(self, trace_id: str | None = None) -> list[Node]:
        """The spans of a trace, or of all, as trees."""
        return tree_of([s for s in self.spans if trace_id in (None, s.trace_id)])
