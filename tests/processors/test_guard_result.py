"""G-B: what a guard lets through in the stream is what the result says, character by character."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from procession import Agent, processor
from procession.processors import PIIDetector, RegexFilterProcessor, RegexRule
from procession.testing import ScriptedModel, answer
from tests.laws.kit import run_async
from tests.processors.guarding import LANES, cut_at, play, written

SWAPPED = RegexRule("swapped", "ab", "b")
"""Its replacement makes another match of what follows: `aabb` becomes `abb`."""
GUARDS: dict[str, Any] = {
    "swap": lambda: RegexFilterProcessor(rules=[SWAPPED], strategy="redact"),
    "all presets": lambda: RegexFilterProcessor(
        presets=["pii", "secrets", "urls"], strategy="redact"
    ),
    "mask": PIIDetector,
    "placeholder": lambda: PIIDetector(model=False, redaction_method="placeholder"),
    "remove": lambda: PIIDetector(model=False, redaction_method="remove"),
    "filter": lambda: PIIDetector(model=False, strategy="filter"),
}
WORDS = [
    *("a", "aab", "abb", "4111111111111111", "5500005555555559", "123-45-6789", "212-555-0123"),
    *("sk-proj-", "Abc1234567890123", "2001:db8::1", "10.0.0.1", "joe@example.com", "ann@b.org"),
    *("https://example.com/a", "DE89370400440532013000", "+49 30 901820", "0", "12", "00", "555"),
    *(",", " ", ". ", "/", "-", ":", "_", "\n", "\u00e9", "\u6f22"),
]


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map("".join)
cuts = st.lists(st.floats(0, 1), max_size=4)


@pytest.mark.parametrize("make", GUARDS.values(), ids=GUARDS)
@settings(max_examples=30, deadline=None)
@example(lane="text", text="+49 30 901820555_12123-45-6789 ", cuts=[])
@given(lane=st.sampled_from(LANES), text=texts, cuts=cuts)
def test_the_result_is_what_was_streamed(
    make: Any, lane: str, text: str, cuts: list[float]
) -> None:
    whole = written(text, lane)
    pieces = cut_at(whole, {round(cut * len(whole)) for cut in cuts})
    seen = run_async(play(make(), lane, pieces, text))
    assert seen.tripwire is None
    assert seen.text == written(seen.stored, lane)


async def test_a_replacement_makes_no_match() -> None:
    """What only the replacement has made is not replaced; the client has it already."""
    for pieces in (["aabb"], ["a", "abb"], ["aa", "bb"]):
        seen = await play(GUARDS["swap"](), "text", pieces, "aabb")
        assert (seen.text, seen.stored, len(seen.told)) == ("abb", "abb", 1)


async def test_what_others_have_added_is_looked_at() -> None:
    """R-152: a text that the stream has not brought is new, wherever it comes from."""

    def add(args: Any) -> None:
        part = args.messages[-1].parts[-1]
        part.text += " and ab"

    late = processor(id="late", process_output_step=add)
    guard = GUARDS["swap"]()
    model = ScriptedModel([answer("x aabb")])
    run = await Agent(id="a", model=model, output_processors=[guard, late]).stream("go")
    assert "".join([piece async for piece in run.text_stream]) == "x abb"
    assert await run.text == "x bb and b"


async def test_what_the_stream_has_missed_is_replaced_where_it_stands() -> None:
    """B-236: a match with more before it than is held back; others before it were replaced."""
    rules = [
        RegexRule("pin", "[0-9]{4}", "[A LONG REPLACEMENT]"),
        RegexRule("open", "k[a-z]*;", "K"),
    ]
    guard = RegexFilterProcessor(rules=rules, strategy="redact", stream_carryover_size=4)
    pieces = ["1234 k", "abcdefgh", "ij; 5678"]
    seen = await play(guard, "text", pieces, "".join(pieces))
    assert seen.text == "[A LONG REPLACEMENT] kabcdefghij; [A LONG REPLACEMENT]"
    assert seen.stored == "[A LONG REPLACEMENT] K [A LONG REPLACEMENT]"
