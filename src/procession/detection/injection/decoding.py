"""Texts that were written so that words do not look like words, read back.

Each way is tried only where a text has what it needs, and gives no more characters than went in.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from .lexicon import lexicon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Decoded", "decodings"]

BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}={0,2}")
CAPITAL, NO_CAPITAL = re.compile("[A-Z]"), re.compile("[a-z0-9]")
HEX = re.compile(r"(?<![0-9A-Fa-f])(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ :,]?){10,}")
PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
ENTITY = re.compile(r"&(?:#\d{2,7}|#[xX][0-9A-Fa-f]{2,6}|[A-Za-z]{2,10});")
ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{2,6}\}|x[0-9A-Fa-f]{2}|n|t|r)")
FEWEST = 4
"""Escapes in a line below which it is not read again."""
SPACED = re.compile(r"(?<!\w)(?:\w(?:[ .\-_*|/,]|  )){7,}\w(?!\w)")
SET_APART = re.compile(r"(?<!\w)\w([ .\-_*|/,])\w(?:\1\w){1,40}(?!\w)")
"""One word written so."""
LEET = re.compile(r"[A-Za-z][013457@$!|][A-Za-z]|\b[013457@$!][A-Za-z]{2}")
LEET_LETTERS = str.maketrans("013457@$!|", "oieastasil")
LEET_L = str.maketrans("013457@$!|", "oleastasll")
BASIC = re.compile("[a-z]{6,}")
SHARE = 0.85
"""So much of what is decoded must be letters, digits, signs and blanks."""
PROBE = 64


class Decoded(NamedTuple):
    """What a stretch of a text says. `same_places`: character by character, at the same offsets."""

    text: str
    start: int
    end: int
    same_places: bool = False


def decodings(text: str) -> Iterator[Decoded]:
    """All that a text says when it is read in another way."""
    yield from _runs(text, BASE64, from_base64)
    yield from _runs(text, HEX, from_hex)
    if "%" in text:
        yield from _lines(text, PERCENT, unquote)
    if "&" in text:
        yield from _lines(text, ENTITY, html.unescape)
    if "\\" in text:
        yield from _lines(text, ESCAPE, unescaped)
    for match in SPACED.finditer(text):
        yield Decoded(joined(match.group()), match.start(), match.end())
    yield from _set_apart(text)
    yield from _whole(text)


def _whole(text: str) -> Iterator[Decoded]:
    size = len(text)
    if LEET.search(text):
        yield Decoded(text.translate(LEET_LETTERS), 0, size, True)
        if "1" in text:
            yield Decoded(text.translate(LEET_L), 0, size, True)
    words = set(BASIC.findall(text.lower()))
    if not words.isdisjoint(rotated()):
        yield Decoded(codecs.encode(text, "rot13"), 0, size, True)
    if not words.isdisjoint(turned()):
        yield from _turned(text)


def _set_apart(text: str) -> Iterator[Decoded]:
    """Lines in which a word that is known has its letters set apart, and others may have not."""
    at = 0
    for line in text.splitlines(keepends=True):
        bare = SET_APART.sub(_word, line)
        if bare != line:
            yield Decoded(bare, at, at + len(line))
        at += len(line)


def _word(run: re.Match[str]) -> str:
    """The words that letters are which stand apart; as they are, when that is none."""
    letters = re.sub(r"[\W_]", "", run[0]).lower()
    apart = known_words().sub(r" \g<0> ", letters)
    return apart if len(apart) > len(letters) else run[0]


def _turned(text: str) -> Iterator[Decoded]:
    at = 0
    for line in text.splitlines(keepends=True):
        if not turned().isdisjoint(BASIC.findall(line.lower())):
            yield Decoded(line.rstrip("\n")[::-1], at, at + len(line))
        at += len(line)


def _runs(
    text: str, pattern: re.Pattern[str], decode: Callable[[str], str | None]
) -> Iterator[Decoded]:
    for match in pattern.finditer(text):
        made = decode(match.group())
        if made:
            yield Decoded(made, match.start(), match.end())


def _lines(text: str, pattern: re.Pattern[str], decode: Callable[[str], str]) -> Iterator[Decoded]:
    """Lines with some escapes, read whole."""
    at = 0
    for line in text.splitlines(keepends=True):
        if len(pattern.findall(line)) >= FEWEST:
            yield Decoded(decode(line), at, at + len(line))
        at += len(line)


def from_base64(run: str) -> str | None:
    """The text that a run of base64 stands for; a path, a word or a picture is none."""
    if not CAPITAL.search(run) or not NO_CAPITAL.search(run):
        return None  # a word, a path, a number
    bare = run.rstrip("=").replace("-", "+").replace("_", "/")
    head = bare[:PROBE]
    if _text_of(head) is None:
        return None
    return _text_of(bare)


def _text_of(bare: str) -> str | None:
    bare = bare[: len(bare) - 1] if len(bare) % 4 == 1 else bare
    try:
        data = base64.b64decode(bare + "=" * (-len(bare) % 4))
    except (binascii.Error, ValueError):
        return None
    return as_text(data)


def from_hex(run: str) -> str | None:
    """The text that a run of hexadecimal octets stands for."""
    digits = re.sub(r"0x|\\x|[ :,]", "", run)
    try:
        return as_text(bytes.fromhex(digits[: len(digits) // 2 * 2]))
    except ValueError:
        return None


def as_text(data: bytes) -> str | None:
    """Octets as text, if that is what they are; a last letter may be cut."""
    encoding = "utf-16-le" if data.count(0) * 3 > len(data) else "utf-8"
    text = data.decode(encoding, "ignore")
    if not text or len(data) - len(text.encode(encoding)) > 3:
        return None
    return text if sum(map(len, SPEAKING.findall(text))) >= SHARE * len(text) else None


SPEAKING = re.compile(
    r"[\w\s -~\u0300-\u036f\u064b-\u065f\u0900-\u0dff\u3000-\u303f\uff00-\uff20]+"
)


@cache
def telling() -> frozenset[str]:
    """Words that an attack has, in languages with Latin letters."""
    kinds = ("ign", "rules", "reveal", "sysp", "prompt", "prior")
    return frozenset(word for word in lexicon().words(kinds) if BASIC.fullmatch(word))


@cache
def turned() -> frozenset[str]:
    """These words backwards."""
    return frozenset(word[::-1] for word in telling())


@cache
def rotated() -> frozenset[str]:
    """These words, each letter thirteen places on."""
    return frozenset(codecs.encode(word, "rot13") for word in telling())


@cache
def known_words() -> re.Pattern[str]:
    """All words that stand by themselves, the longest first, to divide letters that do not."""
    words = sorted(lexicon().words(None), key=len, reverse=True)
    return re.compile("|".join(word for word in words if re.fullmatch("[a-z]{3,}", word)))


def unescaped(line: str) -> str:
    """A line with the escapes of programming languages replaced."""

    def char(match: re.Match[str]) -> str:
        escape = match.group()
        if escape[1] in "ntr":
            return " "
        code = int(escape[2:].strip("{}"), 16)
        return chr(code) if code < 0x110000 else ""

    return ESCAPE.sub(char, line)


def joined(run: str) -> str:
    """Letters that stood apart, as words: two blanks divide them, else words that are known do."""
    words = re.split(r" {2,}|[|/] ?[|/]", run)
    bare = [re.sub(r"[\W_]", "", word).lower() for word in words]
    return " ".join(bare if len(bare) > 1 else [known_words().sub(r" \g<0> ", bare[0])])
