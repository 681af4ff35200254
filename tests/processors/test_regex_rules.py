"""Rules of the regex filter: what is accepted, how matches become regions, what replaces them."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession.errors import ConfigurationError, InputError
from procession.processors import RegexFilterProcessor, RegexRule


def redacted(text: str, *rules: Any, **options: Any) -> str:
    """The text as the filter leaves it."""
    guard = RegexFilterProcessor(rules=rules, strategy="redact", **options)
    return guard.redacted_text(text)


# ── construction ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "nothing to look for"),
        ({"rules": []}, "nothing to look for"),
        ({"presets": ["pij"]}, "did you mean 'pii'"),
        ({"presets": "pii"}, "a list"),
        ({"presets": ["pii"], "strategy": "filter"}, "strategy must be 'block' or"),
        ({"presets": ["pii"], "strategy": "redcat"}, "did you mean 'redact'"),
        ({"presets": ["pii"], "phase": "both"}, "phase must be"),
        ({"presets": ["pii"], "include_redacted_values": 1}, "include_redacted_values"),
        ({"presets": ["pii"], "stream_carryover_size": -1}, "stream_carryover_size"),
        ({"presets": ["pii"], "stream_carryover_size": True}, "stream_carryover_size"),
        ({"rules": "secret"}, "rules must be a list"),
        ({"rules": ["secret"]}, "not str"),
        ({"rules": [{"name": "n"}]}, "needs a pattern"),
        ({"rules": [{"name": "n", "pattern_": "x"}]}, "did you mean 'pattern'"),
        ({"rules": [RegexRule("", "x")]}, "name"),
        ({"rules": [RegexRule("n", "")]}, "rule 'n': pattern"),
        ({"rules": [RegexRule("n", "x", replacement=3)]}, "rule 'n': replacement"),  # pyright: ignore[reportArgumentType]
        ({"rules": [RegexRule("n", "x", flags=re.VERBOSE)]}, "re.VERBOSE"),
        ({"rules": [RegexRule("n", "x", flags=re.LOCALE)]}, "flags"),
    ],
)
def test_options_are_checked(options: dict[str, Any], words: str) -> None:
    """B-230, B-014: what cannot work fails when it is built, with the option's name."""
    with pytest.raises(ValueError, match=re.escape(words)):
        RegexFilterProcessor(**options)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"(?=a)b", "looks around"),
        (r"(?<!a)b", "looks around"),
        (r"(['\"]).*\1", "refers back"),
        (r"(?P<q>a)(?P=q)", "refers back"),
        (r"(?>ab)c", "ordinary repetition"),
        (r"a++b", "ordinary repetition"),
        (r"(a)?(?(1)b|c)", "no such group"),
        (r"(a", "not a pattern"),
        ("\ud800", "half a character"),
        (r"a*", "empty text"),
    ],
)
def test_patterns_that_linear_time_cannot_do(pattern: str, words: str) -> None:
    """They fail with the name of the rule, and with what to write instead."""
    with pytest.raises(InputError, match=f"rule 'mine'.*{words}"):
        RegexFilterProcessor(rules=[RegexRule("mine", pattern)])


@pytest.mark.parametrize("replacement", [r"\2", r"\g<other>", "$2", "$<other>", "$9"])
def test_a_replacement_refers_to_groups_that_exist(replacement: str) -> None:
    """B-232: a reference to nothing fails at construction."""
    with pytest.raises(InputError, match="rule 'mine': its replacement refers to group"):
        RegexFilterProcessor(rules=[RegexRule("mine", "a(b)", replacement)])


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing package is told with the extra that brings it."""
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(ConfigurationError, match=r"procession\[guards\]"):
        RegexFilterProcessor(presets=["pii"])


# ── matching ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("replacement", "expected"),
    [
        (None, "x [REDACTED] y"),
        ("", "x  y"),
        (r"<\1>", "x <12> y"),
        (r"<\g<tail>>", "x <ab> y"),
        ("<$1-$<tail>>", "x <12-ab> y"),
        ("<$&>", "x <id-12ab> y"),
        (r"<\g<0>>", "x <id-12ab> y"),
        ("<$$1>", "x <$1> y"),
        (r"<\\1>", r"x <\1> y"),
        ("<$>", "x <$> y"),
    ],
)
def test_replacements(replacement: str | None, expected: str) -> None:
    """B-232: the default, and references in Python's spelling and in JavaScript's."""
    rule = RegexRule("id", r"id-(\d+)(?P<tail>[a-z]+)", replacement)
    assert redacted("x id-12ab y", rule) == expected


def test_a_group_that_took_no_part_is_nothing() -> None:
    """A reference to a group that did not match gives no text."""
    assert redacted("a b", RegexRule("r", "a(x)?", r"[\1]")) == "[] b"


def test_all_matches_are_replaced() -> None:
    """B-232: there is no flag for it."""
    assert redacted("no no", {"name": "n", "pattern": "no"}) == "[REDACTED] [REDACTED]"


def test_overlapping_matches_are_one_region() -> None:
    """B-233: the longest match says what replaces it, whatever the order of the rules."""
    short, long = RegexRule("short", "bcd", "[S]"), RegexRule("long", "defgh", "[L]")
    assert redacted("abcdefghi", short, long) == redacted("abcdefghi", long, short) == "a[L]i"


def test_touching_matches_are_two_regions() -> None:
    """Matches that share no character are replaced one by one."""
    assert redacted("aabb", RegexRule("a", "a+", "A"), RegexRule("b", "b+", "B")) == "AB"


def test_groups_do_not_bring_back_what_another_rule_removes() -> None:
    """B-232: within a region of several matches there are no groups."""
    rules = [RegexRule("id", r"id (\d+)", r"[id \1]"), RegexRule("digits", r"\d{4}", "[D]")]
    assert redacted("id 1234", *rules) == "[REDACTED]"
    assert redacted("id 123", *rules) == "[id 123]"


def test_a_compiled_pattern_brings_its_flags() -> None:
    """A `re.Pattern` is taken with its text and flags."""
    made = re.compile(r"^secret .*end\Z", re.IGNORECASE | re.DOTALL | re.MULTILINE)
    assert redacted("x\nSECRET a\nb END", RegexRule("r", made)) == "x\n[REDACTED]"
    assert redacted("x\nsecret a\nb end", RegexRule("r", "secret.*end")) == "x\nsecret a\nb end"


def test_escapes_as_python_spells_them() -> None:
    r"""`\uXXXX`, `\UXXXXXXXX` and `\Z` are read as in `re`; `\\u` is no escape."""
    assert redacted("é 😀", RegexRule("r", r"[\u00e9]|\U0001f600\Z")) == "[REDACTED] [REDACTED]"
    assert redacted(r"\u0041 A", RegexRule("r", r"\\u0041")) == "[REDACTED] A"


def test_positions_count_characters() -> None:
    """Characters of several bytes, and halves of characters, shift nothing."""
    rule = RegexRule("digits", r"\d+", "#")
    assert redacted("é😀12漢\ud80034\udc00", rule) == "é😀#漢\ud800#\udc00"


@given(st.text(st.sampled_from("ab1é漢😀\x00\ud800 "), max_size=30))
def test_matches_are_those_of_python(text: str) -> None:
    """Where both engines mean the same, they find the same, in any text."""
    pattern = r"a[b1é]+|[😀漢]{2}|1 ?1"
    assert redacted(text, RegexRule("r", pattern, "#")) == re.sub(pattern, "#", text)


def test_hostile_patterns_and_texts_take_linear_time() -> None:
    """What a backtracking engine never comes to the end of ends."""
    guard = RegexFilterProcessor(rules=[RegexRule("r", r"(a+)+$"), RegexRule("s", r"(x|x)*y")])
    assert guard.find("a" * 50_000 + "!" + "x" * 50_000) == []


# ── presets ────────────────────────────────────────────────────────────────────────────────────

KEY = "abcdefghijklmnop" * 3  # no key of anyone: put together here so that scanners stay calm


@pytest.mark.parametrize(
    ("preset", "text", "expected"),
    [
        ("pii", "Mail joe@example.com.", "Mail [EMAIL]."),
        ("pii", "<joe.q+tag@mail.example.co.uk>", "<[EMAIL]>"),
        ("pii", "请联系joe@example.com谢谢", "请联系[EMAIL]谢谢"),
        ("pii", "jörg@exämple.org", "[EMAIL]"),
        ("pii", "a@b and @joe", "a@b and @joe"),
        ("pii", "Call 555-867-5309!", "Call [PHONE]!"),
        ("pii", "(555) 867-5309", "[PHONE]"),
        ("pii", "1-800-555-0199", "[PHONE]"),
        ("pii", "+49 171 2345678", "[PHONE]"),
        ("pii", "+442079460958", "[PHONE]"),
        ("pii", "020 7946 0958", "[PHONE]"),
        ("pii", "01 23 45 67 89", "[PHONE]"),
        ("pii", "on 01.02.2024 10:30 or 2024-01-02", "on 01.02.2024 10:30 or 2024-01-02"),
        ("pii", "192.168.100.200 and 3.14159265", "192.168.100.200 and 3.14159265"),
        ("pii", "SSN 123-45-6789", "SSN [SSN]"),
        ("pii", "SSN 123 45 6789", "SSN [SSN]"),
        ("pii", "000-45-6789 666-45-6789 900-45-6789", "000-45-6789 666-45-6789 900-45-6789"),
        ("pii", "123-00-6789 123-45-0000", "123-00-6789 123-45-0000"),
        ("pii", "4111111111111111", "[CREDIT_CARD]"),
        ("pii", "5500 0000 0000 0004", "[CREDIT_CARD]"),
        ("pii", "3400-000000-00009", "[CREDIT_CARD]"),
        ("secrets", f"use sk-{KEY} now", "use [API_KEY] now"),
        ("secrets", f"ghp_{KEY}", "[API_KEY]"),
        ("secrets", f'"api_key": "{KEY}"', '"[API_KEY]"'),
        ("secrets", "Authorization: Bearer abcdef.123456==", "Authorization: [BEARER_TOKEN]"),
        ("secrets", "the bearer arrived", "the bearer arrived"),
        ("secrets", "key AKIAIOSFODNN7EXAMPLE here", "key [AWS_KEY] here"),
        ("urls", "see https://example.com/a?b=c#d.", "see [URL]."),
        ("urls", "(HTTP://EXAMPLE.COM)", "([URL])"),
        ("urls", "ftp://example.com", "ftp://example.com"),
    ],
)
def test_presets(preset: Any, text: str, expected: str) -> None:
    """B-231: the rules of a preset, and their replacements."""
    assert redacted(text, presets=[preset]) == expected


CARDS = ("4111111111111111", "5500005555555559")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" ".join(CARDS), "[CREDIT_CARD] [CREDIT_CARD]"),
        (",".join(CARDS), "[CREDIT_CARD],[CREDIT_CARD]"),
        ("_".join(CARDS), "[CREDIT_CARD]"),
        ("".join(CARDS), "[PHONE]"),
        ("4111 1111 1111 1111 5500 0055 5555 5559", "[CREDIT_CARD] [CREDIT_CARD]"),
        (f"card_number_{CARDS[0]}", "card_number[CREDIT_CARD]"),
        (f"x{CARDS[0]}", f"x{CARDS[0]}"),
        ("212-555-0123 212-555-0124", "[PHONE] [PHONE]"),
        ("+49 30 901820 4111111111111111", "[PHONE] [CREDIT_CARD]"),
        ("123-45-6789 234-56-7890", "[SSN] [SSN]"),
        ("1234567890123456", "[PHONE]"),
        ("1" * 41, "1" * 41),
        ("DE89370400440532013000", "[IBAN]"),
        ("to DE89 3704 0044 0532 0130 00.", "to [IBAN]."),
        ("FR14 2004 1010 0505 0001 3M02 606", "[IBAN]"),
        ("GB82 WEST 1234 5698 7654 32", "[IBAN]"),
        ("DK5000400440116243", "[IBAN]"),
        ("AB12 3456 7890, UK20 GOOD NEWS", "AB12 3456 7890, UK20 GOOD NEWS"),
    ],
)
def test_numbers_are_taken_whole_or_not_at_all(text: str, expected: str) -> None:
    """B-231, B-233: of no number a part is left, whatever stands beside it."""
    assert redacted(text, presets=["pii"]) == expected


def test_presets_and_rules_add_up() -> None:
    """B-230: what is found is what any of them finds."""
    found = redacted("joe@example.com id-1", RegexRule("id", r"id-\d"), presets=["pii", "urls"])
    assert found == "[EMAIL] [REDACTED]"
