"""Reading JSON while it is written: any cutting, only ever more, at a cost per character."""

from __future__ import annotations

import json
import random
import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession.errors import InputError
from procession.records import clean_json
from procession.structured.json_text import read_json
from procession.structured.partial_json import JSONReader, PartialValue

LETTERS = st.sampled_from('ab" \\/\n\té漢😀\u0000{}[]:,`')
TEXTS = st.text(LETTERS, max_size=8)
NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)
ROOTS = st.one_of(st.lists(VALUES, max_size=4), st.dictionaries(TEXTS, VALUES, max_size=4))


def cut(text: str, seed: int) -> list[str]:
    """The text in pieces, some of them empty."""
    chance, pieces = random.Random(seed), []
    while text:
        size = chance.choice((0, 1, 1, 2, 3, 7, 40))
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def seen(pieces: list[str], **how: Any) -> list[Any]:
    """The value each time there is more of it."""
    reader = JSONReader(**how)
    return [reader.value().made() for piece in pieces if reader.feed(piece)]


def is_prefix(part: Any, whole: Any) -> bool:
    """Whether what was shown is only added to by what came later."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            k in whole and is_prefix(v, whole[k]) for k, v in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and all(map(is_prefix, part, whole[: len(part)]))
    if isinstance(part, str):
        return isinstance(whole, str) and whole.startswith(part)
    return type(part) is type(whole) and part == whole


@given(ROOTS, st.integers(0, 2**32), st.booleans(), st.sampled_from([None, 2]))
def test_any_cutting(value: Any, seed: int, ascii_only: bool, indent: int | None) -> None:
    """Law 3: however the text is cut, the last value is the whole one, and each is a prefix."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    shown = seen(cut(text, seed))
    whole = clean_json(json.loads(text))
    assert shown[-1] == whole == read_json(text)
    assert all(map(is_prefix, shown, [*shown[1:], whole]))
    assert all(before != after for before, after in pairwise(shown))
    assert seen([text]) == [whole]


@given(ROOTS, st.integers(0, 2**32))
def test_in_a_fence(value: Any, seed: int) -> None:
    """R-563."""
    body = json.dumps(value)
    text = f"Here it is:\n```json\n{body}\n```\nAs asked."
    assert seen(cut(text, seed))[-1] == clean_json(json.loads(body)) == read_json(text)


@given(st.text(st.sampled_from('{}[]",:\\ u0dD8"e1-.+tfnull`'), max_size=30), st.integers(0, 999))
def test_broken_text(text: str, seed: int) -> None:
    """What is no JSON shows what was certain of it, and never fails before it is complete."""
    shown = seen(cut(text, seed))
    assert all(map(is_prefix, shown, shown[1:]))
    try:
        read_json(text)
    except InputError as error:
        assert "not valid JSON" in str(error)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"a": 12}', [{}, {"a": 12}]),
        ('{"a": true, "b"', [{}, {"a": True}]),
        ('["a\\ud83d\\ude00"', [[], [""], ["a"], ["a😀"]]),
        ('["\\ud83d!"]', [[], [""], ["\ufffd!"]]),
        ('["\\ud83d\\n"]', [[], [""], ["\ufffd\n"]]),
        ('{"a": NaN, "b": 1}', [{}]),
        ('{"\\x": 1}', [{}]),
        ('["a', [[], [""], ["a"]]),
        ("12", []),
        ("[" * 300, [json.loads("[" * n + "]" * n) for n in range(1, 201)]),
    ],
)
def test_letter_by_letter(text: str, shown: list[Any]) -> None:
    assert seen(list(text)) == shown


def test_wrapped_values() -> None:
    """R-561: nothing is shown of what a value is wrapped in."""
    listed = seen(list('{"elements": [1, "ab"]}'), wrapper="elements")
    assert listed == [[], [1], [1, ""], [1, "a"], [1, "ab"]]
    assert seen(list('{"result": "small"}'), wrapper="result", whole=True) == ["small"]
    assert seen(list('["not wrapped"]'), wrapper="elements")[-1] == ["not wrapped"]


@pytest.mark.parametrize("wrapper", [None, "elements"])
@given(st.lists(VALUES, max_size=6), st.integers(0, 2**32))
def test_elements(wrapper: str | None, value: list[Any], seed: int) -> None:
    """R-538: each element is there once it is complete, at the place where it stands."""
    text = json.dumps({wrapper: value} if wrapper else value)
    reader = JSONReader(wrapper=wrapper)
    for piece in cut(text, seed):
        reader.feed(piece)
        now: PartialValue = reader.value()
        assert [now.element(i) for i in range(now.finished)] == clean_json(value[: now.finished])
    assert reader.value().finished == len(value)


def test_the_cost_is_that_of_the_piece() -> None:
    """Law 7: a piece late in a long text costs what the first ones cost."""

    def calls(count: int) -> int:
        text = json.dumps({"rows": [{"name": "x" * 30, "n": n} for n in range(count)]})
        reader, made = JSONReader(), 0

        def count_call(_frame: Any, event: str, _arg: Any) -> None:
            nonlocal made
            made += event in ("call", "c_call")

        sys.setprofile(count_call)
        try:
            for at in range(0, len(text), 5):
                if reader.feed(text[at : at + 5]):
                    reader.value()
        finally:
            sys.setprofile(None)
        return made

    one, four = calls(100), calls(400)
    assert four < 4.1 * one


@pytest.mark.parametrize(
    "text", ["", "sk-secret", '{"a": NaN}', '{"a": 1}}', "[" * 5000, "9" * 5000, '{"a": 1', "```"]
)
def test_what_is_no_json(text: str) -> None:
    """G-W2: the error says where, and repeats nothing."""
    with pytest.raises(InputError, match="not valid JSON") as caught:
        read_json(text)
    assert "secret" not in str(caught.value)
