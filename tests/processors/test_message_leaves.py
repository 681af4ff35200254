"""All texts of a message are walked, and its shape stays (G-B, B-011, B-012)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from procession.messages import Message
from procession.processors.guarding.message_leaves import leaves_of, with_leaves


def message(*parts: dict[str, Any], flat: str | None = None) -> Message:
    """A stored message of these parts."""
    content: dict[str, Any] = {"format": 2, "parts": list(parts), "content": flat}
    return Message.from_json({"id": "m", "role": "assistant", "content": content})


def call(**more: Any) -> dict[str, Any]:
    """A part of a tool call."""
    invocation = {"toolCallId": "c", "toolName": "send", **more}
    return {"type": "tool-invocation", "toolInvocation": invocation}


def shout(given: Message, **options: Any) -> Message:
    """The message with all its texts in upper case."""
    texts = iter([leaf.text.upper() for leaf in leaves_of(given, **options)])
    return with_leaves(given, texts, str.upper, **options)


FULL = message(
    {
        "type": "reasoning",
        "reasoning": "hm",
        "details": [{"type": "text", "text": "hm", "signature": "s"}],
        "providerMetadata": {"some": {"signature": "s"}},
    },
    {"type": "text", "text": "hi"},
    call(
        state="result",
        args={"to": ["a", {"cc": "b"}], "n": 7, "ok": True, "no": None},
        result={"said": "done", "list": [1.5, "x"]},
    ),
    {"type": "file", "mimeType": "image/png", "data": "aGk=", "filename": "cat.png"},
    {"type": "source", "source": {"url": "https://example.com", "title": "t"}},
    {"type": "data-x", "data": {"a": "b"}},
    {"type": "text", "text": "bye"},
    flat="hi bye",
)


def test_every_text_that_reaches_a_model() -> None:
    """Texts, thoughts, arguments with their keys, results, names of files; in order."""
    found = [(leaf.text, leaf.part_index, leaf.is_said) for leaf in leaves_of(FULL)]
    assert found == [
        ("hm", 0, False),
        ("hi", 1, True),
        *((text, 2, False) for text in ["to", "a", "cc", "b", "n", "7", "ok", "no"]),
        *((text, 2, False) for text in ["said", "done", "list", "1.5", "x"]),
        ("cat.png", 3, False),
        ("bye", 6, True),
    ]


def test_what_tools_gave_is_no_answer() -> None:
    """On the output side results, and names of files, are left alone."""
    texts = [leaf.text for leaf in leaves_of(FULL, results=False)]
    assert texts == ["hm", "hi", "to", "a", "cc", "b", "n", "7", "ok", "no", "bye"]
    kept = shout(FULL, results=False).parts[2].to_json()["toolInvocation"]["result"]
    assert kept == {"said": "done", "list": [1.5, "x"]}


def test_all_of_them_change_and_nothing_else_does() -> None:
    """B-012: a copy; keys, lists and kinds of parts stay; the flat text goes along."""
    before = json.dumps(FULL.to_json())
    made = shout(FULL)
    assert json.dumps(FULL.to_json()) == before
    parts = [part.to_json() for part in made.parts]
    assert parts[0] == {
        "type": "reasoning",
        "reasoning": "HM",
        "details": [{"type": "text", "text": "HM"}],  # whose signature held for other words
    }
    assert parts[1]["text"] == "HI"
    assert parts[2]["toolInvocation"] == {
        "toolCallId": "c",
        "toolName": "send",
        "state": "result",
        "args": {"TO": ["A", {"CC": "B"}], "N": 7, "OK": True, "NO": None},
        "result": {"SAID": "DONE", "LIST": [1.5, "X"]},
    }
    assert parts[3]["filename"] == "CAT.PNG"
    assert parts[3]["data"] == "aGk="
    assert made.parts[4] is FULL.parts[4]
    assert made.parts[5] is FULL.parts[5]
    assert made.content.content == "HI BYE"
    assert (made.id, made.role, made.created_at) == (FULL.id, FULL.role, FULL.created_at)


def test_a_number_that_changes_becomes_a_text() -> None:
    """A redacted number is none."""
    given = message(call(state="call", args={"card": 4111111111111111, "small": 1}))
    texts = (leaf.text.replace("4111111111111111", "[CARD]") for leaf in leaves_of(given))
    made = with_leaves(given, texts, str)
    assert made.parts[0].tool_invocation.args == {"card": "[CARD]", "small": 1}


def test_the_flat_text_alone() -> None:
    """B-011: it counts where there is no text part, and only there."""
    given = message(call(state="call", args={}), flat="old")
    assert [(leaf.text, leaf.part_index) for leaf in leaves_of(given)] == [("old", None)]
    assert shout(given).content.content == "OLD"


def test_what_a_tool_made_of_its_result_for_the_model() -> None:
    """R-374: that text reaches the model in place of the result; images in it stay."""
    output = {
        "type": "content",
        "value": [{"type": "text", "text": "hi"}, {"type": "media", "data": "aGk="}],
    }
    part = call(state="result", args={}, result=None)
    part["providerMetadata"] = {"mastra": {"modelOutput": output, "other": 1}}
    made = shout(message(part)).parts[0].provider_metadata
    assert made == {
        "mastra": {
            "modelOutput": {
                "type": "content",
                "value": [{"type": "text", "text": "HI"}, {"type": "media", "data": "aGk="}],
            },
            "other": 1,
        }
    }
    part["providerMetadata"] = {"mastra": {"modelOutput": {"type": "text", "value": "hi"}}}
    made = shout(message(part)).parts[0].provider_metadata
    assert made == {"mastra": {"modelOutput": {"type": "text", "value": "HI"}}}


def test_errors_and_broken_arguments_are_texts_too() -> None:
    """What the model is told of a failure, and arguments that were no JSON."""
    given = message(
        call(state="output-error", args={}, errorText="no joe"),
        call(args={}, rawInput='{"to": "joe'),
    )
    assert [leaf.text for leaf in leaves_of(given)] == ["no joe", '{"to": "joe']
    made = shout(given)
    assert made.parts[0].tool_invocation.error_text == "NO JOE"
    assert made.parts[1].tool_invocation.raw_input == '{"TO": "JOE'


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)


@given(VALUES, st.text(max_size=3))
def test_texts_that_stay_leave_the_message_itself(value: Any, text: str) -> None:
    """Nothing is copied when nothing changes, whatever the arguments."""
    given = message(call(state="result", args=value, result=value), {"type": "text", "text": text})
    texts = iter([leaf.text for leaf in leaves_of(given)])
    assert with_leaves(given, texts, str) is given
    assert next(texts, None) is None
