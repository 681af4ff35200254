"""The presets' rules as one watch: what it passes at a glance is what the rules let go of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession.detection import LocalDetector
from procession.processors import PIIDetector, RegexFilterProcessor
from procession.processors.guarding.preset_watch import PLAIN, PresetWatch
from procession.processors.guarding.regex_presets import PRESETS
from procession.processors.guarding.regex_rules import RuleSet, compiled
from tests.laws.kit import run_async
from tests.processors.guarding import check_redacted, check_warned, cut_at

if TYPE_CHECKING:
    from collections.abc import Callable

RULES = compiled("test", [rule for preset in PRESETS.values() for rule in preset])
WATCH = PresetWatch([rule.watch(128) for rule in RULES], holds_words=True)
FOUND = RuleSet(RULES)
WORDS = [
    *("the", "Api", "api", "key", "apikey", "API-KEY:", "bearer", "Bearer ", "abc.def1234"),
    *("sk-", "sk_live_", "AKIA", "IOSFODNN7EXAMPLE", "xoxb-", "abcdefghij", "AIza", "ghp_"),
    *("https://", "http", "//", "a.b", "x.com", "joe", "Q" * 16, "a1b2c3d4e5f6g7h8", "don't"),
    *("1", "12", "123", "1234", "0", "00", "555", "867", "5309", "(12", "(a", "3.5%", "$1,200 "),
    *(" ", "  ", "\n", "\t", "\u00a0", "\u200b", "é", "漢", "。", "“", '"', "'", "=", ": ", ":"),
    *("@", "+", "(", ")", "-", ".", ",", "_", "%", "/"),
]
texts = st.lists(st.sampled_from(WORDS), max_size=12).map("".join)


@settings(max_examples=500, deadline=None)
@given(text=texts, more=texts)
def test_nothing_is_found_at_a_glance(text: str, more: str) -> None:
    """B-236: no match begins in what leaves at a glance, whatever follows."""
    plain = PLAIN.match(text)
    assert plain is not None
    assert all(hit.start >= plain.end(1) for hit in FOUND.hits(text + more))


@settings(max_examples=200, deadline=None)
@given(text=texts)
def test_no_more_leaves_than_the_patterns_let_go(text: str) -> None:
    """G-A: the watch is as careful as the patterns are."""
    patterns = [rule.watch(128) for rule in RULES]
    point = asked = len(text)
    while True:
        for pattern in patterns:
            point = pattern.release(text, 0, point)
        if point == asked:
            break
        asked = point
    assert WATCH.release(text, 0, len(text)) <= point


@pytest.mark.parametrize("guard", [WATCH, LocalDetector()])
def test_ordinary_text_is_told_at_a_glance(guard: PresetWatch | LocalDetector) -> None:
    """However much of it has come, nothing else is asked; a word leaves when it has ended."""
    text = "The cat, and 12 dogs: see (page 17) for 3.5% of it. “Well-known”, she didn't say.\n"
    assert guard.calm is not None
    held = ""
    left: list[str] = []
    for char in text:
        held += char
        found = guard.calm(held)
        assert found is not None
        assert found.end(2) == len(held)
        assert found.end(1) == guard.release(held, 0, len(held))
        left.append(held[: found.end(1)])
        held = held[found.end(1) :]
    assert "".join(left) == text


@pytest.mark.parametrize(
    "make",
    [
        lambda: RegexFilterProcessor(presets=["pii", "secrets", "urls"], strategy="redact"),
        lambda: PIIDetector(model=False),
    ],
)
async def test_the_hook_sees_only_what_may_hold_something(make: Callable[[], Any]) -> None:
    """Ordinary text passes without the hook; what stands before a match is context all the same."""
    text = "The cat sat. Call (212) 555-0123 or joe@example.com, and then the end of it is near."
    seen: list[str] = []
    guard = make()
    hook = guard.process_output_stream

    def process_output_stream(args: Any) -> Any:
        if args.piece is not None:
            seen.append(args.piece.text)
        return hook(args)

    guard.process_output_stream = process_output_stream

    await check_redacted(lambda: guard, "text", text, [list(text)])
    assert 0 < len("".join(seen)) < len(text) / 2


def test_what_left_at_a_glance_is_known_at_the_end() -> None:
    """It belongs to the text in which something was dealt with: nothing is reported twice."""
    text = "It is so ordinary. Mail joe@example.com. And all the rest of it is ordinary, too."

    def make() -> RegexFilterProcessor:
        rules = [{"name": "r", "pattern": "never, ever"}]
        return RegexFilterProcessor(presets=["pii"], rules=rules, strategy="redact")

    def only() -> RegexFilterProcessor:
        return RegexFilterProcessor(presets=["pii"], strategy="warn")

    for made in (make, only):
        guard = made()
        assert guard.regions(text)
    run_async(check_redacted(make, "text", text, [list(text), cut_at(text, [30]), [text]]))
    run_async(check_warned(only, "text", text, [list(text), cut_at(text, [30]), [text]]))
