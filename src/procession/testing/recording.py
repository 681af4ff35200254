"""Keeping what a run says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from ..chunks import Chunk
    from ..spans import Span

__all__ = ["RecordingObserver", "collect"]


class RecordingObserver:
    """An observer that keeps every span, in the order in which they ended."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def span(self, span: Span, /) -> None:
        """Take note of a finished span."""
        self.spans.append(span)

    def of_kind(self, kind: str, name: str | None = None) -> list[Span]:
        """The spans of one kind, and of one name if given."""
        return [span for span in self.spans if span.kind == kind and name in (None, span.name)]


async def collect(stream: Any) -> list[Chunk]:
    """All chunks of a run, from its start to its end.

    `stream` is what `agent.stream(...)` returned, or any async iterable of chunks.
    """
    chunks: AsyncIterable[Chunk] = getattr(stream, "full_stream", stream)
    return [chunk async for chunk in chunks]
