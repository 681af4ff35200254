"""A text without the sentences in which something was found."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["without_sentences"]

END = re.compile(
    "[.!?\u2026\u061f\u0964]+[\"'\u201d\u00bb)\\]]*(?=\\s)|[\u3002\uff01\uff1f]|\n|-->"
)
"""What ends a sentence; a line and a comment end one too."""


def without_sentences(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text without each sentence that one of the spans reaches into; blanks at the joints go.

    All of it goes where nothing but blanks and marks would be left.
    """
    ends = [0, *(match.end() for match in END.finditer(text)), len(text)]
    cuts: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        first = ends[bisect_right(ends, start) - 1]
        last = ends[min(bisect_left(ends, end), len(ends) - 1)]
        if cuts and first <= cuts[-1][1]:
            cuts[-1] = cuts[-1][0], max(last, cuts[-1][1])
        else:
            cuts.append((first, last))
    kept: list[str] = []
    at = 0
    for start, end in cuts:
        kept.append(text[at:start])
        at = end
    left = "".join([*kept, text[at:]])
    if cuts and cuts[0][0] == 0:
        left = left.lstrip()
    return left if any(char.isalnum() for char in left) else ""
