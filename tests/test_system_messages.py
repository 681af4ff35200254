"""System messages (section 5), what a step restores (R-086, R-087), feedback (R-176, R-177)."""

from typing import Any

import pytest

from procession.errors import InputError
from procession.message_list import MessageList
from procession.messages import text_message


def contents(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "system"]


def tagged() -> MessageList:
    messages = MessageList().add_system("t2", "second").add_system(["u1", "u2"])
    return messages.add_system("t1", "first").add_system("t3", "second")


@pytest.mark.parametrize(
    "value",
    [
        "a",
        {"role": "system", "content": "a"},
        {"role": "system", "content": [{"type": "text", "text": "a"}]},
        {"role": "system", "content": {"format": 2, "parts": [{"type": "text", "text": "a"}]}},
        text_message("a", role="system"),
        ["a", "a", None],
    ],
)
def test_forms_of_a_system_message(value: Any) -> None:
    """R-346, R-351"""
    assert MessageList().add_system(value).get_system_messages() == [
        {"role": "system", "content": "a"}
    ]


def test_none_is_ignored_and_equal_content_is_added_once_per_bucket() -> None:
    """R-346"""
    messages = MessageList().add_system(None).add_system("a").add_system("a").add_system("a", "tag")
    assert contents(messages.get_all_system_messages()) == ["a", "a"]


@pytest.mark.parametrize("value", [{"role": "user", "content": "a"}, text_message("a"), 3])
def test_other_roles_raise(value: Any) -> None:
    """R-346"""
    with pytest.raises(InputError):
        MessageList().add_system(value)


def test_provider_options_stay() -> None:
    """R-351"""
    message = {"role": "system", "content": "a", "providerOptions": {"anthropic": {"cache": 1}}}
    messages = MessageList().add_system(message)
    assert messages.provider_prompt() == [message]


def test_buckets_and_their_order() -> None:
    """R-345, R-347, R-352: untagged first, tags by order of creation"""
    messages = tagged()
    assert contents(messages.get_system_messages()) == ["u1", "u2"]
    assert contents(messages.get_system_messages("second")) == ["t2", "t3"]
    assert contents(messages.get_system_messages("none")) == []
    assert contents(messages.get_all_system_messages()) == ["u1", "u2", "t2", "t3", "t1"]
    assert contents(messages.provider_prompt()) == ["u1", "u2", "t2", "t3", "t1"]


def test_lists_handed_out_are_copies() -> None:
    """R-036"""
    messages = tagged()
    shown = messages.get_all_system_messages()
    shown[0]["content"] = "changed"
    shown.clear()
    assert contents(messages.get_system_messages()) == ["u1", "u2"]


def test_clear_and_replace() -> None:
    """R-348, R-349"""
    messages = tagged()
    messages.clear_system_messages("second")
    assert contents(messages.get_all_system_messages()) == ["u1", "u2", "t1"]
    messages.replace_all_system_messages(["new"])
    assert contents(messages.get_all_system_messages()) == ["new", "t1"]
    messages.clear_system_messages()
    assert contents(messages.get_all_system_messages()) == ["t1"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [("input", ["a"]), ("context", ["a"]), ("system", ["a"]), ("memory", [])],
)
def test_system_role_added_with_others(source: str, expected: list[str]) -> None:
    """R-330, R-306"""
    messages = MessageList().add({"role": "system", "content": "a"}, source)
    assert contents(messages.get_system_messages()) == expected
    assert messages.messages() == []


def test_restore_puts_all_buckets_back() -> None:
    """R-086"""
    messages = tagged()
    saved = messages.save_system()
    before = messages.get_all_system_messages()
    messages.add_system("more").add_system("x", "first").add_system("y", "third")
    messages.replace_system(["all new"])
    messages.restore_system(saved)
    assert messages.get_all_system_messages() == before
    messages.clear_system_messages("second")
    messages.restore_system(saved)
    assert messages.get_all_system_messages() == before


def test_replacing_all_keeps_tags_of_equal_entries() -> None:
    """R-087"""
    messages = tagged()
    messages.replace_system(
        [
            {"role": "system", "content": "t1"},
            {"role": "system", "content": "new"},
            {"role": "system", "content": "u2"},
        ]
    )
    assert contents(messages.get_system_messages()) == ["new", "u2"]
    assert contents(messages.get_system_messages("first")) == ["t1"]
    assert contents(messages.get_system_messages("second")) == []


def test_feedback_stands_behind_untagged_messages_in_prompts_only() -> None:
    """R-176, R-177"""
    messages = tagged()
    saved = messages.save_system()
    messages.add_feedback("[Processor Feedback] f1")
    messages.add_feedback("[Processor Feedback] f1")
    messages.add_feedback("[Processor Feedback] f2")
    told = ["u1", "u2", "[Processor Feedback] f1", "[Processor Feedback] f2", "t2", "t3", "t1"]
    assert contents(messages.provider_prompt()) == told
    assert contents(messages.get_all_system_messages()) == ["u1", "u2", "t2", "t3", "t1"]
    messages.restore_system(saved)
    assert contents(messages.provider_prompt()) == told
    messages.replace_system(["new"])
    assert contents(messages.provider_prompt()) == ["new", told[2], told[3]]
    assert messages.drain_unsaved_messages() == []
