"""What of a request becomes what of a Gemini body."""

from __future__ import annotations

from typing import Any

import pytest

from procession.errors import InputError
from procession.model import ModelRequest, ToolDefinition
from procession.models.google_body import gemini_body
from procession.models.google_schema import gemini_schema

SIGNATURE = "EqADCp0DAQw51sct+/aTt62vj=="
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ADD = ToolDefinition(name="add", description="Adds.", input_schema=SCHEMA)


def body_of(
    *prompt: dict[str, Any], model: str = "gemini-2.5-flash", **request: Any
) -> dict[str, Any]:
    return warned(*prompt, model=model, **request)[0]


def warned(
    *prompt: dict[str, Any], model: str = "gemini-2.5-flash", **request: Any
) -> tuple[dict[str, Any], list[Any]]:
    asked = ModelRequest(prompt=list(prompt), **{"settings": {}, **request})
    return gemini_body(model, asked, "google")


def turns(*prompt: dict[str, Any], model: str = "gemini-2.5-flash") -> list[Any]:
    return body_of(*prompt, model=model)["contents"]


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def model_says(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(parts)}


def text(said: str, **own: Any) -> dict[str, Any]:
    return with_own({"type": "text", "text": said}, own)


def with_own(part: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    return {**part, "providerOptions": {"google": own}} if own else part


def call(call_id: str = "c1", name: str = "add", **own: Any) -> dict[str, Any]:
    part = {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": {"a": 1}}
    return with_own(part, own)


def result(output: Any, call_id: str = "c1", name: str = "add") -> dict[str, Any]:
    part = {"type": "tool-result", "toolCallId": call_id, "toolName": name, "output": output}
    return {"role": "tool", "content": [part]}


def file(media: str, data: Any, **more: Any) -> dict[str, Any]:
    return {"type": "file", "mediaType": media, "data": data, **more}


def response(output: Any, model: str = "gemini-2.5-flash") -> list[Any]:
    return turns(result(output), model=model)[0]["parts"]


def test_a_conversation() -> None:
    body = body_of(
        {"role": "system", "content": "Be kind."},
        user(text("Add.")),
        model_says(text("I add."), call("c1"), call("c2")),
        result({"type": "json", "value": {"sum": 1}}),
        model_says(text("Done.")),
    )
    assert body == {
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Add."}]},
            {
                "role": "model",
                "parts": [
                    {"text": "I add."},
                    {"functionCall": {"id": "c1", "name": "add", "args": {"a": 1}}},
                    {"functionCall": {"id": "c2", "name": "add", "args": {"a": 1}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "c1",
                            "name": "add",
                            "response": {"output": {"sum": 1}},
                        }
                    }
                ],
            },
            {"role": "model", "parts": [{"text": "Done."}]},
        ],
    }


def test_models_without_a_system_hear_it_from_the_user() -> None:
    body = body_of({"role": "system", "content": "Be."}, user(text("Hi")), model="gemma-3-27b-it")
    assert "systemInstruction" not in body
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Be."}, {"text": "Hi"}]}]


def test_an_unknown_role_and_an_unknown_part_are_refused() -> None:
    with pytest.raises(InputError, match="'narrator'"):
        body_of({"role": "narrator", "content": "x"})
    with pytest.raises(InputError, match="'reasoning'"):
        body_of(user({"type": "reasoning", "text": "x"}))


# ── parts ──────────────────────────────────────────────────────────────────────────────────────


def test_files_of_the_user() -> None:
    """R-361, R-362, R-398."""
    (turn,) = turns(
        user(
            file("image/*", "aGk="),
            file("application/pdf", b"hi"),
            file("image/png", "data:image/png;base64,aGk="),
            file(
                "video/mp4",
                "https://youtu.be/frogs",
                providerOptions={"google": {"videoMetadata": {"fps": 2}}},
            ),
        )
    )
    assert turn["parts"] == [
        {"inlineData": {"mimeType": "image/jpeg", "data": "aGk="}},
        {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {
            "fileData": {"mimeType": "video/mp4", "fileUri": "https://youtu.be/frogs"},
            "videoMetadata": {"fps": 2},
        },
    ]


def test_signatures_go_back_on_the_part_they_came_with() -> None:
    (turn,) = turns(
        model_says(
            with_own({"type": "reasoning", "text": "Hm."}, {"thoughtSignature": "s1"}),
            text("a", thoughtSignature="s2"),
            text("b", thoughtSignature="s3", signedApart=True),
            with_own(
                {"type": "reasoning", "text": ""}, {"thoughtSignature": "s4", "thought": False}
            ),
            with_own(file("image/png", "aGk="), {"thoughtSignature": "s5"}),
            call("c1", thoughtSignature=SIGNATURE),
            call("c2"),
        ),
        model="gemini-3-flash-preview",
    )
    assert turn["parts"] == [
        {"text": "Hm.", "thought": True, "thoughtSignature": "s1"},
        {"text": "a", "thoughtSignature": "s2"},
        {"text": "b"},
        {"text": "", "thoughtSignature": "s3"},
        {"text": "", "thoughtSignature": "s4"},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "s5"},
        {
            "functionCall": {"id": "c1", "name": "add", "args": {"a": 1}},
            "thoughtSignature": SIGNATURE,
        },
        {"functionCall": {"id": "c2", "name": "add", "args": {"a": 1}}},
    ]


def test_thoughts_signed_for_another_provider_are_left_out() -> None:
    foreign = {"anthropic": {"signature": "x"}}
    assert not turns(
        model_says({"type": "reasoning", "text": "Hm.", "providerOptions": foreign}),
        model_says({"type": "reasoning", "text": ""}),
    )


def test_calls_that_nobody_signed_are_excused_where_signatures_are_demanded() -> None:
    prompt = [user(text("Add.")), model_says(call("c1"), call("c2")), result({"value": 1})]
    excused = turns(*prompt, model="gemini-3-pro")[1]["parts"]
    assert [part.get("thoughtSignature") for part in excused] == [
        "skip_thought_signature_validator",
        None,
    ]
    plain = turns(*prompt, model="gemini-2.5-pro")[1]["parts"]
    assert not any("thoughtSignature" in part for part in plain)


def test_tools_that_google_executed_go_back_as_they_came() -> None:
    """R-377: call and result are both the model's."""
    code = {"type": "tool-call", "toolCallId": "e1", "toolName": "code_execution"}
    own = {
        "toolType": "CODE_EXECUTION",
        "id": "e1",
        "thoughtSignature": "s1",
        "resultThoughtSignature": "s2",
    }
    search = {"toolType": "FILE_SEARCH", "id": "f1"}
    found = {"type": "json", "value": {"outcome": "OUTCOME_OK", "output": "1\n"}}
    asked = {**code, "toolCallId": "f1", "toolName": "file_search", "input": {}}
    (turn,) = turns(
        model_says(
            with_own(
                {**code, "input": {"language": "PYTHON", "code": "x"}, "providerExecuted": True},
                own,
            ),
            with_own({**code, "type": "tool-result", "output": found}, own),
        ),
        model_says(
            with_own({**asked, "providerExecuted": True}, search),
            with_own(
                {**asked, "type": "tool-result", "output": {"type": "json", "value": {}}}, search
            ),
            text("One."),
        ),
    )
    assert turn["parts"] == [
        {
            "executableCode": {"language": "PYTHON", "code": "x", "id": "e1"},
            "thoughtSignature": "s1",
        },
        {
            "codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n", "id": "e1"},
            "thoughtSignature": "s2",
        },
        {"toolCall": {"toolType": "FILE_SEARCH", "id": "f1"}},
        {"toolResponse": {"toolType": "FILE_SEARCH", "id": "f1"}},
        {"text": "One."},
    ]


def test_tools_that_another_provider_executed_are_left_out() -> None:
    """R-377."""
    foreign = {**call(name="code_execution"), "providerExecuted": True}
    found = {**foreign, "type": "tool-result", "output": {"type": "text", "value": "1"}}
    (turn,) = turns(model_says(foreign, found, text("One.")))
    assert turn["parts"] == [{"text": "One."}]


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ({"type": "text", "value": "3"}, {"output": "3"}),
        ({"type": "json", "value": {"error": "is data"}}, {"output": {"error": "is data"}}),
        ({"type": "json", "value": None}, {"output": None}),
        ({"type": "error-text", "value": "no"}, {"error": "no"}),
        ({"type": "error-json", "value": {"why": 1}}, {"error": {"why": 1}}),
        ({"type": "content", "value": [{"type": "text", "text": "a"}]}, {"output": "a"}),
        ({"odd": 1}, {"output": {"odd": 1}}),
    ],
)
def test_what_tools_said(output: Any, told: Any) -> None:
    """R-373, R-374."""
    (part,) = response(output)
    assert part["functionResponse"] == {"id": "c1", "name": "add", "response": told}


def test_pictures_that_tools_returned() -> None:
    picture = {"type": "media", "mediaType": "image/png", "data": "aGk="}
    output = {"type": "content", "value": [{"type": "text", "text": "A frog"}, picture]}
    inline = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    (within,) = response(output, "gemini-3-pro")
    assert within["functionResponse"]["parts"] == [inline]
    beside = response(output)
    assert beside[0]["functionResponse"]["response"] == {"output": "A frog"}
    assert beside[1:] == [inline]


# ── tools, settings, options ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", None),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (
            {"type": "tool", "toolName": "add"},
            {"mode": "ANY", "allowedFunctionNames": ["add"]},
        ),
    ],
)
def test_tools_and_their_choice(choice: Any, config: Any) -> None:
    """R-528."""
    body = body_of(tools=[ADD], tool_choice=choice)
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "add", "description": "Adds.", "parametersJsonSchema": SCHEMA}
            ]
        }
    ]
    assert body.get("toolConfig", {}).get("functionCallingConfig") == config


def test_googles_own_tools() -> None:
    own = {"tools": ["googleSearch", {"fileSearch": {"fileSearchStoreNames": ["s"]}}]}
    body = body_of(provider_options={"google": own})
    assert body["tools"] == [{"googleSearch": {}}, own["tools"][1]]
    assert "toolConfig" not in body
    both = body_of(provider_options={"google": own}, tools=[ADD], model="gemini-3-pro")
    assert [list(tool) for tool in both["tools"]] == [
        ["googleSearch"],
        ["fileSearch"],
        ["functionDeclarations"],
    ]
    assert both["toolConfig"] == {"includeServerSideToolInvocations": True}


def test_settings_and_options() -> None:
    body = body_of(
        settings={
            "temperature": 0.5,
            "max_output_tokens": 9,
            "top_p": 0.9,
            "top_k": 3,
            "stop_sequences": ["END"],
            "seed": 1,
            "presence_penalty": 0.1,
            "frequency_penalty": 0.2,
        },
        provider_options={
            "google": {
                "thinkingConfig": {"includeThoughts": True},
                "responseModalities": ["TEXT", "IMAGE"],
                "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT"}],
                "cachedContent": "cachedContents/1",
                "toolConfig": {"retrievalConfig": {"languageCode": "fr"}},
            },
            "openai": {"user": "x"},
        },
    )
    assert body == {
        "contents": [],
        "generationConfig": {
            "temperature": 0.5,
            "maxOutputTokens": 9,
            "topP": 0.9,
            "topK": 3,
            "stopSequences": ["END"],
            "seed": 1,
            "presencePenalty": 0.1,
            "frequencyPenalty": 0.2,
            "thinkingConfig": {"includeThoughts": True},
            "responseModalities": ["TEXT", "IMAGE"],
        },
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT"}],
        "cachedContent": "cachedContents/1",
        "toolConfig": {"retrievalConfig": {"languageCode": "fr"}},
    }


def test_structured_output() -> None:
    """R-560."""
    wanted = {"type": "json", "schema": {**SCHEMA, "title": "Sum"}}
    generation = body_of(response_format=wanted)["generationConfig"]
    assert generation == {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
    free = body_of(response_format={"type": "json"})["generationConfig"]
    assert free == {"responseMimeType": "application/json"}
    unbound = {"google": {"structuredOutputs": False}}
    body = body_of(response_format=wanted, provider_options=unbound)
    assert body["generationConfig"] == {"responseMimeType": "application/json"}


def test_structured_output_beside_tools() -> None:
    wanted = {"type": "json", "schema": SCHEMA}
    body, warnings = warned(tools=[ADD], response_format=wanted)
    assert "generationConfig" not in body
    assert '"required":["a"]' in body["systemInstruction"]["parts"][0]["text"]
    assert len(warnings) == 1
    body, warnings = warned(tools=[ADD], response_format=wanted, model="gemini-flash-latest")
    assert body["generationConfig"]["responseJsonSchema"] == SCHEMA
    assert not warnings


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        (
            {"$schema": "x", "title": "T", "type": "object", "examples": [1]},
            {"type": "object"},
        ),
        (
            {"properties": {"title": {"title": "Title", "type": "string"}}},
            {"properties": {"title": {"type": "string"}}},
        ),
        ({"const": "a"}, {"enum": ["a"], "type": "string"}),
        ({"const": True}, {"enum": [True], "type": "boolean"}),
        ({"const": None}, {"type": "null"}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        ({"type": "number", "exclusiveMaximum": 2.5}, {"type": "number", "maximum": 2.5}),
        (
            {"type": "string", "format": "email", "description": "Yours"},
            {"type": "string", "description": "Yours (format: email)"},
        ),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"allOf": [{"$ref": "#/$defs/A"}], "default": 1}, {"$ref": "#/$defs/A", "default": 1}),
        ({"oneOf": [{"const": 1}]}, {"anyOf": [{"enum": [1], "type": "integer"}]}),
        (
            {
                "$defs": {"A": {"title": "A"}},
                "items": {"title": "I"},
                "additionalProperties": False,
            },
            {"$defs": {"A": {}}, "items": {}, "additionalProperties": False},
        ),
        (True, True),
    ],
)
def test_schemas(schema: Any, made: Any) -> None:
    assert gemini_schema(schema) == made
