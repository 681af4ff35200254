"""One lane of a stream: the text of a block, or a leaf of tool arguments, that is held back."""

from __future__ import annotations

from collections import deque
from copy import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from ..chunks import Chunk
    from .piece import LaneKind, Watch

__all__ = ["Lane", "Rules", "bare", "merged"]

LONG = 1024
"""From how many held characters on the watches are not asked for every chunk."""


class Rules:
    """The watches of one processor, put together; the same for all of its lanes."""

    __slots__ = (
        "calm",
        "idle",
        "is_one",
        "keeps_all",
        "look_behind",
        "release",
        "splits",
        "stirs",
        "takes_apart",
        "waits_for_end",
        "whole",
    )

    def __init__(self, watches: Sequence[Watch]) -> None:
        names = {getattr(watch, "name", None) for watch in watches if hasattr(watch, "is_whole")}
        self.keeps_all = "end" in names
        self.waits_for_end = self.keeps_all or "step" in names
        """Whether texts leave when the model's stream has ended, not when their block has."""
        self.whole = self.waits_for_end or "part" in names
        """Whether nothing of a lane leaves before it has ended."""
        self.look_behind = max(watch.look_behind for watch in watches)
        self.release: Callable[[str, int, int], int] = _agreed(watches)
        self.takes_apart = not self.whole and not all(hasattr(w, "is_whole") for w in watches)
        """Whether something is looked for in JSON by its leaves; what judges portions of a text
        gets it as it is."""
        splits = not names.isdisjoint({"sentence", "word"}) and not self.whole
        self.splits = _methods(watches, "split") if splits else []
        self.stirs = _methods(watches, "stirs")
        idle = _methods(watches, "idle")
        self.idle: Callable[[str, str], bool] | None = idle[0] if "sentence" in names else None
        self.is_one = len(watches) == 1
        self.calm: Callable[[str], re.Match[str] | None] | None = (
            getattr(watches[0], "calm", None) if self.is_one else None
        )


def _methods(watches: Sequence[Any], name: str) -> list[Callable[..., Any]]:
    return [getattr(watch, name) for watch in watches if hasattr(watch, name)]


def _agreed(watches: Sequence[Watch]) -> Callable[[str, int, int], int]:
    """Where all watches let go: each is asked until none wants less than the others."""
    releases = [watch.release for watch in watches]
    if len(releases) == 1:
        return releases[0]

    def release(text: str, start: int, limit: int) -> int:
        while True:
            asked = limit
            for one in releases:
                found = one(text, start, limit)
                limit = found if start <= found <= limit else start if found < start else limit
            if limit == asked or limit == start:
                return limit

    return release


class Lane:
    """What is held back of one lane, what stands before it, and the chunks that it came in."""

    __slots__ = (
        "_late",
        "_late_size",
        "_left",
        "_model",
        "_rules",
        "_taken",
        "before",
        "came_in",
        "closing",
        "held",
        "id",
        "is_repeated",
        "kind",
        "opening",
        "passed_by",
        "seen",
    )

    def __init__(self, rules: Rules, kind: LaneKind, id: str, model: Chunk) -> None:
        self._rules = rules
        self.kind: LaneKind = kind
        self.id = id
        self._model = bare(model)
        self.before = ""
        """The last characters that have left, as many as the watches look behind."""
        self.opening: Chunk | None = None
        self.closing: Chunk | None = None
        """The chunks of the block's borders, where they have to wait as well."""
        self.is_repeated = False
        """Whether the hook was shown this leaf before, as it came."""
        self.held = ""
        self.passed_by: list[str] = []
        """What has left without the hook."""
        self.seen = 0
        """How many of these `before` takes account of."""
        self._late: list[str] = []
        """What has come since the watches were asked last."""
        self._late_size = 0
        self._taken = self._left = 0
        self.came_in: deque[tuple[int, Chunk]] = deque()
        """Where what is held back came in which chunk, if one of them says more than its text."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held back."""
        return not (self.held or self._late)

    @property
    def size(self) -> int:
        """How many characters are held back."""
        return len(self.held) + self._late_size

    def take(self, text: str) -> str:
        """Take in what has come; returns what leaves, which `leave` is to be told."""
        rules, held = self._rules, self.held
        if held or self._late or rules.whole:
            if rules.whole or not self._is_worthwhile(text):
                self._late.append(text)
                self._late_size += len(text)
                return ""
            if self._late:
                held = self._joined_late()
            text = held + text
        before = self.before
        start = len(before)
        if start:
            text = before + text
        size = len(text)
        point = rules.release(text, start, size)
        if point == size:
            self.held = ""
            return text[start:] if start else text
        self.held = text[point:]
        return text[start:point]

    def _is_worthwhile(self, new: str) -> bool:
        """Whether to ask the watches, which may have to look again at all that is held back."""
        rules, held, late = self._rules, self.held, self._late
        if rules.idle is not None and rules.idle(late[-1] if late else held, new):
            return False
        if len(held) <= LONG or (self._late_size + len(new)) * 8 >= len(held):
            return True
        return any(stirs(new) for stirs in rules.stirs)

    def _joined_late(self) -> str:
        text = "".join((self.held, *self._late))
        self._late.clear()
        self._late_size = 0
        return text

    def rest(self) -> str:
        """All that is held back: the lane has ended."""
        text = self._joined_late()
        self.held = ""
        return text

    def portions(self, text: str) -> list[str]:
        """`text`, which leaves, in the portions that the hook is to see one at a time."""
        rules, size = self._rules, len(text)
        if not rules.splits:
            return [text]
        cuts = {cut for split in rules.splits for cut in split(text, 0, size)}
        borders = [0]
        for cut in sorted(cuts - {size}):
            if rules.is_one or self._may_cut(text, borders[-1], cut):
                borders.append(cut)
        borders.append(size)
        return [text[a:b] for a, b in pairwise(borders)]

    def _may_cut(self, text: str, start: int, cut: int) -> bool:
        """Whether the other watches agree."""
        before = len(self.before)
        release = self._rules.release
        return release(self.before + text, before + start, before + cut) == before + cut

    def catch_up(self) -> None:
        """What has left without the hook stands before what follows, too."""
        passed, look = self.passed_by, self._rules.look_behind
        if look:  # each has a character at least
            self.leave("".join(passed[max(self.seen, len(passed) - look) :]))
        self.seen = len(passed)

    def leave(self, text: str) -> None:
        """A piece leaves: it is what stands before the next one."""
        look = self._rules.look_behind
        if look:
            before = self.before + text
            self.before = before[-look:] if len(before) > look else before

    # ── the chunks it came in ──────────────────────────────────────────────────────────────────

    def note(self, chunk: Chunk, size: int) -> None:
        """So much text comes in this chunk, which says more than that, or in one after such."""
        came = self.came_in
        if not came:
            self._left, self._taken = 0, len(self.held) + self._late_size
            if self._taken:
                came.append((0, self.fresh()))
        came.append((self._taken, _template(chunk)))
        self._taken += size

    def carrier(self, size: int) -> Chunk | None:
        """The chunk for the next `size` characters: as the first one that they came in, with all
        that the provider says in the others (B-135).

        `None`: it says nothing that a fresh one would not say.
        """
        came = self.came_in
        if not came:
            return None
        left = self._left = self._left + size
        made = merged([chunk for at, chunk in came if at < left])
        while len(came) > 1 and came[1][0] <= left:
            came.popleft()
        if left == self._taken:
            came.clear()
        return made

    def fresh(self) -> Chunk:
        """A new chunk of this lane."""
        return _template(self._model)


def _template(chunk: Chunk) -> Chunk:
    made = copy(chunk)
    made.payload = copy(chunk.payload)
    return made


def bare(chunk: Chunk) -> Chunk:
    """A chunk of the same lane that says nothing but its text."""
    made = _template(chunk)
    made.metadata = made.extra = made.payload.extra = None
    if hasattr(made.payload, "provider_metadata"):
        made.payload.provider_metadata = UNSET
    return made


def merged(chunks: Sequence[Chunk]) -> Chunk:
    """A copy of the first chunk, with what the provider says in any of them (B-135)."""
    made = _template(chunks[0])
    said = [getattr(chunk.payload, "provider_metadata", UNSET) for chunk in chunks]
    said = [meta for meta in said if meta is not UNSET]
    if said:
        made.payload.provider_metadata = _joined(said)
    return made


def _joined(said: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    known: Any
    for meta in said:
        for name, value in meta.items():
            known = found.get(name)
            both = isinstance(known, dict) and isinstance(value, dict)
            found[name] = {**known, **value} if both else value
    return found
