"""Every accepted form becomes a `Message` (R-325, R-326, R-365, R-391), with clean text."""

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession.conversation.input import NotAMessageError, SystemEntry, ToolResults, read_messages
from procession.errors import InputError
from procession.message_list import MessageList
from procession.messages import (
    FilePart,
    Message,
    MessageContent,
    Part,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolInvocationPart,
    text_message,
)


def read(value: Any) -> Message:
    """The one message that `value` says."""
    (found,) = read_messages(value)
    assert isinstance(found, Message)
    return found


def added(value: Any, source: str = "input") -> Message:
    """The message as it stands in a list it was added to."""
    (found,) = MessageList().add(value, source).messages()
    return found


def test_text_becomes_a_user_message() -> None:
    """R-325, R-303"""
    message = added("hello")
    assert (message.role, message.text, message.content.content) == ("user", "hello", "hello")


def test_lists_mix_forms_and_none_is_ignored() -> None:
    """R-325"""
    own = text_message("own")
    messages = MessageList().add(["a", None, own, {"role": "user", "content": "b"}], "input")
    assert {m.text for m in messages.messages()} == {"a", "own", "b"}
    assert MessageList().add(None, "input").messages() == []


def test_message_objects_are_adopted_not_copied() -> None:
    """R-322, R-325"""
    own = text_message("own")
    assert added(own) is own


def test_stored_json_form_is_read_with_unknown_keys() -> None:
    """R-300, R-304"""
    form = {
        "id": "m1",
        "role": "assistant",
        "createdAt": "2025-01-02T03:04:05.006Z",
        "threadId": "t",
        "later": 1,
        "content": {
            "format": 2,
            "parts": [{"type": "text", "text": "x", "novel": True}, {"type": "hologram", "z": [1]}],
            "metadata": {"customData": 1, "custom_data": 2},
            "odd": {},
        },
    }
    message = added(form)
    assert message.to_json() == {
        **form,
        "content": {
            **form["content"],  # type: ignore[dict-item]
            "parts": [
                {"type": "text", "text": "x", "novel": True, "createdAt": 1735787045006},
                {"type": "hologram", "z": [1], "createdAt": 1735787045006},
            ],
        },
    }


@pytest.mark.parametrize("content", [{}, {"parts": None}, {"format": 2, "content": "flat"}])
def test_stored_form_without_parts_has_an_empty_list(content: dict[str, Any]) -> None:
    """R-392"""
    message = added({"id": "a", "role": "user", "content": content})
    assert message.content.parts == []
    assert message.text == content.get("content", "")


def test_snake_case_message_keys_are_read() -> None:
    message = added(
        {
            "role": "user",
            "content": "x",
            "created_at": datetime(2025, 1, 1, tzinfo=UTC),
            "thread_id": "t",
            "provider_options": {"openai": {"a_b": 1}},
        }
    )
    assert message.created_at == datetime(2025, 1, 1, tzinfo=UTC)
    assert message.thread_id == "t"
    assert message.content.provider_metadata == {"openai": {"a_b": 1}}


def test_several_text_parts_of_a_user_are_joined_for_old_readers() -> None:
    """R-303"""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert added({"role": "user", "content": parts}).content.content == "a\nb"
    assert added({"role": "assistant", "content": parts}).content.content == "b"


@pytest.mark.parametrize(
    ("form", "media_type", "data"),
    [
        ({"image": "https://x.test/a"}, "image/jpeg", "https://x.test/a"),
        ({"image": b"\x01"}, "image/jpeg", "AQ=="),
        ({"image": "AQ==", "mediaType": "image/png"}, "image/png", "AQ=="),
        ({"image": "AQ==", "mime_type": "image/gif"}, "image/gif", "AQ=="),
        ({"image": "data:image/webp;base64,AQ=="}, "image/jpeg", "data:image/webp;base64,AQ=="),
    ],
)
def test_images_become_file_parts(form: dict[str, Any], media_type: str, data: str) -> None:
    """R-365"""
    (part,) = added({"role": "user", "content": [{"type": "image", **form}]}).parts
    assert isinstance(part, FilePart)
    assert (part.mime_type, part.data) == (media_type, data)


def test_a_model_is_told_the_type_that_a_data_url_names() -> None:
    """R-362, R-365: whatever the message says of it"""
    image = {"type": "image", "image": "data:image/webp;base64,AQ=="}
    messages = MessageList().add({"role": "user", "content": [image]}, "input")
    (sent,) = messages.provider_prompt()[0]["content"]
    assert (sent["mediaType"], sent["data"]) == ("image/webp", "AQ==")


def test_v4_and_v5_assistant_parts() -> None:
    """R-325: both spellings of arguments and media types"""
    message = added(
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "hm", "signature": "s", "providerOptions": {"p": {}}},
                {"type": "redacted-reasoning", "data": "x"},
                {"type": "tool-call", "toolCallId": "1", "toolName": "a", "args": {"x": 1}},
                {
                    "type": "tool-call",
                    "tool_call_id": "2",
                    "tool_name": "b",
                    "input": {"tool_name": 1},
                },
                {"type": "file", "data": "AQ==", "mediaType": "a/b", "filename": "f"},
            ],
        }
    )
    thought, redacted, first, second, file = message.parts
    assert isinstance(thought, ReasoningPart)
    assert thought.details == [{"type": "text", "text": "hm", "signature": "s"}]
    assert thought.provider_metadata == {"p": {}}
    assert isinstance(redacted, ReasoningPart)
    assert redacted.details == [{"type": "redacted", "data": "x"}]
    assert isinstance(first, ToolInvocationPart) and isinstance(second, ToolInvocationPart)
    assert first.tool_invocation.args == {"x": 1}
    assert second.tool_invocation.args == {"tool_name": 1}
    assert isinstance(file, FilePart) and file.filename == "f"


def test_ui_messages_convert_back() -> None:
    """R-391"""
    message = added(
        {
            "id": "u1",
            "role": "assistant",
            "metadata": {"mood": "good"},
            "parts": [
                {"type": "step-start"},
                {"type": "reasoning", "text": "hm", "state": "done"},
                {"type": "text", "text": "hi", "providerMetadata": {"p": {"k": 1}}},
                {
                    "type": "tool-get-weather",
                    "toolCallId": "c",
                    "state": "output-available",
                    "input": {"city": "A"},
                    "output": None,
                    "callProviderMetadata": {"p": {}},
                },
                {
                    "type": "dynamic-tool",
                    "toolName": "d",
                    "toolCallId": "e",
                    "state": "output-error",
                    "input": {},
                    "errorText": "no",
                },
                {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AQ=="},
                {"type": "source-url", "sourceId": "s", "url": "https://x.test", "title": "T"},
                {"type": "data-x", "id": "d", "data": {"a": 1}},
            ],
        }
    )
    _, thought, text, call, dynamic, file, source, data = message.parts
    assert message.content.metadata == {"mood": "good"}
    assert isinstance(thought, ReasoningPart)
    assert (thought.reasoning, thought.details) == ("hm", [{"type": "text", "text": "hm"}])
    assert text.provider_metadata == {"p": {"k": 1}}
    assert isinstance(call, ToolInvocationPart) and isinstance(dynamic, ToolInvocationPart)
    assert call.tool_invocation.tool_name == "get-weather"
    assert (call.tool_invocation.state, call.tool_invocation.result) == ("result", None)
    assert call.provider_metadata == {"p": {}}
    assert dynamic.tool_invocation.state == "output-error"
    assert isinstance(file, FilePart) and file.data == "data:image/png;base64,AQ=="
    assert isinstance(source, SourcePart)
    assert source.source == {"sourceType": "url", "id": "s", "url": "https://x.test", "title": "T"}
    assert data.to_json()["data"] == {"a": 1}


@pytest.mark.parametrize(
    ("state", "stored"),
    [
        ("input-streaming", "partial-call"),
        ("input-available", "call"),
        ("approval-requested", "approval-requested"),
        ("output-denied", "output-denied"),
    ],
)
def test_ui_tool_states(state: str, stored: str) -> None:
    """R-391, R-308"""
    form = {"type": "tool-x", "toolCallId": "c", "state": state, "input": {}}
    (part,) = added({"role": "assistant", "parts": [form]}).parts
    assert isinstance(part, ToolInvocationPart)
    assert part.tool_invocation.state == stored


def test_ui_message_takes_its_time_from_metadata() -> None:
    """R-383, R-391: what `ui()` wrote comes back"""
    message = text_message("x", created_at=datetime(2025, 1, 1, tzinfo=UTC))
    (form,) = MessageList().add(message, "input").get.all.ui()
    assert added(form).created_at == message.created_at


def test_flat_old_messages() -> None:
    """R-325"""
    call = {"state": "result", "toolCallId": "c", "toolName": "t", "args": {}, "result": 1}
    message = added(
        {
            "id": "a",
            "role": "assistant",
            "content": "done",
            "toolInvocations": [call],
            "experimental_attachments": [
                {"url": "https://x.test/i.png", "contentType": "image/png"}
            ],
        }
    )
    assert message.text == "done"
    assert [part.type for part in message.parts] == ["text", "tool-invocation"]
    assert message.content.tool_invocations == [call]
    assert message.content.experimental_attachments is not None


def test_older_ui_parts_pass_through() -> None:
    """R-325: AI SDK v4 UI parts have the stored form"""
    parts = [
        {"type": "reasoning", "reasoning": "r", "details": [{"type": "text", "text": "r"}]},
        {
            "type": "tool-invocation",
            "toolInvocation": {"state": "call", "toolCallId": "c", "toolName": "t", "args": {}},
        },
    ]
    message = read({"role": "assistant", "content": "", "parts": parts})
    assert [part.to_json() for part in message.parts] == parts


def test_role_tool_and_system_are_no_messages_of_the_sequence() -> None:
    """R-330, R-335"""
    result = {
        "type": "tool-result",
        "toolCallId": "c",
        "toolName": "t",
        "output": {"type": "error-text", "value": "no"},
    }
    (found,) = read_messages([{"role": "tool", "content": [result]}])
    assert isinstance(found, ToolResults)
    assert found.parts[0].tool_invocation.error_text == "no"
    (found,) = read_messages(
        [{"role": "system", "content": "be nice", "providerOptions": {"a": {}}}]
    )
    assert found == SystemEntry(
        {"role": "system", "content": "be nice", "providerOptions": {"a": {}}}
    )


@pytest.mark.parametrize("content", [None, ...])
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_message_without_content_is_refused(role: str, content: Any) -> None:
    """R-326"""
    form: dict[str, Any] = {"role": role} if content is ... else {"role": role, "content": content}
    with pytest.raises(InputError, match="needs content"):
        read_messages(form)


@pytest.mark.parametrize("value", [3, 2.5, object(), True, b"bytes", [1], [[{"role": "user"}]]])
def test_what_is_no_message_raises_a_type_error(value: Any) -> None:
    """R-326"""
    with pytest.raises(TypeError) as caught:
        read_messages(value)
    assert isinstance(caught.value, NotAMessageError | InputError)


@pytest.mark.parametrize(
    "form",
    [
        {"content": "x"},
        {"role": "wizard", "content": "x"},
        {"role": "user", "content": [3]},
        {"role": "user", "content": [{"text": "x"}]},
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "user", "content": [{"type": "text", "text": 3}]},
        {"role": "user", "parts": []},
        {"role": "assistant", "content": {"parts": ["x"]}},
        {"role": "assistant", "content": {"parts": [{"type": "tool-invocation"}]}},
        {"role": "tool", "content": "x"},
        {"role": "system"},
        {"role": "user", "content": "x", "createdAt": "yesterday"},
    ],
)
def test_broken_forms_are_refused_as_input_errors(form: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        read_messages(form)


LONE = "a\ud83d\x00b"
CLEAN = "a\ufffd\x00b"


def test_text_is_cleaned_wherever_it_comes_in() -> None:
    """Lone surrogates become U+FFFD, nested ones and keys too; NUL is a character like others"""
    message = added(
        {
            "id": "x",
            "role": "assistant",
            "content": [
                {"type": "text", "text": LONE},
                {
                    "type": "tool-call",
                    "toolCallId": "c",
                    "toolName": "t",
                    "args": {LONE: [LONE, 1]},
                },
                {"type": "data-x", "data": {"k": {"deep": LONE}}},
            ],
        }
    )
    text, call, data = message.parts
    assert isinstance(call, ToolInvocationPart)
    assert text.text == CLEAN
    assert call.tool_invocation.args == {CLEAN: [CLEAN, 1]}
    assert data.to_json()["data"] == {"k": {"deep": CLEAN}}
    own = Message(
        id="o",
        role="user",
        content=MessageContent(parts=[TextPart(text=LONE)], metadata={"k": [LONE]}),
        created_at=datetime.now(UTC),
    )
    MessageList().add([own, LONE], "input")
    assert own.text == CLEAN
    assert own.content.metadata == {"k": [CLEAN]}


def test_clean_values_stay_the_same_objects() -> None:
    args = {"a": ["text", {"b": "c"}]}
    metadata = {"own": object()}
    text = "hëllo"
    part = TextPart(text=text)
    message = Message(
        id="o",
        role="assistant",
        content=MessageContent(parts=[part], metadata=metadata),
        created_at=datetime.now(UTC),
    )
    added(message)
    assert part.text is text
    assert message.content.metadata is metadata
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "t", "args": args}
    (found,) = added({"role": "assistant", "content": [call]}).parts
    assert isinstance(found, ToolInvocationPart)
    assert found.tool_invocation.args is args


def test_a_mapping_among_a_messages_parts_becomes_a_part() -> None:
    message = text_message("x")
    message.content.parts.append({"type": "text", "text": "y"})  # type: ignore[arg-type]
    added(message)
    assert isinstance(message.parts[1], TextPart)


SAFE = st.text("aé\U0001f600 _Z", max_size=6)
SAFE_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | SAFE,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(SAFE, inner, max_size=2),
    max_leaves=5,
)


@st.composite
def stored_parts(draw: st.DrawFn) -> dict[str, Any]:
    """A part in JSON form: known and unknown types, known and unknown keys."""
    text = draw(SAFE)
    call = {
        "state": "result",
        "toolCallId": text or "c",
        "toolName": "t",
        "args": draw(SAFE_JSON),
        "result": draw(SAFE_JSON),
    }
    part: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"type": "text", "text": text},
                {"type": "reasoning", "reasoning": text, "details": []},
                {"type": "tool-invocation", "toolInvocation": call},
                {"type": "data-x", "data": draw(SAFE_JSON)},
                {"type": "file", "mimeType": "a/b", "data": "AQ=="},
                {"type": "novel", "any": draw(SAFE_JSON)},
            ]
        )
    )
    if draw(st.booleans()):
        part = {**part, "unheard": draw(SAFE_JSON.filter(lambda value: value is not None))}
    return part


@given(
    st.lists(stored_parts(), max_size=4), st.none() | st.dictionaries(SAFE, SAFE_JSON, max_size=3)
)
def test_json_round_trip(parts: list[dict[str, Any]], metadata: dict[str, Any] | None) -> None:
    """R-304, R-395: loading and dumping keeps everything, in order"""
    content: dict[str, Any] = {"format": 2, "parts": parts}
    if metadata is not None:
        content["metadata"] = metadata
    form = {
        "id": "m",
        "role": "assistant",
        "content": content,
        "createdAt": "2025-01-01T00:00:00.000Z",
    }
    message = added(form, "memory")
    shown = json.loads(json.dumps(message.to_json()))
    dumped = shown.pop("content")
    assert shown == {key: value for key, value in form.items() if key != "content"}
    assert [drop_none(part) for part in dumped["parts"]] == [drop_none(part) for part in parts]
    assert dumped.get("metadata") == metadata


def drop_none(part: dict[str, Any]) -> dict[str, Any]:
    """Unknown keys of `None` are kept; known ones are left out when absent."""
    return {key: value for key, value in part.items() if value is not None or key == "data"}


def test_unknown_part_reads_by_attribute() -> None:
    """R-304"""
    (part,) = added({"role": "assistant", "content": [{"type": "novel", "z": 1}]}).parts
    assert type(part) is Part
    assert part.z == 1


DIRTY = "a\0 \ud83d\ude00 \ud800"
WELL = "a\0 \U0001f600 \ufffd"

DIRTY_FORMS: list[Any] = [
    DIRTY,
    {"role": "user", "content": DIRTY, "id": DIRTY, "metadata": {DIRTY: [DIRTY]}},
    {"role": "user", "content": [DIRTY, {"type": "file", "url": "http://x", "filename": DIRTY}]},
    {"role": "user", "content": "x", "threadId": DIRTY, "resourceId": DIRTY},
    {"role": "user", "content": "x", "providerOptions": {"p": {DIRTY: DIRTY}}},
    {"role": "user", "content": [{"type": DIRTY, DIRTY: DIRTY}]},
    {"role": "signal", "type": DIRTY, "content": {"parts": [], "content": DIRTY}},
    {
        "role": "assistant",
        "content": [
            {
                "type": "tool-call",
                "toolCallId": DIRTY,
                "toolName": DIRTY,
                "input": {DIRTY: ({"a": DIRTY},)},
                "providerOptions": {"p": DIRTY},
            },
            {"type": "reasoning", "text": DIRTY, "signature": DIRTY},
        ],
    },
    {"role": "assistant", "parts": [{"type": "source-url", "sourceId": DIRTY, "url": DIRTY}]},
    {
        "id": DIRTY,
        "role": "assistant",
        DIRTY: {DIRTY: DIRTY},
        "content": {
            "parts": [{"type": "data-x", "data": [DIRTY], DIRTY: DIRTY}],
            "metadata": {"m": DIRTY},
            "annotations": [{"a": DIRTY}],
            "reasoning": DIRTY,
            DIRTY: DIRTY,
        },
    },
    {
        "role": "assistant",
        "content": "x",
        "toolInvocations": [{"toolCallId": "c", "toolName": "t", "args": {"a": DIRTY}}],
    },
    Message(
        id=DIRTY,
        role="user",
        content=MessageContent(parts=[TextPart(text=DIRTY)], content=DIRTY),
        created_at=datetime(2025, 1, 1, tzinfo=UTC),
        thread_id=DIRTY,
        extra={DIRTY: DIRTY},
    ),
]


def assert_clean(value: Any) -> None:
    """Texts, keys too, that every store and provider accepts, and none is missing."""
    text = json.dumps(value, ensure_ascii=False)
    assert text.encode()
    assert "\ufffd" in text and "\U0001f600" in text


@pytest.mark.parametrize("source", ["input", "memory", "context", "response"])
@pytest.mark.parametrize("form", DIRTY_FORMS, ids=range(len(DIRTY_FORMS)))
def test_texts_are_clean_wherever_they_stand(form: Any, source: str) -> None:
    """R-325: in each form, keys and ids too; surrogate pairs become the character they stand for"""
    message = added(copy.deepcopy(form), source)
    assert_clean(message.to_json())
    for _ in range(2):
        kept = MessageList()
        kept.receive(copy.deepcopy(form), "input", shared=True)
        assert_clean(kept.serialize()["messages"])


def test_texts_are_clean_in_what_is_no_message() -> None:
    """R-330, R-335, R-338, R-341, R-344, R-346: system messages, outcomes, signals, saved lists"""
    options = {"providerOptions": {"p": {DIRTY: DIRTY}}}
    messages = MessageList().add({"role": "system", "content": DIRTY, **options}, "input")
    messages.add_system({"role": "system", "content": "b", **options}, "tag")
    messages.add_system(DIRTY)
    for system in messages.get_all_system_messages():
        assert_clean(system)
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "t", "input": {}}
    messages.add({"role": "assistant", "content": [call]}, "response")
    outcome = {"toolCallId": "c", "toolName": "t", "result": {DIRTY: DIRTY}}
    outcome["approval"] = {"id": DIRTY}
    part = {"toolInvocation": outcome, "providerMetadata": {"p": DIRTY}}
    assert messages.update_tool_invocation(part, {"m": DIRTY})
    messages.add_signal({"type": "reactive", "contents": DIRTY, "metadata": {"a": DIRTY}})
    for message in messages.messages():
        assert_clean(message.to_json())
    state = messages.serialize()
    state["messages"][0]["content"]["metadata"] = {DIRTY: DIRTY}
    state["systemMessages"].append({"role": "system", "content": DIRTY})
    again = MessageList().deserialize(state)
    assert_clean(again.serialize())
    assert again.messages()[0].content.metadata == {WELL: WELL}
