"""Runs that wait for data: in memory, and from one process to the next by a store."""

from __future__ import annotations

from typing import Any

import pytest

from procession import ConfigurationError, InputError, StoreError, ToolContext, tool
from procession.stores import InMemoryStore
from procession.workflows import StepContext, Workflow, clone_step, create_step, create_workflow

calls: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    calls.clear()


def first(context: StepContext) -> Any:
    calls.append("first")
    return {"n": context.input_data}


def ask(context: StepContext) -> Any:
    calls.append("ask")
    if context.resume_data is None:
        context.suspend({"question": f"{context.input_data}?"})
    return {"said": context.resume_data, "asked": context.suspend_data}


def asking(**options: Any) -> Workflow:
    made = create_workflow(id="w", **options).then(create_step(first)).then(create_step(ask))
    return made.map(lambda context: context.input_data).commit()


async def test_a_run_waits_and_goes_on() -> None:
    """W-124, W-125: what was done is not done again."""
    run = await asking().create_run()
    result = await run.start(input_data=1)
    assert (result.status, result.suspended) == ("suspended", [["ask"]])
    assert result.suspend_payload == {"ask": {"question": "{'n': 1}?"}}
    assert (run.status, result.steps["ask"].status) == ("suspended", "suspended")
    result = await run.resume(resume_data="yes")
    assert result.result == {"said": "yes", "asked": {"question": "{'n': 1}?"}}
    assert calls == ["first", "ask", "ask"]
    record = result.steps["ask"]
    assert (record.status, record.resume_payload) == ("success", "yes")
    with pytest.raises(InputError, match="not suspended"):
        await run.resume(resume_data="yes")


async def test_another_process_goes_on() -> None:
    """W-124: by the store, once; input, results, state and request context are kept."""
    store = InMemoryStore()

    async def remember(context: StepContext) -> Any:
        await context.set_state({"seen": context.request_context.get("user")})
        return first(context)

    def last(context: StepContext) -> Any:
        results = (context.get_step_result("remember"), context.get_init_data())
        return [*results, context.state, context.request_context.get("user"), context.input_data]

    def built() -> Workflow:
        made = create_workflow(id="w", store=store).then(create_step(remember))
        return made.then(create_step(ask)).then(create_step(last)).commit()

    begun = await (await built().create_run(resource_id="me")).start(
        input_data=1, request_context={"user": "Ada"}
    )
    run = await built().create_run(run_id=begun.run_id)
    other = await built().create_run(run_id=begun.run_id)
    assert (run.status, run.resource_id) == ("suspended", "me")
    result = await run.resume("ask", resume_data="yes")
    assert result.result[:4] == [{"n": 1}, 1, {"seen": "Ada"}, "Ada"]
    assert calls == ["first", "ask", "ask"]
    with pytest.raises(StoreError, match="somebody else"):
        await other.resume(resume_data="no")
    assert (await built().create_run(run_id=begun.run_id)).status == "pending"


@pytest.mark.parametrize("wanted", [False, lambda run: False])
async def test_a_run_that_is_not_to_be_kept(wanted: Any) -> None:
    """W-128."""
    store = InMemoryStore()
    made = asking(store=store, options={"should_persist_snapshot": wanted})
    run = await made.create_run()
    await run.start(input_data=1)
    assert await store.get_store("workflows").list_ids("workflow-run") == []
    assert (await run.resume(resume_data="yes")).status == "success"


async def test_a_run_that_waits_can_be_cancelled() -> None:
    """W-130: nobody goes on with it then."""
    store = InMemoryStore()
    run = await asking(store=store).create_run()
    await run.start(input_data=1)
    await run.cancel()
    assert run.status == "canceled"
    assert await store.get_store("workflows").list_ids("workflow-run") == []


async def test_of_several_one_is_named() -> None:
    """W-124: siblings end before the run waits; each is resumed on its own."""
    made = (
        create_workflow(id="w")
        .parallel([clone_step(create_step(ask), id=id) for id in ("a", "b")] + [create_step(first)])
        .commit()
    )
    run = await made.create_run()
    result = await run.start(input_data=1)
    assert result.suspended == [["a"], ["b"]]
    assert result.steps["first"].status == "success"
    for wrong in (None, "c"):
        with pytest.raises(InputError, match="a, b"):
            await run.resume(wrong, resume_data=1)
    result = await run.resume("b", resume_data=1)
    assert (result.status, result.suspended) == ("suspended", [["a"]])
    result = await run.resume(resume_data=2)
    assert [result.result[id]["said"] for id in "ab"] == [2, 1]
    assert calls.count("first") == 1


async def test_within_workflows_loops_and_lists() -> None:
    """W-124: by the path; of a list one entry or all of them."""
    inner = create_workflow(id="inner").then(create_step(ask)).commit()
    made = create_workflow(id="w").then(create_step(first)).then(inner).commit()
    run = await made.create_run()
    assert (await run.start(input_data=1)).suspended == [["inner", "ask"]]
    result = await run.resume(["inner", "ask"], resume_data="yes")
    assert result.result["said"] == "yes"
    assert calls == ["first", "ask", "ask"]

    listed = create_workflow(id="w").foreach(create_step(ask), concurrency=3).commit()
    run = await listed.create_run()
    assert len((await run.start(input_data=["x", "y", "z"])).suspended) == 3
    assert (await run.resume(resume_data="one", for_each_index=1)).status == "suspended"
    result = await run.resume(resume_data="others")
    assert [entry["said"] for entry in result.result] == ["others", "one", "others"]

    looping = create_workflow(id="w").dountil(
        create_step(ask), lambda context: context.input_data["said"] == "stop"
    )
    run = await looping.commit().create_run()
    await run.start(input_data=1)
    assert (await run.resume(resume_data="on")).status == "suspended"
    assert (await run.resume(resume_data="stop")).result["said"] == "stop"


async def test_conditions_are_not_asked_again() -> None:
    """W-125: the way that was taken stays, whatever a condition would say now."""
    asked: list[int] = []

    def even(context: StepContext) -> bool:
        asked.append(1)
        return len(asked) == 1

    made = create_workflow(id="w").branch([(even, create_step(ask))]).commit()
    run = await made.create_run()
    await run.start(input_data=1)
    assert (await run.resume(resume_data="yes")).result["ask"]["said"] == "yes"
    assert asked == [1]


async def test_schemas_of_what_is_said_and_answered() -> None:
    """W-024: wrong answers are refused before anything is done."""
    step = create_step(
        id="ask",
        execute=ask,
        resume_schema={"type": "string"},
        suspend_schema={"type": "object", "required": ["question"]},
    )
    run = await create_workflow(id="w").then(step).commit().create_run()
    await run.start(input_data=1)
    with pytest.raises(InputError, match="resumed with"):
        await run.resume(resume_data=4)
    assert (await run.resume(resume_data="yes")).status == "success"

    def wrong(context: StepContext) -> None:
        context.suspend({"other": 1})

    bad = create_step(id="bad", execute=wrong, suspend_schema={"required": ["question"]})
    result = await (await create_workflow(id="w").then(bad).commit().create_run()).start()
    assert (result.status, result.error and result.error.name) == ("failed", "InputError")

    def condition(context: StepContext) -> None:
        context.suspend()

    never = create_workflow(id="w").branch([(condition, create_step(first))]).commit()
    result = await (await never.create_run()).start(input_data=1)
    assert isinstance(result.exception, ConfigurationError)


async def test_a_tool_may_suspend_its_step() -> None:
    @tool
    async def order(thing: str, context: ToolContext) -> str:
        """Order a thing."""
        if not context.resumed:
            context.suspend({"sure": thing})
        return f"{thing}: {context.resume_data}"

    run = await create_workflow(id="w").then(create_step(order)).commit().create_run()
    result = await run.start(input_data={"thing": "tea"})
    assert result.suspend_payload == {"order": {"sure": "tea"}}
    assert (await run.resume(resume_data="yes")).result == "tea: yes"


async def test_what_a_stream_tells_of_waiting() -> None:
    """W-123: and how it goes on."""
    run = await asking().create_run()
    types = [event.type async for event in run.stream(input_data=1)]
    assert types[-2:] == ["workflow-step-suspended", "workflow-finish"]
    stream = run.resume_stream(resume_data="yes")
    types = [event.type async for event in stream]
    assert (types[0], types[-1]) == ("workflow-start", "workflow-finish")
    assert (await stream.result).status == "success"
