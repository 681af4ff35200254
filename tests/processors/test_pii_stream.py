"""`PIIDetector` in the stream: guarantee G-A, in every lane, for every cutting, without a model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession.detection import LocalDetector
from procession.processors import PIIDetector, RegexFilterProcessor, RegexRule
from tests.laws.kit import run_async
from tests.processors.guarding import (
    LANES,
    check_blocked,
    check_filtered,
    check_redacted,
    check_warned,
    cut_at,
    play,
    worst_cuttings,
    written,
)

CHECKS = {
    "redact": check_redacted,
    "block": check_blocked,
    "warn": check_warned,
    "filter": check_filtered,
}
in_every_lane = pytest.mark.parametrize("lane", LANES)
with_every_strategy = pytest.mark.parametrize("strategy", CHECKS)

SAMPLES = [
    "Mail joe@mail.example.com. Then call (212) 555-0123, please.",
    "Card 4111 1111 1111 1111. SSN 123-45-6789, or 10.0.0.1.",
    "See https://example.com/a?b=c#d! Id 123e4567-e89b-12d3-a456-426614174000.",
    "IBAN GB82 WEST 1234 5698 7654 32, key AKIAIOSFODNN7EXAMPLE.",
]


def detector(strategy: Any, **options: Any) -> Any:
    """Makes the same detector again and again."""
    return lambda: PIIDetector(strategy=strategy, **options)


@pytest.mark.parametrize(
    ("lane", "strategy"),
    [*((lane, "redact") for lane in LANES), *(("text", s) for s in ("block", "warn", "filter"))],
)
@pytest.mark.parametrize("text", SAMPLES)
async def test_the_worst_cuts(lane: str, strategy: str, text: str) -> None:
    """G-A, B-132 to B-134: character by character, and in two at every other place."""
    cuttings = worst_cuttings(written(text, lane), every=2)
    await CHECKS[strategy](detector(strategy), lane, text, cuttings)


WORDS = [
    *("joe@example.com", "4111111111111111", "4111 1111", " 1111 1111", "(212) 555-", "0123"),
    *("123-45-", "6789", "10.0.0.1", "https://", "example.com", "/a", "@", ". ", " ", "Hi! "),
    *("é", "漢", "😀", "\n", "GB82 WEST 1234 5698 7654 32", "a", "7"),
]


@in_every_lane
@with_every_strategy
@settings(max_examples=12, deadline=None)
@given(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=10), data=st.data())
def test_any_text_and_any_cutting(lane: str, strategy: str, words: list[str], data: Any) -> None:
    """G-A, law 3, B-901: what a text comes to is the same for any two cuttings of it."""
    text = "".join(words)
    sent = written(text, lane)
    points = st.lists(st.integers(0, len(sent)), max_size=6)
    cuttings = [list(sent), cut_at(sent, data.draw(points)), [sent]]
    run_async(CHECKS[strategy](detector(strategy), lane, text, cuttings))


@with_every_strategy
async def test_a_detector_that_holds_nothing_back(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken on purpose: the checks notice."""
    monkeypatch.setattr(LocalDetector, "release", lambda self, text, start, limit: limit)
    monkeypatch.setattr(LocalDetector, "calm", None)
    monkeypatch.setattr(PIIDetector, "_watches", lambda self: [self._local])
    text = SAMPLES[0]
    with pytest.raises(AssertionError):
        await CHECKS[strategy](detector(strategy), "text", text, worst_cuttings(text))


async def test_numbers_in_arguments() -> None:
    """A card number that is no text becomes one."""
    text = "4111111111111111"
    for pieces in worst_cuttings(
        written(text, "tool-arguments").replace('"4', "4").replace('1"', "1")
    ):
        seen = await play(detector("redact")(), "tool-arguments", pieces, text)
        assert seen.text == written("************1111", "tool-arguments")
        assert seen.stored == "************1111"


@in_every_lane
async def test_each_value_is_one_event(lane: str) -> None:
    """B-127: arguments are shown as they come and once more when complete, and told once."""
    heard: list[Any] = []
    text = SAMPLES[0]
    guard = PIIDetector(on_detection=lambda event: heard.append(event))
    await play(guard, lane, list(written(text, lane)), text)
    found = [one.value for event in heard for one in event.detection_result.detections]
    assert found == ["joe@mail.example.com", "(212) 555-0123"]


async def test_two_guards_in_a_row() -> None:
    """What one lets through the other looks at; each tells of its own."""
    text = "id X-1 of joe@example.com"
    for pieces in worst_cuttings(text):
        first = PIIDetector(redaction_method="placeholder")
        rules = [RegexRule("id", r"X-\d", "[ID]"), RegexRule("marks", r"\[EMAIL\]", "<mail>")]
        second = RegexFilterProcessor(rules=rules, strategy="redact")
        seen = await play([first, second], "text", pieces, text)
        assert seen.text == seen.stored == "id [ID] of <mail>"
        assert len(seen.told) <= 2


async def test_what_is_told_of_a_chunk() -> None:
    """B-007: no message id; B-009: the detector's own id."""
    seen = await play(detector("block")(), "text", list(SAMPLES[0]), SAMPLES[0])
    assert seen.tripwire.processor_id == "pii-detector"
    assert seen.tripwire.metadata == {
        "processor_id": "pii-detector",
        "strategy": "block",
        "phase": "process_output_stream",
        "types": ["email"],
        "count": 1,
    }
    assert seen.text == "Mail "
