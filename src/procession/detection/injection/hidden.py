"""Text in characters that show nothing, or that show it the other way round."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NEVER_SEEN", "Hidden", "read_hidden"]

TAGS = re.compile("[\U000e0000-\U000e007f]{2,}")
FLAG = re.compile(
    "\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
"""The flags of England, Scotland and Wales, which are made of tags."""
SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}")
UNSEEN = "\u200b\u200c\u200d\u2060-\u2064\ufeff\u180e"
ZERO_WIDTHS = re.compile(f"[{UNSEEN}]{{16,}}")
TURNED = re.compile("[\u202d\u202e]([^\u202c\n]{4,4000})")
NEVER_SEEN = re.compile(f"[\u00ad\u200e\u200f\u202a-\u202e\u2066-\u2069{UNSEEN}]+")
ANY = re.compile(f"[\u202d\u202e\ufe00-\ufe0f\U000e0000-\U000e01ef{UNSEEN}]")
FEW = 8
"""So many letters in tags or selectors are a message, whatever it says."""


class Hidden(NamedTuple):
    """A text that does not show. `score` is what hiding it counts by itself."""

    text: str
    start: int
    end: int
    score: float


def read_hidden(text: str) -> Iterator[Hidden]:
    """The hidden texts; nothing for a text of characters that show."""
    if text.isascii() or not ANY.search(text):
        return
    for match in TAGS.finditer(FLAG.sub(lambda flag: " " * len(flag.group()), text)):
        letters = "".join(chr(ord(tag) - 0xE0000) for tag in match.group())
        yield _said(letters.strip("\x00\x01\x7f"), match)
    for match in SELECTORS.finditer(text):
        data = bytes(map(_selected, match.group()))
        yield _said(data.decode("utf-8", "replace"), match)
    for match in ZERO_WIDTHS.finditer(text):
        for said in bits(match.group()):
            yield Hidden(said, match.start(), match.end(), 0.6)
    for match in TURNED.finditer(text):
        yield Hidden(match.group(1)[::-1], match.start(), match.end(), 0.3)


def _said(text: str, match: re.Match[str]) -> Hidden:
    score = 0.75 if sum(map(str.isalpha, text)) >= FEW else 0.4
    return Hidden(text, match.start(), match.end(), score)


def _selected(char: str) -> int:
    code = ord(char)
    return code - 0xFE00 if code < 0xFE10 else code - 0xE0100 + 16


def bits(run: str) -> Iterator[str]:
    """A run of two characters read as ones and noughts, eight to a letter, in either way."""
    letters = sorted(set(run), key=run.count, reverse=True)[:2]
    if len(letters) != 2:
        return
    only = "".join(char for char in run if char in letters)
    for one, nought in (letters, letters[::-1]):
        ones = only.translate({ord(one): "1", ord(nought): "0"})
        octets = [int(ones[at : at + 8], 2) for at in range(0, len(ones) - 7, 8)]
        text = bytes(octets).decode("utf-8", "replace")
        if sum(map(str.isprintable, text)) * 10 >= 9 * len(text):
            yield text
