# ruff: noqa: RUF001  # look-alikes are what is tested
"""Law 3 for local detection: pieces show what the whole shows (G-A, B-132 to B-134)."""

from collections.abc import Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from procession.detection import LocalDetector

DETECTOR = LocalDetector()

VALUES = [
    "joe@example.com",
    "john(at)example[dot]com",
    "123-45-6789",
    "SSN 123456789",
    "https://example.com/x,y;z?a=1",
    "postgres://user:pass@db.example.com/x",
    "4111111111111111",
    "4111 1111 1111 1111",
    "4111-1111-1111-1111",
    "4111  1111  1111  1111",
    "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
    "4111 1111 1111 1111 5500 0000 0000 0004 ",
    "DE89 3704 0044 0532 0130 00",
    "GB29 NWBK 6016 1331 9268 19",
    "gb29NWBK60161331926819",
    "+49 (0)30 901820",
    "0033 1 42 68 53 00",
    "(415) 555-2671",
    "call 7163023345",
    "13812345678",
    "10.0.0.1",
    "2001:db8::8a2e:370:7334",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
    "550e8400-e29b-41d4-a716-446655440000",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE abc\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----",
    "AKIAIOSFODNN7EXAMPLE",
    "api_key = 'abcd1234efgh5678'",
    "password: hunter2hunter2",
    "Bearer abcdefgh12345678ijkl",
    "sk-ant-api03-abcdefghijklmnop123456",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc-def_ghi",
    "AB 12 34 56 C",
    "2 94 03 75 120 005 91",
    "1 85 05 2A 006 084 35",
    "36 574 261 809",
    "54362315 K",
    "971013 - 9019902",
    "390.533.447-05",
    "2341 2341 2346",
    "12,123-45-6789,4111111111111111,F",
    "4111_1111_1111_1111",
    "%B4111111111111111^DOE/JOHN^2712101",
    "4111 1111\n1111 1111",
    "4111\r\n1111 1111 1111",
    "3782 822463 \n 10005",
    "**4111** **1111** 1111 __1111__",
    "4111 / 1111 / 1111 / 1111",
    "**+49** 30\n**90182000**",
    "_AB 12 34 56 C_",
    "_GB29 NWBK 6016 1331 9268 19_",
    "joe&#64;example.com",
    "joe%40example.com",
    "ＪＯＥ＠ｅｘａｍｐｌｅ．ｃｏｍ",
    "４１１１\u200b１１１１ 1111 1111",
]
BETWEEN = [
    *(
        "",
        " ",
        "  ",
        ", ",
        ". ",
        "\n",
        "\r\n",
        " \n",
        "-",
        " - ",
        "/",
        " / ",
        ",",
        "_",
        "**",
        " **",
        "** ",
        "(",
        "\t",
        "世",
        "\u200b",
        "\u202e",
        "\ud800",
    ),
    *(
        "1",
        "12 ",
        "1 2 3 4 ",
        "1234\n",
        "+1 ",
        "+",
        "AB ",
        "GB29 ",
        "order ",
        "call ",
        "hello ",
        "Hello, ",
        "é",
        "а",
    ),
    *("😀", "\u200b" * 70, "x" * 300, "1" * 40, "a.b-c_d+" * 20, "word word word ", "5 " * 60),
]
texts = st.lists(st.sampled_from(VALUES) | st.sampled_from(BETWEEN), min_size=1, max_size=12).map(
    "".join
)
borders = st.lists(st.integers(0, 4000), max_size=12)

Found = list[tuple[str, int, int, float]]


def in_pieces(text: str, ends: Iterable[int]) -> tuple[Found, list[int]]:
    """What is found when the text comes in pieces, and how far it was let go each time."""
    found: Found = []
    places = [0]
    for end in [*ends, len(text)]:
        start = places[-1]
        place = DETECTOR.release(text[:end], start, end) if end < len(text) else end
        assert start <= place <= end
        # A hook sees what is let go, and a little of what was let go before it.
        base = max(0, start - DETECTOR.look_behind)
        hits = DETECTOR.find(text[base:place], start - base)
        found += [(hit.type, hit.start + base, hit.end + base, hit.confidence) for hit in hits]
        places.append(place)
    return found, places


def whole(text: str) -> Found:
    """What is found in the whole."""
    return [(hit.type, hit.start, hit.end, hit.confidence) for hit in DETECTOR.find(text)]


def check(text: str, ends: Iterable[int], expected: Found) -> None:
    """The same finds, and no piece ends within one."""
    found, places = in_pieces(text, ends)
    assert found == expected
    assert not [hit for hit in expected for place in places if hit[1] < place < hit[2]]


@settings(deadline=None)
@given(texts, borders)
@example("42 4111 1111 1111 1111 ", [1])
def test_any_cutting_finds_the_same(text: str, places: list[int]) -> None:
    """G-A."""
    check(text, sorted(place % (len(text) + 1) for place in places), whole(text))


@settings(deadline=None, max_examples=50)
@given(texts)
def test_single_characters_find_the_same(text: str) -> None:
    """G-A: the finest cutting."""
    text = text[:300]
    check(text, range(1, len(text)), whole(text))


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_never_cut(value: str) -> None:
    """G-A, B-134: one cut, at each place of each value; and each value is one."""
    text = f"so {value} it"
    expected = whole(text)
    assert expected
    for end in range(1, len(text)):
        check(text, [end], expected)


@pytest.mark.parametrize("value", VALUES)
def test_no_limit_leads_into_a_value(value: str) -> None:
    """A7: another watch may ask for any place below."""
    text = f"so {value} it"
    for limit in range(len(text) + 1):
        place = DETECTOR.release(text, 0, limit)
        assert place <= limit
        assert not [hit for hit in whole(text) if hit[1] < place < hit[2]]


@pytest.mark.parametrize("distance", range(60))
def test_a_word_is_seen_from_the_next_piece(distance: int) -> None:
    """What stands in `look_behind` is all that speaks for a value."""
    ahead = "SSN " + "so is it to be " * 4
    text = f"{ahead[: distance + 4].rstrip()} 123456789"
    check(text, [text.index("1")], whole(text))


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(VALUES), st.sampled_from(VALUES), st.sampled_from(BETWEEN))
def test_the_worst_cuts_find_the_same(first: str, second: str, between: str) -> None:
    """G-A: one cut, at each place of two values."""
    text = f"so {first}{between}{second} it"
    expected = whole(text)
    for end in range(1, len(text)):
        check(text, [end], expected)


@settings(deadline=None)
@given(texts, st.integers(0, 4000), st.integers(0, 4000))
def test_another_watch_may_want_to_hold_back_more(text: str, end: int, limit: int) -> None:
    """A place below `limit` is as good as one that nobody limited (G-A, A7)."""
    end = end % (len(text) + 1)
    limit = limit % (end + 1)
    place = DETECTOR.release(text[:end], 0, limit)
    assert 0 <= place <= limit
    # Watches agree when each of them names the place it was given.
    assert DETECTOR.release(text[:end], 0, place) == place
    base = max(0, place - DETECTOR.look_behind)
    rest = DETECTOR.find(text[base:], place - base)
    expected = whole(text)
    ahead = [(hit.type, hit.start, hit.end, hit.confidence) for hit in DETECTOR.find(text[:place])]
    behind = [(hit.type, hit.start + base, hit.end + base, hit.confidence) for hit in rest]
    assert ahead + behind == expected


def let_go(text: str) -> str:
    """What of a text leaves at once."""
    return text[: DETECTOR.release(text, 0, len(text))]


def test_what_can_be_no_value_leaves_at_once() -> None:
    """G-A: latency is bounded by what a value may still become."""
    for text in (
        "Hello ",
        "a well-known word, (so to speak): ",
        "Así es. ",
        "Слово ",
        "世界",
        "हिन्दी",
    ):
        assert let_go(text) == text
    assert let_go("In 2024 people") == "In 2024 "
    assert let_go("mail joe@exam") == "mail "
    assert let_go("card 4111 1111 ") == "card "
    assert let_go("card 4111 1111 1111 1112 is wrong. ") == "card 4111 1111 1111 1112 is wrong. "
    assert let_go("IBAN DE89 3704 ") == "IBAN "
    assert let_go("x -----BEGIN RSA PRIV") == "x "
