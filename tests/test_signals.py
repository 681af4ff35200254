"""Signals: forms, text, storage (R-700 to R-711, R-713, R-720 to R-723)."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from procession.errors import InputError
from procession.message_list import MessageList
from procession.messages import FilePart, Message, TextPart
from procession.signals import Signal

START = datetime(2025, 1, 1, tzinfo=UTC)


def text_of(value: dict[str, Any]) -> str:
    """What the model sees of a signal of one text."""
    (part,) = Signal.of(value).to_llm_message()["content"]
    return part["text"]


@pytest.mark.parametrize(
    ("type", "kind", "tag"),
    [
        ("user", "user", "user"),
        ("state", "state", "state"),
        ("reactive", "reactive", "system-reminder"),
        ("notification", "notification", "notification"),
        ("user-message", "user", "user"),
        ("system-reminder", "reactive", "system-reminder"),
    ],
)
def test_types_and_default_tags(type: str, kind: str, tag: str) -> None:
    """R-700, R-701"""
    signal = Signal.of({"type": type, "contents": "x"})
    assert (signal.type, signal.tag_name) == (kind, tag)
    assert Signal.of({"type": type, "contents": "x", "tagName": "own"}).tag_name == "own"


@pytest.mark.parametrize(
    "value",
    [
        {"type": "novel", "contents": "x"},
        {"type": "reactive"},
        {"type": "reactive", "contents": None},
        {"contents": "x"},
        {"type": "reactive", "contents": 3},
        {"type": "reactive", "contents": [{"type": "tool-call"}]},
        {"type": "state", "contents": "x", "transient": True},
        "text",
    ],
)
def test_broken_signals_raise(value: Any) -> None:
    """R-700, R-703, R-704"""
    with pytest.raises(InputError):
        Signal.of(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"contents": "x"}, "<system-reminder>x</system-reminder>"),
        ({"contents": ""}, "<system-reminder />"),
        ({"contents": "", "attributes": {"a": 1}}, '<system-reminder a="1" />'),
        (
            {"contents": "Do X", "attributes": {"reason": "max", "step": 5}},
            '<system-reminder reason="max" step="5">Do X</system-reminder>',
        ),
        (
            {"contents": "x", "attributes": {"b": True, "f": False, "n": None, "d": 1.5, "w": 2.0}},
            '<system-reminder b="true" f="false" d="1.5" w="2">x</system-reminder>',
        ),
        (
            {"contents": "a & <b> \"c\" 'd'\n", "attributes": {"q": "& < > \" '\n"}},
            '<system-reminder q="&amp; &lt; &gt; &quot; \'\n">'
            "a &amp; &lt;b&gt; \"c\" 'd'\n</system-reminder>",
        ),
        ({"type": "user", "contents": "a < b"}, "a < b"),
        ({"type": "user", "contents": "a < b", "attributes": {}}, "a < b"),
        ({"type": "user", "contents": "a", "attributes": {"x": 1}}, '<user x="1">a</user>'),
        ({"contents": "x", "tag_name": "p.o-l_1"}, "<p.o-l_1>x</p.o-l_1>"),
    ],
)
def test_text_the_model_sees(value: dict[str, Any], text: str) -> None:
    """R-705 to R-709, R-711"""
    assert text_of({"type": "reactive", **value}) == text


@pytest.mark.parametrize("name", ["1a", "a b", "a>", "-a", "é", ""])
def test_bad_names_raise_when_the_text_is_rendered(name: str) -> None:
    """R-702"""
    signal = Signal.of({"type": "reactive", "contents": "x", "attributes": {name: 1}})
    with pytest.raises(InputError, match="attribute name"):
        signal.to_llm_message()
    if name:
        signal = Signal.of({"type": "reactive", "contents": "x", "tag_name": name})
        with pytest.raises(InputError, match="tag name"):
            signal.to_llm_message()


def test_attribute_values_are_scalars() -> None:
    """R-709"""
    signal = Signal.of({"type": "reactive", "contents": "x", "attributes": {"a": [1]}})
    with pytest.raises(InputError, match="attributes"):
        signal.to_llm_message()


def test_the_first_text_part_is_wrapped_and_others_stay_in_place() -> None:
    """R-710"""
    file = {"type": "file", "mediaType": "image/png", "data": "AQ=="}
    signal = Signal.of(
        {
            "type": "reactive",
            "contents": [file, {"type": "text", "text": "a<b"}, {"type": "text", "text": "c<d"}],
        }
    )
    image, first, second = signal.to_llm_message()["content"]
    assert image == file
    assert first["text"] == "<system-reminder>a&lt;b</system-reminder>"
    assert second["text"] == "c<d"
    only_file = Signal.of({"type": "reactive", "contents": [file]}).to_llm_message()["content"]
    assert [part["type"] for part in only_file] == ["text", "file"]
    assert only_file[0]["text"] == "<system-reminder />"


def test_stored_form() -> None:
    """R-720"""
    signal = Signal.of(
        {
            "type": "reactive",
            "contents": "a<b",
            "id": "s1",
            "attributes": {"n": None, "a": 1},
            "metadata": {"customData": 1},
            "providerOptions": {"p": {}},
            "createdAt": "2025-01-01T00:00:00.000Z",
            "acceptedAt": START,
        }
    )
    message = signal.to_db_message()
    assert (message.id, message.role, message.type) == ("s1", "signal", "system-reminder")
    assert message.text == "a<b"
    assert message.content.provider_metadata == {"p": {}}
    assert message.content.metadata == {
        "signal": {
            "id": "s1",
            "type": "reactive",
            "tagName": "system-reminder",
            "createdAt": "2025-01-01T00:00:00.000Z",
            "acceptedAt": "2025-01-01T00:00:00.000Z",
            "attributes": {"n": None, "a": 1},
            "metadata": {"customData": 1},
        }
    }


@pytest.mark.parametrize(
    "value",
    [
        {"type": "reactive", "contents": "a<b", "attributes": {"a": True}, "tag_name": "own"},
        {"type": "user", "contents": "plain"},
        {"type": "notification", "contents": "", "provider_options": {"p": {}}},
        {"type": "reactive", "contents": "x", "transient": True, "metadata": {"k": [1]}},
        {
            "type": "state",
            "contents": [TextPart(text="x"), FilePart(mime_type="a/b", data="AQ==")],
        },
    ],
)
def test_a_stored_signal_is_rebuilt_and_rendered_identically(value: dict[str, Any]) -> None:
    """R-721: also through JSON"""
    signal = Signal.of(value, created_at=START)
    stored = json.loads(json.dumps(signal.to_db_message().to_json()))
    again = Signal.from_message(Message.from_json(stored))
    assert again.to_llm_message() == signal.to_llm_message()
    assert again == signal
    messages = MessageList().add(stored, "memory")
    assert messages.get.all.model() == [signal.to_llm_message()]


def test_data_part() -> None:
    """R-715: what clients get; attributes as they were given"""
    signal = Signal.of(
        {"type": "reactive", "contents": "a<b", "attributes": {"n": None}, "id": "s"}
    )
    part = signal.to_data_part()
    assert part["type"] == "data-signal"
    assert part["data"].pop("createdAt")
    assert part["data"] == {
        "id": "s",
        "type": "reactive",
        "tagName": "system-reminder",
        "contents": "a<b",
        "attributes": {"n": None},
    }
    assert (
        Signal.of({"type": "user", "contents": "x"}).to_data_part()["type"] == "data-user-message"
    )


def test_add_signal_is_the_newest_message_of_source_input() -> None:
    """R-341, R-712, R-714"""
    messages = MessageList().add(["a", "b"], "input")
    signal = messages.add_signal({"type": "reactive", "contents": "x"})
    assert messages.messages()[-1].id == signal.id
    assert messages.source_of(signal.id) == "input"
    assert signal.created_at == messages.messages()[-1].created_at
    assert messages.messages()[-1].role == "signal"


def test_an_equal_transient_signal_replaces_the_older_copy() -> None:
    """R-723"""
    messages = MessageList().add("hi", "input")
    form = {"type": "reactive", "contents": "x", "attributes": {"a": 1}, "transient": True}
    messages.add_signal({**form, "contents": "other"})
    first = messages.add_signal(form)
    messages.add("between", "input")
    second = messages.add_signal(form)
    assert messages.find(first.id) is None
    assert messages.messages()[-1].id == second.id
    assert [m.text for m in messages.messages()] == ["hi", "other", "between", "x"]


def test_transient_signals_are_not_saved_and_others_are() -> None:
    """R-722, R-723"""
    messages = MessageList().add("hi", "input")
    messages.add_signal({"type": "reactive", "contents": "gone", "transient": True})
    messages.add_signal({"type": "reactive", "contents": "kept"})
    messages.add_signal({"type": "reactive", "contents": "kept"})
    assert [m.text for m in messages.drain_unsaved_messages()] == ["hi", "kept", "kept"]
    assert len(messages.provider_prompt()) == 4


def test_add_signal_refuses_unknown_sources() -> None:
    """R-319"""
    with pytest.raises(InputError, match="source"):
        MessageList().add_signal({"type": "reactive", "contents": "x"}, "elsewhere")
