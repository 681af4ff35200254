"""The UI form (section 9)."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from procession.message_list import MessageList
from procession.messages import (
    DataPart,
    ErrorPart,
    FilePart,
    Message,
    MessageContent,
    Part,
    ReasoningPart,
    SourceDocumentPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
    text_message,
)

START = datetime(2025, 1, 1, tzinfo=UTC)


def shown(*parts: Part, role: str = "assistant", **content: Any) -> list[dict[str, Any]]:
    """The UI parts of a message."""
    message = Message(
        id="m", role=role, content=MessageContent(parts=list(parts), **content), created_at=START
    )
    (form,) = MessageList().add(message, "memory").get.all.ui()
    assert json.loads(json.dumps(form)) == form
    return form["parts"]


def test_message_form() -> None:
    """R-383, R-395"""
    message = Message(
        id="m",
        role="user",
        content=MessageContent(
            parts=[TextPart(text="x")],
            metadata={"customData": 1, "custom_data": 2},
            provider_metadata={"p": {}},
        ),
        created_at=START,
        thread_id="t",
        resource_id="r",
    )
    assert MessageList().add(message, "memory").get.all.ui() == [
        {
            "id": "m",
            "role": "user",
            "metadata": {
                "customData": 1,
                "custom_data": 2,
                "createdAt": "2025-01-01T00:00:00.000Z",
                "threadId": "t",
                "resourceId": "r",
                "providerMetadata": {"p": {}},
            },
            "parts": [{"type": "text", "text": "x"}],
        }
    ]
    bare = text_message("x", created_at=START)
    assert MessageList().add(bare, "memory").get.all.ui()[0]["metadata"] == {
        "createdAt": "2025-01-01T00:00:00.000Z"
    }


def test_text_and_reasoning() -> None:
    """R-384, R-385: empty texts are kept"""
    assert shown(
        TextPart(text=""),
        TextPart(text="x", provider_metadata={"p": {}}),
        ReasoningPart(details=[{"type": "text", "text": "r"}], provider_metadata={"q": {}}),
    ) == [
        {"type": "text", "text": ""},
        {"type": "text", "text": "x", "providerMetadata": {"p": {}}},
        {"type": "reasoning", "text": "r", "state": "done", "providerMetadata": {"q": {}}},
    ]


@pytest.mark.parametrize(
    ("fields", "form"),
    [
        ({"state": "call"}, {"state": "input-available"}),
        ({"state": "partial-call"}, {"state": "input-available"}),
        ({"state": "approval-requested"}, {"state": "input-available"}),
        ({"state": "result", "result": None}, {"state": "output-available", "output": None}),
        (
            {"state": "result", "result": {"a_b": 1}},
            {"state": "output-available", "output": {"a_b": 1}},
        ),
        (
            {"state": "output-error", "error_text": "no"},
            {"state": "output-error", "errorText": "no"},
        ),
        (
            {"state": "output-denied", "approval": {"reason": "never"}},
            {"state": "output-available", "output": "never"},
        ),
    ],
)
def test_tools(fields: dict[str, Any], form: dict[str, Any]) -> None:
    """R-386"""
    call = ToolInvocation(tool_call_id="c", tool_name="get-it", args={"x": 1}, **fields)
    part = ToolInvocationPart(
        tool_invocation=call, provider_executed=True, provider_metadata={"p": {}}
    )
    assert shown(part) == [
        {
            "type": "tool-get-it",
            "toolCallId": "c",
            "input": {"x": 1},
            "providerExecuted": True,
            "callProviderMetadata": {"p": {}},
            **form,
        }
    ]


def test_files_and_attachments() -> None:
    """R-387"""
    assert shown(
        FilePart(mime_type="image/png", data="AQ==", filename="f"),
        FilePart(mime_type="image/png", data=b"\x01"),
        FilePart(mime_type="image/png", data="https://x.test/a"),
        role="user",
        experimental_attachments=[{"url": "https://x.test/b", "contentType": "a/b"}],
    ) == [
        {"type": "file", "mediaType": "a/b", "url": "https://x.test/b"},
        {
            "type": "file",
            "mediaType": "image/png",
            "url": "data:image/png;base64,AQ==",
            "filename": "f",
        },
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AQ=="},
        {"type": "file", "mediaType": "image/png", "url": "https://x.test/a"},
    ]


def test_sources() -> None:
    """R-388"""
    source = {"sourceType": "url", "id": "s", "url": "https://x.test", "title": "T"}
    assert shown(
        SourcePart(source=source), SourceDocumentPart(source_id="d", media_type="a/b", title="T")
    ) == [
        {"type": "source-url", "sourceId": "s", "url": "https://x.test", "title": "T"},
        {"type": "source-document", "sourceId": "d", "mediaType": "a/b", "title": "T"},
    ]


def test_other_parts_pass_as_they_are() -> None:
    """R-389, R-316, R-394"""
    thinking = ReasoningPart(reasoning="r")
    thinking.type = "thinking"
    assert shown(
        StepStartPart(),
        DataPart(type="data-x", id="d", data={"a_b": 1}),
        ErrorPart(error={"name": "E", "message": "m"}),
        Part(type="novel", extra={"z": 1}),
        thinking,
    ) == [
        {"type": "step-start"},
        {"type": "data-x", "id": "d", "data": {"a_b": 1}},
        {"type": "error", "error": {"name": "E", "message": "m"}},
        {"type": "novel", "z": 1},
        {"type": "thinking", "reasoning": "r", "details": []},
    ]


def conversation() -> MessageList:
    messages = MessageList().add(text_message("q", created_at=START), "memory")
    said = text_message("a", role="assistant", created_at=START + timedelta(seconds=1))
    messages.add(said, "memory")
    messages.add_signal({"type": "reactive", "contents": "x<y"})
    messages.add_signal({"type": "user", "contents": "hey"})
    return messages


def test_signals_are_hidden_unless_asked_for() -> None:
    """R-390, R-380, README 12"""
    messages = conversation()
    assert [form["role"] for form in messages.get.all.ui()] == ["user", "assistant"]
    assert [form["role"] for form in messages.get.all.core()] == ["user", "assistant"]
    question, answer, user = messages.get.all.ui(hide_signals=False)
    assert len(question["parts"]) == 1
    assert [part["type"] for part in answer["parts"]] == ["text", "data-signal"]
    assert answer["parts"][1]["data"]["contents"] == "x<y"
    assert (user["role"], user["parts"]) == ("user", [{"type": "text", "text": "hey"}])
    assert len(messages.get.all.ui(hide_signals=["reactive"])) == 3
    assert [c["content"][0]["text"] for c in messages.get.all.core(hide_signals=["user"])] == [
        "q",
        "a",
        "<system-reminder>x&lt;y</system-reminder>",
    ]


def test_a_signal_with_no_answer_before_it_has_a_message_of_its_own() -> None:
    """R-390"""
    messages = MessageList()
    messages.add_signal({"type": "notification", "contents": "x"})
    (form,) = messages.get.all.ui(hide_signals=False)
    assert (form["role"], form["parts"][0]["type"]) == ("assistant", "data-signal")


def test_ui_round_trip() -> None:
    """R-391: what was shown can be sent back"""
    call = ToolInvocation(tool_call_id="c", tool_name="t", state="result", args={"a": 1}, result=2)
    message = Message(
        id="m",
        role="assistant",
        created_at=START,
        content=MessageContent(
            parts=[
                ReasoningPart(reasoning="r", details=[{"type": "text", "text": "r"}]),
                ToolInvocationPart(tool_invocation=call, provider_metadata={"p": {}}),
                TextPart(text="x"),
                StepStartPart(),
            ]
        ),
    )
    before = MessageList().add(message, "memory")
    after = MessageList().add(before.get.all.ui(), "memory")
    assert after.provider_prompt() == before.provider_prompt()
    assert after.get.all.ui() == before.get.all.ui()
    assert [p.to_json() for p in after.messages()[0].parts] == [p.to_json() for p in message.parts]


def test_r_391_a_conversation_of_a_client_stays_in_its_order() -> None:
    """R-323, R-383: only the answers tell when they were given; the rest is from before them."""
    first = MessageList().add(["One?", {"role": "assistant", "content": "One."}], "memory")
    answer = first.get.all.ui()[1]
    assert "createdAt" in answer["metadata"]
    second = {**answer, "id": "a2", "parts": [{"type": "text", "text": "Two."}]}
    asked = [
        {"role": "user", "parts": [{"type": "text", "text": text}]} for text in ("One?", "Two?")
    ]
    conversation = [asked[0], answer, asked[1], second, "Three?"]
    time.sleep(0.003)
    for given in (conversation, tuple(conversation)):
        found = MessageList().add(given, "input").get.all.db()
        assert [message.text for message in found] == ["One?", "One.", "Two?", "Two.", "Three?"]
        assert found[0].created_at < found[1].created_at <= found[2].created_at
