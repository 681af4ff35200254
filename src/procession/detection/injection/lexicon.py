"""The words that the rules are made of: which class a word belongs to, in which languages."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from .plain import plain, without_twins

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["LANGUAGES", "Event", "Lexicon", "lexicon"]

LANGUAGES = (
    "en", "fr", "de", "es", "it", "pt", "nl", "pl", "ru", "tr", "ar", "hi", "zh", "ja", "ko",
)  # fmt: skip
JOINED = ("zh", "ja", "ko")
"""Languages whose words are looked for inside of a text."""
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
HAS_CJK = re.compile(f"[{CJK}]")
WORD = re.compile(rf"[^\W_{CJK}]+")
ARTICLES = re.compile("(?:وال|بال|كال|فال|لل|ال|و|ب|ل|ف|ك)(?=.{3})")
ARABIC = re.compile("[\u0621-\u064a]")
OTHER_ALPHABET = re.compile("[\u0370-\u058f\u1d00-\u1d7f\u0250-\u02af]")
STEM = 3
"""The fewest letters of a beginning of a word."""


class Event(NamedTuple):
    """A word of a class. `languages` is a set of bits, in the order of `LANGUAGES`."""

    start: int
    end: int
    kind: str
    languages: int


class Entry(NamedTuple):
    """A word or, with `rest`, the first one of several."""

    kind: str
    languages: int
    rest: tuple[str, ...]


class Lexicon:
    """All words of `words.txt`."""

    def __init__(self) -> None:
        self._exact: dict[str, list[Entry]] = {}
        self._stems: dict[str, list[Entry]] = {}
        self._joined: dict[str, dict[str, dict[str, int]]] = {}
        self._longest = STEM
        self._known: dict[str, tuple[Entry, ...]] = {}
        for language, kind, entry in read():
            bits = -1 if language == "any" else 1 << LANGUAGES.index(language)
            if language in JOINED:
                for word in {entry.replace("_", ""), entry.replace("_", " ")}:
                    self._join(word, kind, bits)
            else:
                self._add(entry, kind, bits)
        firsts = "".join(sorted({pair[0] for pair in self._joined}))
        self._first = re.compile(f"[{re.escape(firsts)}]")

    def _join(self, word: str, kind: str, bits: int) -> None:
        words = self._joined.setdefault(word[:2], {})
        kinds = words.setdefault(word, {})
        kinds[kind] = kinds.get(kind, 0) | bits

    def _add(self, entry: str, kind: str, bits: int) -> None:
        first, *rest = re.split("[_'-]", entry)
        starred = first.endswith("*") or (ARABIC.match(first) and len(first) > STEM and not rest)
        stem = first.rstrip("*")
        self._longest = max(self._longest, len(stem))
        where = self._stems if starred else self._exact
        entries = where.setdefault(stem, [])
        for at, (known, languages, others) in enumerate(entries):
            if known == kind and others == tuple(rest):
                entries[at] = Entry(kind, languages | bits, others)
                return
        entries.append(Entry(kind, bits, tuple(rest)))

    def entries(self, word: str) -> tuple[Entry, ...]:
        """What a plain word may be; with look-alike letters, and Arabic articles, seen through."""
        known = self._known.get(word)
        if known is None:
            known = self._look_up(word)
            if len(self._known) < 50_000:
                self._known[word] = known
        return known

    def _look_up(self, word: str) -> tuple[Entry, ...]:
        found = self._with_stems(word)
        if ARABIC.match(word) and (article := ARTICLES.match(word)):
            found += self._with_stems(word[article.end() :])
        if OTHER_ALPHABET.search(word):
            latin = without_twins(word)
            if latin != word and latin.isascii():
                found += self._with_stems(latin)
        return tuple(found)

    def _with_stems(self, word: str) -> list[Entry]:
        found = list(self._exact.get(word, ()))
        for size in range(STEM, min(len(word), self._longest) + 1):
            found += self._stems.get(word[:size], ())
        return found

    def words(self, kinds: Collection[str] | None) -> set[str]:
        """The plain forms of whole words of some classes, or of all."""
        return {
            word
            for word, entries in self._exact.items()
            if any(not entry.rest and (kinds is None or entry.kind in kinds) for entry in entries)
        }

    def kinds_in(self, text: str) -> set[str]:
        """The classes that a text may have words of: all of several words are somewhere."""
        words = set(WORD.findall(text))
        kinds = {
            entry.kind
            for word in words
            for entry in self.entries(word)
            if all(other in words or other.endswith("*") for other in entry.rest)
        }
        if HAS_CJK.search(text):
            kinds |= {event.kind for event in self._inside(text)}
        return kinds

    def events(self, text: str) -> list[Event]:
        """The words of all classes in a plain text, from left to right."""
        events = list(self._spaced(text))
        if HAS_CJK.search(text):
            events += self._inside(text)
            events.sort()
        return events

    def _inside(self, text: str) -> Iterator[Event]:
        """The longest word that begins at each place of a text whose words are not divided."""
        joined = self._joined
        for match in self._first.finditer(text):
            start = match.start()
            for key in (text[start : start + 2], text[start]):
                words = joined.get(key, {})
                fitting = [word for word in words if text.startswith(word, start)]
                if fitting:
                    word = max(fitting, key=len)
                    for kind, bits in words[word].items():
                        yield Event(start, start + len(word), kind, bits)
                    break

    def _spaced(self, text: str) -> Iterator[Event]:
        words = [(m.group(), m.start(), m.end()) for m in WORD.finditer(text)]
        known = self._known
        for index, (word, start, end) in enumerate(words):
            entries = known.get(word)
            for entry in self.entries(word) if entries is None else entries:
                if not entry.rest:
                    yield Event(start, end, entry.kind, entry.languages)
                elif (last := followed(words, index, entry.rest)) is not None:
                    yield Event(start, last, entry.kind, entry.languages)


def followed(words: list[tuple[str, int, int]], index: int, rest: tuple[str, ...]) -> int | None:
    """Where the words of `rest` end, if they follow; `None` if they do not."""
    end = words[index][2]
    for wanted in rest:
        index += 1
        if index >= len(words):
            return None
        word, start, stop = words[index]
        fits = word.startswith(wanted[:-1]) if wanted.endswith("*") else word == wanted
        if not fits or start - end > STEM:
            return None
        end = stop
    return end


def read() -> Iterator[tuple[str, str, str]]:
    """Language, class and entry of each word, in the plain form."""
    language = ""
    text = files(__package__ or "").joinpath("words.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            language = line[1:-1]
        elif line and not line.startswith("#"):
            kind, _, entries = line.partition(": ")
            for entry in entries.split():
                yield language, kind, plain(entry)


@cache
def lexicon() -> Lexicon:
    """The lexicon, read once, when it is first needed."""
    return Lexicon()
