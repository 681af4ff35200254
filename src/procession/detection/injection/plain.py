"""Text as the rules about words read it: small letters without accents, nothing hidden."""

from __future__ import annotations

import re
import unicodedata

from ..folding import TWINS

__all__ = ["PlainText", "plain", "without_twins"]

EXTRA = {
    "\u0131": "i",
    "ł": "l",
    "ø": "o",
    "đ": "d",
    "æ": "ae",
    "œ": "oe",
    "\u0649": "\u064a",
    "\u0640": "",
}
HANGUL = range(0xAC00, 0xD7A4)
JAMO = re.compile("([\u1100-\u1112])([\u1161-\u1175])([\u11a8-\u11c2]?)")
TWINS_OF_WORDS = str.maketrans({twin: char.lower() for twin, char in TWINS.items()})


class Plains(dict[int, str]):
    """The plain form of each code point, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        form = plain_form(chr(code))
        if len(self) < 20_000:  # a text of all characters there are must not fill the memory
            self[code] = form
        return form


def plain_form(char: str) -> str:
    """Small, without accents and vowel signs; nothing, for what shows nothing."""
    if ord(char) in HANGUL:
        return char
    made: list[str] = []
    for part in unicodedata.normalize("NFKD", char).casefold():
        if unicodedata.category(part) not in ("Mn", "Mc", "Me", "Cf", "Cs", "Co"):
            made.append(EXTRA.get(part, part))
    form = "".join(made)
    return " " if form and form.isspace() and form not in "\n\r\t" else form


PLAINS = Plains()


class PlainText:
    """A plain text and, for when something was found, the way back to the original."""

    __slots__ = ("_original", "_origins", "text")

    def __init__(self, original: str) -> None:
        self._original = original
        self.text = plain(original)
        self._origins: list[int] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where the characters from `start` to before `end` stand in the original."""
        if self._original.isascii():
            return start, end
        if self._origins is None:
            self._origins = self._read_origins()
        return self._origins[start], self._origins[end - 1] + 1

    def _read_origins(self) -> list[int]:
        sizes = [len(PLAINS[ord(char)]) for char in self._original]
        if sum(sizes) == len(self.text):
            return [at for at, size in enumerate(sizes) for _ in range(size)]
        # Syllables were joined: all of the text, rather than a place that is not the one.
        return [0] * (len(self.text) - 1) + [len(self._original) - 1]

    def __len__(self) -> int:
        return len(self.text)


def plain(text: str) -> str:
    """The plain text alone. Each character is made plain by itself: time goes with the length."""
    if text.isascii():
        return text.lower()
    made = text.translate(PLAINS)
    return JAMO.sub(syllable, made) if "\u1100" <= max(made, default="") else made


def syllable(match: re.Match[str]) -> str:
    """A Korean syllable that was written letter by letter."""
    first, vowel, last = (ord(letter) if letter else 0x11A7 for letter in match.groups())
    return chr(0xAC00 + ((first - 0x1100) * 21 + vowel - 0x1161) * 28 + last - 0x11A7)


def without_twins(word: str) -> str:
    """A word with letters that only look Latin made Latin."""
    return word.translate(TWINS_OF_WORDS)
