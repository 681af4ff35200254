"""JSON as its leaves: a hook is called with each of them, and what it returns is JSON again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from .lane import Lane, Rules
from .leaves import LeafReader, encoded, number_text
from .piece import Piece
from .prose import FOUND, VEILED

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from typing import Protocol

    from ..chunks import Chunk
    from .leaves import Event
    from .written import Shape, Written

    Work = Generator[tuple[Chunk, Piece | None], Any, list[Any]]
    """Yields what the hook is called with, is sent what it returned; returns what came of it."""
    Rewriting = Generator[tuple[Chunk, Piece | None], Any, Any]

    class Reader(Protocol):
        """Tells what a text says, piece by piece."""

        @property
        def is_settled(self) -> bool: ...
        def feed(self, text: str) -> Iterator[Event]: ...
        def end(self) -> Iterator[Event]: ...


__all__ = ["Leafwise", "Root"]

_WORDS = re.compile(r"\s*(?:[^\s`{\[\"]|\[[A-Z])(?:[^`{\[]|\[[A-Z])*")
"""What cannot be the beginning of JSON, or of a code fence."""
LOST = "lost"


class Root:
    """One JSON text, as far as it has come."""

    __slots__ = (
        "count",
        "id",
        "known",
        "leaf",
        "model",
        "reader",
        "rest",
        "said",
        "shown",
        "stage",
    )

    def __init__(self, id: str, model: Chunk, reader: Reader | None = None, known: int = 0) -> None:
        self.id = id
        self.stage = ""
        """Of JSON that was found: `FOUND`, `ENDED`, or `LOST` if it has ended in other words."""
        self.reader: Reader = reader or LeafReader()
        self.model = model
        self.leaf: Lane | None = None
        """The string that is open."""
        self.rest: Lane | None = None
        """What is no JSON."""
        self.count = 0
        """How many leaves have begun."""
        self.known = known
        """How many of them the hook was shown before."""
        self.shown: list[str] = []
        """What has been written of the string that is open, as plain text."""
        self.said: list[Chunk] = []
        """Chunks of which nothing has been written yet, and that say more than their text."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it is held back."""
        lanes = (self.leaf, self.rest)
        return self.reader.is_settled and all(lane is None or lane.is_empty for lane in lanes)


class Leafwise:
    """Holds back leaves as lanes of their own, and writes the JSON anew, always the same way."""

    __slots__ = ("_of_object", "_rules", "_shape", "settled", "unsure")

    def __init__(self, rules: Rules, shape: Shape, *, of_object: bool = False) -> None:
        self._rules = rules
        self._shape = shape
        self._of_object = of_object
        self.settled: set[str] | None = set() if of_object else None
        """The leaves that have left, as the hook has left them, where they are to be known."""

        self.unsure: set[str] = set()
        """Texts in whose words the hook has changed something, so that JSON may be found in them
        that it has not seen by its leaves."""

    # ── as it comes ────────────────────────────────────────────────────────────────────────────

    def events(self, root: Root, events: Iterable[Event], written: Written) -> Rewriting:
        """Call the hook with what the events let go of; what comes of it is written."""
        for kind, text in events:
            if kind == "mark":
                written.add(text)
                if text == '"':
                    root.leaf = self._leaf(root)
            elif kind == "number":
                yield from self._number(self._leaf(root), text, written)
            elif kind == "rest":
                yield from self._words(root, text, written)
            elif kind == "text":
                assert root.leaf is not None
                yield from self._text(root, root.leaf, text, written, raw=False)
            elif kind == "json":
                yield from self._json(root, text, written)
            else:
                yield from self._string_ends(root, written)
                written.add(text)

    def _words(self, root: Root, text: str, written: Written) -> Rewriting:
        if root.rest is None:
            root.rest = self._leaf(root)
        if root.stage == FOUND:
            root.stage = LOST
        yield from self._text(root, root.rest, text, written, raw=True)

    def _json(self, root: Root, stage: str, written: Written) -> Rewriting:
        if stage == VEILED:
            self.unsure.add(root.id)
            return
        yield from self._prose_ends(root, written)
        if stage == FOUND or root.stage == FOUND:
            root.stage = stage

    def rest(self, root: Root, written: Written) -> Rewriting:
        """The text has ended: what is held back of it leaves."""
        yield from self.events(root, root.reader.end(), written)
        yield from self._string_ends(root, written)
        yield from self._prose_ends(root, written)

    def _string_ends(self, root: Root, written: Written) -> Rewriting:
        leaf, root.leaf = root.leaf, None
        if leaf is None:
            return
        if not leaf.is_empty:
            yield from self._leave(root, leaf, leaf.rest(), written, raw=False, is_last=True)
        if self.settled is not None:
            self.settled.add("".join(root.shown))
            root.shown.clear()

    def _prose_ends(self, root: Root, written: Written) -> Rewriting:
        rest, root.rest = root.rest, None
        if rest is not None and not rest.is_empty:
            yield from self._leave(root, rest, rest.rest(), written, raw=True, is_last=True)

    def _leaf(self, root: Root) -> Lane:
        lane = Lane(self._rules, self._shape.kind, f"{root.id}/{root.count}", root.model)
        lane.is_repeated = root.count < root.known
        root.count += 1
        return lane

    def _text(self, root: Root, lane: Lane, text: str, written: Written, *, raw: bool) -> Rewriting:
        released = lane.take(text)
        if released:
            yield from self._leave(root, lane, released, written, raw=raw)

    def _leave(
        self,
        root: Root,
        lane: Lane,
        text: str,
        written: Written,
        *,
        raw: bool,
        is_last: bool = False,
    ) -> Rewriting:
        portions = lane.portions(text)
        written.as_json = str if raw else encoded
        for number, portion in enumerate(portions, 1):
            last = is_last and number == len(portions)
            found = written.taken((yield self._shown(lane, portion, last)))
            written.add(written.as_json(found))
            if self.settled is None:
                continue
            if not raw:
                root.shown.append(found)
            if found != portion and self._may_mislead(root, portion, found):
                self.unsure.add(root.id)

    @staticmethod
    def _may_mislead(root: Root, came: str, found: str) -> bool:
        """Whether JSON may be found to begin elsewhere than it did, or not to have ended."""
        if root.stage:
            return root.stage == LOST
        came, found = _difference(came, found)
        return "`" in came or not _WORDS.fullmatch(found)

    def _number(self, lane: Lane, literal: str, written: Written) -> Rewriting:
        plain = number_text(literal)
        written.as_json = _begun
        found = written.taken((yield self._shown(lane, plain, True)))
        written.add(literal if found == plain else f'"{encoded(found)}"')
        if self.settled is not None:
            self.settled.add(found)

    def _shown(self, lane: Lane, portion: str, is_last: bool) -> tuple[Chunk, Piece]:
        chunk = lane.fresh()
        setattr(chunk.payload, self._shape.field, portion)
        before = lane.before
        lane.leave(portion)
        return chunk, Piece(
            portion,
            before,
            self._shape.kind,
            lane.id,
            is_last,
            lane.is_repeated,
            of_object=self._of_object,
        )

    # ── a value that is complete ───────────────────────────────────────────────────────────────

    def rewritten(self, root: Root, value: Any, written: Written) -> Rewriting:
        """The value as hooks leave it: itself, when they change nothing."""
        if isinstance(value, str):
            return (yield from self._rewritten_text(root, value, written))
        if isinstance(value, int | float) and not isinstance(value, bool):
            return (yield from self._rewritten_number(root, value, written))
        if isinstance(value, dict):
            return (yield from self._rewritten_object(root, value, written))  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, list):
            entries, changed = cast("list[Any]", value), False
            made: list[Any] = []
            for entry in entries:
                made.append((yield from self.rewritten(root, entry, written)))
                changed = changed or made[-1] is not entry
            return made if changed else entries
        return value

    def _rewritten_object(self, root: Root, value: dict[str, Any], written: Written) -> Rewriting:
        made: dict[str, Any] = {}
        changed = False
        for key, entry in value.items():
            name = yield from self._rewritten_text(root, key, written)
            made[name] = yield from self.rewritten(root, entry, written)
            changed = changed or name is not key or made[name] is not entry
        return made if changed else value

    def _rewritten_text(self, root: Root, text: str, written: Written) -> Rewriting:
        lane = self._leaf(root)
        if not text or self._is_settled(text):
            return text
        portions = lane.portions(text)
        found: list[str] = []
        for number, portion in enumerate(portions, 1):
            shown = self._shown(lane, portion, number == len(portions))
            found.append(written.taken((yield shown)))
        made = "".join(found)
        return text if made == text else made

    def _rewritten_number(self, root: Root, value: float, written: Written) -> Rewriting:
        lane, plain = self._leaf(root), number_text(value)
        if self._is_settled(plain):
            return value
        found = written.taken((yield self._shown(lane, plain, True)))
        return value if found == plain else found

    def _is_settled(self, text: str) -> bool:
        return self.settled is not None and text in self.settled


def _begun(digits: str) -> str:
    """The beginning of a number of which the rest is not let pass: it is a text."""
    return f'"{encoded(digits)}' if digits else ""


def _difference(one: str, other: str) -> tuple[str, str]:
    """Two texts without what they begin and end with alike."""
    begin = _alike(one, other)
    one, other = one[begin:], other[begin:]
    end = _alike(one[::-1], other[::-1])
    return one[: len(one) - end], other[: len(other) - end]


def _alike(one: str, other: str) -> int:
    """With how many characters two texts begin alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
