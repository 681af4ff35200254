"""Signals from outside of a run that is under way: heard at the next step, or kept for later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from procession import Agent, InputError, ProcessionError, processor
from tests.laws.kit import PlayedModel, call, echo, end, said

HURRY = {"type": "reactive", "contents": "Hurry."}
TOOLS = [[call("echo"), end("tool-calls")], [*said("done"), end()]]


def roles(run: Any) -> list[str]:
    return [message.role for message in run.message_list.get.all.db()]


def told(model: PlayedModel, step: int) -> list[str]:
    """What the model was shown in a step: roles, and texts of the user's entries."""
    return [
        entry["content"][0]["text"] if entry["role"] == "user" else entry["role"]
        for entry in model.prompts[step]
    ]


async def test_the_next_step_shows_it_behind_what_came_before() -> None:
    """R-712, R-717, R-722: the running message is closed, and the chunk comes before the step."""
    model = PlayedModel(TOOLS)
    agent = Agent(id="desk", model=model, tools=[echo])
    run = await agent.stream("go")
    kinds: list[str] = []
    async for chunk in run:
        kinds.append(chunk.type)
        if chunk.type == "tool-call":
            signal = await asyncio.create_task(run.send_signal(HURRY))
    assert signal.accepted_at is not None and signal.tag_name == "system-reminder"
    assert told(model, 1) == [
        "go",
        "assistant",
        "tool",
        "<system-reminder>Hurry.</system-reminder>",
    ]
    assert kinds.index("data-signal") < kinds.index("step-start", kinds.index("tool-result"))
    assert roles(run) == ["user", "assistant", "signal", "assistant"]


async def test_what_comes_too_late_stands_behind_the_answer() -> None:
    """R-722, R-723: no step shows it any more; a transient one is gone with the run."""
    model = PlayedModel([[*said("done"), end()]])
    run = await Agent(id="desk", model=model).stream("go")
    async for chunk in run:
        if chunk.type == "text-delta":
            await run.send_signal(HURRY)
            await run.send_signal({**HURRY, "transient": True})
    assert len(model.prompts) == 1
    assert roles(run) == ["user", "assistant", "signal"]
    with pytest.raises(ProcessionError, match="has ended"):
        await run.send_signal(HURRY)


async def test_what_is_no_signal_is_refused_where_it_is_sent() -> None:
    """R-700, R-703: and the run goes on as if nothing had been said."""
    run = await Agent(id="desk", model=PlayedModel(TOOLS), tools=[echo]).stream("go")
    for wrong in ({"type": "noise", "contents": "x"}, {"type": "reactive"}, "hurry"):
        with pytest.raises(InputError):
            await run.send_signal(wrong)
    assert await run.text == "done"


async def test_a_signal_of_the_caller_stays_as_it_is_and_passes_the_gate() -> None:
    """R-198, R-199: processors with `process_data_parts` see the chunk."""
    seen: list[Any] = []

    def look(args: Any) -> Any:
        if args.part.type == "data-signal":
            seen.append(args.part.data["contents"])
        return args.part

    guard = processor(id="guard", process_output_stream=look)
    guard.process_data_parts = True
    agent = Agent(id="desk", model=PlayedModel(TOOLS), tools=[echo], output_processors=[guard])
    run = await agent.stream("go")
    first = await run.send_signal(HURRY)
    again = await run.send_signal(first)
    assert again is not first
    await run.consume_stream()
    assert seen == ["Hurry."] * 2
