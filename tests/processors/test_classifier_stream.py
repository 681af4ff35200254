"""`ClassifierProcessor` in the stream: what is classified, and what leaves (B-510)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import Agent
from tests.laws.kit import PlayedModel, call, echo, end, run_async, said
from tests.processors.guarding import cut_at
from tests.processors.judging import judged_answer
from tests.processors.test_classifier_processor import classifying, filters

GRANULARITIES = ("sentence", "part", "step", "end")


async def test_each_piece_and_the_whole() -> None:
    """B-510."""
    processor, model, _ = classifying()
    seen = await judged_answer(processor, ["one ", "two"])
    assert model.states == ["one ", "two", "one two"]
    assert seen.deltas == ["one ", "two"]


async def test_white_space_costs_no_call() -> None:
    """B-011: but it is context of what comes next."""
    processor, model, _ = classifying(chunk_window=9)
    seen = await judged_answer(processor, ["one", " \n", "two"])
    assert model.states == ["one", "one \ntwo", "one \ntwo"]
    assert seen.text == "one \ntwo"


@pytest.mark.parametrize(
    ("window", "states"),
    [
        (0, ["a", "b", "c", "d"]),
        (1, ["a", "b", "c", "d"]),
        (2, ["a", "ab", "bc", "cd"]),
        (9, ["a", "ab", "abc", "abcd"]),
    ],
)
async def test_the_window(window: int, states: list[str]) -> None:
    """`chunk_window`: the newest piece is one of so many."""
    processor, model, _ = classifying(chunk_window=window)
    await judged_answer(processor, list("abcd"))
    assert model.states == [*states, "abcd"]


async def test_at_most_so_many_characters_of_a_window() -> None:
    """`max_input_length`: the last ones, where what is new stands."""
    processor, model, _ = classifying(chunk_window=9, max_input_length=3)
    await judged_answer(processor, ["ab", "cd", "efghi"])
    assert model.states == ["ab", "bcd", "ghi", "abc"]


async def test_abort_in_the_stream() -> None:
    """B-034, B-007: what was delivered stays, the piece does not leave, nothing is stored."""
    processor, model, told = classifying()
    seen = await judged_answer(processor, ["fine ", "bad ", "end"])
    assert seen.deltas == ["fine "]
    assert seen.types[-1] == "tripwire"
    assert seen.tripwire.metadata == {
        "processor_id": "classifier",
        "strategy": "block",
        "phase": "process_output_stream",
    }
    assert (seen.stored, len(told), model.states) == ("", 1, ["fine ", "bad "])


async def test_filter_in_the_stream() -> None:
    """B-510: the piece alone is dropped; it is no context of what comes next."""
    processor, model, told = classifying(filters, chunk_window=5)
    seen = await judged_answer(processor, ["fine ", "bad ", "end"])
    assert seen.text == seen.stored == "fine end"
    assert model.states == ["fine ", "fine bad ", "fine end", "fine end"]
    assert [violation.detail["phase"] for violation in told] == ["process_output_stream"]


async def test_a_whole_that_is_worse_than_its_pieces() -> None:
    """B-510: phase `output`; nothing is stored then."""
    processor, _, _ = classifying()
    seen = await judged_answer(processor, ["a ba", "d"])
    assert seen.deltas == ["a ba", "d"]
    assert seen.tripwire.metadata["phase"] == "process_output_result"
    assert seen.stored == ""
    processor, _, told = classifying(filters)
    seen = await judged_answer(processor, ["a ba", "d"])
    assert (seen.tripwire, seen.stored, len(told)) == (None, "", 1)


@pytest.mark.parametrize(
    ("granularity", "states"),
    [
        ("sentence", ["One. ", "Two.", "One. Two."]),
        ("part", ["One. Two."]),
        ("step", ["One. Two."]),
        ("end", ["One. Two."]),
    ],
)
async def test_granularity(granularity: Any, states: list[str]) -> None:
    """One call for each unit, and none for a whole that was one."""
    processor, model, _ = classifying(granularity=granularity)
    seen = await judged_answer(processor, ["On", "e. T", "wo", "."])
    assert model.states == states
    assert seen.text == "One. Two."


async def test_a_whole_of_which_a_part_was_looked_at_is_classified_again() -> None:
    processor, model, _ = classifying(granularity="part", max_input_length=3)
    await judged_answer(processor, ["abcdef"])
    assert model.states == ["def", "abc"]


async def test_the_end_has_all_that_was_said_and_a_window_one_step() -> None:
    """Only text is classified: neither thoughts nor what tools are told."""
    for options, states in (
        ({"granularity": "end"}, ["one", "onetwo", "one\ntwo"]),
        ({"chunk_window": 9}, ["one", "two", "one\ntwo"]),
    ):
        processor, model, _ = classifying(**options)
        first = [
            *said("bad", id="r1", kind="reasoning"),
            *said("one"),
            call("echo", '{"v": "bad"}'),
        ]
        answers = [[*first, end("tool-calls")], [*said("two"), end()]]
        agent = Agent(
            id="a", model=PlayedModel(answers), tools=[echo], output_processors=[processor]
        )
        assert (await agent.generate("go")).tripwire is None
        assert model.states == states


@settings(deadline=None, max_examples=30)
@given(cuts=st.sets(st.integers(1, 40), max_size=10), granularity=st.sampled_from(GRANULARITIES))
def test_units_do_not_depend_on_the_cutting(cuts: set[int], granularity: Any) -> None:
    """However the answer is cut, the same texts are classified and the same text leaves."""
    text = "Fine words. Some bad ones. And fine again!"
    whole, model, _ = classifying(filters, granularity=granularity)
    expected = run_async(judged_answer(whole, [text]))
    processor, cut_model, _ = classifying(filters, granularity=granularity)
    seen = run_async(judged_answer(processor, cut_at(text, cuts)))
    assert (seen.text, seen.stored) == (expected.text, expected.stored)
    assert cut_model.states == model.states
