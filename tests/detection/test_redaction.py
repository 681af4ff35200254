"""B-126: what is put in the place of a value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession.detection import (
    LOCAL_TYPES,
    METHODS,
    LocalDetector,
    Method,
    redacted,
    with_redactions,
)

DETECTOR = LocalDetector()


@pytest.mark.parametrize(
    ("type_id", "value", "masked"),
    [
        ("email", "bob@example.com", "b*b@*******.com"),
        ("email", "joe@mail.example.co.uk", "j*e@****.*******.**.uk"),
        ("email", "a@example.com", "*@*******.com"),
        ("email", "ab@example.com", "a*@*******.com"),
        ("phone", "+1 (415) 555-2671", "XXX-XXX-2671"),
        ("credit-card", "4111 1111 1111 1234", "**** **** **** 1234"),
        ("credit-card", "4111-1111-1111-1234", "****-****-****-1234"),
        ("ssn", "123-45-6789", "***-**-6789"),
        ("uuid", "550e8400-e29b-41d4-a716-446655440000", "********-****-****-****-************"),
        ("iban", "DE89370400440532013000", "DE****************3000"),
        ("ip-address", "10.0.0.1", "1******1"),
        ("api-key", "sk", "**"),
    ],
)
def test_masks_keep_a_little_of_the_form(type_id: str, value: str, masked: str) -> None:
    """B-126: mask with `preserve_format`."""
    assert redacted(type_id, value) == masked


def test_the_other_methods_say_nothing_of_the_value() -> None:
    """B-126: mask without `preserve_format`, hash, remove, placeholder."""
    assert redacted("email", "bob@example.com", preserve_format=False) == "********"
    assert redacted("email", "bob@example.com", "hash") == "[HASH:5ff860bf]"
    assert redacted("email", "bob@example.com", "remove") == ""
    assert redacted("credit-card", "4111111111111111", "placeholder") == "[CREDIT-CARD]"
    assert redacted("email", "\ud800@x.com", "hash").startswith("[HASH:")


def test_a_text_is_redacted_from_left_to_right() -> None:
    """B-126: `remove` leaves the spaces around the value."""
    text = "Mail joe@example.com now, SSN 123-45-6789."
    found = DETECTOR.find(text)
    assert with_redactions(text, found) == "Mail j*e@*******.com now, SSN ***-**-6789."
    assert with_redactions(text, found, "remove") == "Mail  now, SSN ."
    assert with_redactions(text, found, "placeholder") == "Mail [EMAIL] now, SSN [SSN]."


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("keep", [True, False])
@given(st.data())
def test_redacting_twice_changes_nothing(method: Method, keep: bool, data: st.DataObject) -> None:
    """B-125: for every type and method."""
    samples = [
        "joe@example.com",
        "call +1 415 555 2671",
        "4111 1111 1111 1111",
        "SSN: 123-45-6789",
        "550e8400-e29b-41d4-a716-446655440000",
        "DE89 3704 0044 0532 0130 00",
        "api_key=abcd1234efgh5678",
        "password: hunter2hunter2",
        "https://joe:pw@example.com/x",
        "Authorization: Bearer abcdefgh12345678ijkl",
        "10.0.0.1",
        "CPF 390.533.447-05",
    ]
    text = " and ".join(data.draw(st.lists(st.sampled_from(samples), min_size=1, max_size=4)))
    once = with_redactions(text, DETECTOR.find(text), method, preserve_format=keep)
    assert with_redactions(once, DETECTOR.find(once), method, preserve_format=keep) == once


@given(st.sampled_from(LOCAL_TYPES), st.text(min_size=1, max_size=30))
def test_every_type_can_be_masked(type_id: str, value: str) -> None:
    """Whatever the value is; a mask shows at most what B-126 says."""
    for method in METHODS:
        assert isinstance(redacted(type_id, value, method), str)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "text",
    [
        "4111111111111111,5500005555555559",
        "4111 1111 1111 1111/0033 1 42 68 53 00",
        "joe@example.com(415) 555-2671",
        "DE89370400440532013000:390.533.447-05:joe@example.com",
        "password: hunter2hunter2",
    ],
)
def test_what_was_redacted_shows_nothing_new(method: Method, text: str) -> None:
    """G-B: what a neighbour hides is found with it."""
    detector = LocalDetector()
    once = with_redactions(text, detector.find(text), method)
    assert detector.find(once) == []
