"""Text as detection reads it: one plain alphabet, whatever characters a value was written in.

Each character is folded by itself, so a text may be cut anywhere and folded in pieces. Characters
that show nothing (zero width, bidi marks, soft hyphens, combining marks) vanish; digits and
letters of other forms become ASCII, look-alikes of other alphabets too; what no value can contain
becomes a break. An offset map leads back.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from itertools import compress, count

__all__ = ["BREAK", "LETTER", "View", "fold", "view"]

BREAK = "\x1f"
"""Stands for a character that ends every value. It counts as white space."""
LETTER = "\xe9"
"""Stands for a letter that has no ASCII form: of a word, but of no value that is ASCII only."""
UNSEEN = 64
"""So many characters in a row that show nothing are a break: they end the value they stand in."""

PLAIN = re.compile(r"[\t\n\r -~]*+\Z")
ALPHABETS = ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN", "COPTIC", "CHEROKEE")
FILLERS = "\u115f\u1160\u3164\uffa0"
SPACE_LIKE = "\u2800\u00b7\u2022\u2027\u2219\u22c5\u30fb"
"""Blanks and dots that stand between groups of digits."""

# Pairs: how it is written, what it looks like.
TWINS = dict(
    zip(
        "АВЕЅІЈКМНОРСТХҮԌԚԜаеѕіјорсухԁԛԝһӏѵгкԍ"
        "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧονραικυγ"
        "ıɑɡɩʟɴʀʏᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢՕօսոհգցոѡ",
        "ABESIJKMHOPCTXYGQWaesijopcyxdqwhlvrkg"
        "ABEZHIKMNOPTYXovpaikuy"
        "iagiLNRYACDEJKMOPTUVWZOounhgqnw",
        strict=True,
    )
)
OTHERS = {"\u2044": "/", "\u2215": "/", "\u2212": "-", "\u02d7": "-", "\u0131": "i"}


class Folds(dict[int, "str | None"]):
    """The folded form of each code point, worked out when it is first met; None: it vanishes."""

    def __missing__(self, code: int) -> str | None:
        folded = folded_form(chr(code))
        if len(self) < 20_000:  # a text of all characters there are must not fill the memory
            self[code] = folded
        return folded


def folded_form(char: str) -> str | None:
    """What a single character is to detection."""
    if char in "\t\n\r" or " " <= char <= "~":
        return char
    if char in TWINS:
        return TWINS[char]
    if char in OTHERS:
        return OTHERS[char]
    if char in SPACE_LIKE:
        return " "
    return by_category(char, unicodedata.category(char))


def by_category(char: str, category: str) -> str | None:
    """The folded form of a character that no table names."""
    if category == "Cc":
        return BREAK if char in "\x0b\x0c\x1c\x1d\x1e\x1f\x85" else None
    if category in ("Cf", "Mn", "Me") or char in FILLERS:
        return None
    if category == "Zs":
        return " "
    if category == "Pd":
        return "-"
    if category[0] in "NLPS":
        return by_composition(char, category)
    return BREAK


def by_composition(char: str, category: str) -> str:
    """The ASCII character a compatibility form stands for, a letter, or a break."""
    if (digit := unicodedata.decimal(char, None)) is not None:
        return str(digit)
    tag = unicodedata.decomposition(char).partition(" ")[0]
    plain = unicodedata.normalize("NFKC", char)
    if tag.startswith("<") and tag not in ("<super>", "<sub>") and len(plain) == 1:
        plain = TWINS.get(plain, plain)
        if " " < plain <= "~":
            return plain
    if category[0] == "L" and unicodedata.name(char, "").startswith(ALPHABETS):
        return LETTER
    return BREAK


FOLDS = Folds()


class View:
    """A text as detection reads it, and the way back to the original's offsets."""

    __slots__ = ("_drops", "_shifts", "text")

    def __init__(self, text: str, drops: list[int] | None = None) -> None:
        self.text = text
        self._drops = drops or []
        self._shifts = [dropped - before for before, dropped in enumerate(self._drops)]

    def origin(self, index: int) -> int:
        """Where the folded character `index` stands in the original."""
        return index + bisect_right(self._shifts, index) if self._shifts else index

    def behind(self, index: int) -> int:
        """The original offset right behind the folded character before `index`."""
        return self.origin(index - 1) + 1 if index else 0

    def folded(self, offset: int) -> int:
        """How many folded characters stand before `offset` of the original."""
        return offset - bisect_left(self._drops, offset) if self._drops else offset


def fold(text: str) -> str:
    """The folded text alone."""
    return text if PLAIN.match(text) else text.translate(FOLDS)


def view(text: str) -> View:
    """The folded text with its offset map; plain ASCII is its own folded form."""
    if text.isascii() and PLAIN.match(text):
        return View(text)
    folded = text.translate(FOLDS)
    if len(folded) == len(text):
        return View(folded)
    unseen = {char for char in set(text) if FOLDS[ord(char)] is None}
    drops = list(compress(count(), map(unseen.__contains__, text)))
    if len(drops) >= UNSEEN and (blocks := long_runs(drops)):
        return view(with_breaks(text, blocks))
    return View(folded, drops)


def long_runs(drops: list[int]) -> list[int]:
    """Where blocks of `UNSEEN` characters begin that follow one another and show nothing."""
    blocks: list[int] = []
    at = 0
    while at + UNSEEN <= len(drops):
        if drops[at + UNSEEN - 1] - drops[at] == UNSEEN - 1:
            blocks.append(drops[at])
            at += UNSEEN
        else:
            at += 1
    return blocks


def with_breaks(text: str, blocks: list[int]) -> str:
    """The text with each block replaced by as many breaks."""
    pieces: list[str] = []
    done = 0
    for block in blocks:
        pieces += (text[done:block], BREAK * UNSEEN)
        done = block + UNSEEN
    return "".join((*pieces, text[done:]))
