"""A stretch of text that no value crosses, as the kinds of detectors see it."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from .folding import fold

if TYPE_CHECKING:
    from .folding import View

__all__ = ["LOOK_BEHIND", "Scan"]

LOOK_BEHIND = 48
"""Characters of the original before a value in which words may speak for it or against it."""

DIGIT = re.compile(r"[0-9]")
NUMBER = re.compile(r"[0-9](?:[^0-9\n]{0,4}[0-9]){6}")
GROUP_BEFORE = re.compile(r"[0-9][ \t]{1,2}\Z")


class Scan:
    """`text` is folded, begins and ends where no value is cut, and has nothing to its left.

    What stands before it in the original can be asked for with `before`; what comes behind it
    cannot: in a stream nobody knows it yet.
    """

    __slots__ = ("__dict__", "_base", "_offset", "_original", "_view", "text")

    def __init__(self, text: str, original: str, view: View, base: int, offset: int) -> None:
        self.text = text
        self._original = original
        self._view = view
        self._base = base  # where the view begins in the original
        self._offset = offset  # where this stretch begins in the view

    def origin(self, index: int) -> int:
        """The offset in the original of the folded character `index`."""
        return self._base + self._view.origin(self._offset + index)

    def before(self, index: int, size: int = LOOK_BEHIND) -> str:
        """The folded text before `index`: of at most `size` characters of the original."""
        at = self.origin(index)
        return fold(self._original[max(0, at - size) : at])

    def follows_group(self, index: int) -> bool:
        """Whether a group of digits and a space stand before `index`."""
        return GROUP_BEFORE.search(self.before(index, 4)) is not None

    def words_before(self, index: int) -> str:
        """The same text as it was written, in whatever script."""
        at = self.origin(index)
        return self._original[max(0, at - LOOK_BEHIND) : at]

    @cached_property
    def has_number(self) -> bool:
        """Whether there are seven digits near one another."""
        return NUMBER.search(self.text) is not None

    @cached_property
    def has_digits(self) -> bool:
        """Whether there is any digit."""
        return DIGIT.search(self.text) is not None
