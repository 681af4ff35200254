"""Results of the client's own tools: one that answers no call is not lost silently (R-335)."""

from __future__ import annotations

from typing import Any

from procession import Agent, MessageList, Tool, processor
from procession.testing import ScriptedModel, answer, collect, tool_call

PICK = Tool(name="pick", input_schema={"type": "object"})
CALL = {"type": "tool-call", "toolCallId": "c1", "toolName": "pick", "input": {}}
ASKED: list[Any] = [
    {"role": "user", "content": "Paint it"},
    {"role": "assistant", "content": [CALL]},
]


def result(call_id: str) -> dict[str, Any]:
    part = {"type": "tool-result", "toolCallId": call_id, "toolName": "pick", "output": "red"}
    return {"role": "tool", "content": [part]}


async def test_a_result_with_a_wrong_id_is_told() -> None:
    """In every form of the outcome."""
    agent = Agent(id="a", model=ScriptedModel(["Done"]), tools=[PICK])
    run = await agent.stream([*ASKED, result("c2")])
    finish = [chunk for chunk in await collect(run.full_stream) if chunk.type == "finish"][-1]
    (warning,) = await run.warnings
    assert warning == {
        "type": "other",
        "message": "the result of tool call 'c2' was left out: no call here has that id",
    }
    assert finish.payload.step_result.warnings == [warning]


async def test_it_is_told_at_the_end_of_several_steps_too() -> None:
    model = ScriptedModel([answer(tool_calls=[tool_call("look")]), "Done"])
    look = Tool(name="look", execute=lambda arguments, context: "seen")
    agent = Agent(id="a", model=model, tools=[look, PICK])
    output = await agent.generate([*ASKED, result("c2")])
    assert (len(model.calls), len(output.warnings)) == (2, 1)


async def test_a_result_with_the_right_id_is_not() -> None:
    model = ScriptedModel(["Done"])
    output = await Agent(id="a", model=model, tools=[PICK]).generate([*ASKED, result("c1")])
    assert (output.text, output.warnings) == ("Done", [])


async def test_a_model_that_shares_its_warnings_is_not_written_to() -> None:
    model = ScriptedModel([answer("Done", warnings=[{"type": "other", "message": "old"}])])
    agent = Agent(id="a", model=model, tools=[PICK])
    for _ in range(2):
        assert len((await agent.generate([*ASKED, result("c2")])).warnings) == 2


async def test_a_hook_that_returns_one_is_told_as_well() -> None:
    hook = processor(id="adds", process_input=lambda args: [*args.messages, result("c3")])
    agent = Agent(id="a", model=ScriptedModel(["Done"]), input_processors=[hook])
    assert "'c3'" in (await agent.generate("Hi")).warnings[0]["message"]


def test_what_is_remembered_is_not_asked_after() -> None:
    """A history may begin anywhere."""
    assert MessageList().add([result("c9")], "memory").unmatched_results == []
