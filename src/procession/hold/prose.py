"""Texts in which JSON stands, perhaps: where it begins, what it says, and where words go on.

Whoever reads the object while it comes takes JSON at the beginning of a text, or behind the opening
of a code fence. These places are found in just the same way. JSON that begins elsewhere is read by
its leaves as well, from its first string on: what a hook takes out before it may leave it at the
beginning. But a fence ends it, for behind that it may begin anew.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .leaves import Event, LeafReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ENDED", "FOUND", "VEILED", "ProseReader"]

_SPACE = re.compile(r"[ \t\r\n]*")
_WORDS = re.compile(r"[^`\[{]+")
_OPENERS = frozenset("[{")
FOUND, LOOSE, ENDED, VEILED = "found", "loose", "ended", "veiled"
"""What becomes of JSON: it begins where it is looked for, or elsewhere, or it has ended well.

Or, where it stands elsewhere, an escape in it was a backtick: written anew, that may open a fence.
"""
FENCE = 3
"""Backticks in a row that open a code fence."""


class ProseReader:
    """Reads one text; what it says does not depend on how the text was cut."""

    __slots__ = ("_begun", "_is_loose", "_json", "_step", "_ticks")

    def __init__(self) -> None:
        self._json: LeafReader | None = None
        """Reads the JSON that is open."""
        self._is_loose = False
        """Whether that JSON stands where nobody would look for it: then a fence ends it."""
        self._begun: LeafReader | None = None
        """Reads along in words, behind a bracket: JSON begins with its first string."""
        self._step: Callable[[ProseReader, str, int], int] = ProseReader._start
        self._ticks = 0

    def feed(self, text: str) -> Iterator[Event]:
        """What a piece of the text says."""
        at = 0
        while at < len(text):
            if self._json is not None:
                at, events = self._said(self._json, text, at)
                yield from events
                continue
            begin, at = at, self._words(text, at)
            if at > begin:
                yield Event("rest", text[begin:at])
            if at < len(text):
                yield Event("json", LOOSE if self._is_loose else FOUND)

    @property
    def is_settled(self) -> bool:
        """Whether all that has come was told."""
        return self._json is None or self._json.is_settled

    def end(self) -> Iterator[Event]:
        """Nothing follows."""
        reader, self._json, self._begun = self._json, None, None
        if reader is not None:
            yield from reader.end()

    def _words(self, text: str, at: int) -> int:
        """Where JSON begins, or the text ends."""
        while at < len(text) and self._json is None:
            at = self._step(self, text, at)
        return at

    # ── words ──────────────────────────────────────────────────────────────────────────────────

    def _start(self, text: str, at: int) -> int:
        """Space, then the value."""
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        if at < len(text):
            self._step, self._ticks = ProseReader._prose, 0
            if text[at] in _OPENERS:
                self._open(LeafReader(), is_loose=False)
            elif text[at] == '"':
                self._open(LeafReader(), is_loose=True)
        return at

    def _prose(self, text: str, at: int) -> int:
        letter = text[at]
        if letter == "`":
            return self._tick(at)
        self._ticks = 0
        if self._begun is not None:
            return self._follow(self._begun, text, at)
        if letter in _OPENERS:
            self._begun = LeafReader()
            self._begun.read(letter, 0)
            return at + 1
        words = _WORDS.match(text, at)
        return words.end() if words else at + 1

    def _tick(self, at: int) -> int:
        self._begun = None
        self._ticks += 1
        if self._ticks == FENCE:
            self._step = ProseReader._info
        return at + 1

    def _info(self, text: str, at: int) -> int:
        """The word behind a fence."""
        letter = text[at]
        if letter in _OPENERS or letter.isspace():
            self._step = ProseReader._start
            return at
        if letter == "`":
            self._step, self._ticks = ProseReader._prose, 0
            return at
        return at + 1

    def _follow(self, begun: LeafReader, text: str, at: int) -> int:
        """Go on behind a bracket: is this JSON?"""
        letter, step = text[at], 0
        if letter == '"' and begun.takes_string:
            self._open(begun, is_loose=True)
            return at
        while not (step or begun.is_broken):
            step, _ = begun.read(letter, 0)
        if begun.is_broken or begun.is_complete:
            self._begun = None
        return at if begun.is_broken else at + 1

    # ── JSON ───────────────────────────────────────────────────────────────────────────────────

    def _open(self, reader: LeafReader, *, is_loose: bool) -> None:
        self._json, self._is_loose, self._begun = reader, is_loose, None

    def _said(self, reader: LeafReader, text: str, at: int) -> tuple[int, list[Event]]:
        """What JSON says to its end, or to a backtick that may belong to a fence which ends it."""
        tick = text.find("`", at) if self._is_loose else -1
        if tick == at:
            return self._tick_within(reader, at)
        piece = text if tick < 0 else text[:tick]
        events: list[Event] = []
        while at < len(piece) and self._json is reader:
            at, more = self._read(reader, piece, at)
            events += more
            if self._is_loose and any(kind == "text" and "`" in said for kind, said in more):
                events.append(Event("json", VEILED))
        return at, events

    def _read(self, reader: LeafReader, text: str, at: int) -> tuple[int, list[Event]]:
        self._ticks = 0
        at, events = reader.read(text, at)
        if reader.is_broken or reader.is_complete:
            self._json, self._step = None, ProseReader._prose
            if events and events[-1].kind == "rest":
                self._words(events[-1].text, 0)
            if reader.is_complete:
                events = [*events, Event("json", ENDED)]
        return at, events

    def _tick_within(self, reader: LeafReader, at: int) -> tuple[int, list[Event]]:
        ticks = self._ticks + reader.in_string
        if ticks < FENCE:
            step, events = self._read(reader, "`", 0)
            if self._json is reader:
                self._ticks = ticks
            return at + step, events
        self._json, self._step, self._ticks = None, ProseReader._info, 0
        return at + 1, [*reader.end(), Event("rest", "`")]
