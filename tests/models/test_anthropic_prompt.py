"""From model requests to bodies of the messages API."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from procession.errors import InputError
from procession.model import ModelRequest, ToolDefinition
from procession.models.anthropic_blocks import text_digest
from procession.models.anthropic_prompt import message_body
from procession.models.anthropic_schema import native_schema

Json = dict[str, Any]
OWN = {"cacheControl": {"type": "ephemeral", "ttl": "1h"}}
CACHED = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
ADD = ToolDefinition(name="add", description="Adds.", input_schema={"type": "object"})


def body_of(**request: Any) -> tuple[Json, list[Any]]:
    asked = {"prompt": [user("Hi")], "settings": {}, **request}
    return message_body("example-1", "anthropic", ModelRequest(**asked))


def turns(*prompt: Any) -> list[Any]:
    return body_of(prompt=list(prompt))[0]["messages"]


def text(words: str, **own: Any) -> Json:
    return {"type": "text", "text": words, **options(own)}


def options(own: Json) -> Json:
    return {"providerOptions": {"anthropic": own}} if own else {}


def entry(role: str, *parts: Any, **own: Any) -> Any:
    content = [text(part) if isinstance(part, str) else part for part in parts]
    return {"role": role, "content": content, **options(own)}


def user(*parts: Any, **own: Any) -> Any:
    return entry("user", *parts, **own)


def call(name: str = "add", call_id: str = "toolu_1", **more: Any) -> Json:
    return {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": {}, **more}


def result(value: Any, kind: str = "json", call_id: str = "toolu_1", **more: Any) -> Json:
    output = {"type": kind, "value": value}
    return {
        "type": "tool-result",
        "toolCallId": call_id,
        "toolName": "add",
        "output": output,
        **more,
    }


def test_system_messages_stand_apart_each_with_its_mark() -> None:
    body, warnings = body_of(
        prompt=[
            {"role": "system", "content": "Be brief.", **options(OWN)},
            {"role": "system", "content": "Be kind."},
            {"role": "system", "content": " "},
            user("Hi"),
        ]
    )
    assert body["system"] == [
        {"type": "text", "text": "Be brief.", **CACHED},
        {"type": "text", "text": "Be kind."},
    ]
    assert len(body["messages"]) == 1
    assert not warnings
    assert "system" not in body_of()[0]


def test_the_sides_take_turns_and_results_come_first() -> None:
    """Whatever was said while the tool ran."""
    sent = turns(
        user("Hi"),
        user("there"),
        entry("assistant", "I add.", call()),
        user("Hurry"),
        entry("tool", result(5)),
        entry("assistant", "5"),
        entry("assistant", "It is 5.  "),
    )
    assert [(turn["role"], [block["type"] for block in turn["content"]]) for turn in sent] == [
        ("user", ["text", "text"]),
        ("assistant", ["text", "tool_use"]),
        ("user", ["tool_result", "text"]),
        ("assistant", ["text", "text"]),
    ]
    assert sent[-1]["content"][-1]["text"] == "It is 5."  # white space at the end is refused


def test_texts_that_show_nothing_are_left_out() -> None:
    """The API refuses them, though it sends them."""
    sent = turns(user("Hi", " \n"), entry("assistant", "\n\n", call()), entry("tool", result(1)))
    assert [len(turn["content"]) for turn in sent] == [1, 1, 1]


def test_marks_on_parts_and_on_messages() -> None:
    sent = turns(
        user(text("a", **OWN), "b"),
        entry("assistant", "c", call(), **OWN),
        entry("tool", result(1), **OWN),
    )
    assert sent[0]["content"] == [
        {"type": "text", "text": "a", **CACHED},
        {"type": "text", "text": "b"},
    ]
    assert "cache_control" not in sent[1]["content"][0]
    assert sent[1]["content"][1].items() >= CACHED.items()
    assert sent[2]["content"][0].items() >= CACHED.items()


def test_thoughts_cannot_be_marked() -> None:
    signed = {"type": "reasoning", "text": "Hm.", **options({"signature": "c2ln"} | OWN)}
    sent = turns(user("a"), entry("assistant", signed, **OWN), user("b"))
    assert sent[1]["content"] == [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]


@pytest.mark.parametrize(
    ("own", "words", "sent"),
    [
        ({"signature": "c2ln"}, "", {"type": "thinking", "thinking": "", "signature": "c2ln"}),
        (
            {"signature": "c2ln", "signedText": text_digest("Hm.")},
            "Hm.",
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        ),
        ({"redactedData": "eA=="}, "", {"type": "redacted_thinking", "data": "eA=="}),
    ],
)
def test_thoughts_go_back_as_they_came(own: Json, words: str, sent: Json) -> None:
    """G-K."""
    part = {"type": "reasoning", "text": words, **options(own)}
    assert turns(user("a"), entry("assistant", part))[1]["content"] == [sent]


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"openai": {"reasoningEncryptedContent": "x"}},
        {"google": {"thoughtSignature": "x"}},
        {"anthropic": {"signature": "c2ln", "signedText": text_digest("Hm.")}},
    ],
)
def test_other_thoughts_stay_here_and_that_is_told(meta: Json) -> None:
    part = {"type": "reasoning", "text": "Hm, changed.", "providerOptions": meta}
    body, warnings = body_of(prompt=[user("a"), entry("assistant", part, part, "b")])
    assert body["messages"][1]["content"] == [{"type": "text", "text": "b"}]
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("output", "sent"),
    [
        ({"type": "text", "value": "5"}, {"content": "5"}),
        ({"type": "text", "value": ""}, {}),
        ({"type": "json", "value": {"a": [1]}}, {"content": '{"a":[1]}'}),
        ({"type": "json", "value": None}, {"content": "null"}),
        ({"type": "json", "value": "5"}, {"content": "5"}),
        ({"type": "error-text", "value": "no"}, {"content": "no", "is_error": True}),
        ({"type": "error-json", "value": [1]}, {"content": "[1]", "is_error": True}),
        (
            {
                "type": "content",
                "value": [
                    {"type": "text", "text": "see"},
                    {"type": "text", "text": ""},
                    {"type": "media", "mediaType": "image/png", "data": "aW1n"},
                    {"type": "image-url", "url": "https://example.com/a.png"},
                    {"type": "search_result", "source": "s", "title": "t", "content": []},
                ],
            },
            {
                "content": [
                    {"type": "text", "text": "see"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "aW1n"},
                    },
                    {
                        "type": "image",
                        "source": {"type": "url", "url": "https://example.com/a.png"},
                    },
                    {"type": "search_result", "source": "s", "title": "t", "content": []},
                ]
            },
        ),
    ],
)
def test_tool_outputs(output: Json, sent: Json) -> None:
    part = {**result(0), "output": output}
    (block,) = turns(user("a"), entry("assistant", call()), entry("tool", part))[2]["content"]
    assert block == {"type": "tool_result", "tool_use_id": "toolu_1", **sent}


def test_calls_of_other_providers_fit_in() -> None:
    sent = turns(
        user("a"),
        entry("assistant", call(call_id="call:1|x", input=[1])),
        entry("tool", result(1, call_id="call:1|x")),
    )
    assert sent[1]["content"][0]["id"] == sent[2]["content"][0]["tool_use_id"] == "call_1_x"
    assert sent[1]["content"][0]["input"] == {"input": [1]}


FOUND = [{"type": "web_search_result", "url": "https://example.com", "encrypted_content": "eA=="}]


def executed(value: Any, call_id: str, **own: Any) -> list[Json]:
    more = {"providerExecuted": True, **options(own)}
    return [
        call("web_search", call_id, **more),
        {**result(value, call_id=call_id), "toolName": "web_search", **options(own)},
    ]


def test_what_the_provider_did_goes_back_as_it_came() -> None:
    for own in ({"type": "server_tool_use"}, {}):  # stored by others: the id tells
        parts = executed(FOUND, "srvtoolu_1", **own)
        assert turns(user("a"), entry("assistant", *parts))[1]["content"] == [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": FOUND},
        ]


def test_results_that_came_late_keep_their_place() -> None:
    own = {"type": "server_tool_use", "resultAfter": 1}
    parts = [*executed(FOUND, "srvtoolu_1", **own), *executed(FOUND, "srvtoolu_2", **own)]
    sent = turns(user("a"), entry("assistant", *parts), entry("assistant", "b"), user("c"))
    assert [block.get("id") or block.get("tool_use_id") for block in sent[1]["content"]] == [
        "srvtoolu_1",
        "srvtoolu_2",
        "srvtoolu_1",
        "srvtoolu_2",
        None,
    ]
    alone = turns(user("a"), entry("assistant", *parts[:2]), user("c"))
    assert len(alone[1]["content"]) == 2


def test_mcp_calls_name_their_server() -> None:
    own = {"type": "mcp_tool_use", "serverName": "example", "resultType": "mcp_tool_result"}
    value = {"content": [{"type": "text", "text": "no"}], "is_error": True}
    parts = executed(value, "mcptoolu_1", **own)
    asked, answered = turns(user("a"), entry("assistant", *parts))[1]["content"]
    assert asked["server_name"] == "example"
    assert answered == {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", **value}


@pytest.mark.parametrize("value", ["masked", None])
def test_a_result_that_is_no_longer_the_providers_takes_its_call_along(value: Any) -> None:
    parts = executed(value, "srvtoolu_1", type="server_tool_use")
    body, warnings = body_of(prompt=[user("a"), entry("assistant", *parts, "b")])
    assert [block["type"] for block in body["messages"][1]["content"]] == ["text"]
    assert "result is gone" in warnings[0]["message"]


def test_tools_that_another_provider_ran_are_left_out() -> None:
    """R-377."""
    parts = executed(FOUND, "ws_1")
    assert [b["type"] for b in turns(user("a"), entry("assistant", *parts, "b"))[1]["content"]] == [
        "text"
    ]


TEXT = base64.b64encode("märchen".encode()).decode()


@pytest.mark.parametrize(
    ("media", "data", "source"),
    [
        ("image/png", "aW1n", {"type": "base64", "media_type": "image/png", "data": "aW1n"}),
        ("image/png", b"img", {"type": "base64", "media_type": "image/png", "data": "aW1n"}),
        (
            "image/*",
            "iVBORw0KGgoAAA==",
            {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoAAA=="},
        ),
        ("image/*", "/9j/", {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"}),
        (
            "image/png",
            "https://example.com/a.png",
            {"type": "url", "url": "https://example.com/a.png"},
        ),
        (
            "application/pdf",
            "cGRm",
            {"type": "base64", "media_type": "application/pdf", "data": "cGRm"},
        ),
        (
            "application/pdf",
            "https://example.com/a.pdf",
            {"type": "url", "url": "https://example.com/a.pdf"},
        ),
        ("text/markdown", TEXT, {"type": "text", "media_type": "text/plain", "data": "märchen"}),
    ],
)
def test_files(media: str, data: Any, source: Json) -> None:
    part = {"type": "file", "mediaType": media, "data": data}
    kind = "image" if media.startswith("image") else "document"
    assert turns(user(part))[0]["content"] == [{"type": kind, "source": source}]


def test_what_is_said_of_a_document() -> None:
    own = {"citations": {"enabled": True}, "context": "A plan.", "fileId": "file_1", **OWN}
    part = {
        "type": "file",
        "mediaType": "application/pdf",
        "data": "cGRm",
        "filename": "plan.pdf",
        **options(own),
    }
    assert turns(user(part))[0]["content"] == [
        {
            "type": "document",
            "source": {"type": "file", "file_id": "file_1"},
            "title": "plan.pdf",
            "context": "A plan.",
            "citations": {"enabled": True},
            **CACHED,
        }
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "file", "mediaType": "audio/wav", "data": "aGk="},
        {"type": "file", "mediaType": "text/plain", "data": "/w=="},
        {"type": "file", "mediaType": "text/plain", "data": "https://example.com/a.txt"},
        {"type": "hologram"},
    ],
)
def test_what_has_no_place_is_refused(part: Json) -> None:
    with pytest.raises(InputError):
        turns(user(part))


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(InputError, match="narrator"):
        turns({"role": "narrator", "content": []})


def test_settings() -> None:
    settings = {
        "max_output_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 4,
        "stop_sequences": ["END"],
        "seed": 1,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.1,
    }
    body, warnings = body_of(settings=settings)
    assert {k: v for k, v in body.items() if k != "messages"} == {
        "model": "example-1",
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 4,
        "stop_sequences": ["END"],
        "stream": True,
    }
    assert [w["setting"] for w in warnings] == ["seed", "presencePenalty", "frequencyPenalty"]


def test_thinking_has_tokens_of_its_own_and_takes_no_sampling() -> None:
    own = {"anthropic": {"thinking": {"type": "enabled", "budgetTokens": 2000}}}
    settings = {"temperature": 0.5, "top_k": 4, "top_p": 0.95}
    body, warnings = body_of(settings=settings, provider_options=own)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert body["max_tokens"] == 18_384
    assert "temperature" not in body
    assert "top_k" not in body
    assert body["top_p"] == 0.95
    assert [warning["setting"] for warning in warnings] == ["temperature", "topK"]
    limit = body_of(settings={"max_output_tokens": 3000}, provider_options=own)[0]["max_tokens"]
    assert limit == 3000
    off = {"anthropic": {"thinking": {"type": "disabled"}}}
    assert body_of(settings=settings, provider_options=off)[0]["temperature"] == 0.5


def test_options_in_the_words_of_the_api() -> None:
    own = {
        "anthropic": {
            "effort": "low",
            "metadata": {"userId": "u"},
            "serviceTier": "auto",
            "mcpServers": [{"type": "url", "authorizationToken": "t"}],
            "betas": ["b"],
        }
    }
    body, _ = body_of(provider_options=own)
    assert body["output_config"] == {"effort": "low"}
    assert body["metadata"] == {"user_id": "u"}
    assert body["service_tier"] == "auto"
    assert body["mcp_servers"] == [{"type": "url", "authorization_token": "t"}]
    assert "betas" not in body


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {"type": "auto"}),
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        ({"type": "tool", "toolName": "add"}, {"type": "tool", "name": "add"}),
    ],
)
def test_tools_and_choice(choice: Any, sent: Json) -> None:
    body, _ = body_of(tools=[ADD], tool_choice=choice)
    assert body["tools"] == [
        {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}
    ]
    assert body["tool_choice"] == sent
    own = {"anthropic": {"disableParallelToolUse": True}}
    alone = body_of(tools=[ADD], tool_choice=choice, provider_options=own)[0]["tool_choice"]
    expected = sent if choice == "none" else {**sent, "disable_parallel_tool_use": True}
    assert alone == expected


def test_without_tools_no_choice_is_sent() -> None:
    body, _ = body_of(provider_options={"anthropic": {"disableParallelToolUse": True}})
    assert {"tools", "tool_choice", "disableParallelToolUse"}.isdisjoint(body)


def test_tools_with_options_and_tools_of_the_provider() -> None:
    schema = {"type": "object", "properties": {"camelCase": {"type": "string"}}}
    own = {"anthropic": {"strict": True, "inputExamples": [{"camelCase": "x"}], **OWN}}
    mine = ToolDefinition(name="m", description="", input_schema=schema, provider_options=own)
    bash = ToolDefinition(
        name="bash",
        description="Runs.",
        input_schema={},
        provider_options={"anthropic": {"type": "bash_20250124"}},
    )
    search = {"type": "web_search_20250305", "name": "web_search", "allowedDomains": ["a.example"]}
    body, _ = body_of(tools=[mine, bash], provider_options={"anthropic": {"tools": [search]}})
    assert body["tools"] == [
        {
            "name": "m",
            "input_schema": schema,
            "strict": True,
            "input_examples": [{"camelCase": "x"}],
            **CACHED,
        },
        {"name": "bash", "type": "bash_20250124"},
        {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["a.example"]},
    ]
    assert body["tool_choice"] == {"type": "auto"}


def test_response_formats() -> None:
    schema = {"type": "object", "properties": {"aB": {"type": "string"}}}
    form = {"type": "json", "schema": schema, "name": "n"}
    own = {"anthropic": {"effort": "low"}}
    body, _ = body_of(response_format=form, provider_options=own)
    assert body["output_config"] == {
        "effort": "low",
        "format": {"type": "json_schema", "schema": {**schema, "additionalProperties": False}},
    }
    body, _ = body_of(response_format={"type": "json"})
    assert "output_config" not in body
    assert "JSON" in body["system"][0]["text"]


def test_schemas_without_what_is_not_taken() -> None:
    given = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"N": {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}}},
        "type": "object",
        "properties": {
            "minimum": {"type": "number", "minimum": 1, "description": "Size."},
            "at": {"type": "string", "format": "date"},
            "code": {"type": "string", "format": "zip", "pattern": "x"},
            "some": {"type": "array", "items": {"enum": ["a"]}, "minItems": 1, "maxItems": 3},
            "either": {"oneOf": [{"type": "null"}, {"type": "object", "properties": {}}]},
        },
        "required": ["at"],
    }
    assert native_schema(given) == {
        "$defs": {
            "N": {
                "type": "object",
                "properties": {"n": {"$ref": "#/$defs/N"}},
                "additionalProperties": False,
            }
        },
        "type": "object",
        "properties": {
            "minimum": {"type": "number", "description": 'Size. ({"minimum":1})'},
            "at": {"type": "string", "format": "date"},
            "code": {"type": "string", "description": '{"format":"zip","pattern":"x"}'},
            "some": {
                "type": "array",
                "items": {"enum": ["a"]},
                "minItems": 1,
                "description": '{"maxItems":3}',
            },
            "either": {
                "anyOf": [
                    {"type": "null"},
                    {"type": "object", "properties": {}, "additionalProperties": False},
                ]
            },
        },
        "required": ["at"],
        "additionalProperties": False,
    }


def test_files_of_the_assistant_are_reported() -> None:
    part = {"type": "file", "mediaType": "image/png", "data": "aW1n"}
    body, warnings = body_of(prompt=[user("a"), entry("assistant", part), user("b")])
    assert [turn["role"] for turn in body["messages"]] == ["user"]
    assert "files" in warnings[0]["message"]
