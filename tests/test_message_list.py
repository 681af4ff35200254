"""MessageList: sources, views, order, changes (sections 3 and 4 of the message rules)."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from procession.conversation.sequence import MessageSequence
from procession.errors import InputError
from procession.message_list import MessageList, isolated
from procession.messages import (
    DataPart,
    Message,
    MessageContent,
    Part,
    StepStartPart,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
    text_message,
)

START = datetime(2025, 1, 1, tzinfo=UTC)


def at(seconds: float, text: str = "x", role: str = "user", id: str | None = None) -> Message:
    """A message of one text at a time."""
    return text_message(text, role=role, id=id, created_at=START + timedelta(seconds=seconds))


def tool(call_id: str, state: str = "call", **fields: Any) -> ToolInvocationPart:
    """A tool part."""
    call = ToolInvocation(tool_call_id=call_id, tool_name="t", state=state, **fields)
    return ToolInvocationPart(tool_invocation=call)


def answer(*parts: Part, seconds: float = 0, id: str = "r", **content: Any) -> Message:
    """An assistant message."""
    return Message(
        id=id,
        role="assistant",
        content=MessageContent(parts=list(parts), **content),
        created_at=START + timedelta(seconds=seconds),
    )


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


# -- sources and views ----------------------------------------------------------------------


def test_views_by_source() -> None:
    """R-318, R-320"""
    messages = MessageList()
    for index, source in enumerate(["memory", "user", "response", "context", "input"]):
        messages.add(at(index, source, id=source), source)
    assert texts(messages.get.all.db()) == ["memory", "user", "response", "context", "input"]
    assert texts(messages.get.input.db()) == ["user", "input"]
    assert texts(messages.get.response.db()) == ["response"]
    assert texts(messages.get.remembered.db()) == ["memory"]
    assert messages.source_of("context") == "context"
    assert messages.source_of("nobody") is None


def test_add_returns_the_list_itself() -> None:
    """R-325"""
    messages = MessageList()
    assert messages.add("a", "input") is messages


@pytest.mark.parametrize("source", ["", "output", "INPUT"])
def test_unknown_source_raises(source: str) -> None:
    """R-319"""
    with pytest.raises(InputError, match="unknown source"):
        MessageList().add("a", source)


def test_source_system_is_for_system_messages_only() -> None:
    """R-318"""
    with pytest.raises(InputError, match="system messages"):
        MessageList().add("a", "system")


def test_db_gives_a_new_list_of_live_messages() -> None:
    """R-322, R-033"""
    messages = MessageList().add(at(0, id="a"), "input")
    view = messages.get.all.db()
    view[0].parts[0].text = "edited"
    view.clear()
    assert texts(messages.get.all.db()) == ["edited"]
    assert messages.find("a") is messages.get.input.db()[0]


def test_order_is_by_time_and_ties_by_insertion() -> None:
    """R-323"""
    messages = MessageList()
    messages.add([at(2, "c"), at(1, "a"), at(1, "b")], "input")
    assert texts(messages.messages()) == ["a", "b", "c"]
    messages.add(at(0, "older"), "input")
    assert texts(messages.messages()) == ["older", "a", "b", "c"]


def test_editing_a_time_moves_the_message() -> None:
    """R-397: in views, prompt and storage alike"""
    messages = MessageList().add([at(0, "a", id="a"), at(1, "b"), at(2, "c")], "input")
    first = messages.view()
    messages.messages()[0].created_at = START + timedelta(seconds=5)
    assert texts(messages.messages()) == ["b", "c", "a"]
    assert texts(first) == ["a", "b", "c"]  # what was handed out stays
    said = [entry["content"][0]["text"] for entry in messages.provider_prompt()]
    assert said == ["b", "c", "a"]
    assert texts(messages.drain_unsaved_messages()) == ["b", "c", "a"]


def test_a_time_that_is_none_is_refused_with_a_remedy() -> None:
    messages = MessageList().add([at(0), at(1)], "input")
    messages.messages()[0].created_at = datetime(2025, 1, 1)
    with pytest.raises(InputError, match="time zone"):
        messages.messages()


def test_all_views_of_an_empty_list_are_empty() -> None:
    """R-324"""
    messages = MessageList()
    for view in (
        messages.get.all,
        messages.get.input,
        messages.get.response,
        messages.get.remembered,
    ):
        assert view.db() == view.ui() == view.core() == view.model() == []
    assert messages.get.all.prompt() == []


def test_view_is_cached_and_never_changed_once_handed_out() -> None:
    messages = MessageList().add([at(0, "a", id="a"), at(1, "b")], "input")
    first = messages.view()
    assert messages.view() is first
    messages.adopt_response(answer(TextPart(text="r"), seconds=2))
    messages.remove_by_ids(["a"])
    assert texts(first) == ["a", "b"]
    assert texts(messages.view()) == ["b", "r"]


# -- ids, times, threads ----------------------------------------------------------------------


def test_ids_and_times_are_made_up() -> None:
    """R-327"""
    ids = iter(["one", "two"])
    messages = MessageList("t", "r", generate_message_id=lambda: next(ids))
    messages.add(at(0), "memory")
    before = datetime.now(UTC)
    messages.add(["a", "b"], "input")
    first, second = messages.get.input.db()
    assert (first.id, second.id) == ("one", "two")
    assert second.created_at >= first.created_at + timedelta(milliseconds=1)
    assert first.created_at >= before - timedelta(milliseconds=1)
    assert (first.thread_id, first.resource_id) == ("t", "r")


def test_a_made_up_time_follows_the_newest_message() -> None:
    """R-327"""
    future = datetime.now(UTC) + timedelta(days=1)
    messages = MessageList().add(text_message("later", created_at=future), "context")
    messages.add("mine", "input")
    assert texts(messages.messages()) == ["later", "mine"]
    assert messages.get.input.db()[0].created_at == future + timedelta(milliseconds=1)
    assert messages.next_time() > future + timedelta(milliseconds=1)


@pytest.mark.parametrize("field", ["thread_id", "resource_id"])
def test_messages_of_another_thread_are_refused_unless_remembered(field: str) -> None:
    """R-328"""
    messages = MessageList("mine", "mine")
    with pytest.raises(InputError, match=field):
        messages.add(at(0).replace(**{field: "other"}), "input")
    messages.add(at(0).replace(**{field: "other"}), "memory")
    assert len(messages.messages()) == 1
    assert getattr(messages.messages()[0], field) == "other"


def test_parts_are_stamped_but_for_remembered_ones() -> None:
    """R-329"""
    messages = MessageList()
    messages.add(at(1, id="a"), "input").add(at(1, id="b"), "memory")
    messages.add(answer(TextPart(text="x", created_at=7), seconds=2), "response")
    stamps = {m.id: m.parts[0].created_at for m in messages.messages()}
    assert stamps == {"a": 1735689601000, "b": None, "r": 7}


# -- adding again -----------------------------------------------------------------------------


def test_user_message_is_replaced_as_a_whole_in_its_place() -> None:
    """R-331"""
    messages = MessageList().add([at(0, "a", id="a"), at(0, "b", id="b")], "input")
    new = at(0, "new", id="a")
    messages.add(new, "input")
    assert texts(messages.messages()) == ["new", "b"]
    assert messages.find("a") is new


def test_assistant_message_of_the_same_id_is_merged() -> None:
    """R-331, R-333"""
    messages = MessageList().add(answer(tool("c", args={"a": 1}), TextPart(text="x")), "memory")
    live = messages.messages()[0]
    messages.add(
        answer(
            tool("c", "result", args={"other": 1}, result=5), TextPart(text="x"), TextPart(text="y")
        ),
        "input",
    )
    assert messages.messages() == [live]
    call, *said = live.parts
    assert isinstance(call, ToolInvocationPart)
    assert (call.tool_invocation.args, call.tool_invocation.result) == ({"a": 1}, 5)
    assert [part.text for part in said] == ["x", "y"]
    assert messages.source_of("r") == "input"


def test_adding_a_remembered_message_again_saves_it_again() -> None:
    """R-332"""
    messages = MessageList().add(at(0, id="a"), "memory")
    assert messages.drain_unsaved_messages() == []
    messages.add(at(0, "new", id="a"), "input")
    assert texts(messages.drain_unsaved_messages()) == ["new"]
    messages.add(at(0, id="a"), "memory")
    assert messages.source_of("a") == "input"
    assert messages.get.remembered.db() == []


def test_a_response_is_folded_into_the_running_response() -> None:
    """R-333"""
    messages = MessageList().add("hi", "input")
    messages.add(
        answer(TextPart(text="x"), id="r", seconds=9e8, metadata={"a": 1, "b": 1}), "response"
    )
    messages.add(
        answer(
            TextPart(text="x"),
            StepStartPart(),
            TextPart(text="y"),
            id="other",
            seconds=9e8,
            metadata={"b": 2},
        ),
        "response",
    )
    (live,) = messages.get.response.db()
    assert live.id == "r"
    assert [part.type for part in live.parts] == ["text", "step-start", "text"]
    assert live.content.metadata == {"a": 1, "b": 2}


@pytest.mark.parametrize("source", ["memory", "input", "context"])
def test_a_response_is_not_folded_into_the_callers_text(source: str) -> None:
    """R-334"""
    messages = MessageList().add(answer(TextPart(text="theirs"), id="a"), source)
    messages.add(answer(TextPart(text="ours"), id="b", seconds=1), "response")
    assert texts(messages.messages()) == ["theirs", "ours"]
    assert texts(messages.get.response.db()) == ["ours"]


def test_a_response_behind_a_user_message_starts_anew() -> None:
    """R-333"""
    messages = MessageList().add(answer(TextPart(text="one"), id="a"), "response")
    messages.add(at(1, "more"), "input")
    messages.add(answer(TextPart(text="two"), id="b", seconds=2), "response")
    assert texts(messages.get.response.db()) == ["one", "two"]


def test_folding_the_same_message_twice_changes_nothing_but_data_parts() -> None:
    """R-333, R-200: data parts replace by type and id, and are added without an id"""
    parts: list[Part] = [
        TextPart(text="a"),
        StepStartPart(),
        tool("c", "result", result=1),
        DataPart(type="data-x", id="1", data="old"),
        TextPart(text="b"),
    ]
    messages = MessageList().add(answer(*parts), "response")
    again = [part.replace() for part in parts]
    again[3] = DataPart(type="data-x", id="1", data="new")
    messages.add(answer(*again), "response")
    (live,) = messages.messages()
    assert [part.type for part in live.parts] == [part.type for part in parts]
    assert live.parts[3].to_json()["data"] == "new"
    messages.add(answer(DataPart(type="data-x", data=1)), "response")
    messages.add(answer(DataPart(type="data-x", data=1)), "response")
    assert [part.type for part in live.parts].count("data-x") == 3


def test_a_call_does_not_undo_an_outcome() -> None:
    """R-309: a resent call without outcome leaves the result alone"""
    messages = MessageList().add(answer(tool("c", "result", result=1)), "response")
    messages.add(answer(tool("c", "call")), "response")
    (call,) = messages.messages()[0].parts
    assert isinstance(call, ToolInvocationPart)
    assert (call.tool_invocation.state, call.tool_invocation.result) == ("result", 1)


def test_role_tool_messages_give_results_to_their_calls() -> None:
    """R-335"""
    messages = MessageList().add(
        [
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool-call", "toolCallId": "c", "toolName": "t", "input": {"a": 1}}
                ],
            },
            {
                "role": "tool",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": "c",
                        "toolName": "t",
                        "output": {"type": "json", "value": [1]},
                    },
                    {"type": "tool-result", "toolCallId": "nobody", "toolName": "t", "result": 1},
                ],
            },
        ],
        "input",
    )
    assert [m.role for m in messages.messages()] == ["user", "assistant"]
    (call,) = messages.messages()[1].parts
    assert isinstance(call, ToolInvocationPart)
    assert (call.tool_invocation.state, call.tool_invocation.result) == ("result", [1])
    assert call.tool_invocation.args == {"a": 1}


def test_tool_results_from_memory_stay_remembered() -> None:
    """R-335, R-338: only a result that came with this run is to be saved"""
    history = [
        {
            "id": "old",
            "role": "assistant",
            "content": [{"type": "tool-call", "toolCallId": "c", "toolName": "t", "input": {}}],
        },
        {
            "role": "tool",
            "content": [{"type": "tool-result", "toolCallId": "c", "toolName": "t", "result": 1}],
        },
    ]
    messages = MessageList().add(history, "memory")
    assert messages.source_of("old") == "memory"
    messages = MessageList().add(history[:1], "memory").add(history[1:], "input")
    assert messages.source_of("old") == "response"
    assert [m.id for m in messages.drain_unsaved_messages()] == ["old"]


# -- removing -----------------------------------------------------------------------------------


def test_remove_by_ids_returns_what_was_there() -> None:
    """R-336"""
    messages = MessageList().add([at(0, "a", id="a"), at(1, "b", id="b")], "input")
    removed = messages.remove_by_ids(["b", "nobody", "a"])
    assert texts(removed) == ["a", "b"]
    assert messages.messages() == []
    assert messages.find("a") is None


def test_clear_empties_one_view() -> None:
    """R-337"""
    messages = MessageList().add(at(0, "m", id="m"), "memory").add(at(1, "i", id="i"), "input")
    messages.add(answer(TextPart(text="r"), seconds=2), "response")
    assert texts(messages.clear.response.db()) == ["r"]
    assert texts(messages.clear.input.db()) == ["i"]
    assert texts(messages.messages()) == ["m"]
    assert texts(messages.clear.all.db()) == ["m"]
    assert messages.messages() == []


# -- tool outcomes ------------------------------------------------------------------------------

Update = Callable[[str, Any], Any]


@pytest.mark.parametrize(
    "form",
    [
        lambda id, result: tool(id, "result", args={"z": 1}, result=result),
        lambda id, result: {
            "type": "tool-invocation",
            "toolInvocation": {
                "state": "result",
                "toolCallId": id,
                "toolName": "t",
                "args": {"z": 1},
                "result": result,
            },
        },
        lambda id, result: {
            "type": "tool-invocation",
            "tool_invocation": {"state": "result", "tool_call_id": id, "result": result},
        },
    ],
)
def test_update_tool_invocation(form: Update) -> None:
    """R-338, R-396: parts and mappings; args are kept"""
    old = answer(tool("c", args={"a": 1}), id="old")
    new = answer(tool("c", args={"a": 2}), id="new", seconds=1)
    messages = MessageList().add([old, new], "memory")
    assert messages.update_tool_invocation(form("c", {"ok": 1}), metadata={"customData": 1})
    call = new.parts[0]
    assert isinstance(call, ToolInvocationPart)
    assert call.tool_invocation.args == {"a": 2}
    assert call.tool_invocation.result == {"ok": 1}
    assert new.content.metadata == {"customData": 1}
    assert messages.source_of("new") == "response"
    assert messages.source_of("old") == "memory"
    before = messages.serialize()
    assert messages.update_tool_invocation(form("nobody", 1), metadata={"b": 1}) is False
    assert messages.serialize() == before


def test_update_sets_errors_and_merges_provider_metadata() -> None:
    """R-338"""
    messages = MessageList().add(answer(tool("c").replace(provider_metadata={"a": 1})), "response")
    failed = tool("c", "output-error", error_text="no").replace(provider_metadata={"b": 2})
    assert messages.update_tool_invocation(failed)
    call = messages.messages()[0].parts[0]
    assert isinstance(call, ToolInvocationPart)
    assert (call.tool_invocation.state, call.tool_invocation.error_text) == ("output-error", "no")
    assert call.provider_metadata == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "value", [3, {"type": "tool-invocation"}, {"toolInvocation": {"result": 1}}]
)
def test_update_refuses_what_is_no_outcome(value: Any) -> None:
    with pytest.raises(InputError):
        MessageList().update_tool_invocation(value)


def test_step_start() -> None:
    """R-339"""
    messages = MessageList().add("hi", "input")
    assert messages.step_start() is False
    messages.add(answer(TextPart(text="x"), seconds=9e8), "response")
    assert messages.step_start() is True
    assert messages.step_start() is False
    assert [part.type for part in messages.get.response.db()[0].parts] == ["text", "step-start"]


def test_latest_user_content() -> None:
    """R-340"""
    messages = MessageList()
    assert messages.get_latest_user_content() is None
    messages.add([at(0, "one"), at(2, "two"), at(1, "between")], "input")
    messages.add(answer(TextPart(text="r"), seconds=3), "response")
    assert messages.get_latest_user_content() == "two"


# -- saving -------------------------------------------------------------------------------------


def test_drain_gives_each_new_message_once() -> None:
    """R-342, R-205"""
    messages = MessageList().add(at(0, "m"), "memory").add(at(1, "c"), "context")
    messages.add(at(2, "i", id="i"), "input").add(answer(TextPart(text="r"), seconds=3), "response")
    assert texts(messages.drain_unsaved_messages()) == ["i", "r"]
    assert messages.drain_unsaved_messages() == []
    messages.add(at(2, "i2", id="i"), "input")
    assert texts(messages.drain_unsaved_messages()) == ["i2"]


def test_parts_appended_later_are_stamped_when_saved() -> None:
    """R-329"""
    messages = MessageList().add(at(1), "input")
    messages.messages()[0].parts.append(TextPart(text="more"))
    (saved,) = messages.drain_unsaved_messages()
    assert all(part.created_at for part in saved.parts)


def test_stored_history_changes_only_when_asked() -> None:
    """R-070, README 15"""
    messages = MessageList().add([at(0, "a", id="a"), at(1, "b", id="b")], "memory")
    messages.remove_by_ids(["a"])
    assert not messages.stored_changes
    new = at(1, "b2", id="b")
    messages.replace_stored(new)
    assert messages.find("b") is new
    assert messages.source_of("b") == "memory"
    assert messages.stored_changes.replaced == {"b": new}
    assert texts(messages.delete_stored(["b", "beyond"])) == ["b2"]
    assert messages.stored_changes.replaced == {}
    assert messages.stored_changes.deleted == {"b", "beyond"}
    assert messages.messages() == []


def test_source_checker_and_new_messages() -> None:
    """R-343"""
    messages = MessageList().add(at(0, id="m"), "memory").add(at(1, id="i"), "input")
    check = messages.make_message_source_checker()
    assert (check("m"), check(messages.messages()[1]), check("x")) == ("memory", "input", None)
    assert messages.is_new_message("i") and not messages.is_new_message("m")


def test_serialize_round_trip() -> None:
    """R-344"""
    messages = MessageList("t", "r").add(at(0, "m", id="m"), "memory")
    messages.add(at(1, "i", id="i"), "input").add_system("s").add_system("w", "memory")
    messages.add_feedback("[Processor Feedback] x")
    messages.drain_unsaved_messages()
    messages.add(answer(tool("c"), seconds=2).replace(thread_id="t", resource_id="r"), "response")
    state = json.loads(json.dumps(messages.serialize()))
    again = MessageList().deserialize(state)
    assert again.messages() == messages.messages()
    assert again.serialize() == messages.serialize()
    assert again.provider_prompt() == messages.provider_prompt()
    assert [m.id for m in again.drain_unsaved_messages()] == ["r"]
    assert again.thread_id == "t"


# -- the engine's side ----------------------------------------------------------------------------


def test_adopted_response_is_live_and_never_folded() -> None:
    messages = MessageList("t").add(answer(TextPart(text="one"), id="a"), "response")
    running = answer(id="b", seconds=1)
    messages.adopt_response(running)
    running.parts.append(TextPart(text="two"))
    assert messages.response_messages()[1] is running
    assert running.thread_id == "t"
    assert messages.provider_prompt()[-1]["content"] == [{"type": "text", "text": "two"}]


def test_mark_and_restore_response() -> None:
    """R-175: a rejected attempt's parts leave the list"""
    messages = MessageList().add(at(0, "hi"), "input")
    running = answer(TextPart(text="step one"), seconds=1, metadata={"modelId": "m"})
    messages.adopt_response(running)
    parts = list(running.parts)
    prompt = messages.provider_prompt()
    mark = messages.mark_response()
    running.parts.append(tool("c", "result", result=1))
    running.content.metadata["x"] = 1  # type: ignore[index]
    running.parts.pop(0)
    messages.adopt_response(answer(TextPart(text="after a signal"), id="next", seconds=2))
    messages.provider_prompt()
    messages.restore_response(mark)
    assert messages.response_messages() == [running]
    assert all(a is b for a, b in zip(running.parts, parts, strict=True))
    assert running.content.metadata == {"modelId": "m"}
    assert messages.provider_prompt() == prompt
    messages.restore_response(mark)  # a mark serves more than one attempt
    assert messages.provider_prompt() == prompt


def test_restore_undoes_removal_and_replacement() -> None:
    messages = MessageList()
    running = answer(TextPart(text="one"))
    messages.adopt_response(running)
    mark = messages.mark_response()
    messages.reconcile(messages.view(), [running.replace(content=MessageContent())], "response")
    messages.restore_response(mark)
    assert messages.find("r") is running
    messages.remove_by_ids(["r"])
    messages.restore_response(mark)
    assert messages.find("r") is running
    assert running.text == "one"


def test_restore_leaves_a_remembered_message_that_moved() -> None:
    """R-338: it came from memory, so it goes back there instead of away"""
    messages = MessageList().add(answer(tool("c"), id="old"), "memory")
    mark = messages.mark_response()
    messages.update_tool_invocation(tool("c", "result", result=1))
    assert messages.source_of("old") == "response"
    messages.restore_response(mark)
    assert messages.source_of("old") == "memory"


def test_isolated_copy_shares_no_container() -> None:
    """R-393"""
    message = answer(
        tool("c", "result", args={"a": [1]}, result={"b": {}}), metadata={"k": [1]}, id="m"
    )
    MessageList().add(message, "response").provider_prompt()
    copy = isolated(message)
    assert copy == message
    assert copy.prompt_memo is message.prompt_memo
    call, mine = copy.parts[0], message.parts[0]
    assert isinstance(call, ToolInvocationPart) and isinstance(mine, ToolInvocationPart)
    call.tool_invocation.args["a"].append(2)
    call.tool_invocation.result["b"]["x"] = 1
    copy.content.metadata["k"].append(2)  # type: ignore[index]
    copy.parts.append(TextPart(text="x"))
    assert mine.tool_invocation.args == {"a": [1]}
    assert mine.tool_invocation.result == {"b": {}}
    assert message.content.metadata == {"k": [1]}
    assert len(message.parts) == 1


def test_many_messages_without_times_cost_one_look_at_the_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-327, law 7: each is 1 ms after the newest, which is not looked for again and again"""
    looks: list[None] = []
    inner = MessageSequence.newest_time

    def counted(self: MessageSequence) -> datetime | None:
        looks.append(None)
        return inner(self)

    monkeypatch.setattr(MessageSequence, "newest_time", counted)
    late = datetime(2999, 1, 1, tzinfo=UTC)
    known = text_message("known", created_at=late)
    texts: list[Any] = ["a", "b", known, "c", *map(str, range(20))]
    messages = MessageList().add(texts, "input").messages()
    assert len(looks) == 1
    times = [message.created_at for message in messages]
    assert times == sorted(set(times))
    assert [m.text for m in messages[:5]] == ["a", "b", "known", "c", "0"]
    assert messages[3].created_at == late + timedelta(milliseconds=1)
