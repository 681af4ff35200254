"""`ModerationProcessor` in the stream: what is judged, and what leaves (B-105 to B-108)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import Agent
from procession.hold.sentences import sentence_ends
from procession.processors import BatchPartsProcessor, ModerationProcessor
from procession.testing import ScriptedModel
from tests.laws.kit import PlayedModel, call, echo, end, run_async, said
from tests.processors.guarding import cut_at
from tests.processors.judging import CODE, MIXED, JudgeByText, Seen, Told, judged_answer
from tests.processors.test_moderation import rated

if TYPE_CHECKING:
    from collections.abc import Sequence

GRANULARITIES = ("sentence", "part", "step", "end")


def by_text(harmful: str = "bad") -> JudgeByText:
    """Flags texts that hold a word."""
    return JudgeByText(lambda text: rated(hate=0.9) if harmful in text else rated())


def moderation(judge: Any, **options: Any) -> tuple[ModerationProcessor, Told]:
    told = Told()
    return ModerationProcessor(model=judge, on_violation=told, **options), told


# ── as it comes ────────────────────────────────────────────────────────────────────────────────


async def test_one_call_for_each_piece_and_one_for_the_whole() -> None:
    """B-105, B-107."""
    judge = by_text()
    seen = await judged_answer(moderation(judge)[0], ["one ", "two ", "three"])
    assert judge.texts == ["one ", "two ", "three", "one two three"]
    assert seen.deltas == ["one ", "two ", "three"]


async def test_the_whole_is_judged_under_generate() -> None:
    """B-107: there it is not another number of calls."""
    judge = by_text()
    model = PlayedModel([[*said("one ", "two"), end()]])
    agent = Agent(id="a", model=model, output_processors=[moderation(judge)[0]])
    assert (await agent.generate("go")).text == "one two"
    assert judge.texts == ["one ", "two", "one two"]


async def test_a_harmful_whole_of_harmless_pieces() -> None:
    """B-107, B-032: nothing is stored then; what has left has left."""
    judge = by_text("b ad")
    processor, told = moderation(judge)
    seen = await judged_answer(processor, ["a b", " ad"])
    assert seen.deltas == ["a b", " ad"]
    assert seen.tripwire.metadata["phase"] == "process_output_result"
    assert isinstance(seen.tripwire.metadata["message_id"], str)
    assert len(told) == 1
    assert seen.types[-1] == "tripwire"
    assert seen.stored == ""


async def test_a_filtered_whole_is_not_stored() -> None:
    """B-006."""
    processor, told = moderation(by_text("b ad"), strategy="filter")
    seen = await judged_answer(processor, ["a b", " ad"])
    assert seen.tripwire is None
    assert [v.detail["phase"] for v in told] == ["process_output_result"]
    assert seen.stored == ""


async def test_only_text_is_judged() -> None:
    """B-105: not what was thought, nor what tools are told."""
    judge = by_text()
    first = [*said("bad", id="r1", kind="reasoning"), call("echo", '{"value": "bad"}')]
    model = PlayedModel([[*first, end("tool-calls")], [*said("fine"), end()]])
    agent = Agent(id="a", model=model, tools=[echo], output_processors=[moderation(judge)[0]])
    out = await agent.generate("go")
    assert out.text == "fine"
    assert set(judge.texts) == {"fine"}


async def test_block_in_the_stream() -> None:
    """B-034, B-007: what was delivered stays, the piece does not leave, nothing is asked again."""
    judge = by_text()
    processor, told = moderation(judge)
    seen = await judged_answer(processor, ["fine ", "bad ", "end"])
    assert seen.deltas == ["fine "]
    assert seen.types[-1] == "tripwire"
    assert seen.tripwire.metadata == {
        "processor_id": "moderation",
        "strategy": "block",
        "phase": "process_output_stream",
        "types": ["hate"],
        "categories": ["hate"],
        "scores": {"hate": 0.9},
    }
    assert len(told) == 1
    assert judge.texts == ["fine ", "bad "]
    assert seen.stored == ""


async def test_warn_in_the_stream() -> None:
    """B-005: once for the piece, once for the whole."""
    processor, told = moderation(by_text(), strategy="warn")
    seen = await judged_answer(processor, ["fine ", "bad ", "end"])
    assert seen.text == seen.stored == "fine bad end"
    assert [v.detail["phase"] for v in told] == ["process_output_stream", "process_output_result"]


async def test_filter_drops_the_piece_alone() -> None:
    """B-106, B-006; the whole is judged without it."""
    judge = by_text()
    processor, told = moderation(judge, strategy="filter", chunk_window=5)
    seen = await judged_answer(processor, ["fine ", "bad ", "end"])
    assert seen.deltas == ["fine ", "end"]
    assert seen.stored == "fine end"
    assert judge.texts == ["fine ", "fine bad ", "fine end", "fine end"]
    assert [v.detail["phase"] for v in told] == ["process_output_stream"]


@pytest.mark.parametrize(
    ("window", "texts"),
    [
        (0, ["a", "b", "c", "d"]),
        (1, ["a", "ab", "bc", "cd"]),
        (2, ["a", "ab", "abc", "bcd"]),
        (9, ["a", "ab", "abc", "abcd"]),
    ],
)
async def test_the_window(window: int, texts: list[str]) -> None:
    """B-105: the piece and up to so many before it."""
    judge = by_text()
    await judged_answer(moderation(judge, chunk_window=window)[0], list("abcd"))
    assert judge.texts == [*texts, "abcd"]


async def test_a_window_does_not_reach_into_an_earlier_run_or_step() -> None:
    judge = by_text()
    processor, _ = moderation(judge, chunk_window=9)
    answers = [[*said("one"), call("echo"), end("tool-calls")], [*said("two"), end()]]
    agent = Agent(id="a", model=PlayedModel(answers), tools=[echo], output_processors=[processor])
    await agent.generate("go")
    assert judge.texts == ["one", "two", "one\ntwo"]


async def test_two_of_one_id_do_not_share_a_window() -> None:
    """Their state is one; what they have seen is not."""
    first, second = by_text("none"), by_text("none")
    agent = Agent(
        id="a",
        model=PlayedModel([[*said("a", "b"), end()]]),
        output_processors=[moderation(judge, chunk_window=1)[0] for judge in (first, second)],
    )
    await agent.generate("go")
    assert first.texts == second.texts == ["a", "ab", "ab"]


async def test_white_space_costs_nothing() -> None:
    judge = by_text()
    seen = await judged_answer(moderation(judge)[0], ["one", " ", "\n", "two"])
    assert judge.texts == ["one", "two", "one \ntwo"]
    assert seen.deltas == ["one", " ", "\n", "two"]


async def test_behind_batches() -> None:
    """B-108."""
    judge = by_text()
    model = PlayedModel([[*said(*"abcdef"), end()]])
    processors = [BatchPartsProcessor(batch_size=3), moderation(judge)[0]]
    agent = Agent(id="a", model=model, output_processors=processors)
    assert (await agent.generate("go")).text == "abcdef"
    assert judge.texts == ["abc", "def", "abcdef"]


# ── by units ───────────────────────────────────────────────────────────────────────────────────

SENTENCES = ["This is fine. ", "That is bad! ", "你好。", "ça va? ", "End"]
WHOLE = "".join(SENTENCES)


async def test_by_sentence() -> None:
    """No more than one call for each sentence, however it is cut, and one for the whole."""
    judge = by_text("nothing")
    seen = await judged_answer(moderation(judge, granularity="sentence")[0], list(WHOLE))
    assert judge.texts == [*SENTENCES, WHOLE]
    assert seen.deltas == SENTENCES


async def test_a_window_of_sentences() -> None:
    judge = by_text("nothing")
    processor, _ = moderation(judge, granularity="sentence", chunk_window=1)
    await judged_answer(processor, [WHOLE])
    pairs = [a + b for a, b in zip(["", *SENTENCES], SENTENCES, strict=False)]
    assert judge.texts == [*pairs, WHOLE]


@pytest.mark.parametrize("granularity", ["part", "step", "end"])
async def test_what_was_judged_in_one_piece_is_not_judged_again(granularity: Any) -> None:
    judge = by_text("nothing")
    seen = await judged_answer(moderation(judge, granularity=granularity)[0], list(WHOLE))
    assert judge.texts == [WHOLE]
    assert seen.deltas == [WHOLE]


async def test_a_judge_that_failed_is_asked_again_at_the_end() -> None:
    judge = ScriptedModel(["nonsense", rated(hate=0.9)])
    seen = await judged_answer(moderation(judge, granularity="part")[0], ["bad"])
    assert seen.tripwire.metadata["phase"] == "process_output_result"


async def test_at_the_end_of_a_step_all_that_was_said_is_judged() -> None:
    judge = by_text("nothing")
    answers = [[*said("one "), call("echo"), end("tool-calls")], [*said("two"), end()]]
    processor, _ = moderation(judge, granularity="end", chunk_window=3)
    agent = Agent(id="a", model=PlayedModel(answers), tools=[echo], output_processors=[processor])
    assert (await agent.generate("go")).text == "one two"
    assert judge.texts[:2] == ["one ", "one two"]


@pytest.mark.parametrize("granularity", ["step", "end"])
async def test_nothing_of_a_step_leaves_before_it_was_judged(granularity: Any) -> None:
    judge = by_text()
    seen = await judged_answer(moderation(judge, granularity=granularity)[0], SENTENCES)
    assert seen.deltas == []
    assert seen.tripwire is not None
    assert len(judge.texts) == 1


texts = st.lists(
    st.sampled_from([*SENTENCES, MIXED, CODE, "bad. ", "x", " ", "\n", "3.14 is pi. ", "坏bad。"]),
    min_size=1,
    max_size=8,
).map("".join)


def sentences_of(text: str) -> list[str]:
    """The sentences of a text that has ended."""
    return cut_at(text, sentence_ends(text, 0, len(text)))


async def _cut(text: str, points: Sequence[int], **options: Any) -> tuple[Seen, JudgeByText, Told]:
    judge = by_text()
    processor, told = moderation(judge, **options)
    return await judged_answer(processor, cut_at(text, points)), judge, told


@settings(max_examples=60, deadline=None)
@given(text=texts, data=st.data(), strategy=st.sampled_from(["block", "warn", "filter"]))
def test_every_cutting_by_sentence(text: str, data: st.DataObject, strategy: Any) -> None:
    """Law 3, G-A: what is judged, what leaves and what is told do not depend on the cutting."""
    points = data.draw(st.lists(st.integers(0, len(text)), max_size=12))
    seen, judge, told = run_async(_cut(text, points, granularity="sentence", strategy=strategy))
    units = [unit for unit in sentences_of(text) if unit]
    bad = [unit for unit in units if "bad" in unit]
    if strategy == "block" and bad:
        expected = units[: units.index(bad[0])]
    else:
        expected = [unit for unit in units if strategy != "filter" or unit not in bad]
    assert seen.text == "".join(expected)
    assert (seen.tripwire is not None) == (strategy == "block" and bool(bad))
    asked = [unit for unit in units if unit.strip()]
    if seen.tripwire:
        before = len([unit for unit in expected if unit.strip()]) + 1
        assert judge.texts == asked[: len(judge.texts)]
        assert before <= len(judge.texts) < before + 4
    else:
        assert judge.texts[: len(asked)] == asked
        assert len(judge.texts) <= len(asked) + 1
        assert seen.stored == seen.text
    count = len(bad) if strategy != "block" else min(len(bad), 1)
    streamed = [v for v in told if v.detail["phase"] == "process_output_stream"]
    assert len(streamed) == count


@settings(max_examples=30, deadline=None)
@given(text=texts, data=st.data(), granularity=st.sampled_from(["part", "step", "end"]))
def test_every_cutting_by_larger_units(text: str, data: st.DataObject, granularity: Any) -> None:
    """One call, and all or nothing."""
    points = data.draw(st.lists(st.integers(0, len(text)), max_size=12))
    seen, judge, _ = run_async(_cut(text, points, granularity=granularity))
    assert seen.text == ("" if "bad" in text else text)
    assert judge.texts == ([text] if text.strip() else [])


@pytest.mark.parametrize("granularity", ["delta", *GRANULARITIES])
async def test_texts_of_all_scripts_are_unharmed(granularity: Any) -> None:
    """Character by character, emoji and combining marks cut apart."""
    text = f"{MIXED}\n{CODE}"
    seen, judge, _ = await _cut(text, range(len(text)), granularity=granularity)
    assert seen.text == seen.stored == text
    if granularity != "delta":
        assert judge.texts[-1] == text
