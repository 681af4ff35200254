"""JSON that comes in pieces, read for what it says: strings, keys and numbers are its leaves."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..records import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Event", "LeafReader", "encoded", "number_text"]

_PLAIN = re.compile(r'[^"\\]+')
_SPACE = re.compile(r"[ \t\n\r]+")
_WORD = re.compile(r"[-+.0-9A-Za-z]+")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
LONGEST_NUMBER = 4000
"""Digits of a number that is taken for one: longer ones are texts."""
_WORDS = frozenset({"true", "false", "null"})
_BEFORE_STRINGS = frozenset({"value", "first", "key", "keys"})
_HEX = re.compile(r"[0-9a-fA-F]*")


class Event(NamedTuple):
    """What has been read.

    - `mark`: punctuation and words that are no leaves, as they were written;
    - `text`: a piece of the string that is open, decoded; `close`: it has ended, with its quote;
    - `number`: a number, as it was written;
    - `cut`: the string that is open ends without its quote; `rest`: what follows is no JSON;
    - `json`: what was none ends, and JSON begins, or has ended.
    """

    kind: Literal["mark", "text", "close", "number", "cut", "rest", "json"]
    text: str = ""


class LeafReader:
    """Reads one JSON value; what it says does not depend on how the JSON was cut."""

    __slots__ = ("_broken", "_escape", "_half", "_in_string", "_stack", "_wants", "_word")

    def __init__(self) -> None:
        self._stack: list[str] = []
        """The brackets that are open."""
        self._wants = "value"
        """`value`, `first` (a value or the end of a list), `key`, `keys` (a key or the end of an
        object), `colon`, or `more` (a comma or an end)."""
        self._in_string = self._broken = False
        self._escape = self._half = self._word = ""
        """An escape, a first surrogate and a word that may go on."""

    @property
    def is_settled(self) -> bool:
        """Whether all that has come was told: no word or escape is begun."""
        return not (self._escape or self._half or self._word)

    def feed(self, text: str) -> Iterator[Event]:
        """What a piece of the JSON says."""
        at = 0
        while at < len(text):
            if self._broken:
                yield Event("rest", text[at:])
                return
            at, events = self.read(text, at)
            yield from events

    def read(self, text: str, at: int) -> tuple[int, list[Event]]:
        """What the next few characters say, from `at` on, and where they end.

        What `is_broken` cannot be read on.
        """
        return self._string(text, at) if self._in_string else self._outside(text, at)

    @property
    def is_broken(self) -> bool:
        """Whether what follows is no JSON."""
        return self._broken

    @property
    def in_string(self) -> bool:
        """Whether a string is open."""
        return self._in_string

    @property
    def takes_string(self) -> bool:
        """Whether a string may begin here."""
        return not self._word and self._wants in _BEFORE_STRINGS

    @property
    def is_complete(self) -> bool:
        """Whether the value has ended. That of a number is known with what follows."""
        return self._wants == "more" and not (self._stack or self._in_string)

    def end(self) -> Iterator[Event]:
        """Nothing follows."""
        if self._in_string:
            left = "\ufffd" * bool(self._half)
            if left:
                yield Event("text", left)
            yield Event("cut")
            if self._escape:
                yield Event("rest", self._escape)
        elif self._word:
            yield from self._word_ends()
        self._in_string = False
        self._escape = self._half = self._word = ""

    # ── strings ────────────────────────────────────────────────────────────────────────────────

    def _string(self, text: str, at: int) -> tuple[int, list[Event]]:
        if self._escape:
            return self._escaped(text, at)
        plain = _PLAIN.match(text, at)
        if plain is not None:
            return plain.end(), [Event("text", self._whole(clean_text(plain[0])))]
        if text[at] == "\\":
            self._escape = "\\"
            return at + 1, []
        left = self._whole("")
        self._in_string = False
        self._wants = "colon" if self._wants in ("key", "keys") else "more"
        return at + 1, [*([Event("text", left)] if left else []), Event("close", '"')]

    def _escaped(self, text: str, at: int) -> tuple[int, list[Event]]:
        """Go on with an escape."""
        if self._escape == "\\":
            found = _ESCAPES.get(text[at])
            if found is not None:
                self._escape = ""
                return at + 1, [Event("text", self._whole(found))]
            self._escape += text[at]
            return at + 1, [] if text[at] == "u" else self._breaks()
        digits = _HEX.match(text, at, at + 6 - len(self._escape))
        assert digits is not None
        self._escape += digits[0]
        if len(self._escape) == 6:
            code = chr(int(self._escape[2:], 16))
            self._escape = ""
            decoded = self._unit(code)
            return digits.end(), [Event("text", decoded)] if decoded else []
        if digits.end() < len(text):
            return digits.end(), self._breaks()
        return digits.end(), []

    def _unit(self, code: str) -> str:
        """A character, or half of one: the first half waits."""
        if "\ud800" <= code <= "\udbff":
            left, self._half = self._whole(""), code
            return left
        if self._half and "\udc00" <= code <= "\udfff":
            pair, self._half = self._half + code, ""
            return pair.encode("utf-16", "surrogatepass").decode("utf-16")
        return self._whole(clean_text(code))

    def _whole(self, text: str) -> str:
        """`text` behind a half whose other half has not come."""
        if self._half:
            self._half = ""
            return "\ufffd" + text
        return text

    def _breaks(self) -> list[Event]:
        """This is no JSON: what has not been read is a text of its own."""
        events: list[Event] = []
        if self._in_string:
            left = self._whole("")
            events = [*([Event("text", left)] if left else []), Event("cut")]
        unread, self._escape, self._word = self._escape or self._word, "", ""
        self._in_string, self._broken = False, True
        return [*events, Event("rest", unread)] if unread else events

    # ── between strings ────────────────────────────────────────────────────────────────────────

    def _outside(self, text: str, at: int) -> tuple[int, list[Event]]:
        word = _WORD.match(text, at)
        if word is not None:
            if not self._word and self._wants not in ("value", "first"):
                return at, self._breaks()
            self._word += word[0]
            return word.end(), self._breaks() if len(self._word) > LONGEST_NUMBER else []
        if self._word:
            return at, list(self._word_ends())
        space = _SPACE.match(text, at)
        if space is not None:
            return space.end(), [Event("mark", space[0])]
        if self._takes(text[at]):
            return at + 1, [Event("mark", text[at])]
        return at, self._breaks()

    def _word_ends(self) -> Iterator[Event]:
        word = self._word
        if word in _WORDS:
            yield Event("mark", word)
        elif _NUMBER.fullmatch(word):
            yield Event("number", word)
        else:
            yield from self._breaks()
            return
        self._word, self._wants = "", "more"

    def _takes(self, mark: str) -> bool:
        """Whether a mark may stand here; what may follow is noted."""
        wants, stack = self._wants, self._stack
        if mark == '"':
            self._in_string = wants in _BEFORE_STRINGS
            return self._in_string
        if mark in "{[":
            if wants not in ("value", "first"):
                return False
            stack.append(mark)
            self._wants = "keys" if mark == "{" else "first"
            return True
        if mark == ":" and wants == "colon":
            self._wants = "value"
            return True
        if mark == "," and wants == "more" and stack:
            self._wants = "key" if stack[-1] == "{" else "value"
            return True
        empty = {"}": "keys", "]": "first"}.get(mark)
        if empty is None or not stack or wants not in ("more", empty):
            return False
        if stack[-1] != {"}": "{", "]": "["}[mark]:
            return False
        stack.pop()
        self._wants = "more"
        return True


def encoded(text: str) -> str:
    """A text as the inside of a JSON string, always the same way."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def number_text(value: float | str) -> str:
    """A number as hooks see it, whether it comes as JSON or as a value."""
    if isinstance(value, str):
        if value.lstrip("-").isdigit():
            return "0" if value == "-0" else value
        value = float(value) if isfinite(float(value)) else value
    return repr(value) if isinstance(value, float) else str(value)
