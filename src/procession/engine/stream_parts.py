"""`stream_parts`: the chunks of a run as they entered the chain (R-121)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

from ..chunks import Chunk
from ..records import Record

__all__ = ["StreamParts", "frozen_chunk"]


class StreamParts(Sequence[Chunk]):
    """`stream_parts`: one growing list, shared by all processors, that cannot be written to."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks

    @overload
    def __getitem__(self, index: int) -> Chunk: ...
    @overload
    def __getitem__(self, index: slice) -> list[Chunk]: ...
    def __getitem__(self, index: int | slice) -> Chunk | list[Chunk]:
        return self._chunks[index]

    def __len__(self) -> int:
        return len(self._chunks)

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self._chunks)


def frozen_chunk(chunk: Chunk) -> Chunk:
    """The chunk as it is now: processors may change the one they are handed in place."""
    kept = _copied(chunk)
    if kept.payload is not None:
        kept.payload = _copied(kept.payload)
    return kept


# What `copy.copy` would call after looking for it; the look-up costs more than the copy.
_copied: Callable[[Any], Any] = getattr(Record, "__copy__")  # noqa: B009
