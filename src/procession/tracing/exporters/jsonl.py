"""Spans in a file, one JSON object a line."""

from __future__ import annotations

import json
import os
from typing import IO, TYPE_CHECKING, Any, cast

from ...keywords import TakesOptions
from ...stores.encoding import to_json
from ...trace_store import ExportedSpan
from ..option_checks import checked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["JsonlExporter", "read_spans"]


class JsonlExporter(TakesOptions):
    """Appends to the file at `path`, which is made if it is missing, readable for its owner only.

    A batch is one write, so several processes may append to one file. `read_spans(path)` reads it.
    """

    name = "jsonl"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: str = os.fspath(
            checked("JsonlExporter", "path", path, "the path of a file", _is_path)
        )
        self._file: IO[bytes] | None = None

    def export(self, spans: Sequence[ExportedSpan]) -> None:
        """Write them."""
        if self._file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self._file = open(os.open(self.path, flags, 0o600), "ab", buffering=0)
        self._file.write("".join(to_json(span.to_json()) + "\n" for span in spans).encode())

    def flush(self) -> None:
        """Everything has been handed to the system."""

    def shutdown(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and bool(str(cast("Any", value)))


def read_spans(path: str | os.PathLike[str]) -> Iterator[ExportedSpan]:
    """The spans of a file, in the order in which they were written; a line that broke off is left
    out.
    """
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            try:
                form = json.loads(line)
            except ValueError:
                continue
            yield ExportedSpan.from_json(form)
