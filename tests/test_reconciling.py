"""Reconciling a returned list (section 5.10 of the contract)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from procession.errors import InputError
from procession.message_list import MessageList
from procession.messages import Message, MessageContent, TextPart, text_message

START = datetime(2025, 1, 1, tzinfo=UTC)


def at(seconds: int, text: str, role: str = "user") -> Message:
    return text_message(text, role=role, id=text, created_at=START + timedelta(seconds=seconds))


def three() -> MessageList:
    """A remembered, a context and an input message."""
    messages = MessageList().add(at(0, "m"), "memory").add(at(1, "c"), "context")
    return messages.add(at(2, "i"), "input")


def ids(messages: MessageList) -> list[str]:
    return [message.id for message in messages.messages()]


def test_missing_messages_are_removed() -> None:
    """R-158"""
    messages = three()
    shown = messages.view()
    messages.reconcile(shown, [shown[2]], "input")
    assert ids(messages) == ["i"]


def test_only_messages_that_were_shown_are_removed() -> None:
    """R-158"""
    messages = three()
    messages.reconcile(messages.view()[2:], [], "input")
    assert ids(messages) == ["m", "c"]


def test_known_ids_replace_and_keep_their_source() -> None:
    """R-159, R-164: copies and edited originals are the same"""
    messages = three()
    shown = messages.messages()
    copies = [
        m.replace(content=m.content.replace(parts=[TextPart(text=m.text.upper())])) for m in shown
    ]
    messages.reconcile(shown, copies, "input")
    assert [m.text for m in messages.messages()] == ["M", "C", "I"]
    assert messages.find("m") is copies[0]
    assert [messages.source_of(id) for id in "mci"] == ["memory", "context", "input"]


@pytest.mark.parametrize("source", ["input", "response"])
def test_new_messages_get_the_source_of_the_hook(source: str) -> None:
    """R-160"""
    messages = three()
    shown = messages.messages()
    messages.reconcile(shown, [*shown, {"role": "assistant", "content": "new"}, "text"], source)
    new = messages.messages()[3:]
    assert [m.text for m in new] == ["new", "text"]
    assert all(messages.source_of(m.id) == source for m in new)
    assert new[1].created_at > new[0].created_at > shown[2].created_at


def test_order_is_by_time_not_by_position() -> None:
    """R-161"""
    messages = three()
    messages.reconcile(messages.view(), messages.messages()[::-1], "input")
    assert ids(messages) == ["m", "c", "i"]


def test_system_role_goes_to_the_untagged_system_messages() -> None:
    """R-162"""
    messages = three().add_system("first")
    shown = messages.messages()
    messages.reconcile(shown, [*shown, at(9, "rules", role="system")], "input")
    assert ids(messages) == ["m", "c", "i"]
    assert [m["content"] for m in messages.get_system_messages()] == ["first", "rules"]


def test_appended_assistant_message_stays_its_own() -> None:
    """R-163"""
    messages = MessageList().add(at(0, "one", "assistant"), "response")
    shown = messages.messages()
    messages.reconcile(shown, [*shown, at(1, "two", "assistant")], "response")
    assert ids(messages) == ["one", "two"]


def test_foreign_form_of_a_known_message_keeps_its_time() -> None:
    """R-241, R-159"""
    messages = three()
    forms: list[Any] = [
        {"id": m.id, "role": m.role, "content": f"<{m.text}>"} for m in messages.messages()
    ]
    messages.reconcile(messages.messages(), forms, "input")
    assert [m.text for m in messages.messages()] == ["<m>", "<c>", "<i>"]
    assert messages.messages()[0].created_at == START
    assert messages.source_of("m") == "memory"


def test_a_mutable_view_and_a_role_change_are_followed() -> None:
    messages = three()
    shown = messages.messages()
    kept = shown[0].replace(content=MessageContent(parts=[TextPart(text="x")]), role="assistant")
    messages.reconcile(shown, [kept], "input")
    assert [(m.id, m.role, m.text) for m in messages.messages()] == [("m", "assistant", "x")]


@pytest.mark.parametrize("returned", ["text", {"role": "user", "content": "x"}, [3], [object()]])
def test_garbage_raises(returned: Any) -> None:
    """R-067"""
    messages = three()
    with pytest.raises(InputError):
        messages.reconcile(messages.view(), returned, "input")
    assert ids(messages) == ["m", "c", "i"]


def test_replaced_message_of_another_thread_is_refused() -> None:
    """R-328"""
    messages = MessageList("t").add(at(0, "a"), "input")
    with pytest.raises(InputError, match="thread_id"):
        messages.reconcile(messages.view(), [messages.view()[0].replace(thread_id="o")], "input")


def test_an_id_that_was_edited_in_place_is_followed() -> None:
    """R-033, R-158: the message stays one"""
    messages = three()
    shown = messages.messages()
    shown[0].id = "new"
    messages.reconcile(shown, shown[:2], "input")
    assert ids(messages) == ["new", "c"]
    assert messages.source_of("new") == "memory"
    assert messages.find("m") is None


def test_returning_what_was_shown_changes_nothing() -> None:
    """R-164; what the hook itself removed through the list comes back, since it was returned"""
    messages = three()
    shown = messages.messages()
    messages.reconcile(shown, shown, "input")
    assert messages.messages() == shown
    messages.remove_by_ids(["c"])
    messages.reconcile(shown, list(shown), "input")
    assert ids(messages) == ["m", "c", "i"]
    messages.reconcile(messages.view()[2:], messages.messages()[2:], "input")
    assert ids(messages) == ["m", "c", "i"]
