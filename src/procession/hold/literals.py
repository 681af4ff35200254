"""Fixed texts as a watch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from ..errors import OptionError
from ..keywords import TakesOptions

__all__ = ["Literals"]

_DOTTED = "\u0130"
"""The one character whose lower case is two."""
_WIDE = _DOTTED.lower()


class Literals(TakesOptions):
    """One text or several that are looked for as they are: `Literals("secret", "token")`.

    What cannot be the beginning of one of them leaves at once. With `ignore_case`, characters
    count as equal when their lower-case forms are. Raises `OptionError` when there is none, or an
    empty one.
    """

    look_behind = 0

    def __init__(self, *texts: str | Iterable[str], ignore_case: bool = False) -> None:
        found = _texts(texts)
        self.ignore_case = ignore_case
        self.texts = tuple(dict.fromkeys(map(_lower, found)) if ignore_case else found)
        """What is looked for; in lower case with `ignore_case`."""
        self._starts = frozenset(text[:k] for text in self.texts for k in range(1, len(text)))
        self._lengths = _lengths_by_last(self._starts)
        self._widens = ignore_case and any(_WIDE in text for text in self.texts)
        self._longest = max(map(len, self.texts))
        self._regex = re.compile(_alternation(self.texts, widens=self._widens))

    def __repr__(self) -> str:
        return f"Literals({len(self.texts)} texts)"  # the texts may be what must not be shown

    def finditer(self, text: str, start: int = 0) -> Iterator[re.Match[str]]:
        """The matches from `start` on, left to right, the longest one where several begin.

        With `ignore_case` the matches are those of the text in lower case, at the indices that they
        have in the text.
        """
        return self._regex.finditer(_folded(text) if self.ignore_case else text, start)

    def release(self, text: str, start: int, limit: int) -> int:
        """See `Watch.release`."""
        if self.ignore_case:
            text = _folded(text)
        size = len(text)
        live = self._begun(text, start)
        if live == size == limit:
            return limit
        position = start
        for match in self._regex.finditer(text, start):
            begin, position = match.span()
            if begin >= live or begin >= limit:
                break
            if position > limit:
                return begin
            if position > live:  # what seemed to begin is the inside of a match that is complete
                live = self._begun(text, position)
        return min(live, limit)

    def _begun(self, text: str, start: int) -> int:
        """The first index from which on the text is the beginning of a literal."""
        size = len(text)
        if self._widens and _DOTTED in text:
            for begin in range(max(start, size - self._longest), size):
                if text[begin:].replace(_DOTTED, _WIDE) in self._starts:
                    return begin
        elif size > start:
            for length in self._lengths.get(text[-1], ()):
                if size - length >= start and text[size - length :] in self._starts:
                    return size - length
        return size


def _texts(given: tuple[Any, ...]) -> tuple[str, ...]:
    found: list[Any] = []
    for entry in given:
        if isinstance(entry, Iterable) and not isinstance(entry, str):
            found.extend(cast("Iterable[Any]", entry))
        else:
            found.append(entry)
    if not found or not all(isinstance(text, str) and text for text in found):
        raise OptionError("Literals: give one text or several, none of them empty")
    return tuple(dict.fromkeys(found))


def _folded(text: str) -> str:
    """The text in lower case, character by character: indices stay what they are, for the one
    character whose lower case is longer is left alone.
    """
    lower = text.lower()
    if len(lower) == len(text) and text.isascii():
        return lower
    return "".join([low if len(low := c.lower()) == 1 else c for c in text])


def _lower(text: str) -> str:
    return _folded(text).replace(_DOTTED, _WIDE)


def _lengths_by_last(starts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """By the last character of a beginning: how long beginnings that end with it are, down."""
    found: dict[str, set[int]] = {}
    for text in starts:
        found.setdefault(text[-1], set()).add(len(text))
    return {last: tuple(sorted(lengths, reverse=True)) for last, lengths in found.items()}


def _alternation(texts: Iterable[str], *, widens: bool) -> str:
    """One expression for all, grouped by first character so that most are never tried.

    `widens`: what a character becomes whose lower case is longer may be that character as well.
    """
    by_first: dict[str, list[str]] = {}
    for text in sorted(texts, key=len, reverse=True):
        by_first.setdefault(text[0], []).append(_either(text[1:], widens=widens))
        if widens and text.startswith(_WIDE):
            rest = _either(text[len(_WIDE) :], widens=widens)
            by_first.setdefault(_DOTTED, []).append(rest)
    groups = (f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in by_first.items())
    return "|".join(groups)


def _either(text: str, *, widens: bool) -> str:
    escaped = re.escape(text)
    return escaped.replace(_WIDE, f"(?:{_WIDE}|{_DOTTED})") if widens else escaped
