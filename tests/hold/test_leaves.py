"""Tool arguments: JSON in any pieces, held back by what it says (B-132, B-133)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession.hold import Literals, Pattern
from procession.hold.leaves import LeafReader, encoded, number_text
from tests.hold.kit import (
    all_cuts,
    argument_deltas,
    called,
    chunks_of,
    guard,
    lane_texts,
    pieces_at,
)
from tests.laws.kit import run_async

SECRET = [Literals("secret"), Pattern(r"\d{4}")]
ESCAPED = "\\u0073e\\u0063ret"


async def rewritten(pieces: list[str], watches: Any = SECRET) -> str:
    found = lane_texts(await chunks_of(argument_deltas(pieces), guard(watches)))
    return found.get("args:c1", "")


CASES = [
    ('{"a": "secret"}', '{"a": "######"}'),
    ('{"secret": ["x secret", {"b": 1234}]}', '{"######": ["x ######", {"b": "####"}]}'),
    (f'{{"a": "{ESCAPED}"}}', '{"a": "######"}'),
    ('{"a": "\\ud83d\\ude00 \\/ \\n\\"\\\\"}', '{"a": "😀 / \\n\\"\\\\"}'),
    ('{"a": "\\ud83d", "b": "\\ude00"}', '{"a": "\ufffd", "b": "\ufffd"}'),
    ('{"a": "\\ud83dx\\ud83d\\ud83d\\ude00"}', '{"a": "\ufffdx\ufffd😀"}'),
    ("[1234, -1.50, 12345, true, null]", '["####", -1.50, "####5", true, null]'),
    ("[1e5, false, 1E-1]", '["####00.0", false, 1E-1]'),
    ('[-1234]', '["-####"]'),
    ('"secret"', '"######"'),
    ("1234", '"####"'),
    (' {\n"a" :\t"" } ', ' {\n"a" :\t"" } '),
    ('{"a": "sec', '{"a": "sec'),
    ('{"a": "secret', '{"a": "######'),
    ('{"a": "x\\u00', '{"a": "x\\u00'),
    ('{"a": secret, "b": "secret"}', '{"a": ######, "b": "######"}'),
    ('{"a": "x\\qsecret"}', '{"a": "x\\q######"}'),
    ('{"a": 1} secret', '{"a": 1} ######'),
    ("secret", "######"),
    ('{"a": 01234}', '{"a": ####4}'),
    ('["a" "secret"]', '["a" "######"]'),
    ("{]secret", "{]######"),
]  # fmt: skip


@pytest.mark.parametrize(("given_text", "expected"), CASES)
async def test_every_cutting(given_text: str, expected: str) -> None:
    """The same JSON for every cut; what is no JSON is one plain text from there on."""
    for pieces in all_cuts(given_text):
        assert await rewritten(pieces) == expected, pieces


values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-99999, 99999),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.sampled_from('secrt1234"\\\n é😀\u2028'), max_size=10),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(st.sampled_from("secrt1"), max_size=7), inner, max_size=3),
    ),
    max_leaves=6,
)


@given(values, st.booleans(), st.lists(st.integers(0, 200), max_size=20))
@settings(max_examples=80, deadline=None)
def test_deltas_say_what_the_call_says(value: Any, escaped: bool, places: list[int]) -> None:
    """The parsed deltas are the arguments of the complete call, as hooks leave both."""
    text = json.dumps({"value": value}, ensure_ascii=escaped)
    parts = [*argument_deltas(pieces_at(text, places)), called({"value": value})]
    found = lane_texts(run_async(chunks_of(parts, guard(SECRET))))
    assert json.loads(found["args:c1"]) == json.loads(found["call:c1"])
    assert "secret" not in found["call:c1"]
    unguarded = lane_texts(run_async(chunks_of(parts, guard([Literals("absent")]))))
    assert json.loads(unguarded["args:c1"]) == {"value": value}


@given(st.text(st.sampled_from('{}[]",:\\eu01-.rut nlx\n'), max_size=14), st.data())
@settings(max_examples=300, deadline=None)
def test_any_text_is_read(text: str, data: st.DataObject) -> None:
    """Nothing is lost, nothing is added, and no cut changes what is read."""

    def read(pieces: list[str]) -> str:
        reader, found = LeafReader(), list[str]()
        events = [event for piece in pieces for event in reader.feed(piece)]
        for kind, words in [*events, *reader.end()]:
            found.append(encoded(words) if kind == "text" else words)
        return "".join(found)

    places = data.draw(st.lists(st.integers(0, 14), max_size=6))
    whole = read([text])
    assert read(pieces_at(text, places)) == read(list(text)) == whole
    try:
        value = json.loads(text)
    except ValueError:
        return
    assert json.loads(whole) == value


def test_numbers_look_the_same_in_both_forms() -> None:
    """A number is shown as its value is written, so that deltas and calls agree."""
    for literal in ("1", "-0", "1.50", "1e5", "-2E-3", "12345678901234567890"):
        assert number_text(literal) == number_text(json.loads(literal))
    assert number_text("1e999") == "1e999"


async def test_a_number_without_end_is_a_text() -> None:
    """What has more digits than a number can have is looked at all the same."""
    digits = "5" * 4100 + "1234"
    found = await rewritten([digits[i : i + 7] for i in range(0, len(digits), 7)])
    assert found == "#" * 4104


async def test_punctuation_does_not_wait() -> None:
    """Only a leaf is held back."""
    chunks = await chunks_of(
        argument_deltas(['{"', "a", '":', ' "se', 'cret"', "}"]), guard(SECRET)
    )
    deltas = [c.payload.args_text_delta for c in chunks if c.type == "tool-call-delta"]
    assert deltas == ['{"', "a", '":', ' "', '######"', "}"]


async def test_dropped_and_other_chunks() -> None:
    """A leaf that a hook drops is empty; chunks of other types come before what follows."""
    from procession import Chunk, processor

    def drop(args: Any) -> Any:
        if args.piece is None:
            return args.part
        return None if args.piece.text != "b" else [Chunk("data-b", data=1), args.part]

    hook = processor(
        id="d", process_output_stream=drop, watches=Literals("b"), lanes=["tool-arguments"]
    )
    parts = [*argument_deltas(['{"a": 1, "x": "b"}']), called({"a": 1, "x": "b"})]
    chunks = [c for c in await chunks_of(parts, hook) if c.type.startswith(("tool-call", "data"))]
    kinds = [c.type for c in chunks]
    assert kinds == [
        "tool-call-input-streaming-start",
        "tool-call-delta",
        "data-b",
        "tool-call-delta",
        "tool-call-input-streaming-end",
        "data-b",
        "tool-call",
    ]
    assert lane_texts(chunks)["args:c1"] == '{"": "", "": "b"}'
    assert json.loads(lane_texts(chunks)["call:c1"]) == {"": "b"}
