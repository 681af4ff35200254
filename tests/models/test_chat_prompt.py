"""What of a request becomes what of an OpenAI chat body."""

from __future__ import annotations

from typing import Any

import pytest

from procession.errors import InputError
from procession.model import ModelRequest, ToolDefinition
from procession.models.chat_prompt import chat_body, chat_messages


def body_of(provider: str = "openai", **request: Any) -> tuple[dict[str, Any], list[Any]]:
    return chat_body("m", provider, ModelRequest(**{"prompt": [], "settings": {}, **request}))


def user(*parts: dict[str, Any]) -> Any:
    return chat_messages([{"role": "user", "content": list(parts)}], [])[0]["content"]


def file(media: str, data: Any, **more: Any) -> dict[str, Any]:
    return {"type": "file", "mediaType": media, "data": data, **more}


def test_a_conversation_with_tools() -> None:
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "add", "input": {"a": 1}}
    failed = {**call, "toolCallId": "c2"}
    messages = chat_messages(
        [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Add."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "reasoning", "text": "Hm."},
                    {"type": "text", "text": "I add "},
                    {"type": "text", "text": "now."},
                    call,
                    failed,
                ],
            },
            {
                "role": "tool",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": "c1",
                        "toolName": "add",
                        "output": {"type": "json", "value": {"sum": 1}},
                    },
                    {
                        "type": "tool-result",
                        "toolCallId": "c2",
                        "toolName": "add",
                        "output": {"type": "error-text", "value": "no second number"},
                    },
                ],
            },
        ],
        [],
    )
    assert messages == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Add."},
        {
            "role": "assistant",
            "content": "I add now.",
            "tool_calls": [
                {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": "add", "arguments": '{"a":1}'},
                }
                for call_id in ("c1", "c2")
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": '{"sum":1}'},
        {"role": "tool", "tool_call_id": "c2", "content": "no second number"},
    ]


def test_an_entry_of_reasoning_alone_is_left_out() -> None:
    entry = {"role": "assistant", "content": [{"type": "reasoning", "text": "Hm."}]}
    assert chat_messages([entry], []) == []


def test_tools_that_another_provider_ran_are_left_out() -> None:
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "web", "input": {}}
    entry = {
        "role": "assistant",
        "content": [{**call, "providerExecuted": True}, {"type": "text", "text": "Found."}],
    }
    assert chat_messages([entry], []) == [{"role": "assistant", "content": "Found."}]


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ({"type": "text", "value": "plain"}, "plain"),
        ({"type": "json", "value": None}, "null"),
        ({"type": "json", "value": "quoted"}, '"quoted"'),
        ({"type": "error-json", "value": [1]}, "[1]"),
        (
            {
                "type": "content",
                "value": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
            "a\nb",
        ),
        ({"type": "content", "value": [{"type": "media"}]}, '{"type":"media"}'),
        ({"anything": "else"}, '{"anything":"else"}'),
    ],
)
def test_tool_outputs(output: Any, content: str) -> None:
    result = {"type": "tool-result", "toolCallId": "c", "toolName": "t", "output": output}
    (message,) = chat_messages([{"role": "tool", "content": [result]}], [])
    assert message["content"] == content


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (
            file("image/png", "QUJD"),
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        ),
        (
            file("image/*", b"ABC", providerOptions={"openai": {"imageDetail": "low"}}),
            {
                "type": "image_url",
                "image_url": {"url": "data:image/jpeg;base64,QUJD", "detail": "low"},
            },
        ),
        (
            file("image/png", "https://example.com/a.png"),
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        ),
        (
            file("audio/mpeg", "QUJD"),
            {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}},
        ),
        (
            file("audio/wav", b"ABC"),
            {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
        ),
        (
            file("application/pdf", "QUJD", filename="a.pdf"),
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"},
            },
        ),
        (
            file("application/pdf", "file-0001"),
            {"type": "file", "file": {"file_id": "file-0001"}},
        ),
    ],
)
def test_files(part: dict[str, Any], sent: dict[str, Any]) -> None:
    assert user({"type": "text", "text": "See."}, part) == [{"type": "text", "text": "See."}, sent]


@pytest.mark.parametrize(
    "part",
    [
        file("text/csv", "QUJD"),
        file("application/pdf", "https://example.com/a.pdf"),
        {"type": "unheard-of"},
    ],
)
def test_what_has_no_place_is_refused(part: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        user(part)


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(InputError, match="'narrator'"):
        chat_messages([{"role": "narrator", "content": ""}], [])


SETTINGS = {
    "temperature": 0,
    "max_output_tokens": 10,
    "top_p": 0.5,
    "top_k": 3,
    "stop_sequences": ["x"],
    "seed": 1,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.2,
    "max_retries": 9,
}


def test_settings_for_openai() -> None:
    body, warnings = body_of(settings=SETTINGS)
    assert body == {
        "model": "m",
        "messages": [],
        "temperature": 0,
        "top_p": 0.5,
        "seed": 1,
        "stop": ["x"],
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "max_completion_tokens": 10,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert warnings == [{"type": "unsupported-setting", "setting": "topK"}]


def test_settings_for_compatible_servers() -> None:
    body, warnings = body_of("acme", settings=SETTINGS)
    assert (body["max_tokens"], body["top_k"], warnings) == (10, 3, [])
    assert "max_completion_tokens" not in body


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (
            {"type": "tool", "toolName": "add"},
            {"type": "function", "function": {"name": "add"}},
        ),
    ],
)
def test_tools_and_choice(choice: Any, sent: Any) -> None:
    schema = {"type": "object", "properties": {}}
    tool = ToolDefinition(
        name="add",
        description="Adds.",
        input_schema=schema,
        provider_options={"openai": {"strict": True}},
    )
    body, _ = body_of(tools=[tool], tool_choice=choice)
    function = {"name": "add", "description": "Adds.", "parameters": schema, "strict": True}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["tool_choice"] == sent


def test_without_tools_no_choice_is_sent() -> None:
    body, _ = body_of(tool_choice="required")
    assert "tools" not in body
    assert "tool_choice" not in body


def test_response_formats() -> None:
    schema = {"type": "object"}
    plain, _ = body_of(response_format={"type": "json"})
    assert plain["response_format"] == {"type": "json_object"}
    bound, _ = body_of(
        response_format={"type": "json", "schema": schema, "name": "city"},
        provider_options={"openai": {"strictJsonSchema": True}},
    )
    assert bound["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "city", "schema": schema, "strict": True},
    }


def test_provider_options_are_merged_and_the_own_name_wins() -> None:
    options = {
        "openai": {"reasoningEffort": "low", "user": "u1", "metadata": {"teamName": "x"}},
        "acme": {"reasoning_effort": "high"},
        "other": {"ignored": 1},
    }
    body, _ = body_of("acme", provider_options=options)
    assert body["reasoning_effort"] == "high"
    assert body["metadata"] == {"teamName": "x"}
    assert "ignored" not in body


def test_files_of_the_assistant_are_reported() -> None:
    warnings: list[Any] = []
    entry = {"role": "assistant", "content": [file("image/png", "QUJD")]}
    assert chat_messages([entry], warnings) == []
    assert warnings[0]["type"] == "other"
