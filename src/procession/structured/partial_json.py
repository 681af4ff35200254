"""Reading JSON while it is being written: what of it is certain so far, at a cost per character.

The reader keeps no values. It follows the text once and knows, at any moment, up to where it makes
sense and which brackets are open there; the value so far is made from that when somebody asks for
it. A member is there once its value begins, a text as far as it has come, a number or a word such
as `true` when it is complete: what has been shown is only ever added to.
"""

from __future__ import annotations

import re
from math import isinf
from typing import TYPE_CHECKING, Any

from ..records import MAX_DEPTH
from .json_text import FENCE, decoded, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Place = tuple[int, int]
    """A piece of the text, counted from 0, and a character of it."""

__all__ = ["JSONReader", "PartialValue"]

_PLAIN = re.compile(r'[^"\\]+')
_SPACE = re.compile(r"[ \t\r\n]*")
_WORD = re.compile(r"[-+.\w]+")
_COMPLETE = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_CLOSERS = {"{": "}", "[": "]"}
_SHORT_ESCAPES = frozenset('"\\/bfnrt')
_HEX = frozenset("0123456789abcdefABCDEF")
_ESCAPED = 6
"""Characters of an escape such as `\\u00e9`."""
LONGEST_WORD = 4_000


class JSONReader:
    """Reads one text, piece by piece, which may stand in a code fence.

    `wrapper` is the key of the only member of an object that the value was wrapped in. `whole`:
    texts are shown when they are complete, for half a word of a closed set is none of it.
    """

    __slots__ = (
        "_begin",
        "_certain",
        "_closers",
        "_escape",
        "_grown",
        "_in_text",
        "_item_depth",
        "_item_from",
        "_items",
        "_length",
        "_open",
        "_pieces",
        "_read",
        "_ticks",
        "_whole",
        "_word",
        "_wrapper",
    )

    def __init__(self, *, wrapper: str | None = None, whole: bool = False) -> None:
        self._wrapper = wrapper
        self._whole = whole
        self._pieces: list[str] = []
        self._length = 0
        """Characters of the pieces before the one that is being read."""
        self._read: Callable[[JSONReader, str, int], int] = JSONReader._before
        self._grown = False
        self._begin = self._certain = 0
        """Where the value begins, and where the text can be cut and closed."""
        self._in_text = False
        """Whether that place is inside a text."""
        self._open: list[str] = []
        self._closers = self._escape = self._word = ""
        self._ticks = 0
        """Backticks in a row, or digits of an escape that are to come."""
        self._items: list[tuple[Place, Place]] = []
        """Where the complete elements stand of the list that was asked for."""
        self._item_depth = 0
        self._item_from: Place = (0, 0)

    def feed(self, piece: str) -> bool:
        """Read on; returns whether there is more of the value than before."""
        self._grown = False
        self._pieces.append(piece)
        position, end = 0, len(piece)
        while position < end:
            position = self._read(self, piece, position)
        self._length += end
        return self._grown

    def value(self) -> PartialValue:
        """What is certain now, to be looked at whenever it is needed."""
        closers = f'"{self._closers}' if self._in_text else self._closers
        place = (self._begin, self._certain)
        return PartialValue(self._pieces, place, closers, self._wrapper, self._items)

    def text(self) -> str:
        """All that was read."""
        return "".join(self._pieces)

    # ── around the value ───────────────────────────────────────────────────────────────────────

    def _before(self, piece: str, at: int) -> int:
        """Space, then the value, or a fence that it stands in."""
        at = _after_space(piece, at)
        if at == len(piece):
            return at
        if piece[at] in _CLOSERS:
            self._begin = self._length + at
            self._read = JSONReader._value
            return at
        self._read, self._ticks = JSONReader._prose, 0
        return at

    def _prose(self, piece: str, at: int) -> int:
        """Words that are no JSON, up to a fence."""
        if piece[at] == "`":
            self._ticks += 1
            if self._ticks == len(FENCE):
                self._read = JSONReader._info
            return at + 1
        self._ticks = 0
        following = piece.find("`", at)
        return len(piece) if following < 0 else following

    def _info(self, piece: str, at: int) -> int:
        """The word behind a fence."""
        letter = piece[at]
        if letter in _CLOSERS or letter.isspace():
            self._read = JSONReader._before
            return at
        if letter == "`":
            self._read, self._ticks = JSONReader._prose, 0
            return at
        return at + 1

    def _done(self, piece: str, _at: int) -> int:
        return len(piece)

    def _broken(self, at: int) -> int:
        """No JSON any more: what was certain stays."""
        self._read = JSONReader._done
        return at

    # ── values ─────────────────────────────────────────────────────────────────────────────────

    def _value(self, piece: str, at: int) -> int:
        at = _after_space(piece, at)
        if at == len(piece):
            return at
        letter = piece[at]
        if self._item_depth == len(self._open) and self._item_depth:
            self._item_from = (len(self._pieces) - 1, at)
        if letter == '"':
            self._read = JSONReader._text
            if not self._whole:
                self._grow(at + 1, in_text=True)
            return at + 1
        if letter in _CLOSERS:
            return self._opened(letter, at)
        if _WORD.match(letter):
            self._read, self._word = JSONReader._in_word, ""
            return at
        return self._broken(at)

    def _opened(self, letter: str, at: int) -> int:
        if len(self._open) == MAX_DEPTH:
            return self._broken(at)
        if not self._open:
            wrapped = letter == "{"
            self._item_depth = (2 if self._wrapper else 0) if wrapped else 1
        self._open.append(_CLOSERS[letter])
        self._closers = "".join(reversed(self._open))
        self._read = JSONReader._first_key if letter == "{" else JSONReader._first_element
        self._grow(at + 1)
        if len(self._open) == 1 and letter == "{" and self._wrapper:
            self._grown = False  # nothing of the value itself yet
        return at + 1

    def _first_element(self, piece: str, at: int) -> int:
        at = _after_space(piece, at)
        if at < len(piece) and piece[at] == "]":
            return self._closed(at)
        if at < len(piece):
            self._read = JSONReader._value
        return at

    def _first_key(self, piece: str, at: int) -> int:
        at = _after_space(piece, at)
        if at < len(piece) and piece[at] == "}":
            return self._closed(at)
        return self._key(piece, at)

    def _key(self, piece: str, at: int) -> int:
        at = _after_space(piece, at)
        if at == len(piece):
            return at
        if piece[at] != '"':
            return self._broken(at)
        self._read = JSONReader._in_key
        return at + 1

    def _in_key(self, piece: str, at: int) -> int:
        run = _PLAIN.match(piece, at)
        if run is not None:
            return run.end()
        self._read = JSONReader._colon if piece[at] == '"' else JSONReader._escaped_in_key
        return at + 1

    def _escaped_in_key(self, piece: str, at: int) -> int:
        self._read, self._ticks = JSONReader._in_key, 4
        if piece[at] == "u":
            self._read = JSONReader._hex_in_key
        elif piece[at] not in _SHORT_ESCAPES:
            return self._broken(at)
        return at + 1

    def _hex_in_key(self, piece: str, at: int) -> int:
        if piece[at] not in _HEX:
            return self._broken(at)
        self._ticks -= 1
        if not self._ticks:
            self._read = JSONReader._in_key
        return at + 1

    def _colon(self, piece: str, at: int) -> int:
        at = _after_space(piece, at)
        if at == len(piece):
            return at
        if piece[at] != ":":
            return self._broken(at)
        self._read = JSONReader._value
        return at + 1

    def _behind(self, piece: str, at: int) -> int:
        """Behind a value: the next one, or the end of what it stands in."""
        at = _after_space(piece, at)
        if at == len(piece):
            return at
        if piece[at] == ",":
            self._read = JSONReader._key if self._open[-1] == "}" else JSONReader._value
            return at + 1
        return self._closed(at) if piece[at] == self._open[-1] else self._broken(at)

    def _closed(self, at: int) -> int:
        self._open.pop()
        self._closers = self._closers[1:]
        self._certain, self._in_text = self._length + at + 1, False
        self._ended(at + 1)
        return at + 1

    def _ended(self, at: int) -> None:
        """A value is complete."""
        if self._item_depth == len(self._open) and self._item_depth and self._open[-1] == "]":
            self._items.append((self._item_from, (len(self._pieces) - 1, at)))
        self._read = JSONReader._behind if self._open else JSONReader._done

    def _grow(self, at: int, *, in_text: bool = False) -> None:
        self._certain, self._in_text, self._grown = self._length + at, in_text, True

    # ── words and texts ────────────────────────────────────────────────────────────────────────

    def _in_word(self, piece: str, at: int) -> int:
        run = _WORD.match(piece, at)
        if run is not None:
            self._word += run[0]
            return run.end() if len(self._word) <= LONGEST_WORD else self._broken(at)
        word = self._word
        if not _COMPLETE.fullmatch(word) or (word[-1].isdigit() and isinf(_float(word))):
            return self._broken(at)
        self._grow(at)
        self._ended(at)
        return at

    def _text(self, piece: str, at: int) -> int:
        run = _PLAIN.match(piece, at)
        if run is not None:
            if not self._whole:
                self._grow(run.end(), in_text=True)
            return run.end()
        if piece[at] == "\\":
            self._read, self._escape = JSONReader._in_escape, "\\"
            return at + 1
        self._certain, self._in_text = self._length + at + 1, False
        self._grown = self._grown or self._whole
        self._ended(at + 1)
        return at + 1

    def _in_escape(self, piece: str, at: int) -> int:
        """One character more of an escape; two belong together where they make one character."""
        letter, before = piece[at], self._escape
        if len(before) == _ESCAPED and letter != "\\":
            return self._unescaped(at)
        if len(before) == _ESCAPED + 1 and letter != "u":
            self._unescaped(at - 1)
            self._read, self._escape = JSONReader._in_escape, "\\"
            return at
        self._escape = escape = before + letter
        place = len(escape) % _ESCAPED
        if place == 2 and letter in _SHORT_ESCAPES:
            return self._unescaped(at + 1)
        if letter not in ("u" if place == 2 else "\\" if place == 1 else _HEX):
            return self._broken(at)
        if len(escape) == _ESCAPED and "\ud800" <= chr(int(escape[2:], 16)) <= "\udbff":
            return at + 1
        return self._unescaped(at + 1) if place == 0 else at + 1

    def _unescaped(self, at: int) -> int:
        self._read = JSONReader._text
        if not self._whole:
            self._grow(at, in_text=True)
        return at


def _float(word: str) -> float:
    """A number as a float; whole ones, which have no end in Python, count as 0."""
    return float(word) if not word.lstrip("-").isdigit() else 0.0


def _after_space(piece: str, at: int) -> int:
    run = _SPACE.match(piece, at)
    return run.end() if run else at


class PartialValue:
    """A value as far as it was certain at a moment. It is made anew whenever it is asked for."""

    __slots__ = ("_closers", "_count", "_items", "_pieces", "_place", "_wrapper", "finished")

    def __init__(
        self,
        pieces: list[str],
        place: tuple[int, int],
        closers: str,
        wrapper: str | None,
        items: Sequence[tuple[Place, Place]],
    ) -> None:
        # Shared with the reader, which only adds to them.
        self._pieces, self._items = pieces, items
        self._count = len(pieces)
        self._place, self._closers, self._wrapper = place, closers, wrapper
        self.finished = len(items)
        """How many elements of the list that was asked for are complete."""

    def made(self) -> Any:
        """The value, in lists and dicts that are the asker's own."""
        begin, end = self._place
        text = "".join(self._pieces[: self._count])[begin:end] + self._closers
        return unwrapped(decoded(text), self._wrapper)

    def element(self, position: int) -> Any:
        """A complete element of the list that was asked for."""
        (first, begin), (last, end) = self._items[position]
        pieces = self._pieces[first : last + 1]
        pieces[-1] = pieces[-1][:end]
        pieces[0] = pieces[0][begin:]
        return decoded("".join(pieces))
