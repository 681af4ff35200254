"""Whatever becomes of its turns, a thread stays balanced, and holds each accepted one once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from procession import AbortController, Agent
from procession.memory import Memory
from procession.stores import InMemoryStore
from tests.laws.kit import Hook, PlayedModel, call, echo, end
from tests.laws.kit import said as block
from tests.memory.kit import CALL, rows

if TYPE_CHECKING:
    from procession import Message

OUTCOMES = ("accepted", "blocked in", "blocked out", "failed", "raised", "stopped")
turns = st.lists(st.tuples(st.sampled_from(OUTCOMES), st.integers(0, 2)), min_size=1, max_size=6)


def answers(outcome: str, tools: int) -> list[list[Any]]:
    """So many steps with a tool each, then an answer, or what comes in its place."""
    steps = [[call("echo", id=f"c{outcome}{n}"), end("tool-calls")] for n in range(tools)]
    if outcome == "failed":
        return [*steps, [*block("so far"), ConnectionError("gone")]]
    return [*steps, [*block("an ", "answer"), end()]]


def abort(args: Any) -> None:
    args.abort("no")


def fail(args: Any) -> None:
    raise LookupError("broken")


async def turn(memory: Memory, question: str, outcome: str, tools: int) -> Any:
    """One turn that comes to `outcome`; the prompts of its model."""
    model = PlayedModel(answers(outcome, tools))
    stop = AbortController()
    options: dict[str, Any] = {"memory": CALL}
    if outcome == "blocked in":
        options["input_processors"] = [Hook("process_input", abort)]
    elif outcome in ("blocked out", "raised"):
        hook = abort if outcome == "blocked out" else fail
        options["output_processors"] = [Hook("process_output_result", hook)]
    elif outcome == "stopped":
        options["abort_signal"] = stop.signal
        options["on_chunk"] = lambda c: stop.abort() if c.type == "text-delta" else None
    agent = Agent(id="desk", model=model, memory=memory, tools=[echo])
    async with agent.stream(question, **options) as run:
        async for _ in run:
            pass
    return model.prompts


def check_balanced(messages: list[Message]) -> None:
    """G-E: no call without its outcome, and none twice."""
    for message in messages:
        states = [
            part.tool_invocation.state
            for part in message.content.parts
            if part.type == "tool-invocation"
        ]
        assert set(states) <= {"result", "output-error"}


def check_prompt(prompt: list[dict[str, Any]]) -> None:
    """What every provider accepts: results behind their calls, and no error of ours."""
    calls: list[str] = []
    results: list[str] = []
    for entry in prompt:
        if isinstance(entry["content"], str):
            continue
        for part in entry["content"]:
            if part["type"] == "tool-call":
                calls.append(part["toolCallId"])
            elif part["type"] == "tool-result":
                assert part["toolCallId"] in calls
                results.append(part["toolCallId"])
    assert sorted(calls) == sorted(results)
    assert "gone" not in str(prompt)


@settings(max_examples=40, deadline=None)
@given(played=turns, together=st.booleans())
def test_any_turns_leave_a_thread_that_goes_on(played: Any, together: bool) -> None:
    """Law 5, G-C, G-E, G-O: in any order, one after the other or at once."""

    async def scenario() -> None:
        memory = Memory(storage=InMemoryStore(), last_messages=100)
        work = [
            turn(memory, f"q{number}", outcome, tools)
            for number, (outcome, tools) in enumerate(played)
        ]
        if together:
            prompts = await asyncio.gather(*work)
        else:
            prompts = [await each for each in work]
        stored = await rows(memory)
        assert len({row.id for row in stored}) == len(stored)
        check_balanced(stored)
        asked = [row.text for row in stored if row.role == "user"]
        kept = ("accepted", "failed", "stopped")
        assert sorted(asked) == [f"q{n}" for n, (o, _) in enumerate(played) if o in kept]
        said = sum(row.role == "assistant" and row.text == "an answer" for row in stored)
        assert said == sum(outcome == "accepted" for outcome, _ in played)
        for each in prompts:
            for prompt in each:
                check_prompt(prompt)
        assert stored == sorted(stored, key=lambda row: row.created_at)

    asyncio.run(scenario())
