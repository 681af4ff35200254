"""A stretch of text that no value crosses, as the kinds of detectors see it."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from .boundaries import joins, token_before, token_start
from .folding import BREAK, fold

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .folding import View
    from .found import Region

__all__ = ["LOOK_BEHIND", "Scan"]

NEAR = 48
"""Characters of the original before a value in which words may speak for it or against it."""
LOOK_BEHIND = NEAR + 1
"""What has to be seen for that: one more, to tell where a word begins."""

DIGIT = re.compile(r"[0-9]")
LAST_DIGIT = re.compile(r".*[0-9]", re.DOTALL)
LETTER = re.compile(r"[^\W\d_]")
GROUP_BEHIND = re.compile(r"[ \t]{1,2}[0-9]")
GROUP_BEFORE = re.compile(r"[0-9][ \t]{1,2}\Z")


class Scan:
    """`text` is folded, begins and ends where no value is cut, and has nothing to its left.

    What stands before it in the original can be asked for with `before`; what comes behind it
    cannot: in a stream nobody knows it yet.
    """

    __slots__ = (
        "__dict__",
        "_base",
        "_offset",
        "_original",
        "_redacted",
        "_view",
        "_whole",
        "digits",
        "text",
    )

    def __init__(self, original: str, view: View, base: int, start: int, end: int) -> None:
        self.text = view.text[start:end]
        self.digits = len(DIGIT.findall(self.text))
        self._original = original
        self._view = view
        self._base = base  # where the view begins in the original
        self._offset = start  # where this stretch begins in the view
        self._redacted: str | None = None  # what the original's part of it is taken for
        self._whole = ""  # what the text was before anything was taken out

    def without(self, regions: Iterable[Region]) -> Scan:
        """The same with breaks in the place of what was found already.

        A value that goes no longer speaks for or against what stands behind it. That holds for
        tokens that are never let go one without the other; what stands before them is asked for
        as it came, for that is all that is known in a stream.
        """
        rest = Scan(self._original, self._view, self._base, self._offset, self._offset)
        spans = [(start, end) for start, end, _ in regions]
        rest.text = with_breaks(self.text, spans)
        rest.digits = len(DIGIT.findall(rest.text))
        begin, seen = self.origin(0), self._redacted
        if seen is None:
            seen = self._original[begin : self._behind(len(self.text))]
        places = [(self.origin(at) - begin, self._behind(to) - begin) for at, to in spans]
        rest._redacted = with_breaks(seen, places)
        rest._whole = self._whole or self.text
        return rest

    def _behind(self, index: int) -> int:
        """The offset in the original right behind the folded character before `index`."""
        return self._base + self._view.behind(self._offset + index)

    def _window(self, index: int, size: int) -> tuple[str, int]:
        """A text that has what stands before `index`, and which offset of the original is its
        first: the original itself, or a part of it without what was found."""
        if self._redacted is None:
            return self._original, 0
        first, at, begin = (
            self.origin(self._first_beside(index)),
            self.origin(index),
            self.origin(0),
        )
        low = max(0, at - size - 1)  # one more, to tell where a word begins
        kept = self._original[low : max(low, first)]
        return kept + self._redacted[max(low, first) - begin : at - begin], low

    def _first_beside(self, index: int) -> int:
        """Where the tokens begin that stand together with the one at `index`, if that is near."""
        at = token_start(self._whole, index)
        while at and index - at <= NEAR and joins(self._whole, at):
            at = token_before(self._whole, at, 0)
        return at

    def origin(self, index: int) -> int:
        """The offset in the original of the folded character `index`."""
        return self._base + self._view.origin(self._offset + index)

    def before(self, index: int, size: int = NEAR) -> str:
        """The folded text before `index`: of at most `size` characters of the original."""
        at = self.origin(index)
        text, low = self._window(index, size)
        return fold(text[max(0, at - size) - low : at - low])

    def said(self, words: re.Pattern[str], index: int) -> bool:
        """Whether any of the words, in whatever script, stands closely before `index`."""
        return self.place_of(words, index) >= 0

    def place_of(self, words: re.Pattern[str], index: int) -> int:
        """Where in the original the words stand closely before `index`; -1: they do not."""
        at = self.origin(index)
        text, low = self._window(index, NEAR)
        found = words.search(text, max(0, at - NEAR) - low, at - low)
        return found.start() + low if found else -1

    def place_beside(self, words: re.Pattern[str], index: int) -> int:
        """The same for words that have no digit in them nor behind them."""
        at = self.origin(index)
        text, low = self._window(index, NEAR)
        floor, at = max(0, at - NEAR) - low, at - low
        digit = LAST_DIGIT.match(text, floor, at)
        floor = digit.end() if digit else floor
        if LETTER.search(text, floor, at) is None:
            return -1
        found = words.search(text, floor, at)
        return found.start() + low if found else -1

    def is_alone(self, start: int, end: int) -> bool:
        """Whether no other group of digits stands beside these, but for a space."""
        return self.is_last(end) and self.is_first(start)

    def is_first(self, start: int) -> bool:
        """Whether no other group of digits stands before this one."""
        return GROUP_BEFORE.search(self.before(start, 4)) is None

    def is_last(self, end: int) -> bool:
        """Whether no other group of digits stands behind the one that ends here."""
        return GROUP_BEHIND.match(self.text, end) is None

    def mentions(self, words: re.Pattern[str]) -> bool:
        """Whether any of the words can stand before anything here; if not, none does."""
        if words not in self._mentioned:
            first, last = self.origin(0), self.origin(len(self.text))
            found = words.search(self._original, max(0, first - NEAR), last)
            self._mentioned[words] = found is not None
        return self._mentioned[words]

    @cached_property
    def _mentioned(self) -> dict[re.Pattern[str], bool]:
        return {}


def with_breaks(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with as many breaks in the place of each span."""
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += (text[done:start], BREAK * (end - start))
        done = end
    return "".join((*parts, text[done:]))
