"""Regular expressions as a watch."""

from __future__ import annotations

import importlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError, OptionError
from ..keywords import TakesOptions
from .syntax import parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Pattern"]

DEFAULT_CARRYOVER = 128
_ASCII = "".join(map(chr, range(128)))
_UNKNOWN = re.compile(r"\(\?<?[=!]|\(\?P=|\\[1-9]|\\k")
Span = tuple[int, int]


class Pattern(TakesOptions):
    """A regular expression that is looked for: `Pattern(r"\\d{16}")`.

    It is run by RE2, in time that grows with the text and no faster, whatever the expression: it
    needs the `guards` extra. Expressions mean what they mean to RE2: `\\d`, `\\w`, `\\s` and `\\b`
    know ASCII (`\\p{L}` is any letter). Matches are looked for from left to right, and do not
    overlap.

    What may still become a match is held back, as long as the longest match is. Where there is no
    longest one, `carryover` characters of what is *not yet* a match are held back at most (B-236):
    a match of which more than that comes before it is one may go unnoticed. What is a match
    already, and may still grow, is held back until it has ended.

    `look_behind`: how many characters before a piece your hook wants to see, if more than the
    expression needs.

    Raises `OptionError` for an expression that RE2 does not take (back-references and look-around
    among them), for one that matches the empty text, and for options out of range;
    `ConfigurationError` without the extra.
    """

    def __init__(
        self,
        source: str,
        *,
        ignore_case: bool = False,
        carryover: int = DEFAULT_CARRYOVER,
        look_behind: int = 0,
    ) -> None:
        _check("carryover", carryover, 1)
        _check("look_behind", look_behind, 0)
        self.source = f"(?i){source}" if ignore_case else source
        """The expression."""
        self._compiled = _compiled(self.source)
        found = parsed(self.source)
        if found.node.shortest == 0:
            raise OptionError(f"Pattern: {_shown(source)} matches the empty text")
        self.max_length = found.node.longest
        """The length of the longest match in characters; `None`: there is none."""
        self.look_behind = max(look_behind, int(found.looks_behind))
        self._window = carryover if self.max_length is None else max(self.max_length, 1)
        self._is_bounded = self.max_length is not None
        self._looks_ahead = found.looks_ahead
        self._match = _native(self._compiled)
        self._begun = _native(_compiled(f"(?:{found.node.begun})\\z", of=source))
        self._alphabet = _ascii_of(found.atoms)
        self._loops = _ascii_of(found.loops)
        self._first = re.compile(
            f"[{re.escape(''.join(sorted(_ascii_of(found.node.first))))}\x80-\U0010ffff]"
        )

    def __repr__(self) -> str:
        return f"Pattern({self.source!r})"

    def finditer(self, text: str, start: int = 0) -> Iterator[Any]:
        """The matches from `start` on; what stands before it counts for `\\b` and `^`."""
        return self._compiled.finditer(text, start)

    def search(self, text: str, start: int = 0) -> Any:
        """The first match from `start` on, or `None`."""
        return self._compiled.search(text, start)

    def stirs(self, text: str) -> bool:
        """Whether a text could be the end of a match of any length: one that holds a character
        that no such match can hold any number of.
        """
        loops = self._loops
        return any(c < "\x80" and c not in loops for c in text)

    def release(self, text: str, start: int, limit: int) -> int:
        """See `Watch.release`."""
        size = len(text)
        if size == start:
            return limit
        last = text[-1]
        if limit == size and last < "\x80" and last not in self._alphabet:
            return limit  # no match can go on from here
        if self._first.search(text, start) is None:
            return limit  # none begins
        data = text.encode("utf-8", "replace")
        if len(data) == size:
            return self._released(data, start, limit)
        at = [len(text[:i].encode("utf-8", "replace")) for i in (start, limit)]
        released = self._released(data, at[0], at[1], self._window_of(text, start))
        return len(data[:released].decode())

    def _window_of(self, text: str, start: int) -> int:
        begin = max(start, len(text) - self._window)
        return len(text[:begin].encode("utf-8", "replace"))

    def _released(self, data: bytes, start: int, limit: int, window: int = -1) -> int:
        """`release` in bytes; `window`: where what is no match yet may begin at the earliest."""
        size = len(data)
        if window < 0:
            window = max(start, size - self._window)
        live = self._first_begun(data, window)
        found = limit
        # Of unbounded ones, a match that still grows may have begun before the window.
        if live < size or limit < size or (not self._is_bounded and window > start):
            found = self._between(data, start, limit, window, live)
        if self._looks_ahead and found < size:
            found = self._cleanly(data, start, found)
        return found

    def _first_begun(self, data: bytes, start: int) -> int:
        """Where the first text begins, from `start` on, that may go on to a match."""
        return self._begun(0, data, start, len(data))[0][0]

    def _between(self, data: bytes, start: int, limit: int, window: int, live: int) -> int:
        """The release point, where something is live or held back by others."""
        size = len(data)
        if live <= start:
            return start
        growing = start if self._is_bounded or window <= start else self._first_begun(data, start)
        for begin, end in self._matches(data, start, size):
            if begin >= live or begin >= limit:
                break
            if end > limit or (growing <= begin < window and self._grows(data, begin)):
                return begin
            if end > live:  # what seemed to begin is the inside of a match that is complete
                live = self._first_begun(data, max(window, end))
        return min(live, limit)

    def _matches(self, data: bytes, start: int, end: int) -> Iterator[Span]:
        position = start
        while position < end:
            span: Span = self._match(0, data, position, end)[0]
            if span[0] < 0:
                return
            yield span
            position = span[1]

    def _grows(self, data: bytes, begin: int) -> bool:
        return not self._is_bounded and self._begun(1, data, begin, len(data))[0][0] >= 0

    def _cleanly(self, data: bytes, start: int, cut: int) -> int:
        """A cut that neither makes a match by being an end nor hides one: `\\bcat\\b` is not in
        "catalog", cut behind "cat" or not.
        """
        while cut > start:
            whole = [span for span in self._matches(data, start, len(data)) if span[1] <= cut]
            seen = list(self._matches(data[:cut], start, cut))
            if whole == seen:
                return cut
            cut = min(begin for begin, _ in set(whole) ^ set(seen))
        return cut


@lru_cache(maxsize=512)
def _compiled(source: str, *, of: str | None = None) -> Any:
    """An expression compiled by RE2; `of`: the one that it was made of."""
    re2 = _re2()
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(source, options)
    except re2.error as error:
        words = error.args[0]
        told = words.decode(errors="replace") if isinstance(words, bytes) else str(words)
        shown = _shown(source if of is None else of)
    if _UNKNOWN.search(source):
        raise OptionError(
            f"Pattern: {shown} uses look-around or a back-reference ({told}): what may still "
            "become a match of it cannot be known. Match more, and look again in your hook"
        )
    if of is not None:
        raise OptionError(f"Pattern: {shown} is too large to be followed ({told})")
    raise OptionError(f"Pattern: {shown} is not an expression that RE2 takes: {told}")


def _re2() -> Any:
    try:
        return importlib.import_module("re2")
    except ImportError:
        raise ConfigurationError(
            "Pattern needs RE2: pip install 'procession[guards]' (Literals and Unit do without)"
        ) from None


def _native(compiled: Any) -> Callable[[int, bytes, int, int], list[Span]]:
    """RE2's own match of bytes: the public methods take ten times as long."""
    anchors = importlib.import_module("re2")._Anchor
    kinds = (anchors.UNANCHORED, anchors.ANCHOR_START)
    match = compiled._regexp.Match
    return lambda anchor, data, start, end: match(kinds[anchor], data, start, end)


def _ascii_of(atoms: Iterable[str]) -> frozenset[str]:
    """The ASCII characters that one of the atoms matches."""
    found: set[str] = set()
    for atom in atoms:
        if len(atom) == 1 and atom != ".":
            found.add(atom)
        else:
            found.update(_compiled(atom).findall(_ASCII))
    return frozenset(found)


def _check(option: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(f"Pattern: {option} must be a whole number of at least {least}")


def _shown(source: str) -> str:
    return repr(source if len(source) <= 60 else source[:57] + "…")
