"""A workflow among processors: every hook, verdicts, retries, mistakes that are told."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from procession import (
    Agent,
    ConfigurationError,
    Policy,
    ProcessInputStepResult,
    ProcessorError,
    TripWire,
    processor,
    tool,
)
from procession.memory import Memory, MessageHistory
from procession.stores import InMemoryStore
from procession.testing import ScriptedModel, answer, tool_call
from procession.workflows import create_step, create_workflow
from tests.laws.kit import Tap
from tests.workflows.kit import flow, rewriting, side_by_side, speaker, speaking


@tool
def tide(place: str) -> str:
    """When the tide is high."""
    return f"04:12 at {place}"


def phases_of(seen: list[str]) -> Any:
    def look(context: Any) -> Any:
        seen.append(context.input_data["phase"])
        return context.input_data

    return create_step(id="look", execute=look)


async def test_every_phase_reaches_the_steps_in_the_order_of_hooks() -> None:
    """W-060: once per hook call; input and output lists get their phases only."""
    ins: list[str] = []
    outs: list[str] = []
    model = ScriptedModel([answer(tool_calls=[tool_call("tide", {"place": "Port"})]), "At 04:12."])
    agent = speaker(
        model,
        flow("outs").then(phases_of(outs)).commit(),
        inputs=[flow("ins").then(phases_of(ins)).commit()],
        tools=[tide],
    )
    output = await agent.generate("When?")
    assert output.text == "At 04:12."
    assert ins == ["input", "inputStep", "inputStep"]
    others = [phase for phase in outs if phase != "outputStream"]
    assert others == ["outputStep", "toolResult", "outputStep", "outputResult"]
    assert outs.count("outputStream") > 8


def test_a_workflow_is_no_error_processor() -> None:
    """W-007: told when the agent is made, as a TypeError."""
    made = flow().then(create_step(Tap())).commit()
    with pytest.raises(TypeError, match=r"error_processors\[0\] \('flow'\) is a Workflow"):
        Agent(id="a", model=speaking("hi"), error_processors=[made])


def test_a_workflow_of_other_things_does_not_stand_among_processors() -> None:
    made = create_workflow(id="w", input_schema=int).then(phases_of([])).commit()
    with pytest.raises(ConfigurationError, match="ProcessorStepSchema"):
        Agent(id="a", model=speaking("hi"), input_processors=[made])


async def test_hooks_that_are_not_called_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """W-041: with the workflow, the processor and the hook."""
    log: list[Any] = []
    made = flow("quiet").then(create_step(Tap("loud", log))).commit()
    with caplog.at_level(logging.WARNING, "procession"):
        agent = Agent(id="a", model=speaking("hi"), input_processors=[made])
        await agent.generate("x", input_processors=[made])
    told = [record.getMessage() for record in caplog.records]
    assert len([line for line in told if "'loud'" in line]) == 3
    assert "process_llm_request" in told[0]
    assert {name for _, name, _ in log} == {"process_input", "process_input_step"}


@pytest.mark.parametrize(
    "build",
    [
        lambda a, b: flow().parallel([a, b]).commit(),
        lambda a, b: flow().then(a).map(lambda context: {"messages": []}).commit(),
        lambda a, b: flow().map(lambda context: None).commit(),
        lambda a, b: flow().branch([(lambda context: False, a)]).commit(),
    ],
)
async def test_what_is_no_step_value_is_told_with_the_missing_map(build: Any) -> None:
    """W-061, W-182: the error names the workflow and the way out."""
    steps = [create_step(rewriting(id, str.upper)) for id in "ab"]
    agent = Agent(id="a", model=speaking("hi"), input_processors=[build(*steps)])
    with pytest.raises(ProcessorError, match=r"'flow', process_input: .*\.map\("):
        await agent.generate("x")


async def test_a_branch_on_the_phase_runs_different_steps() -> None:
    """W-092, W-183: one step runs; for `input` another one than for `inputStep`."""
    log: list[Any] = []
    first, second = Tap("first", log), Tap("second", log)
    made = (
        flow()
        .branch(
            [
                (lambda context: context.input_data["phase"] == "input", create_step(first)),
                (lambda context: True, create_step(second)),
            ]
        )
        .map(lambda context: next(iter(context.input_data.values())))
        .commit()
    )
    await Agent(id="a", model=speaking("hi"), input_processors=[made]).generate("x")
    assert [(id, name) for id, name, _ in log] == [
        ("first", "process_input"),
        ("second", "process_input_step"),
    ]


@pytest.mark.parametrize("alone", [True, False])
async def test_settings_of_a_step_are_those_of_the_chosen_branch(alone: bool) -> None:
    """W-062, W-064: what a sibling chooses, or changes in place, is discarded."""

    def warm(args: Any) -> Any:
        return ProcessInputStepResult(model_settings={**args.model_settings, "temperature": 0.5})

    def cold(args: Any) -> Any:
        args.tools.clear()
        args.model_settings["top_p"] = 0.1
        return {"model_settings": {"temperature": 0.0}, "active_tools": []}

    one = processor(id="warm", process_input_step=warm)
    two = processor(id="cold", process_input_step=cold)
    made = (
        flow().then(create_step(one)).commit()
        if alone
        else side_by_side(two, one, two_of("third"), choose="warm")
    )
    model = speaking("hi")
    agent = Agent(id="a", model=model, input_processors=[made], tools=[tide])
    await agent.generate("x")
    assert model.calls[0].settings == {"temperature": 0.5}
    assert model.calls[0].tool_names == ["tide"]


def two_of(id: str) -> Any:
    return processor(id=id, process_input_step=lambda args: {"tool_choice": "none"})


async def test_state_goes_by_the_processor_everywhere() -> None:
    """W-064: the same dict in all hooks, workflows and lists of a run, across branches."""

    def count(args: Any) -> None:
        args.state["calls"] = args.state.get("calls", 0) + 1

    seen: list[Any] = []
    counting = processor(id="counting", process_input=count, process_output_step=count)
    telling = processor(
        id="counting", process_output_result=lambda args: seen.append(dict(args.state))
    )
    agent = speaker(
        speaking("hi"),
        side_by_side(counting, two_of("x"), choose="counting", id="outs"),
        telling,
        inputs=[counting, side_by_side(counting, two_of("x"), choose="x", id="ins")],
    )
    await agent.generate("x")
    assert seen == [{"calls": 3}]


HOOKS = [
    ("process_input", "input_processors"),
    ("process_input_step", "input_processors"),
    ("process_output_stream", "output_processors"),
    ("process_output_step", "output_processors"),
    ("process_tool_result", "output_processors"),
    ("process_output_result", "output_processors"),
]


@pytest.mark.parametrize(("hook", "where"), HOOKS)
@pytest.mark.parametrize("shape", ["sequence", "parallel", "nested"])
async def test_a_verdict_is_that_of_the_processor(hook: str, where: str, shape: str) -> None:
    """W-065, W-070: reason, metadata and id are the processor's, who is told of it once."""
    told: list[Any] = []

    async def stop(args: Any) -> Any:
        args.abort("enough", metadata={"a": 1})

    guard = processor(id="guard", on_violation=told.append, **{hook: stop})
    other = Tap("other")
    made = flow().then(create_step(other)).then(create_step(guard)).commit()
    if shape == "parallel":
        made = side_by_side(other, guard, choose="other")
    elif shape == "nested":
        inner = flow("inner").then(create_step(guard)).commit()
        made = flow().parallel([create_step(other), inner]).map(_first).commit()
    model = ScriptedModel([answer(tool_calls=[tool_call("tide", {"place": "Port"})]), "hi"])
    agent = Agent(id="a", model=model, tools=[tide], **{where: [made]})
    output = await agent.generate("x")
    assert output.status == "tripwire"
    assert output.tripwire is not None
    wire = output.tripwire
    assert (wire.processor_id, wire.reason, wire.metadata) == ("guard", "enough", {"a": 1})
    assert [(v.processor_id, v.message, v.detail) for v in told] == [("guard", "enough", {"a": 1})]


def _first(context: Any) -> Any:
    return next(iter(context.input_data.values()))


@pytest.mark.parametrize("hook", ["process_output_step", "process_output_stream"])
async def test_a_retry_is_asked_for_as_outside(hook: str) -> None:
    """W-065: with the reason as feedback."""

    def once(args: Any) -> Any:
        part = getattr(args, "part", None)
        if args.retry_count == 0 and (part is None or part.type == "text-delta"):
            args.abort("shorter", retry=True)
        return part

    model = ScriptedModel(["long", "short"])
    guard = processor(id="guard", **{hook: once})
    made = side_by_side(Tap("other"), guard, choose="other")
    output = await speaker(model, made, max_processor_retries=1).generate("x")
    assert (output.text, output.steps[0].finish_reason) == ("short", "retry")
    assert "shorter" in str(model.calls[1].prompt)


@pytest.mark.parametrize("hook", ["process_input", "process_output_stream", "process_output_step"])
@pytest.mark.parametrize("function", [True, False])
async def test_errors_are_those_of_plain_processors(hook: str, function: bool) -> None:
    """W-067: they fail the run and reach the caller as they are."""

    def fail(args: Any) -> None:
        raise LookupError("broken")

    step = (
        create_step(id="fail", execute=fail)
        if function
        else create_step(processor(id="fail", **{hook: fail}))
    )
    made = flow().parallel([create_step(Tap("other")), step]).map(_first).commit()
    where = "input_processors" if hook == "process_input" else "output_processors"
    agent = Agent(id="a", model=speaking("hi"), **{where: [made]})
    with pytest.raises(LookupError, match="broken"):
        await agent.generate("x")


async def test_steps_are_tried_again_after_errors_only() -> None:
    """W-068: on messages as they were; never after a verdict."""
    tries: list[str] = []

    def shaky(args: Any) -> None:
        rewriting_text(args)
        tries.append(args.messages[0].text)
        if len(tries) < 3:
            raise OSError("not yet")

    made = flow(retry_config={"attempts": 2}).then(
        create_step(processor(id="shaky", process_input=shaky))
    )
    model = speaking("hi")
    await Agent(id="a", model=model, input_processors=[made.commit()]).generate("x")
    assert (tries, model.calls[0].text) == (["x!", "x!", "x!"], "x!")

    def stop(args: Any) -> None:
        tries.append("stop")
        args.abort("no")

    tries.clear()
    step = create_step(processor(id="stop", process_input=stop), retries=3)
    agent = Agent(id="a", model=model, input_processors=[flow().then(step).commit()])
    assert (await agent.generate("x")).status == "tripwire"
    assert tries == ["stop"]


def rewriting_text(args: Any) -> None:
    for part in args.messages[0].parts:
        part.text += "!"


async def test_a_step_that_suspends_itself_is_an_error_there() -> None:
    """W-069: said with what to do instead."""
    step = create_step(id="ask", execute=lambda context: context.suspend({"why": 1}))
    agent = Agent(id="a", model=speaking("hi"), input_processors=[flow().then(step).commit()])
    with pytest.raises(ProcessorError, match="suspends itself"):
        await agent.generate("x")


async def test_data_chunks_reach_those_who_asked_for_them() -> None:
    """W-071: each step decides for itself."""
    seen: list[str] = []

    def looking(id: str, *, data: bool) -> Any:
        def look(args: Any) -> Any:
            if args.part.type.startswith("data-"):
                seen.append(id)
            return args.part

        return processor(id=id, process_output_stream=look, process_data_parts=data)

    async def write(args: Any) -> None:
        if args.part.type == "text-start":
            await args.writer.custom({"type": "data-note", "data": 1})
        return args.part

    agent = speaker(
        speaking("hi"),
        processor(id="writing", process_output_stream=write),
        side_by_side(looking("a", data=True), looking("b", data=False), choose="b"),
    )
    run = await agent.stream("x")
    assert [c.type for c in [c async for c in run] if c.type.startswith("data-")] == ["data-note"]
    assert seen == ["a"]


async def test_hooks_within_write_to_the_client() -> None:
    async def write(args: Any) -> Any:
        await args.writer.custom({"type": "data-note", "data": args.processor_id})
        return getattr(args, "part", None)

    for hook in ("process_input_step", "process_output_stream", "process_output_step"):
        where = "input_processors" if "input" in hook else "output_processors"
        made = side_by_side(processor(id="w", **{hook: write}), Tap("other"), choose="other")
        agent = Agent(id="a", model=speaking("hi"), **{where: [made]})
        chunks = [chunk async for chunk in await agent.stream("x")]
        assert {c.data for c in chunks if c.type == "data-note"} == {"w"}, hook


async def test_workflows_within_workflows() -> None:
    """W-073: as a step, in a branch, twice."""
    up = flow("up").then(create_step(rewriting("up", str.upper))).commit()
    twice = flow("twice").then(up).then(create_step(rewriting("mark", lambda t: t + "!"))).commit()
    made = flow().parallel([twice, create_step(rewriting("low", str.lower))])
    model = speaking("hi")
    chosen = made.map(lambda context: context.input_data["twice"]).commit()
    await Agent(id="a", model=model, input_processors=[chosen]).generate("Hello")
    assert model.calls[0].text == "HELLO!"


async def test_results_of_steps_before_can_be_asked_for() -> None:
    """W-026: also those that later steps have changed, and the workflow's input."""
    seen: list[str] = []

    def choose(context: Any) -> Any:
        seen.extend(
            value["messages"][0].text
            for value in (
                context.get_init_data(),
                context.get_step_result("processor:up"),
                context.get_step_result(last),
            )
        )
        return context.get_step_result("processor:up")

    last = create_step(rewriting("mark", lambda text: text + "!"))
    made = flow().then(create_step(rewriting("up", str.upper))).then(last).map(choose).commit()
    model = speaking("hi")
    await Agent(id="a", model=model, input_processors=[made]).generate("Hello")
    assert seen[:3] == ["Hello", "HELLO", "HELLO!"]
    assert model.calls[0].text == "HELLO"


async def test_a_step_may_end_the_workflow() -> None:
    """W-126: what comes behind is left out, in this call of a hook."""
    log: list[Any] = []

    def early(context: Any) -> Any:
        if context.input_data["phase"] == "input":
            context.bail(context.input_data)
        return context.input_data

    step = create_step(id="early", execute=early)
    made = flow().then(step).then(create_step(Tap("late", log))).commit()
    await Agent(id="a", model=speaking("hi"), input_processors=[made]).generate("x")
    assert [name for _, name, _ in log] == ["process_input_step"]


async def test_policies_hold_within_branches() -> None:
    """W-070: a failure that is allowed leaves the branch as it was."""

    async def fail(args: Any) -> None:
        rewriting_text(args)
        raise OSError("down")

    failing = processor(id="failing", process_input=fail, policy=Policy(on_error="allow"))
    model = speaking("hi")
    made = side_by_side(failing, rewriting("other", str.upper), choose="failing")
    output = await Agent(id="a", model=model, input_processors=[made]).generate("Hello")
    assert model.calls[0].text == "Hello"
    assert [event.processor_id for event in output.policy_events] == ["failing"]


async def test_a_function_may_give_a_verdict() -> None:
    """R-172: it is that of the workflow."""

    def no(context: Any) -> Any:
        raise TripWire("no")

    made = flow().then(create_step(id="no", execute=no)).commit()
    output = await Agent(id="a", model=speaking("hi"), input_processors=[made]).generate("x")
    assert output.tripwire is not None
    assert output.tripwire.processor_id == "flow"


async def test_messages_put_into_the_value_by_hand_are_applied() -> None:
    """W-062: as if a processor had returned them; so are system messages."""

    def add(context: Any) -> Any:
        data = context.input_data
        if data["phase"] != "input":
            return data
        more = {"role": "user", "content": "And briefly."}
        system = [*data["system_messages"], {"role": "system", "content": "Be kind."}]
        return {**data, "messages": [*data["messages"], more], "system_messages": system}

    model = speaking("hi")
    made = flow().map(add).then(create_step(rewriting("up", str.upper))).commit()
    await Agent(id="a", model=model, input_processors=[made]).generate("Hello")
    assert model.calls[0].text == "Be kind.\nHELLO\nAND BRIEFLY."


@pytest.mark.parametrize(("choose", "expected"), [("mask", "[masked]"), ("keep", "04:12 at Port")])
async def test_results_of_tools_are_those_of_the_chosen_branch(choose: str, expected: str) -> None:
    """W-063, R-148: in the stream and for the model."""

    def mask(args: Any) -> None:
        part = {"toolCallId": args.tool_call_id, "state": "result", "result": "[masked]"}
        args.message_list.update_tool_invocation({"toolInvocation": part})

    model = ScriptedModel([answer(tool_calls=[tool_call("tide", {"place": "Port"})]), "Done."])
    masking = processor(id="mask", process_tool_result=mask)
    keeping = processor(id="keep", process_tool_result=lambda args: None)
    agent = speaker(model, side_by_side(masking, keeping, choose=choose), tools=[tide])
    output = await agent.generate("x")
    assert [chunk.payload.result for chunk in output.tool_results] == [expected]
    assert expected in str(model.calls[1].prompt)


async def test_memory_sees_its_processors_in_workflows() -> None:
    """M-044: they are not added again."""
    store = InMemoryStore()
    history = MessageHistory(storage=store.get_store("memory"))
    model = ScriptedModel(["one", "two"])
    agent = Agent(
        id="a",
        model=model,
        input_processors=[flow().then(create_step(history)).commit()],
        memory=Memory(storage=store),
    )
    for text in ("hi", "again"):
        await agent.generate(text, memory={"thread": "t", "resource": "r"})
    said = [entry["content"][0]["text"] for entry in model.calls[1].prompt]
    assert said == ["hi", "one", "again"]
    page = await store.get_store("memory").list_messages("t")
    assert [message.text for message in page.messages] == ["hi", "one", "again", "two"]


async def test_many_runs_of_one_workflow_at_the_same_time() -> None:
    """Nothing of a run is in the workflow."""

    def echo(args: Any) -> Any:
        if args.part.type == "text-end":
            args.part.payload.id += args.message_list.messages()[0].text
        return args.part

    made = side_by_side(processor(id="e", process_output_stream=echo), Tap("t"), choose="e")
    agent = speaker(ScriptedModel([answer("a", "b")]), made)

    async def ends(text: str) -> list[str]:
        run = await agent.stream(text)
        return [chunk.payload.id async for chunk in run if chunk.type == "text-end"]

    found = await asyncio.gather(*(ends(f"-{number}") for number in range(20)))
    assert [end[0].rpartition("-")[2] for end in found] == [str(number) for number in range(20)]
