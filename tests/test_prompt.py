"""Conversion to the provider prompt (section 7 of the message rules)."""

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession.errors import InputError
from procession.message_list import MessageList
from procession.messages import (
    DataPart,
    ErrorPart,
    FilePart,
    ImagePart,
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
)

START = datetime(2025, 1, 1, tzinfo=UTC)
HELLO = {"role": "user", "content": [{"type": "text", "text": "hello"}]}


def message(role: str, *parts: Part, seconds: float = 1, **content: Any) -> Message:
    return Message(
        id=f"{role}{seconds}",
        role=role,
        content=MessageContent(parts=list(parts), **content),
        created_at=START + timedelta(seconds=seconds),
    )


def prompt_of(*messages: Message, **options: Any) -> list[dict[str, Any]]:
    """The prompt of `hello` and the messages, without `hello`."""
    found = MessageList(**options)
    found.add(message("user", TextPart(text="hello"), seconds=0), "memory")
    found.add(list(messages), "memory")
    first, *rest = found.provider_prompt()
    assert first == HELLO
    return rest


def answer(*parts: Part, **options: Any) -> list[dict[str, Any]]:
    """The prompt entries of an assistant message."""
    return prompt_of(message("assistant", *parts), **options)


def tool(id: str, state: str = "result", **fields: Any) -> ToolInvocationPart:
    part = {k: fields.pop(k) for k in ("provider_metadata", "provider_executed") if k in fields}
    call = ToolInvocation(tool_call_id=id, tool_name=f"t{id}", state=state, **fields)
    return ToolInvocationPart(tool_invocation=call, **part)


def call(id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool-call", "toolCallId": id, "toolName": f"t{id}", "input": {}, **more}


def result(id: str, output: Any = None, **more: Any) -> dict[str, Any]:
    shown = output or {"type": "json", "value": None}
    return {"type": "tool-result", "toolCallId": id, "toolName": f"t{id}", "output": shown, **more}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def said(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def told(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "tool", "content": list(content)}


# -- general --------------------------------------------------------------------------------


def test_part_and_message_metadata_become_provider_options() -> None:
    """R-353, R-354: no time stamps either"""
    part = TextPart(text="x", provider_metadata={"p": {"a_b": 1}}, created_at=5)
    (entry,) = prompt_of(message("user", part, provider_metadata={"q": {}}))
    assert entry == {
        "role": "user",
        "content": [{**text("x"), "providerOptions": {"p": {"a_b": 1}}}],
        "providerOptions": {"q": {}},
    }
    both = prompt_of(message("assistant", tool("1"), provider_metadata={"q": {}}))
    assert [entry["providerOptions"] for entry in both] == [{"q": {}}, {"q": {}}]


def test_neighbours_of_equal_role_stay_separate() -> None:
    """R-355"""
    one, two = message("user", TextPart(text="a")), message("user", TextPart(text="b"), seconds=2)
    assert len(prompt_of(one, two)) == 2


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_flat_text_counts_when_there_are_no_parts(role: str) -> None:
    """R-356"""
    assert prompt_of(message(role, content="flat")) == [{"role": role, "content": [text("flat")]}]


def test_what_no_model_needs_is_dropped() -> None:
    """R-357, R-202, R-209, R-394"""
    thinking = ReasoningPart(reasoning="r")
    thinking.type = "thinking"
    unheard: list[Part] = [
        StepStartPart(),
        SourcePart(source={"sourceType": "url", "id": "1", "url": "u"}),
        SourceDocumentPart(source_id="1", media_type="a/b", title="t"),
        DataPart(type="data-x", data=1),
        ErrorPart(error={"name": "E", "message": "m"}),
        ImagePart(image="AQ=="),
        Part(type="novel", extra={"text": "x"}),
        thinking,
        TextPart(text=""),
    ]
    assert answer(*unheard) == []
    assert prompt_of(message("user", *unheard)) == []
    assert answer(*unheard, TextPart(text="x")) == [said(text("x"))]


def test_a_prompt_that_would_not_begin_with_a_user_gets_one() -> None:
    """R-358"""
    messages = MessageList().add(message("assistant", TextPart(text="x")), "memory")
    messages.add_system("s")
    assert [entry["role"] for entry in messages.provider_prompt()] == [
        "system",
        "user",
        "assistant",
    ]
    assert messages.provider_prompt()[1]["content"] == [text(".")]
    assert MessageList().add_system("s").provider_prompt() == [{"role": "system", "content": "s"}]


def test_signals_become_user_messages() -> None:
    """R-359"""
    messages = MessageList().add("hello", "input")
    messages.add_signal({"type": "reactive", "contents": "Do X"})
    assert messages.provider_prompt()[1] == {
        "role": "user",
        "content": [text("<system-reminder>Do X</system-reminder>")],
    }


# -- user parts and files ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "sent"),
    [
        ("AQID", "AQID"),
        ("data:image/png;base64,AQID", "AQID"),
        ("data:text/plain,a%20b", "YSBi"),
        (b"\x01\x02\x03", "AQID"),
        ("AQ", "AQ=="),
        ("A-_D", "A+/D"),
        ("AQ\nID", "AQID"),
        ("https://x.test/a.png", "https://x.test/a.png"),
        ("gs://bucket/a", "gs://bucket/a"),
    ],
)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_file_parts(role: str, data: Any, sent: str) -> None:
    """R-361, R-362, R-366"""
    (entry,) = prompt_of(message(role, FilePart(mime_type="image/png", data=data, filename="f")))
    assert entry["content"] == [
        {"type": "file", "mediaType": "image/png", "data": sent, "filename": "f"}
    ]


@pytest.mark.parametrize("data", ["not base64!", 3, None, "data:image/png;base64", "AQI=D"])
def test_file_data_that_is_nothing_raises(data: Any) -> None:
    """R-363"""
    with pytest.raises(InputError, match=r"base64|data URL"):
        prompt_of(message("user", FilePart(mime_type="image/png", data=data)))


def test_attachments_come_first_unless_they_are_parts_already() -> None:
    """R-364"""
    attachments = [
        {"url": "https://x.test/a.png", "contentType": "image/png", "name": "a"},
        {"url": "data:text/plain;base64,AQ=="},
        {"url": "https://x.test/b.png"},
    ]
    parts = [TextPart(text="t"), FilePart(mime_type="image/png", data="https://x.test/b.png")]
    (entry,) = prompt_of(message("user", *parts, experimental_attachments=attachments))
    assert [(p.get("mediaType"), p.get("data"), p.get("text")) for p in entry["content"]] == [
        ("image/png", "https://x.test/a.png", None),
        ("text/plain", "AQ==", None),
        (None, None, "t"),
        ("image/png", "https://x.test/b.png", None),
    ]


def test_url_flag() -> None:
    messages = MessageList().add("x", "input")
    messages.provider_prompt()
    assert messages.prompt_has_urls is False
    file = FilePart(mime_type="image/png", data="https://x.test/a")
    messages.add(message("user", file, seconds=9e8), "input")
    for _ in range(2):
        messages.provider_prompt()
        assert messages.prompt_has_urls is True
    file.data = "AQ=="
    messages.provider_prompt()
    assert messages.prompt_has_urls is False


# -- assistant parts --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (ReasoningPart(reasoning="r", details=[{"type": "text", "text": "other"}]), "r"),
        (
            ReasoningPart(details=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
            "ab",
        ),
        (ReasoningPart(details=[{"type": "redacted", "data": "x"}]), ""),
        (ReasoningPart(), ""),
    ],
)
def test_reasoning_is_replayed_in_place(part: ReasoningPart, shown: str) -> None:
    """R-367, R-368: also alone and empty"""
    assert answer(part) == [said({"type": "reasoning", "text": shown})]


def test_signature_reaches_the_provider_through_metadata() -> None:
    """R-368, G-K4"""
    signed = ReasoningPart(
        reasoning="r",
        details=[{"type": "text", "text": "r", "signature": "only here"}],
        provider_metadata={"anthropic": {"signature": "s"}},
    )
    (entry,) = answer(signed, TextPart(text="x"))
    assert entry["content"][0]["providerOptions"] == {"anthropic": {"signature": "s"}}
    assert "only here" not in json.dumps(entry)


def test_blocks_are_cut_where_something_follows_a_tool() -> None:
    """R-369, R-370, R-379"""
    assert answer(tool("A"), tool("B"), TextPart(text="x")) == [
        said(call("A"), call("B")),
        told(result("A"), result("B")),
        said(text("x")),
    ]


def test_blocks_are_cut_at_step_starts() -> None:
    """R-369, R-379"""
    assert answer(TextPart(text="a"), tool("A"), StepStartPart(), tool("B")) == [
        said(text("a"), call("A")),
        told(result("A")),
        said(call("B")),
        told(result("B")),
    ]


def test_parts_that_give_nothing_do_not_cut() -> None:
    """R-369, R-357: what tools wrote between two parallel calls leaves them in one block"""
    data = DataPart(type="data-progress", data=1)
    assert answer(tool("A"), data, TextPart(text=""), tool("B")) == [
        said(call("A"), call("B")),
        told(result("A"), result("B")),
    ]


@pytest.mark.parametrize(
    ("fields", "output"),
    [
        ({"result": "s"}, {"type": "text", "value": "s"}),
        ({"result": ""}, {"type": "text", "value": ""}),
        ({"result": {"a": 1}}, {"type": "json", "value": {"a": 1}}),
        ({"result": 0}, {"type": "json", "value": 0}),
        ({}, {"type": "json", "value": None}),
        ({"result": {"e": 1}, "is_error": True}, {"type": "json", "value": {"e": 1}}),
        ({"state": "output-error", "error_text": "no"}, {"type": "error-text", "value": "no"}),
        (
            {"state": "output-denied", "approval": {"id": "a", "reason": "never"}},
            {"type": "text", "value": "never"},
        ),
    ],
)
def test_outcomes(fields: dict[str, Any], output: dict[str, Any]) -> None:
    """R-372, R-373"""
    assert answer(tool("A", **fields))[1] == told(result("A", output))


def test_denial_without_reason_still_says_so() -> None:
    """R-373"""
    (_, entry) = answer(tool("A", "output-denied"))
    assert entry["content"][0]["output"]["value"]


def test_model_output_replaces_the_result() -> None:
    """R-374, R-375: and the metadata goes to call and result"""
    shaped = {"type": "content", "value": [{"type": "text", "text": "x"}]}
    metadata = {"mastra": {"modelOutput": shaped}, "p": {"a": 1}}
    one, two = answer(tool("A", result={"big": 1}, provider_metadata=metadata))
    assert two["content"][0]["output"] == shaped
    assert one["content"][0]["providerOptions"] == two["content"][0]["providerOptions"] == metadata


@pytest.mark.parametrize(
    "state", ["call", "partial-call", "approval-requested", "approval-responded"]
)
def test_open_calls_are_left_out(state: str) -> None:
    """R-376"""
    assert answer(tool("A", state)) == []
    assert answer(TextPart(text="x"), tool("A", state), tool("B")) == [
        said(text("x"), call("B")),
        told(result("B")),
    ]
    pending = {"type": "json", "value": {"status": "pending"}}
    assert answer(tool("A", state), filter_incomplete_tool_calls=False) == [
        said(call("A")),
        told(result("A", pending)),
    ]


def test_provider_executed_tools_stay_in_the_assistant_entry() -> None:
    """R-377"""
    executed = tool("A", result=1, provider_executed=True)
    assert answer(executed, tool("B")) == [
        said(
            call("A", providerExecuted=True),
            result("A", {"type": "json", "value": 1}),
            call("B"),
        ),
        told(result("B")),
    ]
    assert answer(tool("A", "call", provider_executed=True)) == []  # G-E7


def test_a_part_of_another_type_may_become_text() -> None:
    """R-394: a part that becomes `text` without having a text says nothing"""
    part, unknown = ReasoningPart(reasoning="r"), Part(type="novel", extra={"text": "x"})
    part.type = unknown.type = "text"
    assert answer(part, unknown) == [said(text("x"))]


def test_prompt_is_plain_data() -> None:
    """R-398"""

    class Odd:
        def __str__(self) -> str:
            return "odd"

    odd = tool("A", result={"o": Odd(), "t": START, "b": b"\x01", "n": (1, 2)})
    file = FilePart(mime_type="a/b", data=b"\x01")
    messages = MessageList().add(
        [message("user", file), message("assistant", odd, seconds=2)], "memory"
    )
    prompt = messages.provider_prompt()
    assert json.loads(json.dumps(prompt)) == prompt
    assert prompt[2]["content"][0]["output"]["value"]["o"] == "odd"


def test_odd_values_are_never_stale() -> None:
    """R-033: a value that cannot be watched is converted every time"""

    class Box:
        inside = 1

        def __str__(self) -> str:
            return str(self.inside)

    box = Box()
    first, odd, last = tool("A"), tool("B", result={"box": box}), tool("C")
    messages = MessageList().add(
        message("assistant", first, StepStartPart(), odd, StepStartPart(), last), "memory"
    )
    messages.provider_prompt()
    box.inside = 2
    assert messages.provider_prompt()[4]["content"][0]["output"]["value"] == {"box": "2"}
    assert [entry["role"] for entry in messages.provider_prompt()].count("tool") == 3


def test_unclean_text_never_reaches_the_prompt() -> None:
    """Even when a hook wrote it in place"""
    messages = MessageList().add(message("user", TextPart(text="x")), "input")
    messages.messages()[0].parts[0].text = "a\ud800"
    assert messages.provider_prompt()[0]["content"][0]["text"] == "a\ufffd"


def test_prompt_and_model_views_are_the_callers_own() -> None:
    """R-321"""
    messages = (
        MessageList()
        .add_system("s")
        .add([message("assistant", tool("A", args={"a": []}))], "memory")
    )
    before = copy.deepcopy(messages.provider_prompt())
    for view in (messages.get.all.prompt(), messages.get.all.model()):
        view[-2]["content"][0]["input"]["a"].append(1)
        view[-1]["content"].clear()
    assert messages.provider_prompt() == before
    assert messages.get.all.prompt() == before
    assert messages.get.all.model() == before[2:]


# -- balance ------------------------------------------------------------------------------------

TEXTS = st.text("aé \x00\ud800", max_size=3)
STATES = [
    "call",
    "partial-call",
    "result",
    "output-error",
    "output-denied",
    "approval-requested",
    "approval-responded",
    "unheard-of",
]


@st.composite
def some_part(draw: st.DrawFn, ids: list[int]) -> Part:
    kind = draw(st.sampled_from(["text", "reasoning", "tool", "tool", "step", "data", "novel"]))
    if kind == "tool":
        ids.append(len(ids))
        return tool(
            str(len(ids)),
            draw(st.sampled_from(STATES)),
            result=draw(st.none() | TEXTS | st.integers()),
            provider_executed=draw(st.sampled_from([None, False, True])),
        )
    return {
        "text": TextPart(text=draw(TEXTS)),
        "reasoning": ReasoningPart(reasoning=draw(TEXTS)),
        "step": StepStartPart(),
        "data": DataPart(type="data-x", data=1),
        "novel": Part(type="novel"),
    }[kind]


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    ids: list[int] = []
    return [
        message(
            draw(st.sampled_from(["user", "assistant", "assistant"])),
            *draw(st.lists(some_part(ids), max_size=7)),
            seconds=index,
        )
        for index in range(draw(st.integers(0, 5)))
    ]


def assert_balanced(prompt: list[dict[str, Any]]) -> None:
    """Every call has its result where providers look for it, and no result is without its call."""
    for index, entry in enumerate(prompt):
        assert entry["content"]
        if entry["role"] == "tool":
            assert prompt[index - 1]["role"] == "assistant"
        if entry["role"] != "assistant":
            continue
        calls = [p["toolCallId"] for p in entry["content"] if p["type"] == "tool-call"]
        inside = [p["toolCallId"] for p in entry["content"] if p["type"] == "tool-result"]
        after: list[str] = []
        if index + 1 < len(prompt) and prompt[index + 1]["role"] == "tool":
            after = [p["toolCallId"] for p in prompt[index + 1]["content"]]
        assert sorted(calls) == sorted(inside + after)
        assert [id for id in calls if id in after] == after


@settings(deadline=None)
@given(conversations(), st.booleans())
def test_prompts_are_always_balanced(conversation: list[Message], keep: bool) -> None:
    """R-378, R-370, R-358, R-398, G-E"""
    messages = MessageList(filter_incomplete_tool_calls=not keep).add(conversation, "memory")
    prompt = messages.provider_prompt()
    assert_balanced(prompt)
    assert not prompt or prompt[0]["role"] == "user"
    assert json.loads(json.dumps(prompt)) == prompt
