"""`RegexFilterProcessor`: rules that are regular expressions, in linear time, on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ...errors import OptionError
from ..option_checks import flag, names, one_of, whole
from .preset_watch import PresetWatch
from .regex_presets import PRESETS
from .regex_rules import CompiledRule, Hit, RegexRule, RuleSet, compiled
from .text_guard import INPUT, RESULT, STREAM, TextGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...policy import Policy
    from ...processor import ProcessorViolation
    from .message_leaves import Leaf
    from .regions import Region
    from .sightings import Place, Sighting

__all__ = ["RegexFilterProcessor"]

_OWNER = "RegexFilterProcessor"
_PHASES = {
    "input": (INPUT,),
    "output": (STREAM, RESULT),
    "all": (INPUT, STREAM, RESULT),
}


class RegexFilterProcessor(TextGuard[Hit]):
    """Blocks, replaces or reports what its rules match, without a model (B-230 to B-239).

    Rules match independently of each other; matches that overlap become one region, which is
    replaced once, by the replacement of the longest (B-233). Text, reasoning and the arguments of
    tool calls are looked at, on the input side also what tools have given. In a stream a match is
    found however it is cut, and nothing of it is delivered (B-236, B-237).

    - `rules`: `RegexRule`s, or mappings with their fields.
    - `presets`: `"pii"`, `"secrets"`, `"urls"`: rules of ours (B-231).
    - `strategy`: `"block"` aborts and asks for no retry, `"redact"` replaces, `"warn"` reports.
    - `phase`: `"input"`, `"output"` or `"all"`; the hooks of the other side do nothing (B-238).
    - `last_message_only`: look at the last message of a request, and of the answer, only (B-023).
    - `tool_results`: look at what tools give, raise and write in the running request, too.
    - `include_redacted_values`: whether `on_violation` is told what was replaced.
    - `stream_carryover_size`: of a rule whose matches have no longest one, so many characters that
      are not yet a match are held back at most; rules with a longest match need no limit (B-236).

    Needs the extra `guards`. Raises `OptionError`, a `ValueError`, for an option that is none, for
    a pattern that linear time cannot do, and when there is nothing to look for (B-230).
    """

    only_matches = True
    fixed_id = "regex-filter"
    name = "Regex Filter"

    def __init__(
        self,
        *,
        rules: Sequence[RegexRule | Mapping[str, Any]] = (),
        presets: Sequence[Literal["pii", "secrets", "urls"]] = (),
        strategy: Literal["block", "redact", "warn"] = "block",
        phase: Literal["input", "output", "all"] = "all",
        last_message_only: bool = False,
        tool_results: bool = False,
        include_redacted_values: bool = False,
        stream_carryover_size: int = 128,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        chosen = names(_OWNER, "presets", presets, PRESETS)
        phases = _PHASES[one_of(_OWNER, "phase", phase, _PHASES)]
        super().__init__(
            strategy=one_of(_OWNER, "strategy", strategy, ("block", "redact", "warn")),
            phases=phases,
            last_message_only=flag(_OWNER, "last_message_only", last_message_only),
            tool_results=_results(tool_results, phases),
            on_violation=on_violation,
            policy=policy,
        )
        own = [rule for preset in chosen for rule in PRESETS[preset]]
        found = compiled(_OWNER, own) + compiled(_OWNER, rules)
        if not found:
            raise OptionError(
                f"{_OWNER}: give rules, presets or both: there is nothing to look for"
            )
        self.include_redacted_values = flag(
            _OWNER, "include_redacted_values", include_redacted_values
        )
        self.stream_carryover_size = whole(
            _OWNER, "stream_carryover_size", stream_carryover_size, least=1
        )
        self._rules = RuleSet(found)
        self.watches = self._watches(found, len(own), chosen) if STREAM in phases else ()

    def _watches(self, rules: Sequence[CompiledRule], own: int, chosen: Sequence[str]) -> list[Any]:
        """What holds the stream back: the presets' rules as one, each of the others."""
        patterns = [rule.watch(self.stream_carryover_size) for rule in rules]
        presets = PresetWatch(patterns[:own], holds_words="pii" in chosen) if own else None
        return [*([presets] if presets else []), *patterns[own:]]

    def find(self, text: str, start: int = 0) -> list[Hit]:
        """All matches of all rules that begin at `start` or later."""
        return self._rules.hits(text, start)

    def replacement(self, region: Region[Hit], text: str) -> str:
        """That of the longest match; what it takes from groups is for a match alone (B-232)."""
        longest = region.longest
        return longest.replacement if len(region.found) == 1 else longest.rule.plain_replacement

    def apart(self, leaves: Sequence[Leaf]) -> list[tuple[int | None, Sequence[int]]]:
        """Each part is reported by itself (B-235)."""
        groups: dict[int | None, list[int]] = {}
        for number, leaf in enumerate(leaves):
            groups.setdefault(leaf.part_index, []).append(number)
        return list(groups.items())

    def reason(self, sightings: Sequence[Sighting[Hit]]) -> str:
        """The names of the rules (B-234)."""
        rules = dict.fromkeys(hit.rule.name for hit in _hits(sightings))
        return f"Text matched by a rule: {', '.join(rules)}"

    def block_metadata(self, place: Place, sightings: Sequence[Sighting[Hit]]) -> dict[str, Any]:
        """Which rule matched, and where; never what (B-234)."""
        where = {} if place.tool_call_id is None else place.named()
        return {
            "processor_id": self.id,
            "matches": _matches(sightings),
            "strategy": "block",
            **where,
        }

    def detail(self, place: Place, sightings: Sequence[Sighting[Hit]]) -> dict[str, Any]:
        """What was matched where, and replaced by what (B-235)."""
        named = {"strategy": self.strategy_at(place), **place.named()}
        if self.strategy == "warn":
            return {**named, "matches": _matches(sightings)}
        return {
            **named,
            "redactions": [
                self._redaction(sighting, region)
                for sighting in sightings
                for region in sighting.regions
            ],
        }

    def _redaction(self, sighting: Sighting[Hit], region: Region[Hit]) -> dict[str, Any]:
        text = sighting.text[region.start : region.end]
        told: dict[str, Any] = {
            "rule": region.longest.rule.name,
            "index": sighting.offset + region.start,
            "length": len(text),
            "replacement": self.replacement(region, text),
        }
        rules = list(dict.fromkeys(hit.rule.name for hit in region.found))
        if len(rules) > 1:
            told["overlapping_rules"] = rules
        if self.include_redacted_values:
            told["value"] = text
        return told


def _results(given: Any, phases: tuple[str, ...]) -> bool:
    wanted = flag(_OWNER, "tool_results", given)
    if wanted and STREAM not in phases:
        raise OptionError(
            f"{_OWNER}: tool_results is for the output side: phase must be 'output' or 'all'"
        )
    return wanted


def _hits(sightings: Sequence[Sighting[Hit]]) -> list[Hit]:
    return [hit for s in sightings for region in s.regions for hit in region.found]


def _matches(sightings: Sequence[Sighting[Hit]]) -> list[dict[str, Any]]:
    return [
        {"rule": hit.rule.name, "match": "[REDACTED_MATCH]", "index": sighting.offset + hit.start}
        for sighting in sightings
        for hit in _hits([sighting])
    ]
