"""`pipeline_of`: the rows say what a run does, and where each processor comes from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession import (
    Agent,
    App,
    Around,
    Breaker,
    ConfigurationError,
    ModelConfig,
    PipelineRow,
    PipelineView,
    Policy,
    pipeline_of,
    processor,
)
from procession.hold import Literals, Pattern, Unit
from procession.memory import Memory, MessageHistory
from procession.pipeline_rows import HOOK_ORDER
from procession.processor import ERROR_HOOKS, HOOKS, INPUT_HOOKS, OUTPUT_HOOKS
from procession.processors import ModerationProcessor
from procession.recording import Recorder
from procession.stores import InMemoryStore
from procession.testing import ScriptedModel, answer, tool_call
from procession.tools import tool
from procession.workflows import ProcessorStepSchema, create_step, create_workflow
from procession.workflows.phases import PHASE_OF

CALL = {"thread": "t1", "resource": "ada"}


def ids(view: PipelineView, hook: str) -> list[str]:
    return [row.processor_id for row in view.of(hook)]


def row_of(view: PipelineView, processor_id: str) -> PipelineRow:
    return next(row for row in view.rows if row.processor_id == processor_id)


def only(hook: str, id: str, **more: Any) -> Any:
    made: Any = {hook: lambda args: getattr(args, "part", None)}
    return processor(id=id, **made, **more)


# ── the law: rows are what runs ────────────────────────────────────────────────────────────────

CALLED = [hook for hook in HOOKS if hook != "process_api_error"]


class Telling:
    """Notes each of its hooks, some of which are async."""

    def __init__(self, id: str, hooks: dict[str, bool], journal: list[tuple[str, str]]) -> None:
        self.id = id
        for hook, waits in hooks.items():
            setattr(self, hook, self._hook(hook, waits, journal))

    def _hook(self, hook: str, waits: bool, journal: list[tuple[str, str]]) -> Any:
        def plain(args: Any) -> Any:
            journal.append((hook, self.id))
            return args.part if hook == "process_output_stream" else None

        async def waiting(args: Any) -> Any:
            return plain(args)

        return waiting if waits else plain


@tool
def look(place: str) -> str:
    """Look."""
    return f"nothing in {place}"


hooks_of_one = st.dictionaries(st.sampled_from(CALLED), st.booleans(), min_size=1)
lists = st.lists(st.tuples(st.booleans(), st.booleans(), hooks_of_one), max_size=5)


@given(lists, st.integers(0, 5), st.integers(0, 5))
async def test_the_rows_of_a_hook_are_those_that_a_run_calls_in_order(
    made: Any, first: int, last: int
) -> None:
    """R-015, M-040: whatever stands in lists, in a workflow, or around them by an extension."""
    journal: list[tuple[str, str]] = []
    entries = [
        (ins, outs, Telling(f"p{number}", hooks, journal))
        for number, (ins, outs, hooks) in enumerate(made)
    ]
    inputs = [one for ins, _, one in entries if ins]
    outputs = [one for _, outs, one in entries if outs]
    around = Around(before_input=inputs[:first], after_output=outputs[last:])
    inputs, outputs = inputs[first:], outputs[:last]
    if len(inputs) > 1 and all(PHASE_OF.keys() & vars(one) for one in inputs):
        inputs = [flow("w", *inputs)]
    agent = Agent(
        id="a",
        model=ScriptedModel([answer("x", tool_calls=[tool_call("look", {"place": "b"})]), "done"]),
        tools=[look],
        input_processors=inputs,
        output_processors=outputs,
        extensions=[Fixed(around)],
    )
    view = await pipeline_of(agent)
    await agent.generate("go")
    for hook in CALLED:
        rows = view.of(hook)
        called = [id for name, id in journal if name == hook]
        expected = [row.processor_id for row in rows]
        assert called[: len(expected)] == expected
        assert set(called) == set(expected)
        assert [row.position for row in rows] == [*range(len(rows))]
        for row in rows:
            waits = dict(made[int(row.processor_id[1:])][2])[hook]
            assert row.is_async == waits


class Fixed:
    """An extension that always adds the same."""

    def __init__(self, around: Around) -> None:
        self.around = around

    def extend(self, opening: Any) -> Around:
        return self.around


def flow(id: str, *processors: Any) -> Any:
    made = create_workflow(
        id=id, input_schema=ProcessorStepSchema, output_schema=ProcessorStepSchema
    )
    for each in processors:
        made = made.then(create_step(each))
    return made.commit()


def test_the_order_of_hooks_names_each_once() -> None:
    assert sorted(HOOK_ORDER) == sorted((*HOOKS, "run_ended"))


# ── where each comes from ──────────────────────────────────────────────────────────────────────


async def test_lists_workflows_extensions_memory_and_the_automatic_one() -> None:
    """M-040, M-041, R-019, R-219, W-006."""
    agent = Agent(
        id="desk",
        name="The desk",
        model=ScriptedModel(["x"]),
        memory=Memory(storage=InMemoryStore()),
        input_processors=[flow("w", only("process_input", "inner")), only("process_input", "own")],
        error_processors=[only("process_api_error", "again")],
        extensions=[Fixed(Around(before_input=[only("process_input", "added")]))],
    )
    view = await pipeline_of(agent)
    told = [(row.processor_id, row.source, row.origin, row.workflow_id) for row in view.rows]
    assert told == [
        ("added", "extension", "Fixed", None),
        ("memory-input-filter", "memory", "Memory", None),
        ("message-history", "memory", "Memory", None),
        ("inner", "list", "input_processors", "w"),
        ("own", "list", "input_processors", None),
        ("again", "list", "error_processors", None),
        ("prefill-error-handler", "automatic", "Agent", None),
        ("message-history", "memory", "Memory", None),
        ("message-history", "memory", "Memory", None),
    ]
    assert (view.agent_id, view.agent_name) == ("desk", "The desk")


async def test_the_recorder_of_an_agent_is_among_them(tmp_path: Any) -> None:
    """It is told where it stands, outside of all others."""
    agent = Agent(
        id="a",
        model="mock/x",
        record=Recorder(tmp_path),
        output_processors=[only("process_output_stream", "own")],
    )
    view = await pipeline_of(agent)
    own, last = view.of("process_output_stream")
    assert (own.processor_id, own.source) == ("own", "list")
    assert (last.source, last.origin) == ("extension", "Recorder")


async def test_memory_s_processors_are_told_to_need_a_conversation() -> None:
    """M-003: without a request they are shown all the same; with one they are what it has."""
    agent = Agent(id="a", model="mock/x", memory=Memory(storage=InMemoryStore()))
    view = await pipeline_of(agent)
    assert row_of(view, "message-history").needs_conversation
    assert not row_of(view, "prefill-error-handler").needs_conversation
    asked = await pipeline_of(agent, memory=CALL)
    assert ids(asked, "process_input") == ids(view, "process_input")
    assert not row_of(asked, "message-history").needs_conversation
    read_only = await pipeline_of(agent, memory={**CALL, "options": {"last_messages": False}})
    assert ids(read_only, "process_input") == []


async def test_what_the_user_has_placed_himself_is_his() -> None:
    """M-043: it is not added again."""
    history, store = MessageHistory(), InMemoryStore()
    agent = Agent(id="a", model="mock/x", memory=Memory(storage=store), input_processors=[history])
    view = await pipeline_of(agent, memory=CALL)
    (row,) = [each for each in view.of("process_input") if each.processor_id == "message-history"]
    assert row.source == "list"
    own = only("process_input", "own")
    added = Fixed(Around(before_input=[own]))
    view = await pipeline_of(Agent(id="a", model="m/x", input_processors=[own], extensions=[added]))
    assert row_of(view, "own").source == "list"


async def test_what_cannot_be_resolved_is_a_note() -> None:
    """O-133: an empty list and a note, no error; the rest is shown. M-004 for a lone thread."""
    own = only("process_output_step", "own")

    def failing(scope: Any) -> Any:
        raise LookupError("no tier")

    agent = Agent(
        id="a",
        model="mock/x",
        input_processors=failing,
        output_processors=[own],
        memory=Memory(storage=InMemoryStore()),
    )
    view = await pipeline_of(agent, memory={"thread": "t1"})
    assert ids(view, "process_output_step") == ["own"]
    assert view.notes[0] == "input_processors: LookupError: no tier"
    assert view.notes[1].startswith("Memory: InputError: ")
    assert row_of(view, "message-history").needs_conversation


async def test_functions_of_the_request_are_asked_only_for_a_request() -> None:
    """R-016, O-133: without one they are named; nothing is called."""
    calls: list[Any] = []

    async def guards(scope: Any) -> Any:
        calls.append(scope.request_context.get("tier"))
        return [only("process_input", f"for-{calls[-1]}")]

    agent = Agent(
        id="a", model=lambda scope: "x", input_processors=guards, memory=lambda scope: None
    )
    view = await pipeline_of(agent)
    assert calls == [] and view.per_request == ("input_processors", "memory")
    assert view.model is None and ids(view, "process_input") == []
    view = await pipeline_of(agent, request_context={"tier": "gold"})
    assert ids(view, "process_input") == ["for-gold"] and view.per_request == ()


async def test_a_look_registers_the_workflows_that_functions_give() -> None:
    """W-153: it is a call that returns them."""
    agent = Agent(
        id="a",
        model="mock/x",
        input_processors=lambda scope: [flow("w", only("process_input", "inner"))],
    )
    app = App(agents=[agent])
    await pipeline_of(agent, request_context={})
    assert [entry.id for entry in app.list_workflows()] == ["w"]


async def test_lists_that_cannot_work_together_are_an_error() -> None:
    guard = only(
        "process_output_step",
        "g",
        policy=Policy(on_error="degrade", fallback=only("process_input", "f")),
    )
    agent = Agent(id="a", model="mock/x", output_processors=lambda scope: [guard])
    with pytest.raises(ConfigurationError, match="its fallback 'f' has no process_output_step"):
        await pipeline_of(agent, request_context={})
    with pytest.raises(ConfigurationError, match="request_context must be"):
        await pipeline_of(agent, request_context=3)  # type: ignore[arg-type]


# ── what is told of each ───────────────────────────────────────────────────────────────────────


async def test_policy_watches_lanes_and_granularity() -> None:
    fallback = processor(
        id="words", process_output_step=lambda args: None, process_input=lambda args: None
    )
    guard = only(
        "process_output_step",
        "guard",
        policy=Policy(
            timeout=1.5,
            on_error="degrade",
            fallback=fallback,
            breaker=Breaker(failures=3, seconds=20),
            observe=True,
        ),
    )
    looks = only(
        "process_output_stream",
        "looks",
        watches=[Unit("sentence"), Literals(["open sesame"]), Pattern("a+")],
        lanes=["text", "reasoning"],
        process_data_parts=True,
    )
    judge = ModerationProcessor(model="mock/x", granularity="part")
    agent = Agent(id="a", model="mock/x", output_processors=[guard, looks, judge])
    view = await pipeline_of(agent)
    policy = row_of(view, "guard").policy
    assert policy is not None
    assert (policy.on_error, policy.timeout, policy.fallback) == ("degrade", 1.5, "words")
    assert (policy.breaker_failures, policy.breaker_seconds, policy.observe) == (3, 20.0, True)
    row = row_of(view, "looks")
    assert row.watches == ("Unit('sentence')", "Literals(1 texts)", "Pattern('a+')")
    assert row.lanes == ("text", "reasoning") and row.granularity == "sentence"
    assert row.sees_data_parts and row.policy is None
    assert row_of(view, "moderation").granularity == "part"
    assert "sesame" not in json.dumps(view.to_json())


async def test_stages_that_act_as_one_show_their_graph() -> None:
    """W-157: side by side, with what is in it."""
    made = (
        create_workflow(
            id="both", input_schema=ProcessorStepSchema, output_schema=ProcessorStepSchema
        )
        .parallel([create_step(only("process_input", name)) for name in ("a", "b")])
        .map(lambda context: context.input_data["processor:a"])
        .commit()
    )
    view = await pipeline_of(Agent(id="x", model="mock/x", input_processors=[made]))
    (row,) = view.of("process_input")
    assert row.workflow_id == "both" and [entry["type"] for entry in row.graph] == [
        "parallel",
        "mapping",
    ]


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("openai/gpt-5", "openai/gpt-5"),
        (ScriptedModel(["x"]), "mock/mock-1"),
        (ModelConfig(id="acme/small", url="https://llm.example.com/v1", api_key="k"), "acme/small"),
        ({"id": "acme/small", "url": "https://llm.example.com/v1", "api_key": "k"}, "acme/small"),
        (["a/b", {"model": "c/d", "max_retries": 2}], "a/b, then c/d"),
        (lambda scope: "x", None),
        (None, None),
    ],
)
async def test_the_model_is_told_by_its_name_alone(model: Any, shown: str | None) -> None:
    view = await pipeline_of(Agent(id="a", model=model))
    assert view.model is None if shown is None else view.model is not None
    if shown is not None and not isinstance(model, ScriptedModel):
        assert view.model == shown


async def test_the_json_form_has_camel_case_keys() -> None:
    view = await pipeline_of(Agent(id="a", model="m/x"), request_context={})
    form = view.to_json()
    assert json.loads(json.dumps(form)) == form
    assert set(form) == {"agentId", "agentName", "model", "rows", "perRequest", "notes"}
    assert form["rows"][0]["processorId"] == "prefill-error-handler"
    assert form["rows"][0]["needsConversation"] is False


def test_the_lists_of_hooks_are_told_apart() -> None:
    assert {*INPUT_HOOKS, *OUTPUT_HOOKS, *ERROR_HOOKS} == set(HOOKS)
