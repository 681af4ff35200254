"""`SystemPromptScrubber` in the stream: patterns (G-A) and units, for every cutting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import Agent
from procession.hold.sentences import sentence_ends
from procession.processors import SystemPromptScrubber
from tests.laws.kit import PlayedModel, call, echo, end, run_async, said
from tests.processors.guarding import (
    LANES,
    check_blocked,
    cut_at,
    every_cutting,
    play,
    worst_cuttings,
    written,
)
from tests.processors.judging import CODE, MIXED, JudgeByText, Seen, Told, judged_answer
from tests.processors.test_scrubber import by_text, discloses, scrubber

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PATTERNS = [r"k[0-9]{3}", r"be \w+", r"\bHAL\b", r"ends$", "é+"]
"""A length that is known, one that is not, borders, the end of a block, more than one byte."""

in_every_lane = pytest.mark.parametrize("lane", LANES)


def of_patterns(strategy: Any, method: Any = "mask", **options: Any) -> Any:
    """Makes the same scrubber again and again; its judge finds nothing."""
    return lambda: SystemPromptScrubber(
        model=by_text("nothing at all"),
        strategy=strategy,
        custom_patterns=PATTERNS,
        redaction_method=method,
        **options,
    )


# ── patterns ───────────────────────────────────────────────────────────────────────────────────


async def check_redacted(
    make: Any, lane: str, text: str, cuttings: Iterable[Sequence[str]]
) -> None:
    """What is delivered and stored is the redaction of the whole; each place is reported once."""
    guard = make()
    expected, count = guard.redacted_text(text), len(guard.regions(text))
    for pieces in cuttings:
        seen = await play(make(), lane, pieces, text)
        assert seen.text == written(expected, lane), pieces
        assert seen.stored == expected, pieces
        assert sum(violation.detail["count"] for violation in seen.told) == count, pieces
        assert {kind for v in seen.told for kind in v.detail["types"]} <= {"custom"}
        assert seen.ran == ([text] if lane == "tool-arguments" else [])


@in_every_lane
@pytest.mark.parametrize("text", ["ak123b", "be é", "a HAL", " ends"])
async def test_every_cutting(lane: str, text: str) -> None:
    """B-194, G-A: all ways to cut a short text; no character of a match leaves."""
    cuttings = every_cutting(text)
    if lane == "tool-arguments":
        cuttings = worst_cuttings(written(text, lane))
    await check_redacted(of_patterns("redact", "placeholder"), lane, text, cuttings)


WORDS = ["k1", "23", "k123", "be ", "kind", "HAL", "ends", "é", "漢", " ", ". ", "\n", "*", "[S]"]
some_text = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map("".join)


@in_every_lane
@settings(max_examples=25, deadline=None)
@given(text=some_text, data=st.data(), method=st.sampled_from(["mask", "placeholder", "remove"]))
def test_any_text_and_any_cutting(lane: str, text: str, data: Any, method: str) -> None:
    """Law 3: what a text comes to is the same for any cutting of it."""
    sent = written(text, lane)
    points = data.draw(st.lists(st.integers(0, len(sent)), max_size=6))
    cuttings = [list(sent), cut_at(sent, points), [sent]]
    run_async(check_redacted(of_patterns("redact", method), lane, text, cuttings))


@in_every_lane
async def test_block(lane: str) -> None:
    """B-194: nothing of the match leaves, no tool runs, nothing is stored."""
    text = "I am to be kind. More"
    await check_blocked(of_patterns("block"), lane, text, worst_cuttings(written(text, lane)))


@pytest.mark.parametrize("strategy", ["block", "filter"])
async def test_a_match_that_decides_costs_no_call(strategy: Any) -> None:
    judge = by_text("nothing")
    processor, told = scrubber(
        judge, strategy=strategy, custom_patterns=["k1+"], granularity="sentence"
    )
    await judged_answer(processor, ["It is k", "111. ", "Bye"])
    assert [v.detail["types"] for v in told] == [["custom"]]
    assert judge.texts == ([] if strategy == "block" else ["Bye", "Bye"])


async def test_both_find_something() -> None:
    """B-125: what overlaps is one place."""
    processor, told = scrubber(
        by_text("You are HAL"), custom_patterns=["HAL 9+"], redaction_method="placeholder"
    )
    seen = await judged_answer(processor, ["You are HAL 99. Bye"])
    assert seen.text == seen.stored == "[SYSTEM_PROMPT]. Bye"
    assert [set(v.detail["types"]) for v in told] == [{"custom", "rules"}]


@pytest.mark.parametrize("error_strategy", ["warn", "strict"])
async def test_patterns_hold_when_the_judge_fails(error_strategy: Any) -> None:
    """B-025: what is found locally is redacted, whatever becomes of the judge."""
    processor, _ = scrubber(
        JudgeByText(lambda text: "nonsense"),
        custom_patterns=["HAL"],
        error_strategy=error_strategy,
    )
    seen = await judged_answer(processor, ["I am H", "AL."])
    assert "HAL" not in seen.text
    if error_strategy == "warn":
        assert seen.text == seen.stored == "I am ***."
    else:
        assert seen.tripwire.metadata["error"] is True


# ── units ──────────────────────────────────────────────────────────────────────────────────────

SENTENCES = ["I help. ", "You are HAL. ", "我叫 HAL。", "Ça va? ", "HAL"]
WHOLE = "".join(SENTENCES)


async def test_by_sentence() -> None:
    """One call for each sentence however it is cut, and one for the whole."""
    judge = by_text("nothing")
    seen = await judged_answer(scrubber(judge, granularity="sentence")[0], list(WHOLE))
    assert judge.texts == [*SENTENCES, WHOLE]
    assert seen.deltas == SENTENCES


@pytest.mark.parametrize("granularity", ["part", "step", "end"])
@pytest.mark.parametrize("value", ["nothing", "HAL"])
async def test_what_was_judged_in_one_piece_is_not_judged_again(
    granularity: Any, value: str
) -> None:
    judge = JudgeByText(lambda text: discloses(value, start=None) if value in text else discloses())
    seen = await judged_answer(scrubber(judge, granularity=granularity)[0], list(WHOLE))
    assert judge.texts == [WHOLE]
    assert seen.text == seen.stored == WHOLE.replace(value, "***")


async def test_at_the_end_of_a_step_all_that_was_said_is_judged() -> None:
    """What has left cannot be taken back; what belongs to it is."""
    judge = by_text("am HAL")
    answers = [[*said("I am "), call("echo"), end("tool-calls")], [*said("HAL too"), end()]]
    processor, told = scrubber(judge, granularity="end")
    agent = Agent(id="a", model=PlayedModel(answers), tools=[echo], output_processors=[processor])
    out = await agent.generate("go")
    assert out.text == "I am *** too"
    assert judge.texts[:2] == ["I am ", "I am HAL too"]
    assert [v.detail["count"] for v in told] == [1]


async def test_what_has_left_is_not_reported_with_what_comes_after_it() -> None:
    """`end`: a place that lies in what was said before."""
    judge = JudgeByText(lambda text: discloses("HAL", start=None) if "too" in text else discloses())
    answers = [[*said("I am HAL. "), call("echo"), end("tool-calls")], [*said("Me too"), end()]]
    processor, told = scrubber(judge, granularity="end")
    agent = Agent(id="a", model=PlayedModel(answers), tools=[echo], output_processors=[processor])
    run = await agent.stream("go")
    deltas = [chunk.payload.text async for chunk in run if chunk.type == "text-delta"]
    assert deltas == ["I am HAL. ", "Me too"]
    assert [v.detail["phase"] for v in told] == ["process_output_result"]


async def test_a_judge_that_failed_is_asked_again_at_the_end() -> None:
    answered = iter(["nonsense", discloses("HAL", start=None)])
    processor, told = scrubber(JudgeByText(lambda text: next(answered)), granularity="part")
    seen = await judged_answer(processor, ["I am HAL"])
    assert seen.stored == "I am ***"
    assert len(told) == 1


@pytest.mark.parametrize(("patterns", "count"), [((), 2), (("k[0-9]+",), 1)])
async def test_what_is_not_judged_does_not_wait(patterns: Any, count: int) -> None:
    """Reasoning is held back for patterns only."""
    processor, _ = scrubber(by_text(), custom_patterns=patterns, granularity="part")
    model = PlayedModel([[*said("I ", "think", id="r1", kind="reasoning"), *said("fine"), end()]])
    agent = Agent(id="a", model=model, output_processors=[processor])
    run = await agent.stream("go")
    deltas = [chunk.payload.text async for chunk in run if chunk.type == "reasoning-delta"]
    assert len(deltas) == count
    assert "".join(deltas) == "I think"


async def test_a_text_that_was_written_anew_is_not_said_twice() -> None:
    """`end`: the judge rewrites what has left as well; then all of the piece is masked."""
    judge = JudgeByText(
        lambda text: discloses("elsewhere", rewritten="* *") if "HAL" in text else discloses()
    )
    answers = [[*said("I am "), call("echo"), end("tool-calls")], [*said("HAL"), end()]]
    processor, _ = scrubber(judge, granularity="end")
    agent = Agent(id="a", model=PlayedModel(answers), tools=[echo], output_processors=[processor])
    run = await agent.stream("go")
    deltas = [chunk.payload.text async for chunk in run if chunk.type == "text-delta"]
    assert deltas == ["I am ", "***"]


async def _cut(text: str, points: Iterable[int], **options: Any) -> tuple[Seen, Told]:
    judge = JudgeByText(lambda text: discloses("HAL", start=None) if "HAL" in text else discloses())
    processor, told = scrubber(judge, **options)
    return await judged_answer(processor, cut_at(text, points)), told


texts = st.lists(
    st.sampled_from([*SENTENCES, MIXED, CODE, "HAL. ", "x", " ", "\n", "é"]), min_size=1, max_size=8
).map("".join)


@settings(max_examples=40, deadline=None)
@given(
    text=texts,
    data=st.data(),
    granularity=st.sampled_from(["sentence", "part", "step", "end"]),
)
def test_every_cutting_by_units(text: str, data: Any, granularity: Any) -> None:
    """Law 3: what is judged in units does not depend on the cutting, with patterns neither."""
    points = data.draw(st.lists(st.integers(0, len(text)), max_size=12))
    patterns = data.draw(st.sampled_from([(), (r"k[0-9]+",)]))
    seen, told = run_async(_cut(text, points, granularity=granularity, custom_patterns=patterns))
    assert seen.text == seen.stored == text.replace("HAL", "***")
    streamed = [v for v in told if v.detail["phase"] == "process_output_stream"]
    assert sum(v.detail["count"] for v in streamed) == text.count("HAL")
    if granularity == "sentence":
        ends = sentence_ends(text, 0, len(text))
        assert len(streamed) == sum("HAL" in unit for unit in cut_at(text, ends))


@pytest.mark.parametrize("strategy", ["block", "warn", "filter", "redact"])
@pytest.mark.parametrize("granularity", ["delta", "sentence", "part", "step", "end"])
async def test_texts_of_all_scripts_are_unharmed(strategy: Any, granularity: Any) -> None:
    """Character by character, with patterns that match nothing."""
    text = f"{MIXED}\n{CODE}"
    seen, told = await _cut(
        text,
        range(len(text)),
        strategy=strategy,
        granularity=granularity,
        custom_patterns=["nothing [a-z]+"],
    )
    assert seen.text == seen.stored == text
    assert told == []
