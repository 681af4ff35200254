"""Finding personal data and secrets without a key, a model or the network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..keywords import TakesOptions
from .boundaries import (
    LAST_NUMBER,
    LONG,
    PROSE,
    SPAN,
    WORD,
    cuts,
    is_table,
    islands,
    joins,
    open_key,
    stretches,
    token_before,
    token_start,
)
from .folding import view
from .found import Detection, Hit, merged
from .kinds import PRIVATE_KEY, kinds_for
from .scan import LOOK_BEHIND, Scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .folding import View
    from .kinds import Kind

__all__ = ["LocalDetector"]

DULL = re.compile(rf"""(?!\S{{20}})["'(]*+(?:{WORD}++(?:['-]{WORD}++)*+)?[.,;:!?)"']*+\Z""")
_NEAR = 64
MOST = 40
"""No kind asks for more characters or digits than these."""
LEFT = 3
"""No value is shorter: with fewer characters beside what was found there is no more to find."""
TABLE = 256
"""Characters of a table of numbers that are held before any is let go, so that each is looked at
but a few times."""


class LocalDetector(TakesOptions):
    """Finds values of the given types; a watch that says how far a stream may be let go.

    `types` are ids of `LOCAL_TYPES` or names of `GROUPS`; without, it is all of them. `regions` are
    the two-letter codes of the countries whose national phone numbers are looked for; numbers that
    begin with `+` or `00` are found anyway. An unknown name raises `InputError`, a type whose
    libraries are missing `ConfigurationError`.

    A text may be cut wherever `release` says so: `find` over the pieces finds what it finds in the
    whole (B-133). How much is held back is bounded: some thousand characters, and 32,768
    for a private key.
    """

    look_behind = LOOK_BEHIND
    calm = PROSE.match
    """What tells of most texts that there is nothing in them; see `procession.hold.Watch`."""

    def __init__(
        self, types: Iterable[str] | None = None, *, regions: Iterable[str] | None = None
    ) -> None:
        kinds = kinds_for(types, regions)
        self.types = tuple(kind.type for kind in kinds)
        self._kinds = tuple(kind for kind in kinds if kind is not PRIVATE_KEY)
        self._keys = PRIVATE_KEY in kinds
        self._fitting: dict[tuple[int, int], list[Kind]] = {}

    def find(self, text: str, start: int = 0, end: int | None = None) -> list[Detection]:
        """The values between `start` and `end`, from left to right; none overlaps another.

        `start` is the text's beginning or a place that `release` named; what stands before it is
        read for words that speak for a value.
        """
        end = len(text) if end is None else end
        prose = PROSE.match(text, start, end)
        base = prose.end(1) if prose else start
        if DULL.match(text, base, end):
            return []
        seen = view(text[base:end])
        found: list[Detection] = []
        for region in merged(self._hits(text, base, seen)):
            at, to = base + seen.origin(region.start), base + seen.behind(region.end)
            best = region.best
            found.append(Detection(best.type, at, to, text[at:to], best.confidence))
        return found

    def _hits(self, text: str, base: int, seen: View) -> Iterator[Hit]:
        """What the kinds find in each stretch by itself, in coordinates of the view."""
        for start, end, is_key in stretches(seen.text, keys=self._keys):
            if is_key:
                yield Hit(start, end, 1.0, PRIVATE_KEY.rank, PRIVATE_KEY.type)
                continue
            for at, to in islands(seen.text[start:end]):
                yield from self._look(Scan(text, seen, base, start + at, start + to), start + at)

    def _look(self, scan: Scan, offset: int, again: int = 2) -> Iterator[Hit]:
        """What the kinds find that a text of this length and with so many digits can hold; then
        what they find when that is gone: it would be found when the text is looked at again."""
        size = min(len(scan.text), MOST), min(scan.digits, MOST)
        if size not in self._fitting:
            self._fitting[size] = [kind for kind in self._kinds if kind.fits(*size)]
        hits = [
            Hit(at, to, confidence, kind.rank, kind.type)
            for kind in self._fitting[size]
            for at, to, confidence in kind.find(scan)
        ]
        for hit in hits:
            yield hit._replace(start=offset + hit.start, end=offset + hit.end)
        if again and hits:
            found = merged(hits)
            if len(scan.text) - sum(region.end - region.start for region in found) >= LEFT:
                yield from self._look(scan.without(found), offset, again - 1)

    def release(self, text: str, start: int, limit: int) -> int:
        """The furthest place up to `limit` that no value crosses, nor one that is still to come.

        `text` is what stood before, what is held and what is new; `start` is the first character
        that was not let go. A word is let go with the space behind it.
        """
        prose = PROSE.match(text, start, limit)
        base = prose.end(1) if prose else start
        if prose and prose.end(2) == limit == len(text) and limit - base < LONG:
            return base
        seen = view(text[base:])
        at = self._boundary(seen.text, seen.folded(limit - base), text, base, seen)
        return base + seen.behind(at) if at else base

    def _boundary(self, folded: str, limit: int, text: str, base: int, seen: View) -> int:
        """The release point in the folded text."""
        floor, limit = self._between_keys(folded, limit)
        if len(folded) - floor < TABLE and is_table(folded, floor):
            return floor
        at = token_start(folded, limit, floor)
        if limit - at > LONG:
            *_, cut = (at, *cuts(folded, at, limit))
            if cut > at:
                return cut
        if at == len(folded) and LAST_NUMBER.search(folded, max(floor, at - _NEAR), at):
            at = token_before(folded, at, floor)  # it waits for its word, whatever stands before
        while at > floor and joins(folded, at):
            if len(folded) - at > SPAN:
                return self._in_table(folded, at, floor, text, base, seen)
            at = token_before(folded, at, floor)
        return at

    def _between_keys(self, folded: str, limit: int) -> tuple[int, int]:
        """The end of the last private key before `limit`, and `limit` before the next one."""
        floor = 0
        begun = open_key(folded) if self._keys else None
        if begun is not None and begun < limit:
            limit = token_start(folded, begun)
        for start, end, is_key in stretches(folded, keys=self._keys):
            if is_key and end <= limit:
                floor = end
            elif is_key and start < limit:
                limit = token_start(folded, start, floor)
        return floor, max(floor, limit)

    def _in_table(self, folded: str, at: int, floor: int, text: str, base: int, seen: View) -> int:
        """A release point among numbers that follow one another: where finding agrees with it.

        All values that may reach over `at` are complete in the text, so it is enough to look.
        """
        if len(folded) - floor < TABLE:
            return floor
        whole = self.find(text, base)
        while at > floor:
            place = base + seen.behind(at)
            before = [found for found in whole if found.start < place]
            if self.find(text, base, place) == before and self.find(text, place) == [
                found for found in whole if found.start >= place
            ]:
                return at
            at = token_before(folded, at, floor)
        return floor
