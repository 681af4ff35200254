"""Framing: the events are those of the whole text, however it is cut (G-A9)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession.models.sse import EventReader

VALUES = st.text(st.sampled_from("aé😀 :\u2028{}data"), max_size=8)
ENDINGS = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """An event text, and the data of its events."""
    text, expected = draw(st.sampled_from(["", "\ufeff"])), []
    for values in draw(st.lists(st.lists(VALUES, min_size=1, max_size=3), max_size=6)):
        end = draw(ENDINGS)
        lines = []
        for value in values:
            lines += draw(st.sampled_from([[], [": a comment"], ["event: x"], ["id:7"]]))
            # A value that begins with a space needs the one that is taken off.
            space = " " if value.startswith(" ") else draw(st.sampled_from(["", " "]))
            lines.append(f"data:{space}{value}")
        text += end.join(lines) + end + end * draw(st.integers(1, 2))
        expected.append("\n".join(values).encode())
    return text.encode(), expected


def read_in(pieces: list[bytes]) -> list[bytes]:
    reader = EventReader()
    found = [data for piece in pieces for data in reader.feed(piece)]
    return found + reader.finish()


def cut(text: bytes, places: list[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(borders)]


@given(streams())
def test_the_whole_text_gives_its_events(stream: tuple[bytes, list[bytes]]) -> None:
    text, expected = stream
    assert read_in([text]) == expected


@given(streams())
def test_single_bytes_give_the_same_events(stream: tuple[bytes, list[bytes]]) -> None:
    text, expected = stream
    assert read_in([text[i : i + 1] for i in range(len(text))]) == expected


@given(streams(), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_cutting_gives_the_same_events(
    stream: tuple[bytes, list[bytes]], places: list[int]
) -> None:
    text, expected = stream
    assert read_in(cut(text, places)) == expected


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_any_cutting_of_any_bytes_gives_the_same(text: bytes, places: list[int]) -> None:
    assert read_in(cut(text, places)) == read_in([text])


KNOWN = {
    b"data: a\n\n": [b"a"],
    b"data: b\ndata: c\n\n": [b"b\nc"],
    b"event: x\ndata: d\n\n": [b"d"],
    b"event: x\ndata: e\ndata: f\n\n": [b"e\nf"],
    b"data: event: x\ndata: g\n\n": [b"event: x\ng"],
    b"event: x\n\n": [],
    b": x\n\n": [],
    b"\n": [],
}


@given(
    st.lists(st.sampled_from(sorted(KNOWN))),
    st.lists(st.integers(0, 200), max_size=5),
)
def test_the_short_way_for_common_events_agrees_with_the_long_one(
    events: list[bytes], places: list[int]
) -> None:
    text = b"".join(events)
    assert read_in(cut(text, places)) == [d for event in events for d in KNOWN[event]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"data: unfinished", [b"unfinished"]),
        (b"data: a\n\ndata: b\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\r", [b"a", b"b"]),
        (b"data\n\n", [b""]),
        (b"data:  two\n\n", [b" two"]),
        (b"database: no\n\n", []),
        (b"\xef\xbb\xbfdata: marked\n\n", [b"marked"]),
        (b"\xef\xbb", []),
        (b"", []),
    ],
)
def test_borders(text: bytes, expected: list[bytes]) -> None:
    assert read_in([text]) == expected
    assert read_in([text[i : i + 1] for i in range(len(text))]) == expected


def test_an_event_of_a_megabyte_in_small_reads_is_read_in_linear_time() -> None:
    reader = EventReader()
    found: list[bytes] = []
    text = b"data: " + b"x" * 1_000_000 + b"\n\n"
    for i in range(0, len(text), 16):
        found += reader.feed(text[i : i + 16])
    assert found == [b"x" * 1_000_000]
