"""The rules of the presets as one watch: most of a text is seen to be harmless at a glance."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...hold import Pattern

__all__ = ["PLAIN", "PresetWatch"]

_WIDE = r"\u3000-\u9fff\uac00-\ud7a3\uff01-\uff60"
"""Characters of scripts without spaces, which no rule matches but within a URL."""
_W = r"A-Za-z\xc0-\u04ff"
# A match may reach over the space behind a word that ends like this.
_NO_HEAD = (
    "(?:(?<![iIyYrR])|(?<![aA][pP][iI])(?<![pP][iI][kK][eE][yY])(?<![pP][iI][ _-][kK][eE][yY])"
    "(?<![eE][aA][rR][eE][rR]))"
)
# Keys are longer; but for those that begin with xox and another letter.
_PART = rf"[{_W}]{{1,14}}+ {_NO_HEAD}"
_NUMBER = r"""\(?+ [0-9]{1,4}+ (?:[.,:][0-9]{1,3}+)?+ [%.,;:!?)\]"'\u201d]*+"""
_MARKS = (
    r"""\"'.,;:!?)&*=|~<>\\^`$\#%\[\]{}\xa3\u20ac\-"""
    r"\u201c\u201d\u2018\u2019\xab\xbb\u2026\u2014\u2013"
)
"""Characters with which no match begins."""
PLAIN = re.compile(
    rf"""((?:
        {_PART} (?:['\u2019]{_PART})*+ (?:(?<!xox[a-z])-{_PART})?+
        (?: [.:]?+ ["'\u201d\u2019\xbb)]*+ \s++
          | (?=[,;!?()"\u201d\xbb\u2026\u2014\]}}{_WIDE}])
          | (?<![tT][tT][pP])(?<![tT][tT][pP][sS])(?=:))
      | \s++
      | [{_MARKS}]++
      | [{_WIDE}]++
      | {_NUMBER} (?: \s++ (?=[{_W}{_WIDE}"'\u201c\xab]|\([^0-9]) | (?=[{_WIDE}]))
      | \( (?=[^0-9])
      | (?=[^\s0-9@/]{{1,14}}+\s) (?!\S*?(?:[aA][pP][iI]|[eE][aA][rR][eE][rR])) \S++
    )*+)(\(?+ (?: {_NUMBER} (?:\s++ \(?+)?+ | [{_W}_.%'\u2019+-]{{0,14}}+ ))""",
    re.VERBOSE,
)
"""Group 1: what no rule of the presets can match any of, whatever follows. Group 2: a word or a
number of which nothing is known before it has ended."""


class PresetWatch:
    """Holds back what the rules may match, as their patterns do, but looks at little with them.

    `calm` is there if the rules look for mail addresses, of which any word may be the beginning:
    only then nothing is held back that could have left.
    """

    def __init__(self, patterns: Sequence[Pattern], *, holds_words: bool) -> None:
        self._releases = [pattern.release for pattern in patterns]
        self.look_behind = max(pattern.look_behind for pattern in patterns)
        self.calm: Callable[[str], re.Match[str] | None] | None = (
            PLAIN.match if holds_words else None
        )

    def release(self, text: str, start: int, limit: int) -> int:
        """See `procession.hold.Watch`."""
        plain = PLAIN.match(text, start, limit)
        if plain is not None:
            start = plain.end(1)
            if self.calm is not None and plain.end(2) == limit == len(text):
                return start
        return self._agreed(text, start, limit) if start < limit else start

    def _agreed(self, text: str, start: int, limit: int) -> int:
        """Where all patterns let go: each is asked until none wants less than the others.

        First each by itself, for then it costs least to hear that one wants all of it.
        """
        asked = limit
        for release in self._releases:
            limit = min(limit, release(text, start, asked))
            if limit == start:
                return start
        while limit < asked:
            asked = limit
            for release in self._releases:
                limit = release(text, start, limit)
                if limit == start:
                    return start
        return limit
