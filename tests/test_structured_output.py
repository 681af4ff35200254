"""Structured output: the object in an answer (R-560 to R-569, B4)."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from procession import (
    Agent,
    APICallError,
    ConfigurationError,
    StructuredOutputError,
    processor,
    tool,
)
from procession.testing import ScriptedModel, answer, text, tool_call
from tests.laws.checks import check_linear
from tests.laws.kit import PlayedModel, agent_with, end, said
from tests.naming import named

if TYPE_CHECKING:
    from procession.chunks import Chunk


class City(BaseModel):
    """A place."""

    city: str
    n: int


@dataclass
class Point:
    x: int
    y: int = 0


class Row(TypedDict):
    name: str


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    size: Size


PARIS = '{"city":"Paris","n":3}'
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["city", "n"],
}


def agent_of(*answers: Any, **options: Any) -> Agent:
    return Agent(id="a", model=ScriptedModel(answers), **options)


def calls_of(agent: Agent) -> Any:
    return agent.model.calls  # type: ignore[union-attr]


def kinds(chunks: list[Chunk]) -> list[str]:
    return [chunk.type for chunk in chunks]


def feedback(agent: Agent) -> str:
    return calls_of(agent)[-1].text.rpartition("[Processor Feedback]")[2]


# ── what may be asked for ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("schema", "said", "found"),
    [
        (City, PARIS, City(city="Paris", n=3)),
        (CITY, PARIS, {"city": "Paris", "n": 3}),
        (Point, '{"x":1}', Point(1)),
        (Row, '{"name":"a"}', {"name": "a"}),
        (list[Point], '{"elements":[{"x":1},{"x":2,"y":3}]}', [Point(1), Point(2, 3)]),
        (list[Point], '[{"x":1}]', [Point(1)]),
        ({"type": "array", "items": {"type": "integer"}}, '{"elements":[1,2]}', [1, 2]),
        (Size, '{"result":"small"}', Size.SMALL),
        (Literal["yes", "no"], '{"result":"no"}', "no"),
        (int, '{"result":12}', 12),
        (City | Point, '{"result":{"x":4}}', Point(4)),
        (Node, '{"name":"a","children":[{"name":"b"}]}', Node(name="a", children=[Node(name="b")])),
        (Strict, '{"size":"large"}', Strict(size=Size.LARGE)),
        (Annotated[list[int], Field(min_length=1)], '{"elements":[1]}', [1]),
        (None, '{"anything":[1]}', {"anything": [1]}),
        (City, f"Here:\n```json\n{PARIS}\n```\nDone.", City(city="Paris", n=3)),
        ({"type": "string"}, '{"result":"a\\u0000"}', "a\0"),
    ],
    ids=str,
)
@pytest.mark.parametrize("streaming", [True, False])
async def test_schemas(schema: Any, said: str, found: Any, streaming: bool) -> None:
    """R-560, R-561, R-563, R-564: the object is what the schema makes; the text is the model's."""
    agent, options = agent_of(answer(*said)), {"schema": schema}
    if streaming:
        run = await agent.stream("Where", structured_output=options)
        assert await run.object == found
        output = await run.get_full_output()
    else:
        output = await agent.generate("Where", structured_output=options)
    assert (output.object, output.text, output.used_fallback_value) == (found, said, False)
    message = output.response.db_messages[-1]
    assert [part.type for part in message.content.parts] == ["text"]
    assert message.content.metadata is not None
    json.dumps(message.content.metadata["structuredOutput"])


def root_of(schema: Any) -> Any:
    from procession.structured.options import asked_for

    asked = asked_for({"schema": schema})
    assert asked is not None
    return asked.response_format()


@pytest.mark.parametrize("schema", [list[Node], Size, City | Point, int, list[Literal["a"]]])
def test_the_root_is_an_object(schema: Any) -> None:
    """R-561: and references still lead where they led."""
    from jsonschema import Draft202012Validator

    form = root_of(schema)["schema"]
    assert form["type"] == "object"
    (key,) = form["required"]
    assert key in ("elements", "result")
    Draft202012Validator.check_schema(form)
    list(Draft202012Validator(form).iter_errors({key: [{"name": "a", "children": []}]}))


def test_references_to_the_root_move_with_it() -> None:
    tree = {"type": "array", "items": {"$ref": "#"}}
    assert root_of(tree)["schema"]["properties"]["elements"]["items"] == {
        "$ref": "#/properties/elements"
    }


def test_what_the_provider_is_told() -> None:
    """R-560."""
    assert root_of(CITY) == {"type": "json", "schema": CITY}
    assert root_of(City)["name"] == "City"
    assert root_of(None) == {"type": "json"}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (7, "mapping"),
        ({"schema": 7}, "schema"),
        ({"schema": "City"}, "schema"),
        ({"schema": {"type": "nonsense"}}, "JSON Schema"),
        ({"schema": {"type": object()}}, "no JSON"),
        ({"schema": City, "strategy": "warn"}, "error_strategy"),
        ({"schema": City, "error_strategy": "sk-secret"}, "strict, warn, fallback"),
        ({"schema": City, "error_strategy": "fallback"}, "fallback_value"),
        ({"schema": City, "instructions": 7}, "instructions"),
        ({"schema": City, "model_settings": 7}, "model_settings"),
    ],
    ids=named,
)
async def test_what_cannot_be_asked_for(asked: Any, told: str) -> None:
    """Before the model is asked; B-014: an unknown strategy is a `ValueError` as well."""
    agent = agent_of(PARIS)
    with pytest.raises(ConfigurationError, match=told) as caught:
        await agent.generate("Where", structured_output=asked)
    assert isinstance(caught.value, ValueError) is ("strict, warn" in told)
    assert "secret" not in str(caught.value)
    assert calls_of(agent) == []


# ── chunks ─────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(0, len(PARIS)), max_size=6))
async def test_any_cutting(cuts: list[int]) -> None:
    """Law 3, R-562: `object` goes before the text that made it, the result before `step-finish`."""
    places = [0, *sorted(cuts), len(PARIS)]
    pieces = [PARIS[a:b] for a, b in pairwise(places)]
    run = await agent_of(answer(*pieces)).stream("Where", structured_output={"schema": City})
    chunks = [chunk async for chunk in run]
    assert kinds(chunks)[-4:] == ["text-end", "object-result", "step-finish", "finish"]
    said, before = "", None
    for chunk, following in pairwise(chunks):
        if chunk.type == "object":
            assert following.type == "text-delta"
            assert chunk.object != before
            before = chunk.object
        elif chunk.type == "text-delta":
            said += chunk.payload.text
    assert (before, said) == ({"city": "Paris", "n": 3}, PARIS)
    assert chunks[-3].object == City(city="Paris", n=3)
    assert chunks[-3].to_json()["object"] == {"city": "Paris", "n": 3}
    assert [c.payload.output.object for c in chunks[-2:]] == [{"city": "Paris", "n": 3}] * 2


async def test_streams_of_the_run() -> None:
    """R-538; and each reader has its own values (R-511)."""
    pieces = ['{"elements":[{"name":"a"},', '{"name":', '"b"}', "]}"]
    run = await agent_of(answer(*pieces)).stream("go", structured_output={"schema": list[Row]})
    first = [value async for value in run.object_stream]
    assert first[0] == [{"name": "a"}]
    first[0].clear()
    assert [value async for value in run.object_stream][-1] == [{"name": "a"}, {"name": "b"}]
    assert [element async for element in run.element_stream] == [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize("name", ["object_stream", "element_stream"])
async def test_who_has_asked_for_no_object_is_told(name: str) -> None:
    """Rather than shown none; what ended otherwise has none to show."""
    run = await agent_of("Hi").stream("go")
    with pytest.raises(ConfigurationError, match=f"{name}: this run was not asked"):
        _ = [value async for value in getattr(run, name)]
    assert await run.text == "Hi"
    refused = ScriptedModel([APICallError("no")])
    run = await Agent(id="a", model=refused).stream("go")
    assert [value async for value in getattr(run, name)] == []
    asked: Any = {"schema": list[int], "error_strategy": "warn"}
    run = await agent_of("Hi").stream("go", structured_output=asked)
    assert [value async for value in getattr(run, name)] == []


async def test_an_object_that_is_no_list_has_no_elements() -> None:
    run = await agent_of(PARIS).stream("go", structured_output={"schema": City})
    with pytest.raises(ConfigurationError, match="of type dict; read object_stream"):
        _ = [value async for value in run.element_stream]
    asked: Any = {"schema": list[int], "error_strategy": "fallback", "fallback_value": 7}
    run = await agent_of("Hi").stream("go", structured_output=asked)
    assert [value async for value in run.element_stream] == []


async def test_elements_come_when_they_are_complete() -> None:
    """R-538: before the list is."""
    pieces = ['{"elements":[1', ",", '"ab', '"', ",{}", "]}"]
    run = await agent_of(answer(*pieces)).stream("go", structured_output={"schema": list[Any]})
    seen: list[Any] = []
    async for element in run.element_stream:
        seen.append((element, run.status))
    assert seen == [(1, "running"), ("ab", "running"), ({}, "running")]


async def test_closed_sets_are_shown_whole() -> None:
    run = await agent_of(answer(*'{"result":"small"}')).stream(
        "go", structured_output={"schema": Size}
    )
    assert [value async for value in run.object_stream] == ["small"]


async def test_long_answers_cost_what_short_ones_cost() -> None:
    """Law 7: also for the memory, partial objects are made when they are read."""

    async def one(count: int) -> None:
        pieces = ['{"rows":[', *['{"a":"some words"},'] * count, "{}]}"]
        model = PlayedModel([[*said(*pieces), end()]], (8,))
        agent = agent_with(model, input_processors=[], output_processors=[])
        run = await agent.stream("go", structured_output={"schema": None, "error_strategy": "warn"})
        async for _ in run:
            pass

    await check_linear(one, (100, 200, 400), 1.05)


# ── the text as processors leave it ────────────────────────────────────────────────────────────


def rename(args: Any) -> Any:
    if args.part.type == "text-delta":
        args.part.payload.text = args.part.payload.text.replace("Paris", "[city]")
    return args.part


@pytest.mark.parametrize("streaming", [True, False])
async def test_the_object_is_made_of_the_processed_text(streaming: bool) -> None:
    """B4: one text part, and one truth."""
    guard = processor(id="guard", process_output_stream=rename)
    agent = agent_of(PARIS, output_processors=[guard])
    options: Any = {"schema": City}
    if streaming:
        run = await agent.stream("Where", structured_output=options)
        shown = [chunk.object async for chunk in run if chunk.type.startswith("object")]
        assert "Paris" not in str(shown)
        output = await run.get_full_output()
    else:
        output = await agent.generate("Where", structured_output=options)
    assert output.object.city == "[city]"
    assert output.text == '{"city":"[city]","n":3}'
    (message,) = output.response.db_messages
    assert [part.type for part in message.content.parts] == ["text"]
    assert message.content.metadata["structuredOutput"] == {"city": "[city]", "n": 3}  # type: ignore[index]
    assert "Paris" not in json.dumps(message.to_json())


@pytest.mark.parametrize("hook", ["process_output_step", "process_output_result"])
async def test_later_edits_are_followed(hook: str) -> None:
    """README 20: an edit at the end of the step, or of the run, changes the object too."""

    def edit(args: Any) -> Any:
        for message in args.messages:
            for part in message.content.parts:
                if part.type == "text":
                    part.text = part.text.replace("Paris", "Rome")
        return args.messages

    agent = agent_of(PARIS, output_processors=[processor(id="edit", **{hook: edit})])
    run = await agent.stream("Where", structured_output={"schema": City})
    assert (await run.object).city == "Rome"
    (message,) = (await run.response).db_messages
    assert message.content.metadata["structuredOutput"]["city"] == "Rome"  # type: ignore[index]
    results = [chunk.object.city async for chunk in run if chunk.type == "object-result"]
    assert results[-1] == "Rome"


@pytest.mark.parametrize(
    ("options", "outcome"),
    [({}, "raises"), ({"error_strategy": "warn"}, None), ({"fallback_value": 1}, 1)],
)
async def test_a_text_that_is_taken_away_takes_its_object_along(
    options: dict[str, Any], outcome: Any
) -> None:
    def hide(args: Any) -> Any:
        args.messages[-1].content.parts[0].text = "withheld"
        return args.messages

    if "fallback_value" in options:
        options = {**options, "error_strategy": "fallback"}
    agent = agent_of(PARIS, output_processors=[processor(id="h", process_output_result=hide)])
    asked: Any = {"schema": City, **options}
    if outcome == "raises":
        with pytest.raises(StructuredOutputError):
            await agent.generate("Where", structured_output=asked)
        return
    output = await agent.generate("Where", structured_output=asked)
    assert (output.object, output.text) == (outcome, "withheld")
    stored = output.response.db_messages[-1].content.metadata or {}
    assert stored.get("structuredOutput") == outcome
    assert output.used_fallback_value is (outcome == 1)


async def test_a_blocked_answer_has_no_object() -> None:
    def stop(args: Any) -> Any:
        args.abort("no")

    guard = processor(id="guard", process_output_result=stop)
    run = await agent_of(PARIS, output_processors=[guard]).stream(
        "Where", structured_output={"schema": City}
    )
    assert await run.object is None
    assert run.tripwire is not None


# ── answers that do not fit ────────────────────────────────────────────────────────────────────

BAD = ["not json", '{"city":5,"n":1}', '{"city":"Paris"', ""]


@pytest.mark.parametrize("said", BAD)
async def test_strict(said: str) -> None:
    """R-565, R-551, R-552: the answer failed, as a model fails; what it said is there."""
    agent = agent_of(answer(said))
    with pytest.raises(StructuredOutputError):
        await agent.generate("Where", structured_output={"schema": City})
    run = await agent.stream("Where", structured_output={"schema": City})
    chunks = [chunk async for chunk in run]
    assert kinds(chunks)[-3:] == ["error", "step-finish", "finish"]
    assert chunks[-1].payload.step_result.reason == "error"
    assert (await run.text, await run.finish_reason, run.status) == (said, "error", "failed")
    assert isinstance(run.error, StructuredOutputError)
    with pytest.raises(StructuredOutputError):
        await run.object
    types = [part.type for part in (await run.response).db_messages[-1].content.parts]
    assert types == (["text", "error"] if said else ["error"])


async def test_the_error_says_what_is_wrong() -> None:
    """G-W2: place by place, without the values."""
    agent = agent_of('{"city":["sk-secret"],"n":"sk-secret"}')
    with pytest.raises(StructuredOutputError, match=r"city: .*n: ") as caught:
        await agent.generate("Where", structured_output={"schema": City})
    assert "secret" not in str(caught.value)
    assert [problem["path"] for problem in caught.value.problems] == [["city"], ["n"]]
    assert "secret" in caught.value.text


async def test_an_answer_that_was_cut_off_is_told_so() -> None:
    agent = agent_of(answer('{"city":"Pa', finish_reason="length"))
    with pytest.raises(StructuredOutputError, match="cut off"):
        await agent.generate("Where", structured_output={"schema": City})


@pytest.mark.parametrize("said", BAD)
async def test_warn(said: str, caplog: pytest.LogCaptureFixture) -> None:
    """R-566."""
    with caplog.at_level(logging.WARNING, "procession"):
        output = await agent_of(answer(said)).generate(
            "Where", structured_output={"schema": City, "error_strategy": "warn"}
        )
    assert (output.object, output.text, output.status) == (None, said, "success")
    assert "structured output" in caplog.text


@pytest.mark.parametrize("said", BAD)
async def test_fallback(said: str) -> None:
    """R-566: the value is given as it is, and stored as JSON."""
    nowhere = City(city="none", n=0)
    asked: Any = {"schema": City, "error_strategy": "fallback", "fallback_value": nowhere}
    run = await agent_of(answer(said)).stream("Where", structured_output=asked)
    chunks = [chunk async for chunk in run]
    assert kinds(chunks)[-3:] == ["object-result", "step-finish", "finish"]
    assert await run.object is nowhere
    assert await run.used_fallback_value is True
    metadata = (await run.response).db_messages[-1].content.metadata if said else {}
    if said:
        assert metadata["structuredOutput"] == {"city": "none", "n": 0}  # type: ignore[index]


@pytest.mark.parametrize("strategy", ["strict", "warn", "fallback"])
async def test_with_a_budget_the_model_is_told(strategy: str) -> None:
    """R-173: the answer is rejected with what is wrong as feedback, and nothing of it is left."""
    asked: Any = {"schema": City, "error_strategy": strategy, "fallback_value": None}
    agent = agent_of('{"city":5,"n":1}', PARIS, max_processor_retries=1)
    run = await agent.stream("Where", structured_output=asked)
    chunks = [chunk async for chunk in run]
    assert await run.object == City(city="Paris", n=3)
    assert kinds(chunks).count("object-result") == 1
    assert "city" in feedback(agent)
    assert "5" not in feedback(agent)
    (message,) = (await run.response).db_messages
    assert [part.text for part in message.content.parts] == [PARIS]  # type: ignore[union-attr]
    assert [step.finish_reason for step in await run.steps] == ["retry", "stop"]


async def test_the_budget_is_the_runs() -> None:
    """R-182: what others have used of it is used; then the strategy decides."""
    asked: Any = {"schema": City, "error_strategy": "fallback", "fallback_value": 0}
    agent = agent_of("no", max_processor_retries=2)
    output = await agent.generate("Where", structured_output=asked)
    assert (output.object, len(calls_of(agent))) == (0, 3)


async def test_error_processors_are_asked() -> None:
    """R-110: an answer that cannot be used is a failure of the model."""
    told: list[Exception] = []

    def again(args: Any) -> Any:
        told.append(args.error)
        return {"retry": True}

    agent = agent_of(
        "no",
        PARIS,
        error_processors=[processor(process_api_error=again)],
        max_processor_retries=1,
    )
    # The reader's own retry comes first and uses the budget; the next failure is final.
    output = await agent.generate("Where", structured_output={"schema": City})
    assert output.object == City(city="Paris", n=3)
    assert told == []


async def test_other_failures_raise_too() -> None:
    """R-565: there is no object in a run that failed."""
    error = APICallError("no", status_code=400)
    run = await agent_of(error).stream("Where", structured_output={"schema": City})
    await run.consume_stream()
    with pytest.raises(APICallError):
        await run.object


# ── steps ──────────────────────────────────────────────────────────────────────────────────────


@tool
async def look(topic: str = "") -> str:
    """Look something up."""
    return "seen"


async def test_steps_that_call_tools_are_not_read() -> None:
    """B-383: also if they say something."""
    agent = agent_of(answer("Looking.", tool_calls=[tool_call("look")]), PARIS, tools=[look])
    run = await agent.stream("Where", structured_output={"schema": City})
    chunks = [chunk async for chunk in run]
    assert kinds(chunks).count("object-result") == 1
    assert await run.object == City(city="Paris", n=3)
    assert [call.response_format["type"] for call in calls_of(agent)] == ["json", "json"]


async def test_a_run_that_ends_with_tools_has_no_object() -> None:
    agent = agent_of(answer(tool_calls=[tool_call("look")]), tools=[look])
    output = await agent.generate("Where", structured_output={"schema": City}, max_steps=1)
    assert (output.object, output.error) == (None, None)


async def test_the_last_block_that_fits_is_the_object() -> None:
    """Some models say something before they answer, in a block of its own."""
    parts = [*text("Let me see.", id="t1"), *text(PARIS, id="t2")]
    agent = agent_of([*parts, {"type": "finish", "finishReason": "stop", "usage": {}}])
    output = await agent.generate("Where", structured_output={"schema": City})
    assert output.object == City(city="Paris", n=3)


@pytest.mark.parametrize("where", ["hook", "prepare_step"])
async def test_a_step_hook_may_ask(where: str) -> None:
    """R-569: for its step only, and change what was asked for."""

    def choose(args: Any) -> Any:
        if args.step_number == 1:
            return {"structured_output": {"schema": City}}
        return None

    agent = agent_of(answer(tool_calls=[tool_call("look")]), PARIS, tools=[look])
    options: dict[str, Any] = {"prepare_step": choose}
    if where == "hook":
        options = {"input_processors": [processor(process_input_step=choose)]}
    run = await agent.stream("Where", **options)
    assert await run.object == City(city="Paris", n=3)
    assert [call.response_format is None for call in calls_of(agent)] == [True, False]


async def test_a_step_hook_may_take_it_away() -> None:
    def choose(args: Any) -> Any:
        return {"structured_output": None}

    agent = agent_of("no json")
    output = await agent.generate("Where", structured_output={"schema": City}, prepare_step=choose)
    assert (output.object, output.text) == (None, "no json")


async def test_hidden_frames_do_no_harm() -> None:
    """A processor that hides `step-start` hides it from the reader as well."""
    hide = processor(
        id="hide",
        process_output_stream=lambda args: None if args.part.type == "step-start" else args.part,
    )
    agent = agent_of(PARIS, output_processors=[hide])
    output = await agent.generate("Where", structured_output={"schema": City})
    assert output.object == City(city="Paris", n=3)


# ── the schema in words ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("instructions", ["Be brief.", None])
async def test_injection(instructions: str | None) -> None:
    """R-567: appended to the system message; the provider is told nothing."""
    agent = agent_of(PARIS, instructions=instructions)
    output = await agent.generate(
        "Where", structured_output={"schema": City, "json_prompt_injection": True}
    )
    (call,) = calls_of(agent)
    assert call.response_format is None
    first, *rest = call.prompt
    assert first["role"] == "system"
    assert first["content"].startswith(instructions or "")
    assert '"city"' in first["content"]
    assert [entry["role"] for entry in rest] == ["user"]
    assert output.object == City(city="Paris", n=3)


async def test_a_call_that_waits_does_no_harm() -> None:
    """R-571: the run goes on, and its last step has the object."""

    @tool(require_approval=True)
    async def seek() -> str:
        """Seek something."""
        return "found"

    agent = agent_of(answer("Looking.", tool_calls=[tool_call("seek")]), PARIS, tools=[seek])
    run = await agent.stream("Where", structured_output={"schema": City})
    await run.consume_stream()
    assert run.status == "suspended"
    going_on = await agent.approve_tool_call(run.run_id)
    chunks = [chunk async for chunk in going_on]
    assert kinds(chunks).count("object-result") == 1
    assert await going_on.object == City(city="Paris", n=3)


# ── what hostile answers and hooks do ──────────────────────────────────────────────────────────


def forge(args: Any) -> Any:
    if args.part.type == "step-finish":
        args.part.payload.step_result.reason = "retry"
        args.part.payload.output.text = '{"city":"forged","n":1}'
    return args.part


def drop(args: Any) -> Any:
    return None if args.part.type == "step-finish" else args.part


@pytest.mark.parametrize("hook", [forge, drop])
async def test_the_schema_holds_whatever_becomes_of_step_finish(hook: Any) -> None:
    """The answer is judged by what is stored of it, not by the chunk that tells of it."""
    hooks = [processor(id="h", process_output_stream=hook)]
    agent = agent_of("no json", PARIS, output_processors=hooks)
    with pytest.raises(StructuredOutputError):
        await agent.generate("Where", structured_output={"schema": City})
    output = await agent.generate("Where", structured_output={"schema": City})
    assert output.object == City(city="Paris", n=3)


def blocks(*texts: str) -> list[Any]:
    parts = [part for at, said in enumerate(texts) for part in text(said, id=f"t{at}")]
    return [*parts, {"type": "finish", "finishReason": "stop", "usage": {}}]


@pytest.mark.parametrize("hook", ["process_output_stream", "process_output_result"])
async def test_edited_blocks_are_read_one_by_one(hook: str) -> None:
    def edit_part(args: Any) -> Any:
        return rename(args)

    def edit_message(args: Any) -> None:
        for part in args.messages[-1].content.parts:
            part.text = part.text.replace("Paris", "Lyon")

    edit: Any = edit_part if hook == "process_output_stream" else edit_message
    agent = agent_of(
        blocks("Paris, I think.", PARIS), output_processors=[processor(id="h", **{hook: edit})]
    )
    output = await agent.generate("Where", structured_output={"schema": City})
    assert output.object is not None
    assert output.object.n == 3
    assert output.object.city != "Paris"


async def test_json_may_span_blocks() -> None:
    output = await agent_of(blocks(PARIS[:9], PARIS[9:])).generate(
        "Where", structured_output={"schema": City}
    )
    assert output.object == City(city="Paris", n=3)


class Fails(BaseModel):
    city: str

    @field_validator("city")
    @classmethod
    def look_up(cls, value: str) -> str:
        raise KeyError(value)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("strategy", ["strict", "warn", "fallback"])
async def test_a_validator_that_raises_is_a_misfit(strategy: Any, second: bool) -> None:
    """Whatever it raises; the values are not repeated."""
    asked: Any = {"schema": Fails, "error_strategy": strategy, "fallback_value": 7}
    agent = agent_of(PARIS, PARIS, max_processor_retries=1)
    if second:
        asked["model"] = ScriptedModel([PARIS, PARIS])
    run = await agent.stream("Where", structured_output=asked)
    await run.consume_stream()
    assert len(calls_of(agent)) == 2
    assert "Paris" not in feedback(agent)
    assert "KeyError" in feedback(agent)
    if strategy == "strict":
        assert isinstance(run.error, StructuredOutputError) or run.tripwire is not None
    else:
        assert await run.object == (7 if strategy == "fallback" else None)


async def test_numbers_without_end_are_refused() -> None:
    """They have no JSON form."""
    run = await agent_of('{"n":1e999}').stream("N", structured_output={"schema": None})
    parts = [chunk.object async for chunk in run if chunk.type == "object"]
    assert all(part == {} for part in parts)
    with pytest.raises(StructuredOutputError, match="out of range"):
        await run.object


async def test_each_run_has_its_fallback_value() -> None:
    asked: Any = {"schema": CITY, "error_strategy": "fallback", "fallback_value": {"list": []}}
    for _ in range(2):
        output = await agent_of("bad").generate("Where", structured_output=asked)
        found: Any = output.object
        found["list"].append("mine")
        assert found == {"list": ["mine"]}


async def test_what_a_reader_changes_is_its_own() -> None:
    run = await agent_of(PARIS).stream("Where", structured_output={"schema": CITY})
    async for chunk in run:
        if chunk.type == "object-result":
            chunk.object["n"] = 666
        elif chunk.type == "step-finish":
            chunk.payload.output.object["n"] = 666
    assert await run.object == {"city": "Paris", "n": 3}
    (message,) = (await run.response).db_messages
    assert message.content.metadata["structuredOutput"] == {"city": "Paris", "n": 3}  # type: ignore[index]


async def test_a_guard_sees_the_object() -> None:
    r"""An escape such as `\u0040` passes guards that look at the text."""

    def guard(args: Any) -> Any:
        if args.part.type == "object-result" and "@" in args.part.object.city:
            args.abort("an address")
        return args.part

    guards = [processor(id="guard", process_output_stream=guard)]
    agent = agent_of('{"city":"a\\u0040example.com","n":1}', output_processors=guards)
    output = await agent.generate("Where", structured_output={"schema": City})
    assert output.tripwire is not None
    assert (output.tripwire.reason, output.object) == ("an address", None)
