"""What is found in a text that was redacted before: at most what stands beside a replacement."""

from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from procession.detection import (
    METHODS,
    Detection,
    LocalDetector,
    Method,
    redacted,
    with_redactions,
)
from tests.detection.test_cutting import BETWEEN, VALUES

DETECTOR = LocalDetector()
PLACEHOLDERS = ["[EMAIL]", "[PHONE]", "[API-KEY]", "[HASH:5ff860bf]", "********", "XXX-XXX-2671"]
WORDS = [
    "password: ",
    "api_key=",
    "Bearer ",
    "tel ",
    "SSN ",
    "order ",
    "::1",
    "(at)",
    "\uff11",
    "=",
]
MOST_ROUNDS = 8
texts = st.lists(st.sampled_from([*VALUES, *BETWEEN, *PLACEHOLDERS, *WORDS]), max_size=10).map(
    "".join
)
ways = st.sampled_from([*((method, True) for method in METHODS), ("mask", False)])


class Redacted(NamedTuple):
    """A text after redaction, and where in it the replacements stand."""

    text: str
    places: list[tuple[int, int]]


def once(text: str, method: Method, keep: bool) -> Redacted:
    """The text with all that is found in it replaced."""
    found = DETECTOR.find(text)
    places: list[tuple[int, int]] = []
    shift = 0
    for one in found:
        made = redacted(one.type, one.value, method, preserve_format=keep)
        start = one.start + shift
        places.append((start, start + len(made)))
        shift += len(made) - len(one.value)
    return Redacted(with_redactions(text, found, method, preserve_format=keep), places)


def begins(text: str, found: Detection) -> int:
    """Where that begins which speaks for a find: words close before it, and its own token."""
    start = found.start
    while start and not text[start - 1].isspace():
        start -= 1
    return min(start, found.start - DETECTOR.look_behind)


@settings(deadline=None)
@given(texts, ways)
@example("sk-abcdefghijklmnopqrstuvwx10.0.0.1", ("mask", True))
@example("password: hunter2hunter2 390.533.447-05ab", ("remove", True))
def test_what_a_redaction_brings_about_stands_beside_it(
    text: str, way: tuple[Method, bool]
) -> None:
    """B-125: away from the replacements, a redacted text shows nothing new."""
    after = once(text, *way)
    for found in DETECTOR.find(after.text):
        first = begins(after.text, found)
        assert any(start <= found.end and first <= end for start, end in after.places)


@settings(deadline=None)
@given(texts, ways)
def test_redacting_comes_to_rest(text: str, way: tuple[Method, bool]) -> None:
    """B-125: what is redacted again and again is soon redacted for good."""
    for _ in range(MOST_ROUNDS):
        after = once(text, *way).text
        if after == text:
            return
        text = after
    raise AssertionError(text)


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("password: X1234567L345+1 415 555 2671.", ("placeholder", True)),
        ("api_key=www.example.com86 095 742 719", ("hash", True)),
        ("1.2.3.4 86 095 742 719", ("mask", False)),
        ("password: password: 00 49 30 901820", ("mask", True)),
        ("password: +49 30 901820+1 415 555 26711,", ("mask", True)),
        ("phone Bearer abcdefgh12345678ijklwww.example.com4111111111111111", ("hash", True)),
        ("Bearer abcdefgh12345678ijkl:ssn267110.0.0.112345678Z", ("placeholder", True)),
        ("4111 1111 1111 1111::1 and so on", ("mask", True)),
    ],
)
def test_what_a_value_hides_is_found_with_it(text: str, way: tuple[Method, bool]) -> None:
    """B-125: digits that a value had in it no longer speak against what stands behind them, and
    what stands for a value is none itself."""
    after = once(text, *way).text
    assert after != text
    assert once(after, *way).text == after
