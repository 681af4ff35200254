"""Ranking tools, or whatever has a name and a description, for a query by BM25 (B-321).

Our own thirty lines, because of what they are for: a few hundred short texts that may be others
with the next request. A ranking library for large collections brings numerical packages of 70 MB
for that, and 130 ms to import them (measured with `bm25s` 0.3.16).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from math import log
from typing import TYPE_CHECKING, Protocol

from .tool_words import compact, telling, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Described", "ToolIndex"]

_K1, _B = 1.2, 0.75
"""The usual constants of BM25: how soon repeating stops to count, how much length counts."""
_NEAR = 0.5
"""What a word counts that is only nearly the one asked for."""

_LONGEST_QUERY, _LONGEST_TEXT = 1_000, 10_000
"""So many characters are looked at."""
_MOST_WORDS = 32
"""So many different words of a query."""


class Described(Protocol):
    """What can be found: it says what it is for."""

    description: str


class ToolIndex:
    """Tools by the words of their names and descriptions. It does not change; make a new one."""

    def __init__(self, tools: Mapping[str, Described]) -> None:
        self._names = list(tools)
        self._compact = [compact(name) for name in self._names]
        self._name_words = [set(words_of(name)) for name in self._names]
        self._places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        lengths: list[int] = []
        for place, (name, tool) in enumerate(tools.items()):
            counts = Counter(words_of(f"{name} {tool.description[:_LONGEST_TEXT]}"))
            lengths.append(counts.total())
            for word, count in counts.items():
                self._places[word].append((place, count))
        mean = sum(lengths) / len(lengths) if lengths else 0
        self._weights = [1 - _B + _B * length / (mean or 1) for length in lengths]
        self._ends: defaultdict[str, list[str]] = defaultdict(list)
        for word in self._places:
            for end in _ends(word):
                self._ends[end].append(word)

    def ranked(self, query: str) -> list[tuple[str, float]]:
        """Names with scores above 0, best first; equal ones in the order of the tools."""
        query = query[:_LONGEST_QUERY]
        scores: defaultdict[int, float] = defaultdict(float)
        for word, weight in self._asked(telling(words_of(query))[:_MOST_WORDS]):
            found = self._places[word]
            rarity = weight * log(1 + (len(self._names) - len(found) + 0.5) / (len(found) + 0.5))
            for place, count in found:
                scores[place] += rarity * count * (_K1 + 1) / (count + _K1 * self._weights[place])
                if word in self._name_words[place]:
                    scores[place] += rarity
        whole = compact(query)
        for place in scores:
            if self._compact[place] == whole:
                scores[place] *= 2
        best = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
        return [(self._names[place], score) for place, score in best]

    def _asked(self, words: list[str]) -> Iterator[tuple[str, float]]:
        """The words to look for: those asked for, or what comes near to those that nobody uses."""
        for word in words:
            if word in self._places:
                yield word, 1.0
                continue
            candidates = {other for end in _ends(word) for other in self._ends.get(end, ())}
            for other in sorted(candidates):
                if _near(word, other):
                    yield other, _NEAR


def _ends(word: str) -> list[str]:
    """What words have in common that may be near: how they begin, or how they end."""
    ends = [f"^{word[:2]}", f"{word[-2:]}$"]
    return ends if word.isascii() else [*ends, f"^{word[0]}", f"{word[-1]}$"]


def _near(one: str, other: str) -> bool:
    """Whether two words are forms of one: with an ending, an article, or as half of a compound."""
    short, long = sorted((one, other), key=len)
    least = 3 if long.isascii() else 1
    if len(short) >= max(least, len(long) / 2) and (long.startswith(short) or long.endswith(short)):
        return True
    same = next(
        (n for n, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short)
    )
    return same >= max(4, 0.6 * len(long))
