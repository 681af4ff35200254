"""Where sentences end, in many scripts."""

# ruff: noqa: RUF001  # marks that look alike are what this is about

from __future__ import annotations

import re

__all__ = ["may_end", "sentence_ends"]

_WIDE = "。！？｡．"
"""Marks behind which no white space is written."""
_MARKS = f".!?…؟۔।॥։።፧။៕{_WIDE}"
_CLOSERS = "\"'”’»)\\]」』）】〉》"
_ENDS = re.compile(
    rf"(?<![{_MARKS}])(?:"
    rf"[{_MARKS}]++[{_CLOSERS}]*+\s++(?=\S)"
    rf"|[{_WIDE}][{_MARKS}]*+[{_CLOSERS}]*+(?=[^\s{_MARKS}{_CLOSERS}])"
    r"|(?<!\s)[^\S\n]*+\n\s*+(?=\S))"
)
"""The end of a sentence, with the white space behind it, once the next character is there."""
_MARK = re.compile(rf"[{_MARKS}\n]")
_BEFORE_AN_END = frozenset(f"{_MARKS}{_CLOSERS}")
_INITIALS = re.compile(r"\w(?:\.\w)*")
_ABBREVIATED = frozenset(
    "al approx bzw ca cf dr evtl fig inkl mr mrs ms no nr pp prof sr st vgl vs".split()
)


def sentence_ends(text: str, start: int, limit: int) -> list[int]:
    """The ends of sentences in `text`, from `start`, where one begins, to `limit`.

    The full stops of `3.14`, of `e.g. this`, of initials and of a number at the head of a line end
    no sentence. An end is known when the first character behind it is there.
    """
    found: list[int] = []
    begin = start
    for match in _ENDS.finditer(text, start):
        end = match.end()
        if end > limit:
            break
        if text[match.start()] == "." and _goes_on(text, begin, match.start(), end):
            continue
        found.append(end)
        begin = end
    return found


def may_end(held: str, new: str) -> bool:
    """Whether a sentence may be found to end when `new` comes behind `held`."""
    last = held[-1]
    return last in _BEFORE_AN_END or last.isspace() or _MARK.search(new) is not None


def _goes_on(text: str, begin: int, mark: int, end: int) -> bool:
    """Whether a full stop at `mark`, in the sentence from `begin` on, does not end it."""
    gap = text[mark + 1 : end]
    if "\n" in gap or not gap.isspace():
        return False
    if text[end].islower() or text[begin:mark].strip().isdigit():
        return True
    words = text[max(begin, mark - 12) : mark].split()
    last = words[-1].lstrip("([\"'“‘").lower() if words else ""
    return last in _ABBREVIATED or (not last.isdigit() and bool(_INITIALS.fullmatch(last)))
