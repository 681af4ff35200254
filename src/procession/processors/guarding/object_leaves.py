"""Texts that hold an object, taken apart into the leaves that a guard has seen of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ...hold.leaves import encoded, number_text
from ...hold.prose import ProseReader
from .message_leaves import Leaf

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

__all__ = ["TakenApart"]


class _Segment(Struct):
    """A part of a text: a leaf, or what stands between leaves."""

    kind: str
    written: str
    text: str | None = None
    """The leaf as plain text; `None`: it is none."""

    def with_text(self, text: str) -> str:
        """How the part is written with another leaf."""
        if text == self.text:
            return self.written
        if self.kind == "rest":
            return text
        return f'"{encoded(text)}"' if self.kind == "number" else encoded(text)


class TakenApart:
    """The texts of a message, those of the answer with their leaves in their place.

    `settled`: the texts that are known, and stay whole; `None`: all stay so.
    """

    __slots__ = ("_segments", "leaves")

    def __init__(self, known: Sequence[Leaf], settled: Container[str] | None) -> None:
        self._segments: list[list[_Segment]] = []
        """For each of the texts its parts."""
        self.leaves: list[Leaf] = []
        """All leaves, in order."""
        for leaf in known:
            stays = settled is None or not leaf.is_said or leaf.text in settled
            segments = [_Segment("rest", leaf.text, leaf.text)] if stays else _segments(leaf.text)
            self._segments.append(segments)
            self.leaves += [
                Leaf(segment.text, leaf.part_index, leaf.is_said)
                for segment in segments
                if segment.text is not None
            ]

    def joined(self, texts: Sequence[str]) -> list[str]:
        """The texts with `texts` in place of all leaves."""
        left = iter(texts)
        return ["".join(_joined(segments, left)) for segments in self._segments]


def _joined(segments: Sequence[_Segment], texts: Iterator[str]) -> Iterator[str]:
    for segment in segments:
        yield segment.written if segment.text is None else segment.with_text(next(texts))


def _segments(text: str) -> list[_Segment]:
    reader = ProseReader()
    found: list[_Segment] = []
    for kind, words in [*reader.feed(text), *reader.end()]:
        last = found[-1] if found else None
        if kind == "number":
            found.append(_Segment(kind, words, number_text(words)))
        elif kind in ("text", "rest"):
            plain = words if kind == "rest" else encoded(words)
            if last is not None and last.kind == kind and last.text is not None:
                last.written, last.text = last.written + plain, last.text + words
            else:
                found.append(_Segment(kind, plain, words))
        else:  # also an end that is written as nothing parts what stands on its two sides
            found.append(_Segment(kind, words))
    return found
