"""E-80 and E-81 with memory: what a reminder leaves in storage, and in later prompts."""

from __future__ import annotations

from typing import Any

from procession import tool
from procession.testing import ScriptedModel, answer, tool_call
from tests.laws.kit import Hook
from tests.memory.kit import CALL, remembering, rows, said
from tests.seeds.threeways import play, three_ways

MAX_STEPS = 5


@tool
async def search(topic: str = "") -> str:
    """Look something up."""
    return f"found {topic}"


def searching(times: int, words: str) -> list[Any]:
    calls = [answer(tool_calls=[tool_call("search", {"topic": str(n)})]) for n in range(times)]
    return [*calls, words]


@three_ways
async def test_e80_the_reminder_of_the_last_step(way: str) -> None:
    """E-80 (R-720 to R-722, R-724, R-725): in raw history and in the next turn, not recalled."""

    async def ensure_final_response(args: Any) -> None:
        if args.step_number == MAX_STEPS - 1:
            await args.send_signal(
                {
                    "type": "reactive",
                    "contents": "The last step: answer & <stop>.",
                    "attributes": {"reason": "max-steps-reached", "step": MAX_STEPS},
                }
            )

    model = ScriptedModel([*searching(4, "A summary."), "More."])
    agent, memory = remembering(
        model,
        tools=[search],
        input_processors=[Hook("process_input_step", ensure_final_response)],
    )
    outcome = await play(way, agent, "go", memory=CALL, max_steps=MAX_STEPS)
    fourth, fifth = model.calls[3].prompt, model.calls[4].prompt
    reminder = (
        '<system-reminder reason="max-steps-reached" step="5">'
        "The last step: answer &amp; &lt;stop&gt;.</system-reminder>"
    )
    assert fifth[: len(fourth)] == fourth and said(fifth)[-1] == reminder
    stored = await rows(memory)
    assert [row.role for row in stored] == ["user", "assistant", "signal", "assistant"]
    assert (stored[2].type, stored[2].text) == (
        "system-reminder",
        "The last step: answer & <stop>.",
    )
    facts = (stored[2].content.metadata or {})["signal"]
    assert facts["attributes"] == {"reason": "max-steps-reached", "step": 5}
    recalled = (await memory.recall("t1")).messages
    assert [message.role for message in recalled] == ["user", "assistant", "assistant"]
    assert "last step" not in str(outcome.output.response.ui_messages)

    await play(way, agent, "more", memory=CALL, max_steps=1)
    following = model.calls[5].prompt
    assert following[: len(fifth)] == fifth  # rendered as it was, at its place
    assert said(following)[-2:] == ["A summary.", "more"]


@three_ways
async def test_e81_a_transient_reminder_at_every_step(way: str) -> None:
    """E-81 (R-723): one copy in each prompt, none in storage, none in the next turn."""

    async def steer(args: Any) -> None:
        await args.send_signal({"type": "reactive", "contents": "Be kind.", "transient": True})

    model = ScriptedModel([*searching(1, "one"), *searching(1, "two")])
    agent, memory = remembering(
        model, tools=[search], input_processors=[Hook("process_input_step", steer)]
    )
    told = "<system-reminder>Be kind.</system-reminder>"
    for question in ("q1", "q2"):
        await play(way, agent, question, memory=CALL)
    for each in model.calls:
        assert said(each.prompt).count(told) == 1 and said(each.prompt)[-1] == told
    assert {row.role for row in await rows(memory)} == {"user", "assistant"}
    assert said(model.calls[2].prompt) == ["q1", "assistant", "tool", "one", "q2", told]
