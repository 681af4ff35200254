"""The core form (section 8) and the model form (R-321)."""

from datetime import UTC, datetime
from typing import Any

from procession.message_list import MessageList
from procession.messages import (
    DataPart,
    FilePart,
    Message,
    MessageContent,
    Part,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
)

START = datetime(2025, 1, 1, tzinfo=UTC)


def listed(*parts: Part, role: str = "assistant", **content: Any) -> MessageList:
    message = Message(
        id="m", role=role, content=MessageContent(parts=list(parts), **content), created_at=START
    )
    return MessageList().add_system("s").add(message, "memory")


def tool(id: str, state: str = "result", **fields: Any) -> ToolInvocationPart:
    call = ToolInvocation(tool_call_id=id, tool_name="t", state=state, args={"a": 1}, **fields)
    return ToolInvocationPart(tool_invocation=call)


def test_tools_in_v4_style_without_system_messages() -> None:
    """R-380"""
    messages = listed(
        TextPart(text="x", provider_metadata={"p": {}}),
        tool("1", result={"r": 1}),
        tool("2", "output-error", error_text="no"),
        tool("3", "call"),
        DataPart(type="data-x", data=1),
        StepStartPart(),
        tool("4", "output-denied", approval={"reason": "never"}),
        TextPart(text="done"),
    )
    calls = [
        {"type": "tool-call", "toolCallId": id, "toolName": "t", "args": {"a": 1}} for id in "124"
    ]
    assert messages.get.all.core() == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "x", "providerOptions": {"p": {}}},
                calls[0],
                calls[1],
            ],
        },
        {
            "role": "tool",
            "content": [
                {"type": "tool-result", "toolCallId": "1", "toolName": "t", "result": {"r": 1}},
                {
                    "type": "tool-result",
                    "toolCallId": "2",
                    "toolName": "t",
                    "result": "no",
                    "isError": True,
                },
            ],
        },
        {"role": "assistant", "content": [calls[2]]},
        {
            "role": "tool",
            "content": [
                {"type": "tool-result", "toolCallId": "4", "toolName": "t", "result": "never"}
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
    ]


def test_reasoning_details() -> None:
    """R-381, R-368"""
    part = ReasoningPart(
        reasoning="joined",
        details=[
            {"type": "text", "text": "a", "signature": "s"},
            {"type": "redacted", "data": "x"},
            {"type": "text", "text": "b"},
        ],
    )
    assert listed(part).get.all.core()[0]["content"] == [
        {"type": "reasoning", "text": "a", "signature": "s"},
        {"type": "redacted-reasoning", "data": "x"},
        {"type": "reasoning", "text": "b"},
    ]
    assert listed(ReasoningPart(reasoning="r")).get.all.core()[0]["content"] == [
        {"type": "reasoning", "text": "r"}
    ]


def test_images_as_bytes_and_other_files() -> None:
    """R-382"""
    messages = listed(
        FilePart(mime_type="image/png", data="data:image/png;base64,AQ=="),
        FilePart(mime_type="image/png", data="https://x.test/a"),
        FilePart(mime_type="text/plain", data=b"\x01", filename="f"),
        role="user",
    )
    assert messages.get.all.core()[0]["content"] == [
        {"type": "image", "image": b"\x01", "mimeType": "image/png"},
        {"type": "image", "image": "https://x.test/a", "mimeType": "image/png"},
        {"type": "file", "data": "AQ==", "mimeType": "text/plain", "filename": "f"},
    ]


def test_flat_text_and_attachments() -> None:
    """R-356, R-364"""
    assert listed(content="flat").get.all.core() == [
        {"role": "assistant", "content": [{"type": "text", "text": "flat"}]}
    ]
    attached = listed(
        TextPart(text="x"), role="user", experimental_attachments=[{"url": "https://x.test/a"}]
    )
    kinds = [part["type"] for part in attached.get.all.core()[0]["content"]]
    assert kinds == ["image", "text"]


def test_core_messages_can_be_added_again() -> None:
    """R-325, R-335: what `core()` gives is a form that `add` takes"""
    before = listed(
        ReasoningPart(reasoning="r", details=[{"type": "text", "text": "r", "signature": "s"}]),
        TextPart(text="x"),
        tool("1", result={"r": 1}),
        StepStartPart(),
        TextPart(text="y"),
    )
    after = MessageList().add(before.get.all.core(), "input")
    assert after.get.all.core() == before.get.all.core()
    again = MessageList().add(before.get.all.model(), "input")
    assert again.get.all.model() == before.get.all.model()


def test_model_form_has_inputs_and_outputs() -> None:
    """R-321"""
    one, two = listed(tool("1", result=1)).get.all.model()
    assert one["content"][0]["input"] == {"a": 1}
    assert two["content"][0]["output"] == {"type": "json", "value": 1}
