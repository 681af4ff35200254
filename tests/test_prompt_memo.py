"""What is remembered of conversions: never stale (R-033), and cheap for what did not change."""

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession.conversation import prompt as prompt_module
from procession.conversation.prompt_run import SHORTEST, run_of
from procession.message_list import MessageList
from procession.messages import (
    FilePart,
    Message,
    MessageContent,
    Part,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
    text_message,
)

START = datetime(2025, 1, 1, tzinfo=UTC)


def tool(id: str, **fields: Any) -> ToolInvocationPart:
    call = ToolInvocation(
        **{"tool_call_id": id, "tool_name": "t", "state": "result", "args": {}, **fields}
    )
    return ToolInvocationPart(tool_invocation=call)


def fresh(messages: list[Message]) -> list[dict[str, Any]]:
    """The prompt of messages that nothing is remembered of."""
    bare = [Message.from_json(copy.deepcopy(message.to_json())) for message in messages]
    return MessageList().add(bare, "memory").provider_prompt()


def twice(messages: MessageList) -> None:
    """What is remembered of a long conversation is what came twice."""
    messages.provider_prompt()
    messages.provider_prompt()


def history(count: int) -> list[Message]:
    return [
        text_message(
            f"text {index}",
            role="assistant" if index % 2 else "user",
            id=f"m{index}",
            created_at=START + timedelta(seconds=index),
        )
        for index in range(count)
    ]


def edit(path: str, value: Any) -> Callable[[Message], None]:
    """An edit in place: `path` is evaluated with the message as `m`."""

    def apply(m: Message) -> None:
        exec(f"m.{path} = value", {"m": m, "value": value})

    apply.__name__ = path
    return apply


EDITS = [
    edit("content.parts[0].text", "new"),
    edit("content.parts[0].type", "thinking"),
    edit("content.parts[0].provider_metadata", {"p": {}}),
    edit("content.parts[1].provider_metadata['p']['deep'][0]", 2),
    edit("content.parts[1].tool_invocation.args['a']['b']", [2]),
    edit("content.parts[1].tool_invocation.args['new']", 1),
    edit("content.parts[1].tool_invocation.result['rows'][0]['x']", 2),
    edit("content.parts[1].tool_invocation.state", "call"),
    edit("content.parts[1].tool_invocation", tool("other").tool_invocation),
    edit("content.parts[2].details[0]['text']", "new"),
    edit("content.parts[2].extra", {"x": 1}),
    edit("content.parts[3].data", "Ag=="),
    edit("content.parts[0]", TextPart(text="another")),
    edit("content.parts[1:2]", []),
    edit("content.parts", [TextPart(text="all new")]),
    edit("content.parts", []),
    edit("content.provider_metadata", {"q": {"a": 2}}),
    edit("content.provider_metadata['q']['a']", 2),
    edit("content", MessageContent(parts=[TextPart(text="new content")])),
    edit("role", "user"),
]


def rich(**fields: Any) -> Message:
    """An assistant message with something of everything."""
    made = Message(
        id="rich",
        role="assistant",
        created_at=START + timedelta(days=1),
        content=MessageContent(
            parts=[
                TextPart(text="old"),
                tool("c", args={"a": {"b": [1]}}, result={"rows": [{"x": 1}]}),
                ReasoningPart(details=[{"type": "text", "text": "old"}]),
                FilePart(mime_type="a/b", data="AQ=="),
            ],
            provider_metadata={"q": {"a": 1}},
            content="flat",
        ),
        **fields,
    )
    made.parts[1].provider_metadata = {"p": {"deep": [1]}}
    return made


@pytest.mark.parametrize("before", [0, SHORTEST * 2])
@pytest.mark.parametrize("apply", EDITS, ids=lambda apply: apply.__name__)
def test_every_edit_in_place_is_noticed(apply: Callable[[Message], None], before: int) -> None:
    """R-033, R-394: alone, and inside a long conversation that is remembered as a whole"""
    message = rich()
    last = text_message("last", created_at=START + timedelta(days=2))
    messages = MessageList().add([*history(before), message, last], "memory")
    for _ in range(2):
        messages.provider_prompt()
    apply(message)
    assert messages.provider_prompt() == fresh(messages.messages())
    assert messages.provider_prompt() == fresh(messages.messages())


def test_edits_of_signals_and_flat_texts_are_noticed_in_long_conversations() -> None:
    """R-033, R-721"""
    messages = MessageList().add(history(SHORTEST * 2), "memory")
    messages.add_signal({"type": "reactive", "contents": "x", "attributes": {"a": 1}}, "memory")
    flat = Message(
        id="flat",
        role="user",
        content=MessageContent(content="flat"),
        created_at=messages.next_time(),
    )
    messages.add([flat, text_message("last", created_at=START + timedelta(days=9999))], "memory")
    for _ in range(2):
        messages.provider_prompt()
    signal = next(m for m in messages.view() if m.role == "signal")
    assert signal.content.metadata is not None
    signal.content.metadata["signal"]["attributes"]["a"] = 2
    assert messages.provider_prompt() == fresh(messages.messages())
    flat.content.content = "edited"
    assert messages.provider_prompt() == fresh(messages.messages())


def test_the_memo_is_no_part_of_the_message() -> None:
    message = rich()
    plain = rich()
    MessageList().add(message, "memory").provider_prompt()
    MessageList().add(plain, "memory")
    assert message.prompt_memo is not None
    assert message == plain
    assert message == rich()
    assert message.to_json() == plain.to_json()
    assert "memo" not in str(message.to_json())
    assert pickle.loads(pickle.dumps(message)) == message
    assert copy.deepcopy(message) == message
    changed = message.replace(content=MessageContent(parts=[TextPart(text="other")]))
    assert MessageList().add(changed, "memory").provider_prompt() == fresh([changed])
    assert "<memo" in repr(message) and len(repr(message.prompt_memo)) < 40
    assert msgspec.structs.asdict(message)["id"] == "rich"


def test_entries_are_shared_until_something_changes() -> None:
    messages = MessageList().add(history(4), "memory")
    first, second = messages.provider_prompt(), messages.provider_prompt()
    assert all(a is b for a, b in zip(first, second, strict=True))
    assert first is not second
    messages.messages()[1].parts[0].text = "edited"
    third = messages.provider_prompt()
    assert [a is b for a, b in zip(first, third, strict=True)] == [True, False, True, True]


def test_a_list_that_keeps_open_calls_shares_messages_with_one_that_does_not() -> None:
    """R-376"""
    message = Message(
        id="a",
        role="assistant",
        content=MessageContent(parts=[tool("c", state="call")]),
        created_at=START,
    )
    strict = MessageList().add(message, "memory")
    keeping = MessageList(filter_incomplete_tool_calls=False).add(message, "memory")
    for _ in range(2):
        assert strict.provider_prompt() == []
        assert len(keeping.provider_prompt()) == 3


# -- long conversations ---------------------------------------------------------------------------


def test_a_long_conversation_is_taken_over_by_later_lists() -> None:
    """The fast way in gives the same list as the slow one"""
    known = history(SHORTEST * 3)
    twice(MessageList().add(known, "input"))
    assert run_of(known[0]) is not None
    for source in ("memory", "input", "context", "response"):
        window = known[10:]
        messages = MessageList().add(window, source)
        messages.add("new", "input")
        assert messages.provider_prompt() == fresh(messages.messages())
        assert messages.messages()[:-1] == window
        assert messages.source_of(window[3].id) == source
        assert messages.find(window[5].id) is window[5]
        assert len(messages.messages_from(source)) == len(window) + (source == "input")
        replaced = text_message("r", id=window[7].id, created_at=window[7].created_at)
        messages.reconcile(messages.view(), [replaced, *messages.view()[20:]], "input")
        assert messages.messages()[0] is replaced
        assert messages.source_of(replaced.id) == source


def test_the_fast_way_in_looks_at_ids_and_threads() -> None:
    """R-327, R-328, R-331"""
    known = history(SHORTEST * 3)
    twice(MessageList().add(known, "input"))
    repeated = [*known, known[5].replace(content=MessageContent(parts=[TextPart(text="again")]))]
    messages = MessageList().add(repeated, "input")
    assert len(messages.messages()) == len(known)
    threaded = MessageList("t").add(known, "input")
    assert all(message.thread_id == "t" for message in threaded.messages())
    mixed: list[Any] = [*known[:70], "text", *known[70:]]
    assert len(MessageList().add(mixed, "input").messages()) == len(known) + 1


def test_an_edit_in_the_middle_keeps_what_stands_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what changed is converted again"""
    known = history(SHORTEST * 4)
    messages = MessageList().add(known, "memory")
    twice(messages)
    converted = count_conversions(monkeypatch)
    known[40].parts[0].text = "edited"
    assert messages.provider_prompt() == fresh(messages.messages())
    assert converted.pop(0) == known[40].id
    converted.clear()
    messages.provider_prompt()
    assert converted == []


def count_conversions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the messages that are converted from now on, in a list that grows."""
    found: list[str] = []
    inner = prompt_module._converted  # pyright: ignore[reportPrivateUsage]

    def counted(message: Message, *args: Any, **options: Any) -> Any:
        if message.prompt_memo is not None:
            found.append(message.id)
        return inner(message, *args, **options)

    monkeypatch.setattr(prompt_module, "_converted", counted)
    return found


# -- growing answers ------------------------------------------------------------------------


def test_only_the_last_blocks_of_a_growing_answer_are_converted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Law 7: the cost of a step does not depend on how many came before"""
    blocks: list[int] = []
    inner = prompt_module.block_entries

    def counted(parts: Any, *args: Any) -> Any:
        blocks.append(len(parts))
        return inner(parts, *args)

    monkeypatch.setattr(prompt_module, "block_entries", counted)
    messages, running = MessageList().add("hi", "input"), rich()
    running.content.parts.clear()
    messages.adopt_response(running)
    for step in range(40):
        running.parts.append(StepStartPart())
        running.parts.append(tool(f"c{step}", result={"n": step}))
        blocks.clear()
        prompt = messages.provider_prompt()
        assert sum(blocks) <= 4
    running.parts[51].tool_invocation.result = "late"
    blocks.clear()
    again = messages.provider_prompt()
    assert again != prompt
    assert len(blocks) <= 16  # what stands before the edit is kept
    assert again == fresh(messages.messages())


def test_untouched_skips_the_comparison_and_nothing_else() -> None:
    messages, running = MessageList().add("hi", "input"), rich()
    running.content.parts.clear()
    messages.adopt_response(running)
    for step in range(6):
        mark = messages.mark_response()
        for attempt in range(2):
            if step:
                running.parts.append(StepStartPart())
            running.parts.append(tool(f"c{step}{attempt}", result=attempt))
            running.parts.append(TextPart(text=f"{step}"))
            assert messages.provider_prompt(untouched=running) == fresh(messages.messages())
            if attempt == 0:
                messages.restore_response(mark)
        assert messages.provider_prompt(untouched=running) == fresh(messages.messages())


@st.composite
def growth(draw: st.DrawFn) -> list[tuple[str, int, str]]:
    kinds = ["text", "tool", "step", "outcome", "retype", "drop", "edit", "empty"]
    return draw(
        st.lists(
            st.tuples(st.sampled_from(kinds), st.integers(0, 9), st.sampled_from("ab")), max_size=14
        )
    )


def grow(parts: list[Part], kind: str, index: int, value: str) -> None:
    """One thing that engines and hooks do to a message."""
    chosen = parts[index % len(parts)] if parts else None
    if kind == "text":
        parts.append(TextPart(text=value))
    elif kind == "empty":
        parts.append(TextPart(text=""))
    elif kind == "tool":
        parts.append(tool(f"c{len(parts)}{index}", state="call" if value == "a" else "result"))
    elif kind == "step":
        parts.append(StepStartPart())
    elif kind == "drop" and chosen is not None:
        parts.pop(index % len(parts))
    elif kind == "retype" and isinstance(chosen, TextPart | StepStartPart):
        chosen.type = "text" if isinstance(chosen, TextPart) and value == "a" else "thinking"
    elif kind == "edit" and isinstance(chosen, TextPart):
        chosen.text = value
    elif kind == "outcome" and isinstance(chosen, ToolInvocationPart):
        chosen.tool_invocation.state = "result"
        chosen.tool_invocation.result = {"v": value}


@settings(deadline=None)
@given(growth())
def test_a_growing_answer_is_always_converted_as_if_anew(
    changes: list[tuple[str, int, str]],
) -> None:
    """R-033, R-369: whatever is appended, edited or dropped between two prompts"""
    messages, running = MessageList().add("hi", "memory"), rich()
    running.content.parts.clear()
    running.content.content = None
    messages.add(running, "memory")
    for change in changes:
        grow(running.parts, *change)
        assert messages.provider_prompt() == fresh(messages.messages())
