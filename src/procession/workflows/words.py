"""Text word by word: how a provider cuts it must not decide what leaves before a verdict (law 3).

Where steps look at a text side by side, a verdict of one of them comes while others have let more
of it pass, or less. So all are handed the same portions, which depend on the text alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Words"]

LONGEST = 32
"""Characters of a portion at most, for scripts that are written without spaces."""
_GAP = re.compile(r"\s(?=\S)")


class Words:
    """A watch that lets go of a word, with the white space behind it, at a time."""

    name = "word"
    look_behind = 0
    is_whole = False

    def release(self, text: str, start: int, limit: int) -> int:
        """See `Watch.release`."""
        ends = self.split(text, start, limit)
        return ends[-1] if ends else start

    def split(self, text: str, start: int, stop: int) -> Sequence[int]:
        """Where the words end of which the next one has begun."""
        found: list[int] = []
        begin = start
        while True:
            gap = _GAP.search(text, begin, begin + LONGEST + 1)
            end = begin + LONGEST if gap is None else gap.end()
            if end > stop or end >= len(text):
                return found
            found.append(end)
            begin = end
