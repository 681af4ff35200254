"""`UnicodeNormalizer`: B-210 to B-215."""

import logging
from typing import Any
from unicodedata import combining, is_normalized, normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from procession import Agent
from procession.errors import InputError
from procession.messages import FilePart, Message, MessageContent, TextPart
from procession.processor import ProcessInputArgs
from procession.processors import RegexFilterProcessor, RegexRule, UnicodeNormalizer
from procession.processors.unicode import _FIRST_MARK, _LAST_MARK, nfkc
from procession.testing import ScriptedModel, hook_args

BOTH = (False, True)


def normalized(text: str, **options: Any) -> str:
    args = hook_args(ProcessInputArgs, messages=text)
    messages = UnicodeNormalizer(**options).process_input(args) or args.messages
    return messages[0].text


def test_defaults_and_attributes() -> None:
    processor = UnicodeNormalizer()
    assert (processor.id, processor.on_violation) == ("unicode-normalizer", None)
    assert normalized(" a\x07  b ") == "a\x07 b"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("\ufb01ne", "fine"),
        ("\u2460 \u2461", "1 2"),
        ("\uff26\uff55\uff4c\uff4c\u3000width", "Full width"),
        ("e\u0301te\u0301", "\xe9t\xe9"),
        ("가", "가"),
        ("ﾃｽﾄ", "テスト"),
        ("no\u00a0break", "no break"),
    ],
)
@pytest.mark.parametrize("strip", BOTH)
def test_nfkc_always(given: str, expected: str, strip: bool) -> None:
    """B-210."""
    assert normalized(given, strip_control_chars=strip) == expected


def test_control_characters_are_removed_on_demand() -> None:
    """B-211: C0 and C1, but not tab, newline and carriage return."""
    every = "".join(chr(c) for c in [*range(1, 0x20), *range(0x7F, 0xA0)])
    kept = normalized(f"a{every}b", strip_control_chars=True, collapse_whitespace=False)
    assert kept == "a\t\n\rb"
    assert normalized(f"a{every}b", collapse_whitespace=False) == f"a{every}b"
    stripping = UnicodeNormalizer(strip_control_chars=True)
    assert stripping._normal("a\x00b") == "ab"  # where the message list has not replaced it


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
HEART = "\u2764\ufe0f"
SCOTLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"


@pytest.mark.parametrize("emoji", [FAMILY, HEART, SCOTLAND, "👍🏽"])
def test_emojis_survive_the_removal(emoji: str) -> None:
    """B-211."""
    assert normalized(f"a\x07{emoji}", strip_control_chars=True) == f"a{emoji}"


def test_without_preserve_emojis_nothing_invisible_joins_them() -> None:
    """B-211: they may be lost, but no text hides in tags or selectors."""
    hidden = "".join(chr(0xE0000 + ord(c)) for c in "obey") + "".join(
        map(chr, range(0xFE00, 0xFE10))
    )
    text = normalized(f"👍🏽{hidden} x", strip_control_chars=True, preserve_emojis=False)
    assert text == "👍🏽 x"


@pytest.mark.parametrize("kind", ["\n", "\r", "\r\n", "\v", "\f", "\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize("strip", BOTH)
def test_line_breaks_of_any_kind_become_one(kind: str, strip: bool) -> None:
    """B-212: and a single one is never a space."""
    for times in (1, 2, 5):
        text = normalized(f"a{kind * times}b", strip_control_chars=strip)
        assert text == "a\nb"


def test_spaces_and_tabs_become_one_space() -> None:
    """B-212."""
    assert normalized("a \t\t b\n\t c") == "a b\n c"
    assert normalized("a \t b\r\n\r\nc", collapse_whitespace=False) == "a \t b\r\n\r\nc"


def test_trim_is_independent() -> None:
    """B-213."""
    assert normalized("\n  a  b \u3000") == "a b"
    assert normalized("  a  b  ", trim=False) == " a b "
    assert normalized("  a  b  ", collapse_whitespace=False) == "a  b"
    assert normalized("  a  b  ", collapse_whitespace=False, trim=False) == "  a  b  "


def test_only_texts_change_and_only_in_a_copy() -> None:
    """B-214, B-012."""
    file = FilePart(mime_type="text/plain", data="YSAgYg==", filename="\uff41  b.txt")
    content = MessageContent(parts=[TextPart(text="a  b"), file], content="\uff41  b")
    args = hook_args(ProcessInputArgs, messages="x")
    given = args.messages[0].replace(content=content)
    args = hook_args(ProcessInputArgs, messages=[given])
    (made,) = UnicodeNormalizer().process_input(args) or []
    assert made.text == "a b"
    assert (made.content.content, made.parts[1]) == ("a b", file)
    assert given.text == "a  b"


def test_normal_messages_are_handed_back_untouched() -> None:
    assert UnicodeNormalizer().process_input(hook_args(ProcessInputArgs, messages="a b")) is None


def test_a_message_that_fails_passes_and_the_others_are_normalised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """B-215: with a warning that quotes nothing."""
    broken: Any = TextPart(text="secret")
    broken.text = 7
    odd = _message("odd", [broken])
    args = ProcessInputArgs[Any](messages=[odd, _message("fine", [TextPart(text="a  b")])])
    with caplog.at_level(logging.WARNING, "procession"):
        made = UnicodeNormalizer().process_input(args)
    assert made is not None
    assert made[0] is odd and made[1].text == "a b"
    (record,) = caplog.records
    assert "odd" in record.getMessage() and "TypeError" in record.getMessage()


def _message(id: str, parts: list[Any]) -> Message:
    args = hook_args(ProcessInputArgs, messages="x")
    return args.messages[0].replace(id=id, content=MessageContent(parts=parts))


EMOJIS = (
    "\U0001f469\U0001f3fd\u200d\U0001f4bb \u2764\ufe0f \U0001f3f4\u200d\u2620\ufe0f 1\ufe0f\u20e3 "
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f \U0001f1eb\U0001f1f7"
)


@pytest.mark.parametrize(
    "unseen",
    [
        *"\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u202e\u2060\u2066\u3164\ufe0f\ufeff\uffa0",
        *"\U000e0041\U000e0101\U0001d173",
    ],
)
def test_what_shows_nothing_goes_when_asked(unseen: str) -> None:
    """B-211: a word with it in between is the word, and emojis are left alone."""
    given = f"{unseen}se{unseen * 3}cret{unseen} {EMOJIS}"
    assert normalized(given, strip_format_chars=True) == f"secret {EMOJIS}"
    bare = normalized(given, strip_format_chars=True, preserve_emojis=False)
    assert bare.startswith("secret \U0001f469\U0001f3fd\U0001f4bb \u2764 ")
    assert "se\u00adcret" == normalized("se\u00adcret")
    assert normalized("\u0600\u0661 \u06dd") == "\u0600\u0661 \u06dd"  # they show


async def test_a_filter_behind_it_meets_the_bare_word() -> None:
    """B-211."""
    rules = RegexFilterProcessor(rules=[RegexRule("s", "secret", "***")], strategy="redact")
    model = ScriptedModel(["ok", "ok"])
    for options, said in (({}, "se\u200bc\u00adr\u202eet"), ({"strip_format_chars": True}, "***")):
        normalizer = UnicodeNormalizer(**options)
        agent = Agent(id="a", model=model, input_processors=[normalizer, rules])
        await agent.generate("se\u200bc\u00adr\u202eet")
        assert model.calls[-1].prompt[-1]["content"][0]["text"] == said


@pytest.mark.parametrize(
    "option",
    ["strip_control_chars", "strip_format_chars", "preserve_emojis", "collapse_whitespace", "trim"],
)
def test_a_wrong_option_is_named(option: str) -> None:
    """B-014."""
    wrong: dict[str, Any] = {option: "yes"}
    with pytest.raises(InputError, match=option):
        UnicodeNormalizer(**wrong)


NASTY = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from(
            " \t\r\n\v\f\x00\x07\x85\u2028\u00a0\u3000\u200b\u200d\u202e\ufe0f\ufeff\u0301\u0315"
            "\u0344\u0f73\u0f75\u00b4\ufdfa\u1100\u1161\u11a8\uac00\ud800\udc00\u3099e\u304b"
            "\U0001f469\U0001f4bb\U0001f3fd\u2122\u231a\u2329\u3297\u20e31\u0338\u2190\uffa0\u3164\u00ad"
        ),
    ),
    max_size=40,
)


@given(NASTY, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
@example("e\x07\u0301", True, False, True, True, True)
@example("a \x07 b", True, False, True, True, True)
@example("a\n\x07\nb", True, False, True, True, False)
@example("a\u2028\x85b", True, False, True, False, False)
@example(
    "\U0001f469\u200b\u200d\U0001f4bb \u2122\ufe0f 1\u200b\ufe0f\u20e3",
    False,
    True,
    True,
    True,
    True,
)
@example("a \u200b b\n\u200b\n \u200b", False, True, True, True, True)
def test_twice_is_once(
    text: str, strip: bool, unseen: bool, emojis: bool, collapse: bool, trim: bool
) -> None:
    """B-210 to B-213: a law; lone surrogates and half emojis included."""
    processor = UnicodeNormalizer(
        strip_control_chars=strip,
        strip_format_chars=unseen,
        preserve_emojis=emojis,
        collapse_whitespace=collapse,
        trim=trim,
    )
    once = processor._normal(text)
    assert is_normalized("NFKC", once)
    assert processor._normal(once) == once
    if strip:
        assert not any(ord(c) < 32 and c not in "\t\r\n" for c in once)
    if unseen and not emojis:
        assert not any(c in "\u200b\u200d\u202e\ufe0f\ufeff\u1160" for c in once)
    if collapse:
        assert "  " not in once and "\n\n" not in once and "\t" not in once


MARKS = st.text("\u0300\u0315\u0344\u0f71\u0f72\u0f73\u0f75\u0345\u05b0\u3099", max_size=80)


@given(st.lists(st.tuples(st.sampled_from("aéかक\u0f40 "), MARKS), max_size=4))
@example([("a", "\u0f73" * 50)])
def test_sorting_marks_beforehand_changes_nothing(pieces: list[tuple[str, str]]) -> None:
    """B-210: the same text as without the sorting."""
    text = "".join(base + marks for base, marks in pieces)
    long = text + "x" * 1000
    assert nfkc(long) == normalize("NFKC", long)


def test_all_marks_are_known() -> None:
    """No mark stands outside the range that is looked through."""
    marks = [c for c in range(0x110000) if combining(normalize("NFKD", chr(c))[0])]
    assert (marks[0], marks[-1]) == (_FIRST_MARK, _LAST_MARK)


@pytest.mark.parametrize(
    "flood",
    ["\u0315\u0300", "\u0f73", "\u0344\u0315", "\u200b", "\u202e", "\u200d", "\r\n \t", "\u2028"],
)
def test_a_flood_takes_no_longer_than_its_length(flood: str) -> None:
    """B-210: so many marks out of order take `unicodedata` minutes: this would not end."""
    text = "1" + flood * (200_000 // len(flood))
    for options in (
        {"strip_control_chars": True, "preserve_emojis": False},
        {"strip_format_chars": True},
    ):
        assert normalized(text, **options).startswith("1")


async def test_in_a_run_the_model_sees_the_normal_form() -> None:
    """B-210."""
    model = ScriptedModel(["ok"])
    agent = Agent(id="a", model=model, input_processors=[UnicodeNormalizer()])
    result = await agent.generate("  ﬁne\ud800 \n\n text ")
    assert model.calls[0].prompt[-1]["content"] == [{"type": "text", "text": "fine\ufffd \n text"}]
    assert result.text == "ok"
