"""`SystemPromptScrubber`: answers do not give away what the model was told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec.structs import replace

from ...errors import OptionError
from ...hold import Unit
from ..judging.judge import Judge
from ..judging.judged_messages import GAP
from ..option_checks import callback, flag, one_of, text_or_none
from .pii_found import Finding
from .pii_verdict import in_parts
from .regex_rules import RegexRule, RuleSet, compiled
from .regions import merged
from .scrubber_verdict import accepted, disclosures, schema_of, task_of
from .sightings import Place
from .text_guard import LANES, RESULT, STREAM
from .typed_guard import TypedGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...chunks import Chunk
    from ...hold import Piece, Watch
    from ...hook_args import ProcessOutputStreamArgs
    from ...messages import Message
    from ...model import ModelSpec
    from ...policy import Policy
    from ...processor import ProcessorViolation
    from ..in_turn import Work
    from ..judging.budget import JudgeBudget
    from .let_through import Passed, Span
    from .message_leaves import Leaf
    from .regex_rules import CompiledRule
    from .regions import Region

__all__ = ["SystemPromptScrubber"]

_OWNER = "SystemPromptScrubber"
_STRATEGIES = ("block", "warn", "filter", "redact")
_METHODS = ("mask", "placeholder", "remove")
_GRANULARITIES = ("delta", "sentence", "part", "step", "end")
_CARRYOVER = 128
"""Of a pattern whose matches have no longest one, so many characters are held back at most."""


class SystemPromptScrubber(TypedGuard[Finding]):
    """Finds where an answer gives away its instructions, and redacts it (B-190 to B-197).

    A model looks at the text of the answer; patterns of yours are matched locally, in text,
    reasoning and the arguments of tool calls. Only messages of the assistant are looked at.

    - `model`: who judges; without one the agent's current model (B-021).
    - `strategy`: `"redact"`, `"block"`, `"filter"` (removes the message, in a stream the piece),
      `"warn"`.
    - `custom_patterns`: regular expressions in the syntax of RE2. In a stream a match is found
      however it is cut, and nothing of it leaves (B-194).
    - `redaction_method`: `"mask"` (as many asterisks), `"placeholder"`, `"remove"` (B-192);
      `placeholder_text` is what stands for a `"placeholder"`.
    - `granularity`: how much of a stream is judged with one call: each `"delta"` as it comes, or a
      `"sentence"`, a `"part"`, a `"step"`, or at the `"end"` of a step all that was said in the
      run. Nothing leaves before it was judged. See `procession.hold.Unit`.
    - `include_detections`: whether the reason of a block says how many places there were.
    - `error_strategy`, `instructions`, `last_message_only`, `max_cost`,
      `structured_output_options`: as for
      all judges (B-020 to B-025).

    The whole answer is judged once more when it is complete (B-193), unless it was one piece of
    that granularity. With `custom_patterns` it needs the extra `guards`. Raises `OptionError`, a
    `ValueError`, for an option that is none, and for a pattern that linear time cannot do.
    """

    fixed_id = "system-prompt-scrubber"
    subject = "Instructions of the model disclosed"
    process_input: Any = None  # what users say is not scrubbed (B-196)

    def __init__(
        self,
        *,
        model: ModelSpec | None = None,
        strategy: Literal["block", "warn", "filter", "redact"] = "redact",
        custom_patterns: Sequence[str] = (),
        redaction_method: Literal["mask", "placeholder", "remove"] = "mask",
        placeholder_text: str = "[SYSTEM_PROMPT]",
        granularity: Literal["delta", "sentence", "part", "step", "end"] = "delta",
        include_detections: bool = False,
        error_strategy: Literal["warn", "strict"] = "warn",
        instructions: str | None = None,
        last_message_only: bool = False,
        max_cost: float | JudgeBudget | None = None,
        structured_output_options: Mapping[str, Any] | None = None,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(
            strategy=one_of(_OWNER, "strategy", strategy, _STRATEGIES),
            phases=(STREAM, RESULT),
            last_message_only=flag(_OWNER, "last_message_only", last_message_only),
            on_violation=callback(_OWNER, "on_violation", on_violation),
            policy=policy,
        )
        rules = _rules(custom_patterns)
        self._rules = RuleSet(rules) if rules else None
        self.redaction_method = one_of(_OWNER, "redaction_method", redaction_method, _METHODS)
        self.placeholder_text = text_or_none(_OWNER, "placeholder_text", placeholder_text) or ""
        self.granularity = one_of(_OWNER, "granularity", granularity, _GRANULARITIES)
        self.include_detections = flag(_OWNER, "include_detections", include_detections)
        redacts = strategy == "redact"
        sources = [rule.source for rule in rules]
        self._judge = Judge(
            _OWNER,
            task=text_or_none(_OWNER, "instructions", instructions)
            or task_of(sources, redacts=redacts),
            schema=schema_of(redacts=redacts),
            accepts=accepted(),
            model=model,
            error_strategy=error_strategy,
            max_cost=max_cost,
            structured_output_options=structured_output_options,
        )
        patterns: list[Watch] = [rule.watch(_CARRYOVER) for rule in rules]
        self.watches = [*patterns, Unit(granularity)]
        self.lanes = LANES if patterns else ("text",)

    # ── finding ────────────────────────────────────────────────────────────────────────────────

    def find(self, text: str, start: int = 0) -> list[Finding]:
        """What the patterns match from `start` on (B-194)."""
        if self._rules is None:
            return []
        return [Finding("custom", hit.start, hit.end) for hit in self._rules.hits(text, start)]

    def look(
        self, args: Any, place: Place, leaves: Sequence[Leaf]
    ) -> Work[list[Sequence[Finding]]]:
        """What there is in a message: the matches, and of what it says what the judge finds."""
        settled = self.let_through(args.state).texts()
        found: list[list[Finding]] = [
            [
                one
                for one in self.find(leaf.text)
                if not any(a <= one.end and one.start <= b for a, b in _spans(settled, leaf))
            ]
            for leaf in leaves
        ]
        said = [number for number, leaf in enumerate(leaves) if leaf.is_said]
        text = GAP.join(leaves[number].text for number in said)
        if not text.strip() or self._is_decided(any(found)) or text in self._judged(args.state):
            return cast("list[Sequence[Finding]]", found)
        judged = yield self._judgement(args, place, text)
        sizes = [len(leaves[number].text) for number in said]
        for number, more in zip(said, in_parts(judged or (), sizes, len(GAP)), strict=True):
            spans = _spans(settled, leaves[number])
            found[number] += [one for one in more if not _is_within(one, spans)]
        return cast("list[Sequence[Finding]]", found)

    def _is_decided(self, is_found: bool) -> bool:
        """Whether a match alone tells what becomes of a text: then nobody is asked."""
        return is_found and self.strategy in ("block", "filter")

    async def _judgement(self, args: Any, place: Place, text: str) -> list[Finding] | None:
        about = {"processor_id": self.id, "strategy": self.strategy, **place.named()}
        verdict = await self._judge.ask(args, text, about)
        return None if verdict is None else disclosures(verdict, text)

    def _message(
        self, args: Any, message: Message, phase: str, settled: Mapping[str, Passed], apart: bool
    ) -> Work[Message | None]:
        if message.role != "assistant":  # B-196
            return message
        return (yield from super()._message(args, message, phase, settled, apart))

    def unsettled(
        self, leaf: Leaf, found: Sequence[Finding], passed: Passed | None
    ) -> list[Region[Finding]]:
        """What is left to do about a text. The judge sees more in the whole than it saw in the
        pieces; only reports are not repeated."""
        regions = merged(found)
        return regions if passed is None or self.strategy != "warn" else passed.unsettled(regions)

    # ── the stream ─────────────────────────────────────────────────────────────────────────────

    def process_output_stream(self, args: ProcessOutputStreamArgs[Any]) -> Any:
        """Look at a piece of the answer before it leaves; text is judged (B-193)."""
        piece = args.piece
        if piece is None or piece.kind != "text" or not piece.text.strip():
            return super().process_output_stream(args)
        return self._piece(args, piece)

    async def _piece(self, args: ProcessOutputStreamArgs[Any], piece: Piece) -> Chunk | None:
        part: Chunk | None = args.part
        before = len(piece.before)
        found = self.find(piece.before + piece.text, before)
        judged: list[Finding] | None = None
        if not self._is_decided(bool(found)):
            context = piece.before if self.granularity == "end" else ""
            judged = await self._judgement(args, Place(STREAM), context + piece.text)
            found += _behind(judged or (), len(context), before)
        outcome = self.weighed(piece, self.let_through(args.state).lane(piece), found)
        if judged is not None and self.granularity not in ("delta", "sentence"):
            self._judged(args.state).add(piece.text if outcome is None else outcome.text)
        if outcome is None:
            return part
        if outcome.text != piece.text:
            part = args.with_text(outcome.text) if outcome.keeps_place else None
        return await outcome.after(part)

    def _judged(self, state: dict[str, Any]) -> set[str]:
        """Texts that were judged in one piece, as they went on."""
        # The state is shared by all that have the same id.
        found: set[str] = state.setdefault(f"__judged-{id(self):x}", set())
        return found

    # ── telling ────────────────────────────────────────────────────────────────────────────────

    def replacement(self, region: Region[Finding], text: str) -> str:
        """What takes the place of a disclosure (B-192)."""
        rewritten = region.longest.replacement
        if rewritten is not None:
            return self.redacted_text(rewritten)
        if self.redaction_method == "mask":
            return "*" * len(text)
        return self.placeholder_text if self.redaction_method == "placeholder" else ""


def _rules(patterns: Any) -> list[CompiledRule]:
    if isinstance(patterns, str) or not isinstance(patterns, Iterable):
        raise OptionError(f"{_OWNER}: custom_patterns must be a list of regular expressions")
    given = list(cast("Iterable[Any]", patterns))
    return compiled(
        _OWNER,
        [RegexRule(f"custom_patterns[{number}]", one) for number, one in enumerate(given)],
    )


def _behind(found: Iterable[Finding], context: int, before: int) -> list[Finding]:
    """What was found in a context and a piece, as places in `piece.before + piece.text`: of what
    has left already, nothing can be taken back, and nothing is said again."""
    moved = before - context
    return [
        replace(
            one,
            start=max(one.start + moved, before),
            end=one.end + moved,
            replacement=None if one.start < context else one.replacement,
        )
        for one in found
        if one.end > context
    ]


def _spans(settled: Mapping[str, Passed], leaf: Leaf) -> Sequence[Span]:
    """Where in a text the stream has dealt with something."""
    passed = settled.get(leaf.text)
    return () if passed is None else passed.settled


def _is_within(one: Finding, spans: Sequence[Span]) -> bool:
    return any(start <= one.start and one.end <= end for start, end in spans)
