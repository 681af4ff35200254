"""Guards that find regions in plain text, and block, replace, report or take out what holds them.

A guard says what it finds, and what replaces it; where texts come from, and what becomes of them
under each strategy (B-032 to B-034), is here.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

from msgspec.structs import replace

from ...chunks import BlockPayload
from ...errors import TripWire
from ...logs import log_fields
from ..builtin import BuiltIn
from ..in_turn import Work, done
from .let_through import LetThrough
from .message_leaves import leaves_of, with_leaves
from .object_leaves import TakenApart
from .regions import Found, Region, merged, replaced
from .sightings import Outcome, Place, Sighting
from .tool_outcomes import ToolOutcomes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ...chunks import Chunk
    from ...hold import Piece
    from ...hook_args import ProcessInputArgs, ProcessOutputResultArgs, ProcessOutputStreamArgs
    from ...messages import Message
    from ...policy import Policy
    from ...processor import ProcessorViolation
    from .let_through import Lane, Passed
    from .message_leaves import Leaf

__all__ = ["INPUT", "RESULT", "STREAM", "TextGuard"]

_log = logging.getLogger("procession.processors")

F = TypeVar("F", bound=Found)

INPUT, STREAM, RESULT = "process_input", "process_output_stream", "process_output_result"
LANES = ("text", "reasoning", "tool-arguments")


class _Abort(Protocol):
    def __call__(self, reason: str, *, metadata: Any) -> NoReturn: ...


class TextGuard(BuiltIn, ABC, Generic[F]):
    """Base of the guards. `strategy` is `block`, `redact`, `warn` or `filter`."""

    lanes = LANES

    def __init__(
        self,
        *,
        strategy: str,
        phases: tuple[str, ...] = (INPUT, STREAM, RESULT),
        last_message_only: bool = False,
        tool_results: bool = False,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=on_violation, policy=policy)
        self.strategy = strategy
        self.last_message_only = last_message_only
        self.tool_results = tool_results
        self._phases = phases
        self._tools = ToolOutcomes(self)
        if tool_results:  # the engine looks for what an object has: without the option, nothing
            self.process_tool_result = self._tools.process_tool_result
            self.process_data_parts = True

    # ── what a guard says ──────────────────────────────────────────────────────────────────────

    @abstractmethod
    def find(self, text: str, start: int = 0) -> Sequence[F]:
        """What there is in the text from `start` on; what stands before it is context."""

    @abstractmethod
    def replacement(self, region: Region[F], text: str) -> str:
        """What takes the place of a region, whose text is `text`."""

    @abstractmethod
    def reason(self, sightings: Sequence[Sighting[F]]) -> str:
        """Why the run is blocked, in words for people, without what was found (B-031)."""

    @abstractmethod
    def block_metadata(self, place: Place, sightings: Sequence[Sighting[F]]) -> dict[str, Any]:
        """What the tripwire carries; it reaches clients (B-007)."""

    @abstractmethod
    def detail(self, place: Place, sightings: Sequence[Sighting[F]]) -> dict[str, Any]:
        """What `on_violation` is told when the run goes on (B-006)."""

    def apart(self, leaves: Sequence[Leaf]) -> list[tuple[int | None, Sequence[int]]]:
        """Which leaves of a message are reported together, and as which part: here all of them,
        as the message (B-006)."""
        return [(None, range(len(leaves)))]

    def look(self, args: Any, place: Place, leaves: Sequence[Leaf]) -> Work[list[Sequence[F]]]:
        """What there is in the texts of a message, leaf by leaf."""
        return [self.find(leaf.text) for leaf in leaves]
        yield  # a guard that asks someone waits here

    def noticed(self, place: Place, seen: Sequence[Sighting[F]]) -> Awaitable[None] | None:
        """Hears of each text that was looked at, in a stream of those in which something is; what
        is to be waited for."""
        return None

    # ── messages ───────────────────────────────────────────────────────────────────────────────

    def process_input(self, args: ProcessInputArgs[Any]) -> Any:
        """Look at every text of the messages that a model is about to get."""
        if INPUT not in self._phases:
            return None
        return done(self._messages(args, INPUT, {}))

    def process_output_result(self, args: ProcessOutputResultArgs[Any]) -> Any:
        """Look at what the stream did not bring: what others have added or changed since."""
        if RESULT not in self._phases:
            return None
        passed = self.let_through(args.state)
        return done(self._messages(args, RESULT, passed.texts(), apart=passed.has_objects))

    def _messages(
        self, args: Any, phase: str, settled: Mapping[str, Passed], *, apart: bool = False
    ) -> Work[list[Message] | None]:
        given: list[Message] = args.messages
        checked = given[-1:] if self.last_message_only else given  # B-023
        kept: list[Message] = given[: len(given) - len(checked)]
        for message in checked:
            made = yield from self._message(args, message, phase, settled, apart)
            if made is not None:
                kept.append(made)
        same = len(kept) == len(given) and all(a is b for a, b in zip(kept, given, strict=True))
        return None if same else kept

    def _message(
        self, args: Any, message: Message, phase: str, settled: Mapping[str, Passed], apart: bool
    ) -> Work[Message | None]:
        """The message as it goes on; `None`: it does not. `apart`: look at JSON by its leaves."""
        whole = phase == INPUT  # what tools gave is input, never an answer
        known = leaves_of(message, results=whole)
        if not known:
            return message
        pieces = TakenApart(known, settled if apart else None)
        leaves = pieces.leaves
        found = yield from self.look(args, Place(phase, message.id), leaves)
        seen = [
            Sighting(leaf.text, self.unsettled(leaf, there, settled.get(leaf.text)))
            for leaf, there in zip(leaves, found, strict=True)
        ]
        is_remembered = phase == INPUT and self._is_remembered(args, message, seen)
        place = Place(phase, message.id, is_remembered=is_remembered)
        waiting = self.noticed(place, seen)
        if waiting is not None:
            yield waiting
        if not any(sighting.regions for sighting in seen):
            return message
        for part, group in self.apart(leaves):
            together = [seen[i] for i in group if seen[i].regions]
            if together:
                yield from self._tell(args.abort, replace(place, part_index=part), together)
        strategy = self.strategy_at(place)
        if strategy == "filter":
            return None
        if strategy != "redact":
            return message
        texts = pieces.joined(
            [replaced(sight.text, sight.regions, self.replacement) for sight in seen]
        )
        said = [number for number, leaf in enumerate(known) if leaf.is_said]
        before = "".join(known[number].text for number in said)
        after = "".join(texts[number] for number in said)

        def change_flat(flat: str) -> str:
            return after if flat == before else self.redacted_text(flat)

        return with_leaves(message, iter(texts), change_flat, results=whole)

    def unsettled(self, leaf: Leaf, found: Sequence[F], passed: Passed | None) -> list[Region[F]]:
        """What is left to do about a text. Where the stream has changed it, it was looked at as it
        came: what is found in it now was made by the replacements, and the client has it so."""
        if passed is None:
            return merged(found)
        if passed.came is None:
            return passed.unsettled(merged(found))
        return passed.missed(self.regions(passed.came))

    def strategy_at(self, place: Place) -> str:
        """What is done there. Under `block` what is remembered is redacted: it would block each
        later request as well, and nobody could do anything about it (G-C4)."""
        return "redact" if self.strategy == "block" and place.is_remembered else self.strategy

    def _is_remembered(self, args: Any, message: Message, seen: Sequence[Sighting[F]]) -> bool:
        if self.strategy != "block" or not any(sighting.regions for sighting in seen):
            return False
        return args.message_list.source_of(message.id) == "memory"

    def regions(self, text: str) -> list[Region[F]]:
        """What is found in a text that stands alone."""
        return merged(self.find(text))

    def redacted_text(self, text: str) -> str:
        """A text with all that is found in it replaced."""
        return replaced(text, self.regions(text), self.replacement)

    def _tell(self, abort: _Abort, place: Place, seen: Sequence[Sighting[F]]) -> Work[None]:
        if self.strategy_at(place) == "block":
            abort(self.reason(seen), metadata=self.block_metadata(place, seen))
        waiting = self.reported(place, seen)
        if waiting is not None:
            yield waiting

    def verdict(self, place: Place, seen: Sequence[Sighting[F]]) -> TripWire:
        """The abort that a block is, for those that cannot raise it themselves."""
        metadata = self.block_metadata(place, seen)
        return TripWire(self.reason(seen), metadata=metadata, processor_id=self.id)

    def reported(self, place: Place, seen: Sequence[Sighting[F]]) -> Awaitable[None] | None:
        """Tell of what was found and let go on; what is to be waited for."""
        reason = self.reason(seen)
        if self.strategy == "warn":
            fields = log_fields(self.id)
            _log.warning("%s, in %s: %s", self.id, place.phase, reason, extra=fields)
        return self.report(reason, self.detail(place, seen))

    # ── the stream ─────────────────────────────────────────────────────────────────────────────

    # Nothing that it calls is handed `args`: the engine keeps earlier chunks for those who may ask.
    def process_output_stream(self, args: ProcessOutputStreamArgs[Any]) -> Any:
        """Look at a piece of text that no match reaches out of, with what came before it."""
        if STREAM not in self._phases:
            return args.part
        piece = args.piece
        part: Chunk | None = args.part
        if piece is None:
            if not self._tools.looks_at(args.part):
                return self._passed_by(args.part, args.state)
            part, outcome = self._tools.passed(args.part, args.message_list)
        else:
            lane = self.let_through(args.state).lane(piece)
            found = self.find(piece.before + piece.text, len(piece.before))
            outcome = self.weighed(piece, lane, found)
            if outcome is not None and outcome.text != piece.text:
                part = args.with_text(outcome.text) if outcome.keeps_place else None
        if outcome is None:
            return part
        if outcome.waits:
            return outcome.after(part)
        if outcome.wire is not None:
            wire = outcome.wire
            args.abort(wire.reason, metadata=wire.metadata, passing=part)
        return part

    def weighed(self, piece: Piece, lane: Lane, found: Sequence[F]) -> Outcome | None:
        """What becomes of a piece; `None`: nothing was found, and it goes on as it is."""
        offset = lane.come - len(piece.before)
        lane.come += len(piece.text)
        if not found:
            lane.let(piece.text)
            return None
        seen = Sighting(piece.before + piece.text, merged(found), offset)
        waits = [] if lane.is_known else [self.noticed(Place(STREAM), [seen])]
        if self.strategy == "block":
            first = [Sighting(seen.text, seen.regions[:1], offset)]
            wire = self.verdict(Place(STREAM), first)
            before = self.harmless(piece, seen.regions)
            return Outcome(before, bool(before), [wait for wait in waits if wait], wire)
        text = self._let_through(piece, seen, lane)
        if not lane.is_known:
            waits.append(self.reported(Place(STREAM), [seen]))
        return Outcome(text, bool(text), [wait for wait in waits if wait])

    def harmless(self, piece: Piece, regions: Sequence[Region[F]]) -> str:
        """What of a piece is delivered before a block: what stands before the first region; nothing
        if it is not known where one is."""
        if any(region.start == region.end for region in regions):
            return ""
        return piece.text[: max(0, regions[0].start - len(piece.before))]

    def _let_through(self, piece: Piece, sighting: Sighting[F], lane: Lane) -> str:
        """What is left of a piece; under `filter` a piece is a sentence, and all of it goes."""
        at = len(piece.before)
        came = lane.come - len(sighting.text)  # where the sighting's text begins in what came
        size = lane.length
        if self.strategy == "filter":
            lane.settled.append((size, size))
            lane.origins.append((came + at, lane.come))
            lane.let("", piece.text)
            return ""
        pieces: list[str] = []
        for region in sighting.regions:
            kept = sighting.text[region.start : region.end]
            made = kept if self.strategy == "warn" else self.replacement(region, kept)
            pieces += sighting.text[at : region.start], made
            begin = size + region.start - at
            size = begin + len(made)
            lane.settled.append((begin, size))
            lane.origins.append((came + region.start, came + region.end))
            at = region.end
        text = "".join([*pieces, sighting.text[at:]])
        lane.let(text, piece.text)
        return text

    def _passed_by(self, part: Chunk, state: dict[str, Any]) -> Chunk:
        if not self.let_through(state).pass_by(part):
            return part
        # A signature vouches for words that nobody gets.
        bare = copy(part)
        bare.payload = BlockPayload(id=part.payload.id)
        return bare

    def let_through(self, state: dict[str, Any]) -> LetThrough:
        """What this guard has let through of the stream of a run."""
        # The state is shared by all that have the same id; what was let through is not.
        key = f"__seen-{id(self):x}"
        seen = state.get(key)
        if seen is None:
            seen = state[key] = LetThrough()
        return seen
