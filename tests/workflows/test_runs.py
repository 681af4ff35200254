"""Runs of workflows on their own: results by status, retries, loops, events, cancelling."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from procession import AbortController, Agent, InputError, TripWire, processor, tool
from procession.testing import ScriptedModel
from procession.workflows import (
    ProcessorStepSchema,
    StepContext,
    Workflow,
    create_step,
    create_workflow,
)
from tests.laws.kit import others_done
from tests.workflows.kit import flow, rewriting


class Order(BaseModel):
    number: int


def step(id: str, work: Any, **options: Any) -> Any:
    return create_step(id=id, execute=work, **options)


def double(context: StepContext) -> Any:
    return context.input_data * 2


async def add_one(context: StepContext) -> Any:
    await asyncio.sleep(0)
    return context.input_data + 1


async def result_of(workflow: Workflow, input_data: Any = None, **options: Any) -> Any:
    run = await workflow.create_run()
    result = await run.start(input_data=input_data, **options)
    assert run.status == result.status
    return result


async def test_success() -> None:
    """W-090, W-120, W-121: the last output, records by step id, and the path."""
    run = (
        await create_workflow(id="w")
        .then(step("a", double))
        .then(step("b", add_one))
        .commit()
        .create_run(run_id="run-1")
    )
    result = await run.start(input_data=3)
    assert (result.status, result.result, result.run_id) == ("success", 7, "run-1")
    assert (result.input, result.path) == (3, ["a", "b"])
    record = result.steps["b"]
    assert (record.status, record.payload, record.output) == ("success", 6, 7)
    assert record.started_at is not None
    assert record.ended_at >= record.started_at
    with pytest.raises(InputError, match="started before"):
        await run.start(input_data=3)


async def test_an_error_fails_the_run() -> None:
    """W-121: with its name and message; what comes behind is not executed."""

    def broken(context: StepContext) -> None:
        raise LookupError("nothing there")

    made = create_workflow(id="w").then(step("a", broken)).then(step("b", double)).commit()
    result = await result_of(made, 1)
    assert result.status == "failed"
    assert (result.error.name, result.error.message) == ("LookupError", "nothing there")
    assert isinstance(result.exception, LookupError)
    assert (result.path, result.steps["a"].error["name"]) == (["a"], "LookupError")


async def test_a_verdict_is_a_tripwire() -> None:
    """W-065, W-121, W-132: of a processor step, and of an agent's processor."""

    def no(args: Any) -> None:
        args.abort("no", retry=True, metadata={"a": 1})

    guard = processor(id="guard", process_input=no)
    given = {"phase": "input", "messages": [{"role": "user", "content": "hi"}]}
    result = await result_of(flow().then(create_step(guard)).commit(), given)
    wire = result.tripwire
    assert (result.status, wire.reason, wire.retry) == ("tripwire", "no", True)
    assert (wire.metadata, wire.processor_id) == ({"a": 1}, "guard")
    assert result.steps["processor:guard"].status == "tripwire"
    agent = Agent(id="agent", model=ScriptedModel(["hi"]), input_processors=[guard])
    made = create_workflow(id="w").then(create_step(agent)).commit()
    result = await result_of(made, {"prompt": "x"})
    assert (result.status, result.tripwire.processor_id) == ("tripwire", "guard")


async def test_inputs_and_outputs_are_checked() -> None:
    """W-122: the workflow's raises, a step's fails the step; values of types are made of them."""
    typed = step("typed", lambda context: context.input_data.number, input_schema=Order)
    made = create_workflow(id="w", input_schema=Order).then(typed).commit()
    assert (await result_of(made, {"number": 4})).result == 4
    with pytest.raises(InputError, match=r"input of workflow 'w'.*number") as raised:
        await result_of(made, {"number": "SECRET"})
    assert "SECRET" not in str(raised.value)
    wrong = create_workflow(id="w").then(step("a", double, output_schema=str)).commit()
    result = await result_of(wrong, 3)
    assert (result.status, result.error.name) == ("failed", "InputError")
    assert "output of step 'a'" in result.error.message
    unchecked = create_workflow(id="w", input_schema=int, options={"validate_inputs": False})
    assert (await result_of(unchecked.then(step("a", double)).commit(), "x")).result == "xx"
    wanting = create_workflow(id="w", output_schema=str).then(step("a", double)).commit()
    assert (await result_of(wanting, 3)).status == "failed"


async def test_parallel_branch_and_map() -> None:
    """W-091 to W-093: dicts by id in list order; the first arm that holds; sources."""
    made = (
        create_workflow(id="w")
        .parallel([step("b", add_one), step("a", double)])
        .map(
            {
                "b": {"step": "b", "path": "."},
                "given": {"init_data": True},
                "either": {"step": ["none", "a"]},
                "who": {"request_context_path": "user.name"},
                "same": {"value": [1]},
                "sum": {"fn": lambda context: sum(context.input_data.values())},
            }
        )
        .commit()
    )
    result = await result_of(made, 5, request_context={"user": {"name": "Ada"}})
    assert list(result.steps["mapping_w_1"].payload) == ["b", "a"]
    assert result.result == {
        **{"b": 6, "given": 5, "either": 10, "who": "Ada", "same": [1], "sum": 16}
    }

    async def large(context: StepContext) -> bool:
        return context.input_data > 10

    arms = [(large, step("large", double)), (lambda c: c.input_data > 3, step("middle", add_one))]
    branched = create_workflow(id="w").branch(arms).commit()
    assert [(await result_of(branched, n)).result for n in (20, 5, 1)] == [
        {"large": 40},
        {"middle": 6},
        {},
    ]
    missing = create_workflow(id="w").map({"x": {"init_data": True, "path": "a.b"}}).commit()
    assert "'a.b'" in (await result_of(missing, {"a": {}})).error.message


async def test_any_failure_fails_a_parallel_stage() -> None:
    """W-091: and ends the others."""
    ended: list[str] = []

    async def waits(context: StepContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def fails(context: StepContext) -> None:
        await asyncio.sleep(0)
        raise OSError("down")

    made = create_workflow(id="w").parallel([step("a", waits), step("b", fails)]).commit()
    result = await result_of(made)
    assert (result.status, ended) == ("failed", ["waits"])
    assert result.steps["a"].status == "canceled"


async def test_loops() -> None:
    """W-095: at least once; the condition is told how often it was, from 1."""
    counts: list[int] = []

    def small(context: StepContext) -> bool:
        counts.append(context.iteration_count)
        return context.input_data < 10

    looping = create_workflow(id="w").dowhile(step("a", double), small).commit()
    result = await result_of(looping, 3)
    assert (result.result, counts, result.path) == (12, [1, 2], ["a", "a"])
    until = create_workflow(id="w").dountil(step("a", double), lambda c: True).commit()
    assert (await result_of(until, 3)).result == 6


async def test_foreach() -> None:
    """W-096: results in the order of the input, so many at a time."""
    under_way = most = 0

    async def slow(context: StepContext) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(5 - context.input_data):
            await asyncio.sleep(0)
        under_way -= 1
        return context.input_data * 2

    made = create_workflow(id="w").foreach(step("a", slow), concurrency=2).commit()
    assert (await result_of(made, [1, 2, 3, 4])).result == [2, 4, 6, 8]
    assert most == 2
    assert (await result_of(made, [])).result == []
    assert "needs a list" in (await result_of(made, {"a": 1})).error.message


async def test_pauses() -> None:
    """W-097: constant ones and those that a function gives; the value goes on."""
    past = datetime.now(UTC) - timedelta(hours=1)
    made = (
        create_workflow(id="w")
        .sleep(1)
        .sleep(lambda context: context.input_data)
        .sleep_until(past)
        .sleep_until(lambda context: past)
        .commit()
    )
    assert (await result_of(made, 2)).result == 2
    for wrong in (lambda context: "soon", lambda context: True, lambda context: float("nan")):
        result = await result_of(create_workflow(id="w").sleep(wrong).commit())
        assert "milliseconds" in result.error.message


async def test_retries() -> None:
    """W-127: total tries are 1 and the attempts; a step's own count overrides the workflow's."""
    tries: list[int] = []

    def shaky(context: StepContext) -> Any:
        tries.append(context.retry_count)
        if len(tries) < 3:
            raise OSError("not yet")
        return "done"

    config = {"attempts": 2, "delay": 1}
    made = create_workflow(id="w", retry_config=config).then(step("a", shaky)).commit()
    assert ((await result_of(made)).result, tries) == ("done", [0, 1, 2])
    tries.clear()
    own = create_workflow(id="w", retry_config=config).then(step("a", shaky, retries=1)).commit()
    assert ((await result_of(own)).status, tries) == ("failed", [0, 1])

    def verdict(context: StepContext) -> None:
        tries.append(9)
        raise TripWire("no")

    tries.clear()
    stopped = create_workflow(id="w", retry_config=config).then(step("a", verdict)).commit()
    assert ((await result_of(stopped)).status, tries) == ("tripwire", [9])


async def test_bail_ends_the_workflow_it_is_in() -> None:
    """W-126: successfully, with that value."""
    inner = (
        create_workflow(id="inner")
        .then(step("out", lambda context: context.bail("early")))
        .then(step("never", double))
        .commit()
    )
    made = create_workflow(id="w").then(inner).then(step("b", double)).commit()
    result = await result_of(made, 1)
    assert (result.status, result.result, result.path) == (
        "success",
        "earlyearly",
        ["inner", "out", "b"],
    )


async def test_state_is_shared_and_checked() -> None:
    """W-129."""

    async def count(context: StepContext) -> Any:
        await context.set_state({"n": context.state["n"] + 1})
        return context.input_data

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    inner = create_workflow(id="inner").then(step("b", count)).commit()
    made = create_workflow(id="w", state_schema=schema).then(step("a", count)).then(inner).commit()
    result = await result_of(made, 1, initial_state={"n": 1})
    assert result.state == {"n": 3}
    with pytest.raises(InputError, match="state"):
        await result_of(made, 1, initial_state={"n": "x"})

    async def spoil(context: StepContext) -> None:
        await context.set_state({})

    bad = create_workflow(id="w", state_schema=schema).then(step("a", spoil)).commit()
    assert (await result_of(bad, 1, initial_state={"n": 1})).status == "failed"


async def test_what_a_step_is_told() -> None:
    """W-026: results of others, the input, ids, the request context, the signal, the app."""
    told: dict[str, Any] = {}

    def look(context: StepContext) -> None:
        told.update(
            a=context.get_step_result("a"),
            none=context.get_step_result("other"),
            init=context.get_init_data(),
            ids=(context.run_id, context.workflow_id),
            user=context.request_context.get("user"),
            aborted=context.abort_signal is not None and context.abort_signal.aborted,
            app=(context.app, context.mastra, context.tracing_context),
        )

    wanted = {"type": "object", "required": ["user"]}
    looking = step("b", look, request_context_schema=wanted)
    made = create_workflow(id="w").then(step("a", double)).then(looking).commit()
    run = await made.create_run(run_id="r")
    await run.start(input_data=2, request_context={"user": "Ada"})
    assert told == {
        **{"a": 4, "none": None, "init": 2, "ids": ("r", "w"), "user": "Ada"},
        **{"aborted": False, "app": (None, None, None)},
    }
    assert (await result_of(made, 2)).error.name == "InputError"


async def test_callbacks() -> None:
    """W-128: `on_start` may refuse; what the others raise counts for nothing."""
    told: list[Any] = []

    def on_finish(result: Any) -> None:
        told.append(result.status)
        raise ValueError("broken callback")

    async def on_error(result: Any) -> None:
        told.append("error")

    def broken(context: StepContext) -> None:
        raise OSError("down")

    options = {"on_finish": on_finish, "on_error": on_error}
    assert (
        await result_of(
            create_workflow(id="w", options=options).then(step("a", double)).commit(), 1
        )
    ).status == "success"
    await result_of(create_workflow(id="w", options=options).then(step("a", broken)).commit())
    assert told == ["success", "failed", "error"]

    def refuse(run: Any) -> None:
        raise PermissionError("not now")

    refusing = create_workflow(id="w", options={"on_start": refuse}).then(step("a", double))
    with pytest.raises(PermissionError):
        await result_of(refusing.commit(), 1)


async def test_events() -> None:
    """W-123: in order, each with type, run id and what it is about; JSON in camelCase."""

    @tool
    async def say(word: str) -> str:
        """Say a word."""
        return word

    async def write(context: StepContext) -> Any:
        await context.writer.custom({"type": "data-note", "data": 1})
        await context.writer.write({"n": 1})
        return {"word": "hi"}

    made = (
        create_workflow(id="w")
        .then(step("a", write))
        .then(create_step(say))
        .map(lambda context: [context.input_data])
        .foreach(step("c", lambda context: context.input_data))
        .commit()
    )
    run = await made.create_run(run_id="r")
    stream = run.stream(input_data=1)
    assert stream.status == "pending"
    events = [event async for event in stream]
    assert [event.type.removeprefix("workflow-") for event in events] == [
        *("start", "step-start", "step-output", "step-output", "step-result"),
        *("step-start", "step-result", "step-start", "step-result"),
        *("step-start", "step-result", "step-progress", "finish"),
    ]
    assert {event.run_id for event in events} == {"r"}
    form = events[1].to_json()
    assert (form["from"], form["runId"], form["payload"]["id"]) == ("WORKFLOW", "r", "a")
    assert {"callId", "startedAt"} <= form["payload"].keys()
    assert events[3].payload.output == {"n": 1}
    assert (events[-2].payload.number, events[-2].payload.total) == (0, 1)
    assert (stream.status, (await stream.result).result) == ("success", ["hi"])


async def test_chunks_and_tokens_of_agents_are_in_the_stream() -> None:
    """W-025, W-123."""
    agent = Agent(id="agent", model=ScriptedModel(["hello there"]))
    run = await create_workflow(id="w").then(create_step(agent)).commit().create_run()
    stream = run.stream(input_data={"prompt": "x"})
    chunks = [e.payload.output for e in [e async for e in stream] if e.type.endswith("output")]
    assert "text-delta" in [chunk.type for chunk in chunks]
    assert (await stream.result).result == {"text": "hello there"}
    assert stream.usage.total_tokens
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    typed = create_step(
        Agent(id="agent", model=ScriptedModel(['{"n": 4}'])), structured_output={"schema": schema}
    )
    result = await result_of(create_workflow(id="w").then(typed).commit(), {"prompt": "x"})
    assert result.result == {"n": 4}
    assert (await result_of(create_workflow(id="w").then(typed).commit(), "x")).status == "failed"


async def test_an_invalid_input_is_raised_by_the_stream() -> None:
    run = (
        await create_workflow(id="w", input_schema=int)
        .then(step("a", double))
        .commit()
        .create_run()
    )
    with pytest.raises(InputError):
        _ = [event async for event in run.stream(input_data="x")]


async def hang(context: StepContext) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("how", ["cancel", "signal", "caller", "close", "leave", "result"])
async def test_ending_a_run_leaves_nothing(how: str) -> None:
    """W-130, law 6: steps see the signal, and no task goes on."""
    before = set(asyncio.all_tasks())
    seen: list[bool] = []
    entered = asyncio.Event()

    async def work(context: StepContext) -> None:
        entered.set()
        try:
            await hang(context)
        finally:
            assert context.abort_signal is not None
            seen.append(context.abort_signal.aborted)

    made = create_workflow(id="w").parallel([step("a", work), step("b", hang)]).commit()
    run = await made.create_run()
    controller = AbortController()
    if how in ("close", "leave", "result"):
        stream = run.stream(input_data=1)
        if how == "leave":
            async with stream:
                async for event in stream:
                    if event.type == "workflow-step-start" and entered.is_set():
                        break
                await entered.wait()
        elif how == "close":
            reading = asyncio.ensure_future(anext(aiter(stream)))
            await entered.wait()
            await stream.aclose()
            await reading
        else:
            waiting = asyncio.ensure_future(_ended(stream))
            await entered.wait()
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
    else:
        task = asyncio.ensure_future(run.start(input_data=1, abort_signal=controller.signal))
        await entered.wait()
        if how == "cancel":
            await run.cancel()
        elif how == "signal":
            controller.abort()
        else:
            task.cancel()
        with suppress(asyncio.CancelledError):
            result = await task
            assert (how != "caller", result.status) == (True, "canceled")
            assert result.steps["a"].status == "canceled"
    await others_done(before)
    assert seen == [True]
    assert run.status == "canceled"


async def _ended(stream: Any) -> Any:
    return await stream.result


async def test_a_run_that_has_not_begun_can_be_cancelled() -> None:
    run = await create_workflow(id="w").then(step("a", double)).commit().create_run()
    await run.cancel()
    assert run.status == "canceled"
    with pytest.raises(InputError):
        await run.start(input_data=1)


async def test_processor_steps_can_be_tried_by_hand() -> None:
    """W-006: messages as JSON data, chunks as well; state lives as long as the run."""

    def count(args: Any) -> None:
        args.state["n"] = args.state.get("n", 0) + 1
        args.messages[0].parts[0].text += str(args.state["n"])

    counting = processor(id="counting", process_input=count)
    made = (
        flow()
        .parallel([create_step(counting), create_step(rewriting("up", str.upper))])
        .map(lambda context: context.input_data["processor:counting"])
        .commit()
    )
    given = {
        "phase": "input",
        "messages": [{"role": "user", "content": "hi"}],
        "system_messages": [{"role": "system", "content": "Be kind."}],
    }
    result = await result_of(made, given)
    assert result.result["messages"][0].text == "hi1"
    record = result.steps["processor:up"]
    assert record.output["messages"][0]["content"]["parts"][0]["text"] == "HI"
    assert "message_list" not in record.output
    assert result.result["system_messages"] == [{"role": "system", "content": "Be kind."}]

    def shout(args: Any) -> Any:
        args.part.payload.text = args.part.payload.text.upper()
        return args.part

    loud = flow().then(create_step(processor(id="loud", process_output_stream=shout))).commit()
    chunk = {"type": "text-delta", "payload": {"id": "t", "text": "hi"}}
    result = await result_of(loud, {"phase": "outputStream", "part": chunk})
    assert result.result["part"].payload.text == "HI"
    with pytest.raises(InputError, match=ProcessorStepSchema.phases[0]):
        await result_of(loud, {"phase": "nowhere"})
