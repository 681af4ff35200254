"""What of a request becomes what of a Responses body."""

from __future__ import annotations

from typing import Any

import pytest

from procession.errors import InputError
from procession.model import ModelRequest, ToolDefinition
from procession.models.responses_input import responses_input
from procession.models.responses_prompt import responses_body

Json = dict[str, Any]


def body_of(provider: str = "openai", model: str = "gpt-5", **request: Any) -> tuple[Json, Any]:
    asked = ModelRequest(**{"prompt": [], "settings": {}, **request})
    return responses_body(model, provider, asked)


def options(**own: Any) -> Json:
    return {"provider_options": {"openai": own}}


def items(*entries: Json, stored: bool = False) -> list[Json]:
    return responses_input(list(entries), "openai", [], stored=stored)


def assistant(*parts: Json) -> Json:
    return {"role": "assistant", "content": list(parts)}


def user(*parts: Json) -> Any:
    return items({"role": "user", "content": list(parts)})[0]["content"]


def part(kind: str, own: Json | None = None, **fields: Any) -> Json:
    meta = {"providerOptions": {"openai": own}} if own else {}
    return {"type": kind, **fields, **meta}


def call(own: Json | None = None, *, id: str = "c1", input: Any = None, **more: Any) -> Json:
    fields = {"toolCallId": id, "toolName": "add", "input": {"a": 1} if input is None else input}
    return part("tool-call", own, **fields, **more)


def result(output: Any, own: Json | None = None, *, id: str = "c1") -> Json:
    return part("tool-result", own, toolCallId=id, toolName="add", output=output)


def tool(name: str = "add", **own: Any) -> ToolDefinition:
    given = {"openai": own} if own else None
    return ToolDefinition(
        name=name, description="Adds.", input_schema={"type": "object"}, provider_options=given
    )


REASONING = {"itemId": "rs_1", "reasoningEncryptedContent": "c2VjcmV0+/=="}
SECRET = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "c2VjcmV0+/==",
}


def message(text: str, **more: Any) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content, **more}


def test_a_plain_request_leaves_nothing_at_the_provider() -> None:
    body, warnings = body_of(prompt=[{"role": "user", "content": [part("text", text="Hi")]}])
    assert body == {
        "model": "gpt-5",
        "input": [{"role": "user", "content": "Hi"}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
    }
    assert warnings == []


@pytest.mark.parametrize(
    ("provider", "model", "own", "include"),
    [
        ("openai", "o4-mini", {}, ["reasoning.encrypted_content"]),
        ("openai", "gpt-4o", {}, None),
        ("openai", "gpt-5.1-chat-latest", {}, None),
        ("openai", "gpt-5", {"store": True}, None),
        ("example", "gpt-5", {}, None),
        ("openai", "gpt-5", {"include": ["x"]}, ["x", "reasoning.encrypted_content"]),
        ("example", "any", {"include": ["x"]}, ["x"]),
    ],
)
def test_encrypted_reasoning_is_asked_for_where_there_is_some(
    provider: str, model: str, own: Json, include: Any
) -> None:
    assert body_of(provider, model, **options(**own))[0].get("include") == include


def test_options_are_the_fields_of_the_api() -> None:
    body, _ = body_of(
        **options(
            previousResponseId="resp_0",
            reasoningEffort="low",
            reasoningSummary="auto",
            textVerbosity="high",
            instructions="Be kind.",
            serviceTier="flex",
            user="u1",
            metadata={"customData": "kept"},
            parallelToolCalls=False,
            truncation="auto",
            maxToolCalls=3,
            promptCacheKey="k",
        ),
        response_format={"type": "json", "schema": {"type": "object"}, "name": "plan"},
    )
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert body["text"] == {
        "verbosity": "high",
        "format": {"type": "json_schema", "name": "plan", "schema": {"type": "object"}},
    }
    wanted = {
        "previous_response_id": "resp_0",
        "instructions": "Be kind.",
        "service_tier": "flex",
        "user": "u1",
        "metadata": {"customData": "kept"},
        "parallel_tool_calls": False,
        "truncation": "auto",
        "max_tool_calls": 3,
        "prompt_cache_key": "k",
    }
    assert wanted.items() <= body.items()


def test_the_providers_own_options_win() -> None:
    given = {"openai": {"user": "a", "store": True}, "example": {"user": "b"}}
    body, _ = body_of("example", provider_options=given)
    assert (body["user"], body["store"]) == ("b", True)


def test_settings_and_what_the_api_does_not_have() -> None:
    body, warnings = body_of(
        settings={
            "temperature": 0.1,
            "top_p": 0.5,
            "max_output_tokens": 9,
            "top_k": 3,
            "seed": 1,
            "stop_sequences": ["x"],
            "presence_penalty": 0.1,
            "frequency_penalty": 0.1,
        }
    )
    assert (body["temperature"], body["top_p"], body["max_output_tokens"]) == (0.1, 0.5, 9)
    left_out = ["topK", "seed", "stopSequences", "presencePenalty", "frequencyPenalty"]
    assert [warning["setting"] for warning in warnings] == left_out


def test_json_without_a_schema_and_strict_schemas() -> None:
    free, _ = body_of(response_format={"type": "json"})
    assert free["text"] == {"format": {"type": "json_object"}}
    strict, _ = body_of(
        response_format={"type": "json", "schema": {}}, **options(strictJsonSchema=True)
    )
    assert strict["text"]["format"]["strict"] is True
    assert "strict_json_schema" not in strict


def test_functions_are_lenient_unless_they_say_otherwise() -> None:
    body, _ = body_of(tools=[tool(), tool("sum", strict=True, deferLoading=True)])
    first, second = body["tools"]
    assert first == {
        "type": "function",
        "name": "add",
        "strict": False,
        "description": "Adds.",
        "parameters": {"type": "object"},
    }
    assert (second["strict"], second["defer_loading"]) == (True, True)
    assert body["tool_choice"] == "auto"


def test_tools_with_a_type_are_the_providers() -> None:
    headers = {"X-Example-Key": "k", "someKey": "v"}
    body, _ = body_of(
        tools=[
            tool("look", type="web_search", searchContextSize="low"),
            tool("docs", type="mcp", serverLabel="docs", headers=headers),
            tool("shout", type="custom"),
        ]
    )
    assert body["tools"] == [
        {"type": "web_search", "search_context_size": "low"},
        {"type": "mcp", "server_label": "docs", "headers": headers},
        {"type": "custom", "name": "shout", "description": "Adds."},
    ]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("required", "required"),
        ({"type": "tool", "toolName": "add"}, {"type": "function", "name": "add"}),
        ({"type": "tool", "toolName": "look"}, {"type": "web_search"}),
        ({"type": "tool", "toolName": "docs"}, {"type": "mcp", "server_label": "d"}),
        ({"type": "tool", "toolName": "shout"}, {"type": "custom", "name": "shout"}),
    ],
)
def test_tool_choice(given: Any, sent: Any) -> None:
    tools = [
        tool(),
        tool("look", type="web_search"),
        tool("docs", type="mcp", serverLabel="d"),
        tool("shout", type="custom"),
    ]
    assert body_of(tools=tools, tool_choice=given)[0]["tool_choice"] == sent


def test_files_of_the_user() -> None:
    image = part("file", {"imageDetail": "low"}, mediaType="image/*", data="aW1n")
    page = part("file", mediaType="image/png", data="https://example.com/a.png")
    pdf = part("file", mediaType="application/pdf", data="cGRm", filename="a.pdf")
    far = part("file", mediaType="application/pdf", data="https://example.com/a.pdf")
    kept = part("file", {"fileId": "file-1"}, mediaType="application/pdf", data="")
    raw = part("file", mediaType="image/png", data=b"img")
    assert user(part("text", text="See"), image, page, pdf, far, kept, raw) == [
        {"type": "input_text", "text": "See"},
        {"type": "input_image", "detail": "low", "image_url": "data:image/jpeg;base64,aW1n"},
        {"type": "input_image", "image_url": "https://example.com/a.png"},
        {
            "type": "input_file",
            "filename": "a.pdf",
            "file_data": "data:application/pdf;base64,cGRm",
        },
        {"type": "input_file", "file_url": "https://example.com/a.pdf"},
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_image", "image_url": "data:image/png;base64,aW1n"},
    ]
    for media in ("audio/mpeg", "video/mp4", "application/zip"):
        with pytest.raises(InputError, match=media):
            user(part("text", text="Hear"), part("file", mediaType=media, data="AA=="))


@pytest.mark.parametrize(
    ("media", "name"),
    [
        ("text/plain", "document.txt"),
        ("text/csv", "document.csv"),
        ("application/pdf", "document.pdf"),
        ("application/x-unheard-of", "document.txt"),
    ],
)
def test_documents_without_a_name_get_one_that_fits(media: str, name: str) -> None:
    (sent,) = user(part("file", mediaType=media, data="AA=="))
    assert sent["filename"] == name


def test_what_the_provider_has_said_goes_back_as_it_came() -> None:
    """K4: encrypted reasoning byte for byte, ids, phases, and namespaces."""
    own = {"itemId": "msg_1", "phase": "commentary", "afterReasoning": "rs_1"}
    assert items(
        assistant(
            part("reasoning", {"itemId": "rs_1"}, text="One."),
            part("reasoning", REASONING, text="Two."),
            part("text", own, text="I "),
            part("text", own, text="add."),
            call({"itemId": "fc_1", "item": {"namespace": "sums"}}),
        ),
        {"role": "tool", "content": [result({"type": "json", "value": {"sum": 1}})]},
    ) == [
        {
            **SECRET,
            "summary": [
                {"type": "summary_text", "text": "One."},
                {"type": "summary_text", "text": "Two."},
            ],
        },
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "status": "completed",
            "phase": "commentary",
            "content": [
                {"type": "output_text", "text": "I ", "annotations": []},
                {"type": "output_text", "text": "add.", "annotations": []},
            ],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "add",
            "arguments": '{"a":1}',
            "namespace": "sums",
        },
        {"type": "function_call_output", "call_id": "c1", "output": '{"sum":1}'},
    ]


def test_reasoning_goes_only_with_what_followed_it() -> None:
    """The API refuses one without the other."""
    thought = part("reasoning", REASONING, text="")
    after = {"itemId": "msg_1", "afterReasoning": "rs_1"}
    said = part("text", after, text="Yes")
    known = message("Yes", id="msg_1", status="completed")
    assert items(assistant(thought, said)) == [SECRET, known]
    assert items(assistant(thought, call({"itemId": "fc_1"})))[0] == SECRET
    assert items(assistant(thought)) == []  # the rest was dropped, or never came
    assert items(assistant(said)) == [message("Yes")]  # the reasoning was dropped
    other = part("text", {"itemId": "msg_2", "afterReasoning": "rs_2"}, text="No")
    assert items(assistant(thought, other)) == [message("No")]
    assert items(assistant(thought), {"role": "user", "content": "Go on"}) == [
        {"role": "user", "content": "Go on"}
    ]


def test_reasoning_that_cannot_be_read_is_left_out_with_a_warning() -> None:
    foreign = assistant(part("reasoning", text="Hm"), part("text", text="Yes"))
    nothing = assistant(
        part("reasoning", {"itemId": "rs_1"}, text="Hm"),
        part("text", {"itemId": "msg_1", "afterReasoning": "rs_1"}, text="Yes"),
    )
    warnings: list[Json] = []
    prompt = [foreign, nothing]
    assert responses_input(prompt, "openai", warnings) == [message("Yes"), message("Yes")]
    assert len(warnings) == 1
    stored = items(nothing, stored=True)
    assert [item.get("id") for item in stored] == ["rs_1", "msg_1"]


def test_reasoning_in_plain_text_goes_back_as_such() -> None:
    own = {"itemId": "r", "reasoningText": True}
    said = part("text", {"itemId": "m", "afterReasoning": "r"}, text="4")
    assert items(assistant(part("reasoning", own, text="Easy."), said))[0] == {
        "type": "reasoning",
        "id": "r",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Easy."}],
    }


def test_what_another_provider_has_said_has_no_ids() -> None:
    prompt = [assistant({**part("text", text="Hi"), "providerOptions": {"other": {"itemId": "x"}}})]
    assert items(*prompt) == [message("Hi")]
    assert items(assistant(part("text", text="A")), assistant(part("text", text="B"))) == [
        message("A"),
        message("B"),
    ]


def test_refusals_and_compacted_context_go_back() -> None:
    refused = part("text", {"itemId": "m", "refusal": True}, text="No.")
    own = {"itemId": "cmp", "itemType": "compaction", "reasoningEncryptedContent": "eA=="}
    first, second = items(assistant(part("reasoning", own, text=""), refused))
    assert first == {"type": "compaction", "id": "cmp", "encrypted_content": "eA=="}
    assert second["content"] == [{"type": "refusal", "refusal": "No."}]


@pytest.mark.parametrize(
    ("output", "sent"),
    [
        ({"type": "text", "value": "sunny"}, "sunny"),
        ({"type": "error-text", "value": "no such city"}, "no such city"),
        ({"type": "json", "value": [1]}, "[1]"),
        ({"type": "content", "value": [{"type": "text", "text": "a"}]}, "a"),
        (
            {
                "type": "content",
                "value": [
                    {"type": "text", "text": "a"},
                    {"type": "media", "data": "aW1n", "mediaType": "image/png"},
                    {"type": "odd"},
                ],
            },
            [
                {"type": "input_text", "text": "a"},
                {"type": "input_image", "image_url": "data:image/png;base64,aW1n"},
                {"type": "input_text", "text": '{"type":"odd"}'},
            ],
        ),
    ],
)
def test_outcomes_of_tools(output: Json, sent: Any) -> None:
    (item,) = items({"role": "tool", "content": [result(output)]})
    assert item == {"type": "function_call_output", "call_id": "c1", "output": sent}


def hosted(kind: str, args: Json, value: Any, **own: Any) -> list[Json]:
    meta = {"itemId": "x_1", "itemType": kind, **own}
    return items(
        assistant(
            call(meta, id="x_1", input=args, providerExecuted=True),
            result({"type": "json", "value": value}, meta, id="x_1"),
        )
    )


def test_what_the_provider_ran_goes_back_with_its_result() -> None:
    action = {"action": {"type": "search", "query": "q"}}
    assert hosted("web_search_call", action, {"status": "completed"}) == [
        {"type": "web_search_call", "id": "x_1", **action, "status": "completed"}
    ]
    kept = {"name": "ask", "server_label": "docs"}
    (item,) = hosted("mcp_call", {"q": 1}, {"output": "o", "status": "completed"}, item=kept)
    assert item == {
        "type": "mcp_call",
        "id": "x_1",
        "arguments": '{"q":1}',
        "output": "o",
        "status": "completed",
        **kept,
    }
    assert hosted("mcp_call", {}, "withheld", item=kept)[0]["output"] == "withheld"


def test_what_the_provider_ran_is_left_out_without_its_outcome() -> None:
    """E7, R-377."""
    meta = {"itemId": "x_1", "itemType": "web_search_call"}
    open_call = call(meta, id="x_1", providerExecuted=True)
    assert items(assistant(open_call)) == []
    assert hosted("web_search_call", {}, "withheld") == []
    foreign = {**open_call, "providerOptions": {"other": meta}}
    assert items(assistant(foreign, result({"type": "json", "value": {}}, id="x_1"))) == []
    assert hosted("image_generation_call", {}, {"status": "completed"}) == []  # no image is left


def test_a_generated_image_goes_back_in_its_call() -> None:
    meta = {"itemId": "ig_1", "itemType": "image_generation_call"}
    (item,) = items(
        assistant(
            part("file", {"itemId": "ig_1"}, mediaType="image/png", data="aW1n"),
            call(meta, id="ig_1", input={}, providerExecuted=True),
            result({"type": "json", "value": {"status": "completed"}}, meta, id="ig_1"),
        )
    )
    assert item == {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "completed",
        "result": "aW1n",
    }


@pytest.mark.parametrize(
    ("kind", "args", "output", "answer"),
    [
        (
            "computer_call",
            {"action": {"type": "wait"}},
            {
                "type": "content",
                "value": [{"type": "media", "data": "aW1n", "mediaType": "image/png"}],
            },
            {
                "type": "computer_call_output",
                "call_id": "c1",
                "output": {
                    "type": "computer_screenshot",
                    "image_url": "data:image/png;base64,aW1n",
                },
            },
        ),
        (
            "custom_tool_call",
            {"input": "hi"},
            {"type": "text", "value": "HI"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "HI"},
        ),
        (
            "local_shell_call",
            {"action": {"command": ["ls"]}},
            {"type": "text", "value": "a.txt"},
            {"type": "local_shell_call_output", "id": "c1", "output": "a.txt"},
        ),
        (
            "shell_call",
            {"action": {"commands": ["ls"]}},
            {"type": "text", "value": "a.txt"},
            {
                "type": "shell_call_output",
                "call_id": "c1",
                "output": [
                    {
                        "stdout": "a.txt",
                        "stderr": "",
                        "outcome": {"type": "exit", "exit_code": 0},
                    }
                ],
            },
        ),
        (
            "apply_patch_call",
            {"operation": {"type": "delete_file", "path": "a"}},
            {"type": "json", "value": {"status": "failed", "output": "no such file"}},
            {
                "type": "apply_patch_call_output",
                "call_id": "c1",
                "status": "failed",
                "output": "no such file",
            },
        ),
        (
            "mcp_approval_request",
            {"name": "ask", "arguments": {"q": 1}, "server_label": "docs"},
            {"type": "json", "value": {"approve": False, "reason": "no"}},
            {
                "type": "mcp_approval_response",
                "approval_request_id": "c1",
                "approve": False,
                "reason": "no",
            },
        ),
    ],
)
def test_calls_that_the_caller_answers(kind: str, args: Json, output: Json, answer: Json) -> None:
    meta = {"itemId": "i_1", "itemType": kind, "item": {"extra": 1}}
    asked, answered = items(
        assistant(call(meta, input=args)),
        {"role": "tool", "content": [result(output, meta)]},
    )
    assert (asked["type"], asked["id"]) == (kind, "i_1")
    assert answered == answer
    if kind != "mcp_approval_request":
        assert args.items() <= asked.items()
        assert (asked["call_id"], asked["extra"]) == ("c1", 1)
    else:
        assert asked["arguments"] == '{"q":1}'


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(InputError, match="unknown role"):
        items({"role": "robot", "content": "x"})
