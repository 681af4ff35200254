"""Conditions, selections, transforms and fields mean what they should."""

from typing import Any

import pytest

from conformance.conditions import holds
from conformance.fields import recorded
from conformance.names import camel, snake
from conformance.schemas import object_schema
from conformance.trace import message_form
from conformance.transforms import selected, transformed
from conformance.turn import Turn
from conformance.world import World
from procession.messages import Message, text_message
from procession.processor import ProcessInputArgs, ProcessOutputStepArgs


def turn(args: Any, **values: Any) -> Turn:
    return Turn(World({}), "p", "hook", args, values.get("nth", 1))


@pytest.mark.parametrize(
    ("conditions", "met"),
    [
        (None, True),
        ({"stepNumber": 2}, True),
        ({"stepNumber_gte": 3}, False),
        ({"retryCount": 0, "retryCount_lt": 1}, True),
        ({"text_contains": "ell"}, True),
        ({"state_eq": {"a": 1}}, True),
        ({"state_eq": {"key": "a", "value": 2}}, False),
        ({"state_gte": ["missing", 0]}, True),
        ({"has_tool_calls": False}, True),
        ({"nth_run": 2}, False),
        ({"toolName": "t"}, False),
        ({"part_text_contains": ""}, False),
        ({"message_text_contains": "new"}, True),
        ({"last_message_text_contains": "old"}, False),
        ({"error_contains": "x"}, False),
        ({"not": {"stepNumber": 2}}, False),
        ({"any": [{"stepNumber": 9}, {"stepNumber": 2}]}, True),
        ({"all": [{"stepNumber": 9}, {"stepNumber": 2}]}, False),
    ],
)
def test_conditions(conditions: Any, met: bool) -> None:
    messages = [text_message("old"), text_message("new")]
    args = ProcessOutputStepArgs(step_number=2, text="Hello", state={"a": 1}, messages=messages)
    assert holds(conditions, turn(args)) is met


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown condition"):
        holds({"mood": 1}, turn(ProcessInputArgs()))
    with pytest.raises(ValueError, match="unknown field"):
        recorded("mood", turn(ProcessInputArgs()))
    with pytest.raises(ValueError, match="unknown transform"):
        transformed("x", {"mood": 1})


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("all", "a b c"),
        ({"role": "user"}, "a c"),
        ({"role": "user", "last": 1}, "c"),
        ({"first": 2}, "a b"),
        ({"last": 9}, "a b c"),
        ({"index": -2}, "b"),
        ({"index": 5}, ""),
        ({"not_text_contains": "b"}, "a c"),
    ],
)
def test_selections(selection: Any, expected: str) -> None:
    messages = [text_message("a"), text_message("b", role="assistant"), text_message("c")]
    assert texts(selected(messages, selection)) == expected.split()


def test_transforms_have_one_order() -> None:
    transform = {"append": "!", "prefix": "> ", "replace": ["A", "x"], "uppercase": True}
    assert transformed("abA", transform) == "> xBx!"


def test_names() -> None:
    pairs = {
        "processAPIError": "process_api_error",
        "processLLMRequest": "process_llm_request",
        "topP": "top_p",
    }
    assert {name: snake(name) for name in pairs} == pairs
    assert camel("process_output_step") == "processOutputStep"


def test_optional_arguments_of_tools() -> None:
    schema = object_schema({"a": "string", "b?": "number", "c": "boolean?", "d": "any"})
    assert schema["required"] == ["a", "d"]
    assert schema["properties"]["d"] == {}


def test_bookkeeping_is_left_out_of_messages() -> None:
    message = text_message("x", id="m")
    message.content.metadata = {"mastra": {}, "modelId": "m", "signal": {"createdAt": 1, "id": "s"}}
    message.content.parts[0].provider_metadata = {"mastra": {"createdAt": 1}}
    assert message_form(message) == {
        "id": "m",
        "role": "user",
        "parts": [{"type": "text", "text": "x"}],
        "metadata": {"signal": {"id": "s"}},
    }
