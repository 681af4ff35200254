# ruff: noqa: RUF001  # look-alikes are what is tested
"""Values in disguise are found, and no text makes detection slow or holds it back for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession.detection import LocalDetector
from procession.detection.folding import View, fold, view

DETECTOR = LocalDetector()

CARD = "4111111111111111"
HIDDEN = [
    "\u200b",
    "\u200d",
    "\u2060",
    "\ufeff",
    "\xad",
    "\u202e",
    "\u2066",
    "\ufe0f",
    "\U000e0041",
    "\x00",
    "\u0301",
]


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize(
    ("type_id", "value"),
    [
        ("credit-card", CARD),
        ("email", "joe@example.com"),
        ("ssn", "123-45-6789"),
        ("aws-key", "AKIAIOSFODNN7EXAMPLE"),
        ("iban", "DE89370400440532013000"),
    ],
)
def test_characters_that_show_nothing_hide_nothing(type_id: str, value: str, hidden: str) -> None:
    """Zero width, bidi, soft hyphens, tags, controls: between all characters of a value."""
    disguised = hidden.join(value)
    text = f"so {disguised} it"
    [found] = DETECTOR.find(text)
    assert (found.type, found.value) == (type_id, disguised)


@pytest.mark.parametrize(
    ("type_id", "text"),
    [
        ("credit-card", "４１１１　１１１１　１１１１　１１１１"),
        ("credit-card", "٤١١١١١١١١١١١١١١١"),
        ("credit-card", "४१११११११११११११११"),
        ("credit-card", "𝟒𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏"),
        ("credit-card", "4️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1"),
        ("credit-card", "4111\xa01111\u202f1111\u20031111"),
        ("credit-card", "4111\u20111111\u20131111\u22121111"),
        ("credit-card", "4111·1111·1111·1111"),
        ("email", "ｊｏｅ＠ｅｘａｍｐｌｅ．ｃｏｍ"),
        ("email", "joe@ехаmрlе.соm"),  # Cyrillic look-alikes
        ("api-key", "sk-аnt-api03-Zq3xW9vT7mK2pL5nR8sJ4hG6"),
        ("aws-key", "АKIAIOSFODNN7EXAMPLE"),
        ("ip-address", "１０.０.０.１"),
    ],
)
def test_other_forms_of_digits_and_letters_are_read(type_id: str, text: str) -> None:
    """Full width, other scripts' digits, mathematical letters, keycaps, look-alikes."""
    [found] = DETECTOR.find(f"so {text} it")
    assert (found.type, found.value) == (type_id, text)


def test_a_flood_of_hidden_characters_ends_a_value() -> None:
    """So what may have to be held back is bounded."""
    assert DETECTOR.find("4111" + "\u200b" * 70 + "111111111111") == []
    assert DETECTOR.find("4111" + "\u200b" * 60 + "111111111111")


letters = st.text(st.sampled_from("ab1 ４é\u200b\u202e世😀\ud800\x00а\u0301\n"), max_size=40)


@given(letters, letters)
def test_folding_knows_no_neighbours(first: str, second: str) -> None:
    """Cut anywhere, the folded pieces are the folded whole."""
    assert fold(first + second) == fold(first) + fold(second)


@given(letters)
def test_offsets_lead_back(text: str) -> None:
    """Each folded character stands where its original does."""
    seen: View = view(text)
    origins = [seen.origin(index) for index in range(len(seen.text))]
    assert origins == sorted(set(origins))
    assert [fold(text[origin]) for origin in origins] == list(seen.text)
    assert all(seen.folded(origin) == index for index, origin in enumerate(origins))


UNITS = [
    *(
        "1",
        "a",
        "A",
        "1 ",
        "12-",
        "(",
        "[",
        "{[(",
        "\u200b",
        "\u202e",
        "\ud800",
        "😀",
        "👨\u200d👩\u200d👧",
        "é",
    ),
    *(
        "а",
        "ا",
        "@",
        "a@",
        "a@b.",
        "eyJ",
        "https://",
        "://a:b@",
        "+1 ",
        "00",
        "sk-",
        "a=",
        "a:",
        "1.",
        "::",
    ),
    *(
        "GB29 ",
        "AB ",
        "4111 ",
        "4111 1111 1111 1111 ",
        "\u200b1",
        "１",
        "x,",
        '"',
        "1/",
        "(at)",
        " ",
        "\n",
    ),
    *(
        "-----BEGIN ",
        "Bearer ",
        "api_key=",
        "token: a1b2c3d4e5 ",
        "M" * 25 + ".",
        "-----BEGIN PRIVATE KEY-----",
    ),
]


@pytest.mark.parametrize("unit", UNITS)
def test_long_runs_are_held_back_within_bounds(unit: str) -> None:
    """Whatever repeats, the held text stays short, and each character is looked at a bounded
    number of times (law 7): twice as long a text is twice the work."""
    longest, seen = work(unit * (12_000 // len(unit)))
    limit = 32_800 if unit.startswith("-----BEGIN P") else 5_000
    assert longest <= limit
    assert seen <= 12_000 // 40 * (longest + 40 + DETECTOR.look_behind)


def work(text: str, size: int = 40) -> tuple[int, int]:
    """The longest text that was held back, and how many characters were shown in all."""
    held, before = "", ""
    longest = seen = 0
    for at in range(0, len(text), size):
        shown = before + held + text[at : at + size]
        start = len(before)
        place = DETECTOR.release(shown, start, len(shown))
        DETECTOR.find(shown, start, place)
        before, held = shown[max(0, place - DETECTOR.look_behind) : place], shown[place:]
        longest, seen = max(longest, len(held)), seen + len(shown)
    return longest, seen


@pytest.mark.parametrize("unit", UNITS)
def test_megabytes_at_once_are_no_trouble(unit: str) -> None:
    """Nothing here is worse than linear, or this would not end."""
    text = unit * (100_000 // len(unit))
    DETECTOR.find(text)
    DETECTOR.release(text, 0, len(text))


def test_a_value_behind_a_long_run_is_found() -> None:
    """The long run is let go; what follows it is not lost."""
    for run in ("1" * 5_000 + " ", "a" * 5_000 + ",", "12 " * 2_000 + "x ", "[" * 5_000 + " "):
        assert [hit.type for hit in DETECTOR.find(f"{run}joe@example.com")] == ["email"]


def test_a_card_is_found_anywhere_in_a_table_of_numbers() -> None:
    """A place where the table is cut is no place to hide."""
    for before in range(40, 80):
        text = "07 " * before + "4111 1111 1111 1111 " + "07 " * 60
        assert "credit-card" in [hit.type for hit in DETECTOR.find(text)]


@pytest.mark.parametrize(
    ("type_id", "value"),
    [
        ("jwt", f"eyJhbGciOiJIUzI1NiJ9.{'eyJzdWIiOiIx' * 200}.{'Zq3xW9vT' * 5}"),
        ("url", f"https://example.com/?q={'a,b;c=' * 300}z"),
        (
            "private-key",
            "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQ+/ab\n" * 900 + "-----END PRIVATE KEY-----",
        ),
    ],
)
def test_long_values_are_found_whole(type_id: str, value: str) -> None:
    """Tokens, URLs and keys of some thousand characters, in small pieces too."""
    text = f"so {value} it"
    [found] = DETECTOR.find(text)
    assert (found.type, found.value) == (type_id, value)
    for end in range(50, len(value), 97):
        assert DETECTOR.release(text[:end], 0, end) == 3
