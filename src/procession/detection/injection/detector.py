"""Looking for known forms of prompt injection: in what a text says, hides and encodes."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from .decoding import Decoded, decodings
from .findings import Finding
from .grammar import ENOUGH, read_words
from .hidden import NEVER_SEEN, read_hidden
from .markers import comments_in, read_markers
from .plain import PlainText

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["find_injections"]

DEPTH = 3
"""How often what was decoded is decoded again."""
CONCEALED = 0.2
"""What a form counts for more where a reader would not see it."""


def find_injections(text: str) -> list[Finding]:
    """Known forms of prompt injection in a text, from left to right.

    Pure and local, in time that goes with the length of the text. What is encoded or hidden is
    found at the place where that stands. More than some hundred findings are not looked for.
    """
    return sorted(_read(text, DEPTH, lenient=True), key=lambda found: (found.start, found.end))


def _read(text: str, depth: int, *, lenient: bool) -> list[Finding]:
    plain = PlainText(text)
    found = [
        finding._replace(start=start, end=end)
        for finding in read_words(plain.text, lenient=lenient)
        for start, end in (plain.span(finding.start, finding.end),)
    ]
    found += read_markers(text)
    found += _commented(text, found)
    if depth:
        found += _concealed(text, depth)
    return found


def bared(bare: str, size: int) -> Iterator[Decoded]:
    """What a text says that was encoded before characters were hidden in it; it is all of it."""
    return (Decoded(decoded.text, 0, size) for decoded in decodings(bare))


def _commented(text: str, found: list[Finding]) -> list[Finding]:
    """What stands in comments counts for more, and is all of the comment."""
    spans = comments_in(text) if found else []
    return [
        _raised(finding)._replace(start=start, end=end)
        for finding in found[: ENOUGH * 2]
        for start, end in spans[:ENOUGH]
        if start <= finding.start and finding.end <= end and finding.score >= 0.5
    ]


def _raised(found: Finding) -> Finding:
    return found._replace(score=round(min(1.0, found.score + CONCEALED), 3))


def _concealed(text: str, depth: int) -> Iterator[Finding]:
    for hidden in read_hidden(text):
        yield Finding("injection", hidden.score, hidden.start, hidden.end)
        for inner in _read(hidden.text, depth - 1, lenient=False):
            yield _raised(inner)._replace(start=hidden.start, end=hidden.end)
    budget = ENOUGH
    bare = NEVER_SEEN.sub("", text) if not text.isascii() else text
    if bare != text:
        known = {(finding.type, finding.score) for finding in read_markers(text)}
        for finding in read_markers(bare):
            if (finding.type, finding.score) not in known:
                yield finding._replace(start=0, end=len(text))
    for decoded in chain(decodings(text), bared(bare, len(text)) if bare != text else ()):
        for inner in _read(decoded.text, depth - 1, lenient=decoded.same_places):
            budget -= 1
            if decoded.same_places:
                yield inner
            else:
                yield _raised(inner)._replace(start=decoded.start, end=decoded.end)
        if budget < 0:
            return
