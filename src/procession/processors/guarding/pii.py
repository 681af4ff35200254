"""`PIIDetector`: personal data, found locally where that can be done, and judged where it must."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec.structs import replace

from ...detection import METHODS, LocalDetector, redacted
from ...errors import OptionError
from ...hold import Unit
from ..judging.judge import Judge
from ..option_checks import callback, flag, number, one_of, whole
from .pii_found import Finding, PIIDetection, PIIDetectionEvent, PIIDetectionResult, categories_of
from .pii_options import regions_of, text_of, types_of
from .pii_verdict import accepted, in_parts, schema_of, task_of, within
from .portions import Portions
from .regions import merged
from .sightings import Place, Sighting, found_in
from .text_guard import INPUT, STREAM
from .typed_guard import TypedGuard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ...chunks import Chunk
    from ...detection import Method
    from ...hold import Piece, Watch
    from ...model import ModelSpec
    from ...policy import Policy
    from ...processor import ProcessorViolation, ProcessOutputStreamArgs
    from ..in_turn import Work
    from ..judging.budget import JudgeBudget
    from .let_through import Passed
    from .message_leaves import Leaf
    from .regions import Region

__all__ = ["PIIDetector"]

_log = logging.getLogger("procession.processors")

_OWNER = "PIIDetector"
_STRATEGIES = ("block", "warn", "filter", "redact")
_GAP = "\n"
"""What stands between the texts of one message when they are looked at together."""


class PIIDetector(TypedGuard[Finding]):
    """Finds personal data, and redacts it unless told otherwise (B-120 to B-136).

    Types that can be found by their form and checksums are found locally, everywhere: in text,
    reasoning, arguments and results of tools, on both sides, and in a stream however it is cut.
    Types that take judgement (names, postal addresses, dates of birth, and any type of your own)
    are found by a model, in text only.

    - `detection_types`: what to look for. Without it: the ten types that are found locally, and
      with a `model` names, addresses and dates of birth too.
    - `model`: who judges. A model given here judges *all* types of input messages and of the whole
      answer, one call for each message; where it fails, local detection stands in. Without one,
      local types are found locally, and only types that take judgement are judged, by the agent's
      current model (B-021). `False`: no model is ever asked.
    - `threshold`: from which confidence on something counts, 0 to 1, inclusive.
    - `strategy`: `"redact"`, `"block"`, `"filter"` (removes the message, in a stream the sentence),
      `"warn"`.
    - `redaction_method`, `preserve_format`: see `procession.detection.redacted` (B-126).
    - `include_detections`: whether the reason of a block says how many there were.
    - `buffer_size`: in a stream, text is judged sentence by sentence, after so many characters at
      the latest (B-131).
    - `on_detection`: called with a `PIIDetectionEvent`, plain or async (B-127).
    - `tool_results`: look, locally, at what tools give, raise and write in the running request.
    - `regions`: the countries whose national phone numbers are looked for, as two-letter codes.
    - `error_strategy`, `instructions`, `last_message_only`, `max_cost`, `provider_options`,
      `structured_output_options`: as for all judges (B-020 to B-025).

    Needs the extra `guards`. Raises `OptionError`, a `ValueError`, for an option that is none.
    """

    fixed_id = "pii-detector"
    name = "PII Detector"
    subject = "Personal data found"

    def __init__(
        self,
        *,
        model: ModelSpec | Literal[False] | None = None,
        detection_types: Sequence[str] | None = None,
        threshold: float = 0.6,
        strategy: Literal["block", "warn", "filter", "redact"] = "redact",
        redaction_method: Method = "mask",
        preserve_format: bool = True,
        include_detections: bool = False,
        buffer_size: int = 200,
        on_detection: Callable[[PIIDetectionEvent], object] | None = None,
        regions: Sequence[str] | None = None,
        error_strategy: Literal["warn", "strict"] = "warn",
        instructions: str | None = None,
        last_message_only: bool = False,
        max_cost: float | JudgeBudget | None = None,
        tool_results: bool = False,
        provider_options: Mapping[str, Any] | None = None,
        structured_output_options: Mapping[str, Any] | None = None,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(
            strategy=one_of(_OWNER, "strategy", strategy, _STRATEGIES),
            last_message_only=flag(_OWNER, "last_message_only", last_message_only),
            tool_results=flag(_OWNER, "tool_results", tool_results),
            on_violation=on_violation,
            policy=policy,
        )
        self.threshold = number(_OWNER, "threshold", threshold, most=1.0)
        self.redaction_method: Method = cast(
            "Method", one_of(_OWNER, "redaction_method", redaction_method, METHODS)
        )
        self.preserve_format = flag(_OWNER, "preserve_format", preserve_format)
        self.include_detections = flag(_OWNER, "include_detections", include_detections)
        self.buffer_size = whole(_OWNER, "buffer_size", buffer_size, least=1)
        self.on_detection = callback(_OWNER, "on_detection", on_detection)
        local, self._judged = types_of(detection_types, model)
        self._local = LocalDetector(local, regions=regions_of(regions))
        self.detection_types = (*self._local.types, *self._judged)
        self._trusts_model = model is not None and model is not False
        redacts = strategy == "redact"
        asked = self.detection_types if self._trusts_model else self._judged
        if max_cost is not None and not asked:
            raise OptionError(f"{_OWNER}: max_cost is for a judge, and no model is asked here")
        judge = Judge(
            _OWNER,
            task=text_of(instructions) or task_of(asked, redacts=redacts),
            schema=schema_of(asked, redacts=redacts),
            accepts=accepted(),
            model=None if model is False else model,
            error_strategy=error_strategy,
            max_cost=max_cost,
            provider_options=provider_options,
            structured_output_options=structured_output_options,
        )
        self._judge = judge if asked else None
        self.watches = self._watches()
        self.only_matches = not self._judged
        if not self._judged:  # earlier chunks are kept for those who hand on what they are told
            self.process_output_stream = super().process_output_stream

    def _watches(self) -> list[Watch]:
        watches: list[Watch] = [self._local] if self._local.types else []
        if self._judged:
            watches.append(Portions(self.buffer_size))
        elif self.strategy == "filter" or (self.strategy == "block" and self._trusts_model):
            watches.append(Unit("sentence"))
        return watches

    # ── finding ────────────────────────────────────────────────────────────────────────────────

    def find(self, text: str, start: int = 0) -> list[Finding]:
        """What is found locally from `start` on (B-129)."""
        return [
            Finding(found.type, found.start, found.end, found.confidence)
            for found in self._local.find(text, start)
            if found.confidence >= self.threshold
        ]

    def look(
        self, args: Any, place: Place, leaves: Sequence[Leaf]
    ) -> Work[list[Sequence[Finding]]]:
        """What there is in a message: of its text what the judge says, if there is one to ask."""
        said = [index for index, leaf in enumerate(leaves) if leaf.is_said]
        text = _GAP.join(leaves[index].text for index in said)
        verdict: list[Finding] | None = None
        if text.strip() and self._judge is not None and not self._has_judged(args, place, leaves):
            verdict = yield self._judgement(args, place, text)
        trusted = self._trusts_model and verdict is not None
        found: list[Sequence[Finding]] = [
            [] if trusted and leaf.is_said else self.find(leaf.text) for leaf in leaves
        ]
        sizes = [len(leaves[index].text) for index in said]
        for index, more in zip(said, in_parts(verdict or (), sizes, len(_GAP)), strict=True):
            found[index] = [*found[index], *more]
        return found

    def unsettled(
        self, leaf: Leaf, found: Sequence[Finding], passed: Passed | None
    ) -> list[Region[Finding]]:
        """What is left to do about a text; a model of one's own has read what was let through."""
        if passed is not None and self._trusts_model and leaf.is_said:
            return passed.unsettled(merged(found))
        return super().unsettled(leaf, found, passed)

    def _has_judged(self, args: Any, place: Place, leaves: Sequence[Leaf]) -> bool:
        """Whether the texts were judged as they went by."""
        if self._trusts_model or place.phase == INPUT:
            return False
        known = self.let_through(args.state).texts()
        return all(leaf.text in known for leaf in leaves if leaf.is_said)

    async def _judgement(self, args: Any, place: Place, text: str) -> list[Finding] | None:
        assert self._judge is not None
        about = {"processor_id": self.id, "strategy": self.strategy, **place.named()}
        verdict = await self._judge.ask(args, text, about)
        if verdict is None:
            return None
        all_types = self._trusts_model and place.phase != STREAM
        types = self.detection_types if all_types else self._judged
        return within(verdict, text, types, self.threshold)

    # ── the stream ─────────────────────────────────────────────────────────────────────────────

    def process_output_stream(self, args: ProcessOutputStreamArgs[Any]) -> Any:
        """Find locally; text that has to be judged comes in sentences (B-131)."""
        piece = args.piece
        if not self._judged or piece is None or piece.kind != "text" or not piece.text.strip():
            return super().process_output_stream(args)
        return self._judged_piece(args, piece)

    async def _judged_piece(self, args: ProcessOutputStreamArgs[Any], piece: Piece) -> Chunk | None:
        before, place = len(piece.before), Place(STREAM)
        text = piece.before + piece.text
        found = self.find(text, before)
        for one in await self._judgement(args, place, piece.text) or ():
            found.append(replace(one, start=one.start + before, end=one.end + before))
        outcome = self.weighed(piece, self.let_through(args.state).lane(piece), found)
        if outcome is None:
            waiting = self.noticed(place, [Sighting(text, [])])
            if waiting is not None:
                await waiting
            return args.part
        part: Chunk | None = args.part
        if outcome.text != piece.text:
            part = args.with_text(outcome.text) if outcome.keeps_place else None
        return await outcome.after(part)

    def harmless(self, piece: Piece, regions: Sequence[Region[Finding]]) -> str:
        """What of a piece is delivered before a block: where models judge, sentences are refused
        as a whole."""
        if self._judge is not None:
            return ""
        return super().harmless(piece, regions)

    # ── telling ────────────────────────────────────────────────────────────────────────────────

    def replacement(self, region: Region[Finding], text: str) -> str:
        """What the redaction method makes of a value; what is found in a rewritten text is redacted
        too."""
        best = region.longest
        if best.replacement is not None:
            return self.redacted_text(best.replacement)
        if not text:
            _log.warning("%s: a text holds %s, nobody knows where: it stays", self.id, best.type)
            return ""
        return redacted(
            best.type, text, self.redaction_method, preserve_format=self.preserve_format
        )

    def count(self, sightings: Sequence[Sighting[Finding]]) -> int:
        """How many values there are; an empty finding only says that there is one."""
        regions = [region for sighting in sightings for region in sighting.regions]
        return sum(region.start < region.end for region in regions)

    def noticed(self, place: Place, seen: Sequence[Sighting[Finding]]) -> Awaitable[None] | None:
        """Tell `on_detection` (B-127)."""
        if self.on_detection is None:
            return None
        detections: list[PIIDetection] = []
        begin = 0
        for sighting in seen:
            detections += self._detections(sighting, begin)
            begin += len(sighting.text) + len(_GAP)
        flagged = any(sighting.regions for sighting in seen)
        result = PIIDetectionResult(categories_of(found_in(seen)), detections)
        text = _GAP.join(sighting.text for sighting in seen)
        applied = self.strategy_at(place) if flagged else "none"
        return self.tell("on_detection", PIIDetectionEvent(result, text, flagged, applied))

    def _detections(self, sighting: Sighting[Finding], begin: int) -> list[PIIDetection]:
        return [
            PIIDetection(
                type=region.longest.type,
                value=value,
                confidence=region.longest.confidence,
                start=begin + region.start,
                end=begin + region.end,
                redacted_value=self.replacement(region, value),
            )
            for region in sighting.regions
            if (value := sighting.text[region.start : region.end])
        ]
