"""E-65 to E-67: what the guide's limiter and filter leave out of a prompt, and of nothing else.

`Shelf` stands for storage. Memory: with its part.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent, tool
from procession.processors import TokenLimiter, ToolCallFilter
from procession.testing import RecordedCall, ScriptedModel, answer, tool_call
from tests.seeds.threeways import Shelf, play, prompt_results, three_ways

if TYPE_CHECKING:
    from procession import Message


@tool
async def look(topic: str) -> dict[str, Any]:
    """Look something up."""
    return {"found": f"raw {topic}"}


def in_words(result: dict[str, Any]) -> dict[str, Any]:
    return {"type": "text", "value": "three rows"}


@tool(to_model_output=in_words)
async def count(table: str) -> dict[str, Any]:
    """Count the rows of a table."""
    return {"rows": [f"raw {table}"] * 3}


def texts(call: RecordedCall) -> list[str]:
    """What a prompt says, without its system messages."""
    return [
        part["text"]
        for entry in call.prompt
        if entry["role"] != "system"
        for part in entry["content"]
        if part["type"] == "text"
    ]


def called(call: RecordedCall) -> list[str]:
    """The ids of the calls in a prompt."""
    return [
        part["toolCallId"]
        for entry in call.prompt
        if entry["role"] == "assistant"
        for part in entry["content"]
        if part["type"] == "tool-call"
    ]


def stored_calls(messages: list[Message]) -> dict[str, Any]:
    """The stored calls: id to arguments and result."""
    calls: dict[str, Any] = {}
    for message in messages:
        for part in message.parts:
            if part.type == "tool-invocation":
                made = part.tool_invocation
                calls[made.tool_call_id] = (made.args, made.result)
    return calls


# ── E-65 ───────────────────────────────────────────────────────────────────────────────────────


class Tens:
    """Every message, or entry of a prompt, is ten tokens."""

    def count_message(self, message: Any) -> int:
        return 10


async def long_talk(keeper: Shelf) -> None:
    """Four turns, the second of them with a tool."""
    script = [
        "answer 0",
        answer(tool_calls=[tool_call("look", {"topic": "owls"}, id="c1")]),
        "answer 1",
        "answer 2",
        "answer 3",
    ]
    agent = Agent(id="talks", model=ScriptedModel(script), tools=[look], extensions=[keeper])
    for turn in range(4):
        await agent.generate(f"question {turn}")


EVERYTHING = [f"{kind} {turn}" for turn in range(4) for kind in ("question", "answer")]


@three_ways
@pytest.mark.parametrize("limit", range(20, 160, 10))
async def test_e65_a_long_history(way: str, limit: int) -> None:
    """E-65 (B-250 to B-253): the oldest go, in pairs what is a pair; storage is complete."""
    keeper = Shelf()
    await long_talk(keeper)
    model = ScriptedModel(["the end"])
    agent = Agent(
        id="my-agent",
        name="my-agent",
        model=model,
        instructions="Be brief.",
        tools=[look],
        input_processors=[TokenLimiter(limit, token_counter=Tens())],
        extensions=[keeper],
    )
    outcome = await play(way, agent, "question last")
    assert (outcome.text, outcome.tripwire) == ("the end", None)
    [call] = model.calls
    assert call.prompt[0] == {"role": "system", "content": "Be brief."}
    said = texts(call)
    if said[0] == ".":  # a prompt begins with the user, whatever is missing
        assert call.prompt[2]["role"] == "assistant"
        del said[0]
    whole = [*EVERYTHING, "question last"]
    assert said == whole[len(whole) - len(said) :]
    assert said[-1] == "question last"
    assert called(call) == list(prompt_results(call))
    assert len(call.prompt) - 1 <= limit // 10
    assert [part for message in keeper.rows for part in _said(message)] == [
        *EVERYTHING,
        "question last",
        "the end",
    ]
    assert stored_calls(keeper.rows) == {"c1": ({"topic": "owls"}, {"found": "raw owls"})}


def _said(message: Message) -> list[str]:
    return [part.text for part in message.parts if part.type == "text"]


async def test_e65_the_limits_show_something() -> None:
    """E-65: with the smallest limit one message is left, and the largest cuts nothing."""
    lengths: list[tuple[int, int]] = []
    for limit in (20, 150):
        keeper = Shelf()
        await long_talk(keeper)
        model = ScriptedModel(["the end"])
        limiter = TokenLimiter(limit, token_counter=Tens())
        agent = Agent(id="a", model=model, input_processors=[limiter], extensions=[keeper])
        await agent.generate("question last")
        lengths.append((len(texts(model.calls[0])), len(called(model.calls[0]))))
    assert lengths == [(1, 0), (9, 1)]


@three_ways
async def test_e65_at_its_usual_size(way: str) -> None:
    """E-65 (B-250): the guide's limit holds a short talk back in nothing."""
    model = ScriptedModel(["the end"])
    agent = Agent(id="my-agent", model=model, input_processors=[TokenLimiter(127000)])
    outcome = await play(way, agent, ["one", "two"])
    assert outcome.text == "the end"
    assert texts(model.calls[0]) == ["one", "two"]


# ── E-66 ───────────────────────────────────────────────────────────────────────────────────────


@three_ways
async def test_e66_the_two_newest_steps(way: str) -> None:
    """E-66 (B-300, B-303): at each step of the loop two are sent; all four are stored."""
    keeper = Shelf()
    asks = [
        answer(tool_calls=[tool_call("look", {"topic": f"t{n}"}, id=f"c{n}")]) for n in range(4)
    ]
    model = ScriptedModel([*asks, "the end"])
    agent = Agent(
        id="filtered",
        model=model,
        tools=[look],
        input_processors=[ToolCallFilter(filter_after_tool_steps=2)],
        extensions=[keeper],
    )
    outcome = await play(way, agent, "go", max_steps=8)
    assert outcome.text == "the end"
    expected = [[], ["c0"], ["c0", "c1"], ["c1", "c2"], ["c2", "c3"]]
    assert [called(call) for call in model.calls] == expected
    assert [list(prompt_results(call)) for call in model.calls] == expected
    assert "t1" not in json.dumps(model.calls[4].prompt)
    every = {f"c{n}": ({"topic": f"t{n}"}, {"found": f"raw t{n}"}) for n in range(4)}
    assert stored_calls(keeper.rows) == every
    assert stored_calls(outcome.messages) == every


@three_ways
async def test_e66_by_default_only_what_was_before(way: str) -> None:
    """E-66 (B-302): without the option the loop is whole, and calls of earlier turns are gone."""
    keeper = Shelf()
    asks = [
        answer(tool_calls=[tool_call("look", {"topic": f"t{n}"}, id=f"c{n}")]) for n in range(3)
    ]
    model = ScriptedModel([asks[0], "one", asks[1], asks[2], "two"])
    agent = Agent(
        id="filtered",
        model=model,
        tools=[look],
        input_processors=[ToolCallFilter()],
        extensions=[keeper],
    )
    await play(way, agent, "first")
    await play(way, agent, "second")
    expected = [[], ["c0"], [], ["c1"], ["c1", "c2"]]
    assert [called(call) for call in model.calls] == expected
    assert texts(model.calls[2]) == ["first", "one", "second"]
    assert list(stored_calls(keeper.rows)) == ["c0", "c1", "c2"]


# ── E-67 ───────────────────────────────────────────────────────────────────────────────────────


@three_ways
async def test_e67_the_compact_output_stays(way: str) -> None:
    """E-67 (B-305): as a text that names its tool; of the other call there is nothing."""
    keeper = Shelf()
    asks = answer(
        tool_calls=[
            tool_call("count", {"table": "birds"}, id="c1"),
            tool_call("look", {"topic": "owls"}, id="c2"),
        ]
    )
    model = ScriptedModel([asks, "There are three.", "the end"])
    agent = Agent(
        id="filtered",
        model=model,
        tools=[count, look],
        input_processors=[ToolCallFilter(preserve_model_output=True)],
        extensions=[keeper],
    )
    await play(way, agent, "How many?")
    outcome = await play(way, agent, "And now?")
    assert outcome.text == "the end"
    last = model.calls[2]
    assert (called(last), prompt_results(last)) == ([], {})
    first, kept, *others = texts(last)
    assert first == "How many?"
    assert "count" in kept
    assert "three rows" in kept
    assert others == ["There are three.", "And now?"]
    prompt = json.dumps(last.prompt)
    assert not [word for word in ("raw", "birds", "owls", "look") if word in prompt]
    assert stored_calls(keeper.rows) == {
        "c1": ({"table": "birds"}, {"rows": ["raw birds"] * 3}),
        "c2": ({"topic": "owls"}, {"found": "raw owls"}),
    }
