"""Two texts compared word by word, in a form that people can read.

A difference is a list of `[mark, text]`: `=` has stayed, `-` is gone, `+` is new. Where a text must
not be told, a number of characters stands in its place; `.` marks what was there and is withheld.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Difference", "difference", "with_the_rest_withheld"]

Difference = list[list[str | int]]

_WORDS = re.compile(r"\S+\s*|\s+")
_MOST = 1_000
"""So many words are compared; in longer texts what differs is told as a whole."""
_CONTEXT = 80
"""How much of what has stayed is told on either side of a change."""

Codes = list[tuple[str, int, int, int, int]]


def difference(before: str | None, after: str | None) -> Difference:
    """All that has changed, in full."""
    old, new = _words(before), _words(after)
    found: Difference = []
    for code, i, j, k, m in _codes(old, new):
        if code == "equal":
            _add(found, "=", _abridged("".join(new[k:m])))
            continue
        _add(found, "-", "".join(old[i:j]))
        _add(found, "+", "".join(new[k:m]))
    return found


def with_the_rest_withheld(
    before: str | None, after: str | None, let_through: Sequence[str]
) -> Difference:
    """What has changed, as far as it was let through in the end.

    `let_through` are the texts that were. Words of `after` are told if they stand, in their order,
    in the one of these that is most like it; what is gone is told by its length.
    """
    old, new = _words(before), _words(after)
    told = _told(after or "", new, let_through)
    found: Difference = []
    for code, i, j, k, m in _codes(old, new):
        if code != "equal":
            _add(found, "-", sum(map(len, old[i:j])))
        for is_told, text in _runs(new, told, k, m):
            if not is_told:
                _add(found, ".", len(text))
            elif code == "equal":
                _add(found, "=", _abridged(text))
            else:
                _add(found, "+", text)
    return found


def _words(text: str | None) -> list[str]:
    return _WORDS.findall(text) if text else []


def _codes(old: Sequence[str], new: Sequence[str]) -> Codes:
    """How one list of words becomes the other, in order."""
    start, limit = 0, min(len(old), len(new))
    while start < limit and old[start] == new[start]:
        start += 1
    end = 0
    while end < limit - start and old[-1 - end] == new[-1 - end]:
        end += 1
    i, k = len(old) - end, len(new) - end
    found: Codes = [("equal", 0, start, 0, start)] if start else []
    if i - start > _MOST or k - start > _MOST:
        found.append(("replace", start, i, start, k))
    elif i > start or k > start:
        matcher = SequenceMatcher(None, old[start:i], new[start:k], autojunk=False)
        found.extend(
            (code, a + start, b + start, c + start, d + start)
            for code, a, b, c, d in matcher.get_opcodes()
        )
    if end:
        found.append(("equal", i, len(old), k, len(new)))
    return found


def _told(text: str, words: Sequence[str], let_through: Sequence[str]) -> list[bool]:
    """For each word, whether it was let through."""
    if text in let_through:
        return [True] * len(words)
    told, mine = [False] * len(words), set(words)
    candidates = [_words(each) for each in let_through]
    shared = [len(mine.intersection(each)) for each in candidates]
    if not shared or not max(shared):
        return told
    likest = candidates[shared.index(max(shared))]
    for code, i, j, _, _ in _codes(words, likest):
        if code == "equal":
            told[i:j] = [True] * (j - i)
    return told


def _runs(
    words: Sequence[str], told: Sequence[bool], start: int, end: int
) -> Iterator[tuple[bool, str]]:
    while start < end:
        stop = start
        while stop < end and told[stop] == told[start]:
            stop += 1
        yield told[start], "".join(words[start:stop])
        start = stop


def _add(found: Difference, mark: str, said: str | int) -> None:
    if not said:
        return
    if found and found[-1][0] == mark and isinstance(said, int):
        last = found[-1][1]
        assert isinstance(last, int)
        found[-1] = [mark, last + said]
    else:
        found.append([mark, said])


def _abridged(text: str) -> str:
    if len(text) <= 2 * _CONTEXT + 1:
        return text
    return f"{text[:_CONTEXT]}…{text[-_CONTEXT:]}"
