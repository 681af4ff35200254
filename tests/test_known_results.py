"""Responses that come with the results of their tools, and who hears what tools return (R-218)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent, CachedLLMStepResponse, ProcessorError, processor, tool
from procession.testing import ScriptedModel, answer, collect, tool_call

if TYPE_CHECKING:
    from collections.abc import Mapping

CALL = {
    "type": "tool-call",
    "payload": {"toolCallId": "c1", "toolName": "stock", "args": {"item": "bolt"}},
}
END = {
    "type": "finish",
    "payload": {"stepResult": {"reason": "tool-calls"}, "output": {"usage": {}}},
}
RESULT = {"left": 12}


def replaying(results: Any) -> Any:
    """Stands in for the model in the first step."""

    def stand_in(args: Any) -> Mapping[str, Any] | None:
        if args.step_number:
            return None
        return {"response": {"chunks": [CALL, END], "tool_results": results}}

    return processor(process_llm_request=stand_in)


def agent_with_stock(ran: list[str], **options: Any) -> tuple[Agent, ScriptedModel]:
    @tool(**options.pop("tool", {}))
    def stock(item: str) -> dict[str, int]:
        """How many are left."""
        ran.append(item)
        return {"left": 3}

    model = ScriptedModel(["Enough."])
    return Agent(id="shop", model=model, tools=[stock], **options), model


@pytest.mark.parametrize("options", [{}, {"require_approval": True}])
async def test_a_tool_whose_result_is_known_is_not_run(options: dict[str, Any]) -> None:
    """R-218, C-074: nor does anybody have to approve what is not done."""
    ran: list[str] = []
    agent, model = agent_with_stock(ran, tool=options, input_processors=[replaying({"c1": RESULT})])
    run = await agent.stream("go")
    chunks = await collect(run.full_stream)
    assert [c.payload.result for c in chunks if c.type == "tool-result"] == [RESULT]
    assert await run.text == "Enough." and not ran
    assert model.calls[0].prompt[-1]["content"][0]["output"]["value"] == RESULT


async def test_a_result_that_is_not_known_is_made() -> None:
    """R-218: results of other calls answer nothing."""
    ran: list[str] = []
    agent, _ = agent_with_stock(ran, input_processors=[replaying({"c2": RESULT})])
    result = await agent.generate("go")
    assert ran == ["bolt"] and result.tool_results[0].payload.result == {"left": 3}


async def test_known_results_pass_the_guards_of_results() -> None:
    """C-075: in the place where a tool's own result would."""
    seen: list[Any] = []
    log: list[str] = []

    def look(args: Any) -> None:
        seen.append((args.tool_call_id, args.result, args.step_number))
        log.append("result")

    guard = processor(
        process_tool_result=look, process_output_step=lambda args: log.append("step"), id="guard"
    )
    agent, _ = agent_with_stock(
        [], input_processors=[replaying({"c1": RESULT})], output_processors=[guard]
    )
    await agent.generate("go")
    assert seen == [("c1", RESULT, 0)]
    assert log == ["step", "result", "step"]


async def test_a_known_result_has_its_form_for_the_model() -> None:
    """R-374: `to_model_output` is asked as for any other."""
    agent, model = agent_with_stock(
        [],
        tool={"to_model_output": lambda value: {"type": "text", "value": f"{value['left']} left"}},
        input_processors=[replaying({"c1": RESULT})],
    )
    await agent.generate("go")
    output = model.calls[0].prompt[-1]["content"][0]["output"]
    assert output == {"type": "text", "value": "12 left"}


async def test_a_giver_keeps_what_it_gave() -> None:
    """R-395: who edits a result does not edit the one that was handed in."""
    given: dict[str, Any] = {"left": [1]}

    def spoil(args: Any) -> None:
        args.result["left"].append(2)

    agent, _ = agent_with_stock(
        [],
        input_processors=[replaying({"c1": given})],
        output_processors=[processor(process_tool_result=spoil)],
    )
    await agent.generate("go")
    assert given == {"left": [1]}


@pytest.mark.parametrize("results", [["c1"], "c1", 7])
async def test_results_are_a_mapping(results: Any) -> None:
    """R-189: what is none is told of, with the processor that gave it."""
    agent, _ = agent_with_stock([], input_processors=[replaying(results)])
    with pytest.raises(ProcessorError, match=r"'tool_results' must be a mapping by call id"):
        await agent.generate("go")


def test_a_response_has_no_results_by_itself() -> None:
    assert CachedLLMStepResponse(chunks=[]).tool_results is None


# ── who hears what tools return ────────────────────────────────────────────────────────────────


def listening(heard: list[Any], tell: Any = None) -> Any:
    def listen(args: Any) -> None:
        args.on_tool_result(tell or (lambda *said: heard.append((args.step_number, *said))))

    return processor(process_llm_response=listen)


def looping() -> ScriptedModel:
    calls = [tool_call("double", {"of": 2}, id="c1"), tool_call("fails", {}, id="c2")]
    return ScriptedModel([answer(tool_calls=calls), "Done."])


@tool
def double(of: int) -> dict[str, int]:
    """Twice as much."""
    return {"is": 2 * of}


@tool
def fails() -> str:
    """Never works."""
    raise LookupError("no")


async def test_a_listener_hears_what_a_tool_has_returned() -> None:
    """C-074: before guards see it; of a tool that failed nothing is heard."""
    heard: list[Any] = []

    def mask(args: Any) -> None:
        part = {"toolCallId": args.tool_call_id, "result": "***"}
        args.message_list.update_tool_invocation({"toolInvocation": part})

    agent = Agent(
        id="twice",
        model=looping(),
        tools=[double, fails],
        input_processors=[listening(heard)],
        output_processors=[processor(process_tool_result=mask)],
    )
    result = await agent.generate("go")
    assert heard == [(0, "c1", {"is": 4})]
    assert [c.payload.result for c in result.tool_results] == ["***"]
    heard[0][2]["is"] = 5  # its own copy
    assert result.steps[0].tool_results[0].payload.result == "***"


async def test_what_a_guard_does_to_a_result_in_place_is_not_heard() -> None:
    """C-074: a listener has a copy of what the tool gave."""
    heard: list[Any] = []

    def spoil(args: Any) -> None:
        args.result["is"] = 99

    agent = Agent(
        id="twice",
        model=looping(),
        tools=[double, fails],
        input_processors=[listening(heard)],
        output_processors=[processor(process_tool_result=spoil)],
    )
    result = await agent.generate("go")
    assert result.steps[0].tool_results[0].payload.result == {"is": 99}
    assert heard == [(0, "c1", {"is": 4})]


async def test_a_listener_that_raises_counts_for_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C-074: the run goes on, and the log names what was raised, without its words."""

    def raises(*_: Any) -> None:
        raise LookupError("secret")

    model = looping()
    hears = listening([], raises)
    agent = Agent(id="twice", model=model, tools=[double, fails], input_processors=[hears])
    with caplog.at_level(logging.WARNING, "procession"):
        assert (await agent.generate("go")).text == "Done."
    assert "on_tool_result: a listener raised LookupError" in caplog.text
    assert "secret" not in caplog.text
