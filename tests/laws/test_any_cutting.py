"""Law 3: how a provider cuts and weaves its answer never changes what comes of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from tests.laws.checks import check_any_cutting, settled_outcome
from tests.laws.kit import PlayedModel, accepted_text, agent_with, call, end, run_async, said
from tests.laws.strategies import conversations, played, seeds, sizes


@given(conversations(), seeds, sizes)
@settings(max_examples=50, deadline=None)
def test_any_cutting(steps: Any, seed: int, sizes: list[int]) -> None:
    """Text, reasoning and tool arguments in any pieces, any number of chunks in a read."""
    whole = played(steps, seed, whole=True, mixed=False)
    run_async(check_any_cutting(whole, played(steps, seed, mixed=False), sizes))


@given(conversations(), seeds, sizes)
@settings(max_examples=50, deadline=None)
def test_any_weaving(steps: Any, seed: int, sizes: list[int]) -> None:
    """Several texts, reasoning and parallel calls that come at the same time (R-513, R-514)."""
    whole = played(steps, seed, whole=True, mixed=False)
    run_async(check_any_cutting(whole, played(steps, seed), sizes))


@given(sizes)
@settings(max_examples=20, deadline=None)
def test_an_answer_that_breaks_off(sizes: list[int]) -> None:
    """R-552: what came before the break is the same for every size of reads."""
    answers = [[*said("some", "thing"), *said("more")[:2], ConnectionError("lost")]]
    run_async(check_any_cutting(answers, answers, sizes))


async def test_characters_cut_in_half() -> None:
    """G-A: both halves make one character, in the deltas that are delivered as well."""
    for pieces in (("\ud83d", "\ude00"), ("a\ud83d", "", "\ude00b"), ("\ud83d\ude00",)):
        run = await agent_with(PlayedModel([[*said(*pieces), end()]])).stream("go")
        deltas = [c.payload.text async for c in run if c.type == "text-delta"]
        assert "".join(deltas) == await run.text == "".join(pieces).replace("\ud83d\ude00", "😀")
        for delta in deltas:
            delta.encode()


WOVEN: list[tuple[list[str], list[tuple[str, str]], str]] = [
    (["t1"], [("t1", "\ud83d"), ("t1", "abc")], "\ufffdabc"),
    (["t1"], [("t1", "\ud83d"), ("r1", "hm"), ("t1", "\ude00")], "😀"),
    (["t1"], [("t1", "\ud83d"), ("r1", "\ud83d"), ("t1", "\ude00"), ("r1", "\ude00")], "😀"),
    (["t1"], [("t1", "\ud83d"), ("c1", '{"value"'), ("t1", "\ude00")], "😀"),
    (["t1", "t2"], [("t1", "\ud83d"), ("t2", "x"), ("t1", "\ude00")], "😀x"),
    (["t1", "t2"], [("t1", "\ud83d"), ("t2", "\ud83d"), ("t1", "\ude00")], "😀\ufffd"),
    (["t1"], [("t1", "\ud83d"), ("t1", "")], "\ufffd"),
]


@pytest.mark.parametrize(("texts", "deltas", "text"), WOVEN)
async def test_halves_with_others_between(
    texts: list[str], deltas: list[tuple[str, str]], text: str
) -> None:
    """G-A: each lane keeps its own half, whatever other lanes bring meanwhile."""
    parts: list[Any] = [{"type": "text-start", "id": id} for id in texts]
    parts += [{"type": "reasoning-start", "id": "r1"}]
    parts += [{"type": "tool-input-start", "id": "c1", "toolName": "echo"}]
    kinds = {"t": "text-delta", "r": "reasoning-delta", "c": "tool-input-delta"}
    parts += [{"type": kinds[id[0]], "id": id, "delta": delta} for id, delta in deltas]
    parts += [{"type": "reasoning-end", "id": "r1"}]
    parts += [{"type": "text-end", "id": id} for id in texts]
    run = await agent_with(PlayedModel([[*parts, end()]])).stream("go")
    assert await run.text == text
    assert accepted_text([chunk async for chunk in run]) == text


async def test_halves_of_reasoning() -> None:
    """G-A: the same for reasoning."""
    parts = [*said("\ud83d", "\ude00", "\ud83d", kind="reasoning"), *said("x"), end()]
    run = await agent_with(PlayedModel([parts])).stream("go")
    deltas = [c.payload.text async for c in run if c.type == "reasoning-delta"]
    assert "".join(deltas) == await run.reasoning_text == "😀\ufffd"


async def test_a_half_without_its_other_stays_in_its_block() -> None:
    """R-513: what is released late comes before the end of its block."""
    run = await agent_with(PlayedModel([[*said("a\ud83d"), end()]])).stream("go")
    kinds = [(c.type, c.payload.text if c.type == "text-delta" else "") async for c in run]
    kinds = [kind for kind in kinds if kind[0].startswith("text-")]
    assert kinds[-1] == ("text-end", "")
    assert "".join(text for _, text in kinds) == "a\ufffd"


async def test_reads_of_any_size_give_the_same_chunks() -> None:
    """One chunk per read, several, all at once: the chunks are the same, and so is the outcome."""
    parts = [*said("a", "b", "c"), call("echo"), end("tool-calls")]
    answers = [parts, [*said("d"), end()]]
    found = [await settled_outcome(answers, (size,)) for size in (1, 2, 3, 50)]
    assert all(outcome == found[0] for outcome in found)


async def test_a_block_that_begins_again() -> None:
    """Law 2: an id that is used for a second block gives a second part, in stream order."""
    parts = [*said("one "), call("echo"), *said("two"), end("tool-calls")]
    run = await agent_with(PlayedModel([parts, [*said(" three"), end()]])).stream("go")
    await run.consume_stream()
    message = run.message_list.response_messages()[0]
    kinds = [(p.type, p.text if p.type == "text" else "") for p in message.parts]
    assert kinds[0] == ("text", "one ")
    assert kinds[1][0] == "tool-invocation"
    assert ("text", "two") in kinds
