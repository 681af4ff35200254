"""Building workflows: steps of everything, ids, schemas that tell, and the graph for show."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from procession import Agent, ConfigurationError, InputError, KindError, processor, tool
from procession.testing import ScriptedModel
from procession.workflows import (
    ProcessorInputPhaseSchema,
    ProcessorOutputResultPhaseSchema,
    ProcessorStepInputSchema,
    ProcessorStepOutputSchema,
    ProcessorStepSchema,
    clone_step,
    clone_workflow,
    create_step,
    create_workflow,
)
from tests.workflows.kit import flow


def passing(args: Any) -> None:
    """Do nothing."""


def inc(context: Any) -> Any:
    """One more."""
    return context.input_data + 1


class Order(BaseModel):
    number: int
    place: str


class Numbered(TypedDict):
    number: int


class Texted(TypedDict):
    number: str


def test_a_processor_step_is_called_after_its_processor() -> None:
    """W-020: id, description, schemas; the hooks are found when they are needed (W-022)."""
    step = create_step(processor(id="guard", process_input=passing))
    assert (step.id, step.kind) == ("processor:guard", "processor")
    assert step.input is step.output is ProcessorStepSchema
    assert step.link("process_output_step") is None
    link = step.link("process_input")
    assert link is not None
    assert link.is_within


@pytest.mark.parametrize(
    "made_of", [object(), 3, "text", int, processor(id="x", process_api_error=passing)]
)
def test_what_no_step_can_be_made_of_is_a_type_error(made_of: Any) -> None:
    """W-021: without a hook that runs in workflows."""
    with pytest.raises(TypeError, match="process_input"):
        create_step(made_of)


def test_a_step_needs_a_name_or_an_id() -> None:
    with pytest.raises(ConfigurationError, match="id="):
        create_step(lambda context: None)
    with pytest.raises(KindError, match="execute="):
        create_step(id="nothing")
    with pytest.raises(ConfigurationError, match="description"):
        create_step(id="x", execute=inc, descriptions="typo")
    assert create_step(inc).id == "inc"


def test_steps_of_agents_tools_workflows_and_functions() -> None:
    """W-023, W-025: and clones of them under other ids."""

    @tool
    async def weather(place: str) -> str:
        """How it is."""
        return place

    agent = Agent(id="helper", model=ScriptedModel(["hello"]))
    inner = create_workflow(id="inner").then(create_step(inc)).commit()
    steps = [create_step(each) for each in (agent, weather, inner, inc)]
    assert [step.kind for step in steps] == ["agent", "tool", "workflow", "function"]
    assert [step.id for step in steps] == ["helper", "weather", "inner", "inc"]
    assert clone_step(steps[3], id="other").id == "other"
    assert clone_workflow(inner, id="twin").steps.keys() == inner.steps.keys()


def test_a_workflow_is_used_when_it_is_committed() -> None:
    """W-074, W-094: not before, and nothing is added after that."""
    open_ = flow().then(create_step(processor(id="x", process_input=passing)))
    with pytest.raises(ConfigurationError, match=r"commit\(\)"):
        Agent(id="a", model=ScriptedModel(["hi"]), input_processors=[open_])
    with pytest.raises(ConfigurationError, match=r"commit\(\)"):
        create_workflow(id="outer").then(open_)
    done = open_.commit()
    for add in (lambda: done.then(create_step(inc)), lambda: done.map(inc), lambda: done.sleep(1)):
        with pytest.raises(ConfigurationError, match="committed"):
            add()
    with pytest.raises(ConfigurationError, match="no stages"):
        create_workflow(id="empty").commit()


def test_two_steps_of_one_id_are_refused() -> None:
    """W-075: at commit, with what to do about it."""
    twice = create_step(inc)
    with pytest.raises(ConfigurationError, match="clone_step"):
        create_workflow(id="w").then(twice).parallel([twice]).commit()


@pytest.mark.parametrize(
    "build",
    [
        lambda w: w.then(inc),
        lambda w: w.parallel([]),
        lambda w: w.parallel(create_step(inc)),
        lambda w: w.branch([create_step(inc)]),
        lambda w: w.map("text"),
        lambda w: w.map({"a": {"value": 1, "init_data": True}}),
        lambda w: w.map({"a": 1}),
        lambda w: w.dowhile(create_step(inc), True),
        lambda w: w.foreach(create_step(inc), concurrency=0),
        lambda w: w.sleep("soon"),
        lambda w: w.sleep(-1),
        lambda w: w.sleep_until("tomorrow"),
        lambda w: w.then(create_step(inc), name="typo"),
    ],
)
def test_wrong_stages_are_refused_when_they_are_added(build: Any) -> None:
    with pytest.raises(ConfigurationError):
        build(create_workflow(id="w"))


def test_options_of_a_workflow_are_checked() -> None:
    for options in (
        {"id": ""},
        {"id": "w", "retry_config": {"attempts": -1}},
        {"id": "w", "retry_config": {"attempt": 1}},
        {"id": "w", "options": {"on_finnish": inc}},
        {"id": "w", "input_schema": 4711},
    ):
        with pytest.raises(ConfigurationError):
            create_workflow(**options)


def test_schemas_that_do_not_fit_are_told_when_the_graph_is_built() -> None:
    """Where types tell; what they do not tell is checked at run time."""
    numbered = create_step(id="a", execute=inc, input_schema=int, output_schema=Numbered)
    texted = create_step(id="b", execute=inc, input_schema=Texted)
    ordered = create_step(id="c", execute=inc, input_schema=Order)
    listed = create_step(id="d", execute=inc, input_schema=list[str])
    for step, words in ((texted, "'number', it is of type integer"), (ordered, "no 'place'")):
        with pytest.raises(ConfigurationError, match=words):
            create_workflow(id="w").then(numbered).then(step)
    with pytest.raises(ConfigurationError, match="of type array, and integer"):
        create_workflow(id="w", input_schema=list[int]).then(numbered)
    with pytest.raises(ConfigurationError, match="in its entries"):
        create_workflow(id="w", input_schema=list[int]).then(listed)
    with pytest.raises(ConfigurationError, match="its output"):
        create_workflow(id="w", output_schema=list[int]).then(numbered).commit()
    with pytest.raises(ConfigurationError, match="another phase"):
        create_workflow(id="w", input_schema=ProcessorInputPhaseSchema).then(
            create_step(id="e", execute=inc, input_schema=ProcessorOutputResultPhaseSchema)
        )
    create_workflow(id="w", input_schema=Numbered).map(inc).then(ordered).commit()


def test_phase_schemas_check_phase_and_messages_only() -> None:
    """W-042, W-043: what is opaque is nobody's business."""
    value = {"phase": "input", "messages": [], "message_list": object(), "more": 1}
    assert ProcessorStepSchema.check(value, "it") is value
    assert ProcessorStepInputSchema is ProcessorStepOutputSchema is ProcessorStepSchema
    wrong: list[Any] = [None, {}, {"phase": "other"}, {"phase": "input", "messages": "text"}]
    for value in wrong:
        with pytest.raises(InputError, match="it"):
            ProcessorStepSchema.check(value, "it")
    with pytest.raises(InputError, match="input"):
        ProcessorInputPhaseSchema.check({"phase": "outputResult"}, "it")


def test_the_graph_shows_stages_with_ids_and_descriptions() -> None:
    """W-098, W-099, W-157: the same whenever it is built; what is for show changes nothing else."""

    def build() -> Any:
        a, b = (create_step(id=id, execute=inc, description=id.upper()) for id in "ab")
        inner = create_workflow(id="inner").then(create_step(inc)).commit()
        return (
            create_workflow(id="w")
            .then(a, description="first")
            .parallel([b, inner])
            .map({"n": {"step": "b"}})
            .branch([(passing, create_step(id="c", execute=inc))])
            .dountil(create_step(id="d", execute=inc), passing)
            .foreach(create_step(id="e", execute=inc), concurrency=3)
            .sleep(20)
            .sleep_until(datetime(2030, 1, 1, tzinfo=UTC))
            .commit()
        )

    graph = build().serialized_step_graph
    assert graph == build().serialized_step_graph
    kinds = "step parallel mapping conditional loop foreach sleep sleepUntil".split()
    assert [entry["type"] for entry in graph] == kinds
    assert graph[0]["step"] == {"id": "a", "kind": "function", "description": "A"}
    assert graph[0]["description"] == "first"
    inner = graph[1]["steps"][1]["step"]
    assert inner["serializedStepFlow"][0]["step"]["id"] == "inc"
    assert graph[2]["id"] == "mapping_w_2"
    assert graph[3]["serializedConditions"] == [{"id": "c-condition", "fn": "passing"}]


def test_processors_of_a_workflow_are_seen_from_outside() -> None:
    """M-044: those of workflows within, too; the index is that in the workflow (R-003)."""
    one, two = (processor(id=id, process_input=passing) for id in ("one", "two"))
    inner = flow("inner").then(create_step(two)).commit()
    outer = flow().parallel([create_step(one), inner]).map(inc).commit()
    assert outer.processors == [one, two]
    assert [each.processor_index for each in (one, two)] == [0, 1]
    assert (outer.type, create_workflow(id="w").then(create_step(inc)).type) == (
        "processor",
        "default",
    )
