"""Where a text may be cut without cutting a value, found out from what stands before the cut.

A *token* is a run of characters that are no white space. A value lies within one token, but for
two kinds: what is written in groups (`4111 1111 …`) may go on behind a *joining* gap, and a private
key reaches from its first line to its last. Endless tokens are cut after `LONG` characters, at
places that depend only on the token's own beginning.

All functions here work on folded text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "LONG",
    "PROSE",
    "SPAN",
    "WORD",
    "Stretch",
    "cuts",
    "is_table",
    "islands",
    "joins",
    "open_key",
    "stretches",
    "token_before",
    "token_start",
]

LONG = 256
"""From here on a token may be cut: behind the next `,`, `;`, `|`, `"`, `<`, `>`, or after as much
again. A token that holds a URL or a JWT gets eight times as much."""
SPAN = 96
"""No value in groups is longer, with what is looked at behind it."""
KEY_SIZE = 32_768
"""A private key ends here at the latest."""

WORD = (
    r"[A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u017e"
    r"\u0388-\u038a\u038e-\u03a1\u03a3-\u03ce\u0400-\u0481\u048a-\u052f]"
)
WIDE = (
    r"[\u05d0-\u05ea\u0620-\u065f\u066e-\u06d5\u0900-\u0965\u0970-\u097f\u0e01-\u0e30\u0e40-\u0e46\u3001-\u3003\u3005\u3008-\u3011"
    r"\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01\uff0c\uff1f]"
)
QUOTES = r"[\u2018\u2019\u201c\u201d\xab\xbb\u2026]"
NUMBER = (
    r"""(?!\S{8}) ["'(\u201c$\u20ac\xa3]?+ [0-9]{1,4} (?:[.,][0-9]{1,3})?+ [%.,;:!?)"'\u201d]*+"""
)
"""A number that is part of no value if a word follows. No more characters: a secret has eight."""
LAST_NUMBER = re.compile(rf"(?<!\S) {NUMBER} \s++ \Z", re.VERBOSE)
"""A small number at the end, which may belong to what comes."""
PROSE = re.compile(
    rf"""((?:
        (?!\S{{20}} | [A-Z\u0388-\u03a9\u0400-\u042f]{{2}}[ \t])
        ["'(\[\u201c\u2018\xab]*+ {WORD}++ (?:['\u2019-]{WORD}++)*+
        [.,;:!?)\]"'\u201d\u2019\xbb\u2026]*+
        (?:\s++ | (?={WIDE}))
      | {WIDE}++
      | \s++
      | {NUMBER} \s++ (?=\(?[A-Za-z][a-z])
    )*+)((?:{NUMBER} \s++ (?=\(?(?:\Z|[A-Za-z])))?+ (?:[!-~]|{WORD}|{QUOTES}){{0,255}}+)""",
    re.VERBOSE,
)
"""Group 1: words and small numbers that need no second look, in which every value would be too
short, with what separates them; it ends where a value may begin. Group 2: what follows, up to the
next space, and a number before it."""

LAST_SPACE = re.compile(r".*\s", re.DOTALL)
ENDLESS = re.compile(r"(?<!\S)\S{257}")
ROOMY = re.compile(r"://|eyJ")
SOFT = r'[,;|"<>]'
HARD = r'[^\s,;|"<>]'
CUT = re.compile(rf"\S{{256}}(?:{HARD}{{0,255}}{SOFT}|{HARD}{{256}})")
FAR_CUT = re.compile(rf"\S{{2048}}(?:{HARD}{{0,2047}}{SOFT}|{HARD}{{2048}})")

TOKEN = re.compile(r"\S{10,4608}")
"""No token without a cut is longer."""
KEY_MARK = "-----BEGIN"
KEY_HEAD = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
KEY_FOOT = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
KEY_HEAD_BEGUN = re.compile(r"-----BEGIN(?: [A-Z0-9]{1,12}){0,6} ?-{0,5}\Z")

AFTER_DIGITS = re.compile(r"[0-9]\)?[*_]{0,3}(?:[-/]?[ \t]{1,2}|[ \t][-/][ \t])\Z")
AFTER_LINE = re.compile(
    r"(?:(?<![0-9])(?<![0-9][-./_*\t ])(?<![0-9][ \t]{2})(?:3[47][0-9]{2}[ \t*_./-]{0,9}[0-9]{6}"
    r"|[2-68][0-9]{3}(?:[ \t*_./-]{0,9}[0-9]{4}){0,2})"
    r"|\+\(?[0-9](?:[ \t()./*_-]{0,9}[0-9]){1,7}\)?)[*_]{0,3}[ \t]?(?:\r|\r?\n[ \t]?)\Z"
)
"""A card, or a phone number from abroad, may have begun on the line before."""
AFTER_LETTERS = re.compile(r"(?<![A-Za-z0-9\xe9])[A-Z]{2}[ \t]{1,2}\Z")
AFTER_ACCOUNT = re.compile(r"(?<![A-Za-z0-9\xe9])[A-Z]{2}[0-9]{2}(?:[ \t-]?[A-Z0-9]){0,32}[ \t]\Z")
AFTER_LAST_DIGIT = re.compile(
    r"(?:[0-9]{8}|[0-9]\.[0-9]{3}\.[0-9]{3}"
    r"|[A-Z]{2}[ \t]?[0-9]{2}[ \t-]?[0-9]{2}[ \t-]?[0-9]{2})[ \t]\Z"
)
AFTER_CORSICA = re.compile(r"[0-9]{2}[ \t.]?2[ABab][ \t]\Z")


class Stretch(NamedTuple):
    """A part of a text that no value crosses; `is_key`: it is a private key."""

    start: int
    end: int
    is_key: bool = False


def token_start(text: str, end: int, floor: int = 0) -> int:
    """Where the token that reaches to `end` begins: behind the last white space."""
    size = SPAN
    while True:
        at = max(floor, end - size)
        last = LAST_SPACE.match(text, at, end)
        if last or at == floor:
            return last.end() if last else floor
        size *= 4


def token_before(text: str, at: int, floor: int = 0) -> int:
    """Where the token begins that stands before the gap that ends at `at`."""
    while at > floor and text[at - 1] in " \t\r\n":
        at -= 1
    return token_start(text, at, floor)


def next_cut(text: str, start: int) -> int | None:
    """Where a token that begins at `start` is cut because of its length; depends on no more than
    the text up to there."""
    cut = CUT.match(text, start)
    if cut is None:
        return None
    if ROOMY.search(text, start, cut.end()):
        cut = FAR_CUT.match(text, start)
    return cut.end() if cut else None


def cuts(text: str, start: int, end: int) -> Iterator[int]:
    """The cuts in the token that begins at `start`, up to `end`."""
    cut = next_cut(text, start)
    while cut is not None and cut <= end:
        yield cut
        cut = next_cut(text, cut)


def stretches(text: str, *, keys: bool) -> list[Stretch]:
    """The text in parts that no value crosses; with `keys` private keys are parts of their own,
    from their first line up to the last, to `KEY_SIZE` or to the text's end."""
    has_keys = keys and KEY_MARK in text
    if not has_keys and (len(text) <= LONG or not ENDLESS.search(text)):
        return [Stretch(0, len(text))]
    found: list[Stretch] = []
    start = 0
    while start < len(text):
        event = next_event(text, start, keys=keys)
        if event is None:
            found.append(Stretch(start, len(text)))
            break
        if event.start > start:
            found.append(Stretch(start, event.start))
        if event.is_key:
            found.append(event)
        start = event.end
    return found


def next_event(text: str, start: int, *, keys: bool) -> Stretch | None:
    """The next private key, or an empty stretch at the next cut."""
    for token in TOKEN.finditer(text, start):
        at, end = token.span()
        cut = next_cut(text, at) if end - at > LONG else None
        head = key_head(text, at, cut or end) if keys else None
        if head is not None:
            return Stretch(head.start(), key_end(text, head), is_key=True)
        if cut is not None:
            return Stretch(cut, cut)
    return None


def key_head(text: str, start: int, end: int) -> re.Match[str] | None:
    """The first line of a private key whose mark stands between `start` and `end`."""
    at = text.find(KEY_MARK, start, end)
    while at >= 0:
        head = KEY_HEAD.match(text, at)
        if head is not None:
            return head
        at = text.find(KEY_MARK, at + 1, end)
    return None


def key_end(text: str, head: re.Match[str]) -> int:
    """Where the private key with this first line ends."""
    limit = min(len(text), head.start() + KEY_SIZE)
    foot = KEY_FOOT.search(text, head.end(), limit)
    return foot.end() if foot else limit


def open_key(text: str) -> int | None:
    """Where a private key begins that text to come may go on with."""
    if KEY_MARK not in text:
        return None
    for stretch in stretches(text, keys=True):
        if stretch.is_key and stretch.end == len(text) and not is_closed(text, stretch):
            return stretch.start
    begun = KEY_HEAD_BEGUN.search(text, max(0, len(text) - 96))
    return begun.start() if begun else None


def is_closed(text: str, key: Stretch) -> bool:
    """Whether a key that reaches to the text's end is at its own end too."""
    if key.end - key.start >= KEY_SIZE:
        return True
    tail = text[max(key.start + 10, key.end - 96) : key.end]
    return KEY_FOOT.search(tail) is not None


def joins(text: str, at: int) -> bool:
    """Whether a value in groups may reach over the gap before `at`, where a token begins."""
    if at == 0 or text[at - 1] not in " \t\r\n":
        return False
    following = text[at : at + 4].lstrip(" \t\r\n")[:1]
    left = text[max(0, at - SPAN) : at]
    if "\n" in left[-2:] or left[-1] == "\r":
        return following in ("", *"0123456789(*_") and AFTER_LINE.search(left) is not None
    if not following or following in "0123456789(+-/*_":
        if AFTER_DIGITS.search(left, len(left) - 11 if len(left) > 11 else 0):
            return True
        if following in "(+-/*_" and following:
            return False
        if AFTER_LETTERS.search(left) or AFTER_CORSICA.search(left):
            return True
    elif not (following.isascii() and following.isalpha()):
        return False
    return (AFTER_LAST_DIGIT.search(left) or AFTER_ACCOUNT.search(left)) is not None


GROUPS = re.compile(r"(?:[0-9]+[ \t]{1,2})+[0-9]*\Z")


def is_table(text: str, start: int) -> bool:
    """Whether there are nothing but groups of digits from `start` on."""
    return GROUPS.match(text, start) is not None


TOKEN_AND_SPACE = re.compile(r"\S*\s*")


def islands(text: str) -> Iterator[tuple[int, int]]:
    """The parts of a stretch that are more than prose; no value reaches out of one."""
    at = 0
    while (at := prose_end(text, at)) < len(text):
        start = at
        while at < len(text):
            at = end_of(TOKEN_AND_SPACE, text, at)
            if prose_end(text, at) > at and not joins(text, at):
                break
        yield start, at


def prose_end(text: str, at: int) -> int:
    """Where the prose ends that begins at `at`."""
    prose = PROSE.match(text, at)
    return prose.end(1) if prose else at


def end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where a match of a pattern that matches anything ends."""
    match = pattern.match(text, at)
    return match.end() if match else at
