"""Traces as indented text, for a terminal."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING, TextIO

from ..tree import render, tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...trace_store import ExportedSpan

__all__ = ["ConsoleExporter"]


class ConsoleExporter:
    """Writes each trace to `stream` (standard error, unless told otherwise): names, outcomes, times
    and tokens, no content.
    """

    name = "console"

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def export(self, spans: Sequence[ExportedSpan]) -> None:
        """Write them."""
        stream = sys.stderr if self._stream is None else self._stream
        for trace_id, own in groupby(spans, key=lambda span: span.trace_id):
            stream.write(f"trace {trace_id}\n{render(tree_of(own))}\n")
        stream.flush()

    def flush(self) -> None:
        """Everything has been written."""

    def shutdown(self) -> None:
        """The stream is somebody else's."""
