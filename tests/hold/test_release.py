"""What a watch lets go: exactly what no text to come can make part of a match (G-A, law 3)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession.hold import Literals, Pattern

WATCHES: list[Any] = [
    Literals("a"),
    Literals("ab"),
    Literals("aab", "ba"),
    Literals("ab", "abab"),
    Literals("aba", "b"),
    Literals("aa", "aaa"),
    Literals("AB", "bA", ignore_case=True),
    Pattern("ab"),
    Pattern("a{3}"),
    Pattern("a{1,3}"),
    Pattern("ab?a"),
    Pattern("(ab|ba)b"),
    Pattern("ab|a"),
    Pattern("a(?:b|ab){1,2}"),
    Pattern("[^b]b"),
    Pattern(r"\ba"),
    Pattern(r"\bab\b"),
    Pattern(r"a\b"),
    Pattern(r"a\Bb?"),
    Pattern(r"a\B"),
    Pattern("^a"),
    Pattern("ab$"),
    Pattern("(?m)^a|b$"),
    Pattern("(?i)AB"),
    Pattern("a(?i)B|b"),
    Pattern("(?i:A)b"),
    Pattern("a.b"),
    Pattern("a??b"),
    Pattern("(?P<x>a)(b)"),
    Pattern(r"\Qab\E"),
    Pattern("a{2}b{0,1}a"),
    Pattern("(a|b){3}"),
    Pattern("a(b(a(b)?)?)?"),
]
ALPHABET = "ab c\n"


def spans(watch: Any, text: str) -> list[tuple[int, int]]:
    return [match.span() for match in watch.finditer(text)]


def spoilt(watch: Any, whole: str, point: int) -> list[int]:
    """Where matches begin that a cut at `point` breaks, hides, or makes by being an end."""
    matches = spans(watch, whole)
    broken = [begin for begin, end in matches if begin < point < end]
    before = {span for span in matches if span[1] <= point}
    return broken + [span[0] for span in before ^ set(spans(watch, whole[:point]))]


def furthest(watch: Any, text: str) -> int:
    """By trial of everything that could follow: the last index at which no cut spoils anything."""
    wholes = [
        text + "".join(more)
        for size in range(4)
        for more in itertools.product(ALPHABET, repeat=size)
    ]
    point = len(text)
    while begins := [begin for whole in wholes for begin in spoilt(watch, whole, point)]:
        point = min(begins)
    return point


@pytest.mark.parametrize("watch", WATCHES, ids=repr)
@given(text=st.text(st.sampled_from("ab "), max_size=5))
@settings(max_examples=12, deadline=None)
def test_exactly_what_can_be_no_match(watch: Any, text: str) -> None:
    """All that may leave leaves, and nothing else (B-132, B-236)."""
    assert watch.release(text, 0, len(text)) == furthest(watch, text)


@pytest.mark.parametrize("watch", WATCHES, ids=repr)
@given(text=st.text(st.sampled_from(ALPHABET), max_size=7), data=st.data())
@settings(max_examples=25, deadline=None)
def test_within_a_limit(watch: Any, text: str, data: st.DataObject) -> None:
    """G-A7: what another watch holds back is not cut into either, and a cut makes no match."""
    limit = data.draw(st.integers(0, len(text)))
    point = watch.release(text, 0, limit)
    assert 0 <= point <= limit
    assert not spoilt(watch, text, point)


OTHERS = [
    "a|ab",
    "a+",
    "a+b",
    "ab*a",
    "[ab]+c",
    r"\ba+\b",
    "a+?b",
    "(ab)+",
    "a[^b]*b",
    "(?i)A+",
    "a|b+c",
]


@pytest.mark.parametrize("source", OTHERS)
@given(text=st.text(st.sampled_from("abc "), max_size=5))
@settings(max_examples=12, deadline=None)
def test_no_more_than_may_leave(source: str, text: str) -> None:
    """Also without a longest match, and with branches that are never taken."""
    watch = Pattern(source)
    assert watch.release(text, 0, len(text)) <= furthest(watch, text)
