"""`LanguageDetector`: verdicts, strategies, options (B-170 to B-176)."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from procession import Agent, ConfigurationError
from procession.processors import LanguageDetector
from procession.testing import ScriptedModel
from tests.processors.judging import (
    CODE,
    IMAGE,
    MIXED,
    Remembers,
    Seen,
    Told,
    judged_input,
    user,
)

TEXT = "Bonjour mon ami, comment vas-tu"
HELLO = "Hello my friend, how are you"


def speaks(code: Any, confidence: Any = 0.97, translation: str | None = None) -> str:
    """An answer of a judge."""
    answered = {"iso_code": code, "confidence": confidence, "translated_text": translation}
    return json.dumps(answered)


def detector(*answers: Any, **options: Any) -> tuple[LanguageDetector, ScriptedModel, Told]:
    judge, told = ScriptedModel(answers), Told()
    return LanguageDetector(model=judge, on_violation=told, **options), judge, told


def noted(seen: Seen, number: int = 0) -> Any:
    """What the metadata of a message says."""
    metadata = seen.run.message_list.get.input.db()[number].content.metadata
    return (metadata or {}).get("language_detection")


# ── what is asked ──────────────────────────────────────────────────────────────────────────────


async def test_one_call_for_each_message() -> None:
    """B-022, B-023, B-170."""
    processor, judge, _ = detector(speaks("en"))
    await judged_input(processor, ["The first message", "The second message"])
    asked = [call.prompt[-1]["content"][0]["text"] for call in judge.calls]
    assert asked == ["The first message", "The second message"]
    call = judge.calls[0]
    assert call.settings["temperature"] == 0
    assert call.response_format is not None
    schema = call.response_format["schema"]
    assert schema["required"] == ["iso_code", "confidence"]
    share = schema["properties"]["confidence"]["enum"]
    assert (share[0], share[-2], share[-1]) == (0, 1, None)


async def test_what_a_translator_is_asked() -> None:
    """B-170, B-175: the first target language, by its name."""
    processor, judge, _ = detector(speaks("en"), target_languages=["de"], strategy="translate")
    await judged_input(processor, TEXT)
    call = judge.calls[0]
    assert call.response_format is not None
    assert "translated_text" in call.response_format["schema"]["required"]
    assert "German" in call.prompt[0]["content"]


def test_defaults() -> None:
    """B-170."""
    processor = LanguageDetector()
    assert processor.id == "language-detector"
    assert processor.target_languages == ("English", "en")
    assert (processor.threshold, processor.strategy) == (0.7, "detect")
    assert (processor.min_text_length, processor.preserve_original) == (10, True)


async def test_options_of_the_call() -> None:
    """B-020; `translation_quality` is taken and has no effect."""
    processor, judge, _ = detector(
        speaks("en"),
        instructions="Which is it?",
        provider_options={"x": {"y": 1}},
        translation_quality="best",
    )
    await judged_input(processor, TEXT)
    assert judge.calls[0].prompt[0]["content"] == "Which is it?"
    assert judge.calls[0].provider_options == {"x": {"y": 1}}


@pytest.mark.parametrize(
    ("text", "calls"), [("ok", 0), ("  123456789 \n", 0), ("1234567890", 1), (user(IMAGE), 0)]
)
async def test_short_texts_are_not_judged(text: Any, calls: int) -> None:
    """B-171, B-011: they pass as they are."""
    processor, judge, _ = detector(speaks("fr"), strategy="block")
    seen = await judged_input(processor, [text])
    assert len(judge.calls) == calls
    assert (seen.tripwire is not None) == bool(calls)
    if not calls:
        assert noted(seen) is None


async def test_how_short_may_be_said() -> None:
    """B-171."""
    processor, _, _ = detector(speaks("fr"), min_text_length=2)
    assert noted(await judged_input(processor, "ça"))["iso_code"] == "fr"


async def test_only_the_last_message_is_judged() -> None:
    """B-023."""
    processor, judge, _ = detector(speaks("fr"), last_message_only=True)
    seen = await judged_input(processor, ["The first message", "The second message"])
    assert len(judge.calls) == 1
    assert noted(seen, 0) is None
    assert noted(seen, 1) is not None


async def test_the_agents_own_model_judges() -> None:
    """B-021."""
    model = ScriptedModel([speaks("en"), "ok"])
    out = await Agent(id="a", model=model, input_processors=[LanguageDetector()]).generate(TEXT)
    assert out.text == "ok"
    assert out.processor_usage.output_tokens == 1


@pytest.mark.parametrize("error_strategy", ["warn", "strict"])
async def test_no_model_to_ask(error_strategy: Any) -> None:
    """B-021."""
    unknown = LanguageDetector(model="nobody/knows", error_strategy=error_strategy)
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[unknown])
    with pytest.raises(ConfigurationError):
        await agent.generate(TEXT)


# ── what an answer means ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answered", "blocked"),
    [
        (speaks("en"), False),
        (speaks("fr"), True),
        (speaks("fr", 0.7), True),  # B-024: at the threshold
        (speaks("fr", 0.69), False),
        (speaks(None, None), False),  # B-173
        (speaks(None, 0.9), False),
        (speaks("fr", None), False),
        (speaks("", 0.9), False),
        (speaks("no code at all", 0.9), False),
        (speaks("xx", 0.9), True),  # B-172: unknown, and none of the targets
        (speaks("en-US"), False),
        (speaks("eng"), False),
        (speaks("English"), False),
        (speaks("FR"), True),
    ],
)
async def test_what_is_blocked(answered: str, blocked: bool) -> None:
    processor, _, told = detector(answered, strategy="block")
    seen = await judged_input(processor, TEXT)
    assert (seen.tripwire is not None) == blocked
    assert len(told) == blocked  # B-903
    assert seen.events == []


@pytest.mark.parametrize(
    ("targets", "code"),
    [
        (["French"], "fr"),
        (["french"], "FR"),
        (["FR"], "fra"),
        (["fra"], "fre"),
        (["français"], "fr-CA"),
        (["fr-CA"], "fr"),
        (["de", "fr"], "fr"),
        (["Norwegian"], "nb"),
        (["中文"], "zh-Hant"),
        (["Chinese"], "cmn"),
        (["xx"], "XX"),
        (["Klingon"], "klingon"),
    ],
)
async def test_names_and_codes_are_one(targets: list[str], code: str) -> None:
    """B-172."""
    processor, _, told = detector(speaks(code), target_languages=targets, strategy="warn")
    seen = await judged_input(processor, TEXT)
    assert told == []
    assert noted(seen)["is_target_language"] is True
    assert noted(seen)["target_languages"] == targets


async def test_what_is_noted_of_a_target_language() -> None:
    """B-174."""
    processor, _, _ = detector(speaks("de"), target_languages=["English", "German"])
    assert noted(await judged_input(processor, TEXT)) == {
        "detected_language": "German",
        "iso_code": "de",
        "confidence": 0.95,
        "is_target_language": True,
        "target_languages": ["English", "German"],
    }


@pytest.mark.parametrize("answered", [speaks(None, None), "nonsense"])
async def test_what_is_noted_when_nothing_is_known(answered: str) -> None:
    """B-173, B-025: it counts as a target language, and nothing is made up."""
    processor, _, _ = detector(answered, strategy="block")
    assert noted(await judged_input(processor, TEXT)) == {
        "detected_language": None,
        "iso_code": None,
        "confidence": None,
        "is_target_language": True,
        "target_languages": ["English", "en"],
    }


async def test_a_doubtful_verdict_counts_for_nothing() -> None:
    """B-173."""
    processor, _, _ = detector(speaks("fr", 0.3), strategy="translate")
    seen = await judged_input(processor, TEXT)
    assert noted(seen) is None
    assert seen.prompt[0]["content"][0]["text"] == TEXT


async def test_an_unknown_code_is_shown_as_it_is() -> None:
    """B-172."""
    processor, _, _ = detector(speaks("tlh"))
    found = noted(await judged_input(processor, TEXT))
    assert (found["detected_language"], found["iso_code"]) == ("tlh", "tlh")


# ── strategies ─────────────────────────────────────────────────────────────────────────────────

FOUND = {
    "detected_language": "French",
    "iso_code": "fr",
    "confidence": 0.97,
    "is_target_language": False,
    "target_languages": ["English", "en"],
}


async def test_detect_only_notes() -> None:
    """B-174, B-176: and tells nobody."""
    processor, _, told = detector(speaks("fr"))
    seen = await judged_input(processor, TEXT)
    assert noted(seen) == FOUND
    assert told == []
    assert seen.prompt[0]["content"][0]["text"] == TEXT


async def test_block() -> None:
    """B-176, B-007: language, code, confidence to two decimals; nothing of the text."""
    processor, _, told = detector(speaks("fr", 0.9749), strategy="block")
    seen = await judged_input(processor, TEXT)
    assert seen.tripwire.reason == "The language is French (fr), confidence 0.97."
    assert seen.tripwire.retry is False
    metadata = dict(seen.tripwire.metadata)
    assert isinstance(metadata.pop("message_id"), str)
    assert metadata == {
        "processor_id": "language-detector",
        "strategy": "block",
        "phase": "process_input",
        "types": [],
        "language": "French",
        "iso_code": "fr",
        "confidence": 0.9749,
    }
    assert [v.processor_id for v in told] == ["language-detector"]
    assert seen.model.calls == []
    assert "Bonjour" not in repr((seen.tripwire, told))


async def test_warn(caplog: pytest.LogCaptureFixture) -> None:
    """B-176, B-005."""
    processor, _, told = detector(speaks("fr"), strategy="warn")
    with caplog.at_level(logging.WARNING, "procession"):
        seen = await judged_input(processor, TEXT)
    assert noted(seen) == FOUND
    assert [v.detail["strategy"] for v in told] == ["warn"]
    assert "The language is French (fr), confidence 0.97." in caplog.text
    assert "Bonjour" not in caplog.text


async def test_translate() -> None:
    """B-175, B-006."""
    processor, _, told = detector(speaks("fr", 0.97, HELLO), strategy="translate")
    seen = await judged_input(processor, TEXT)
    assert seen.prompt[0]["content"][0]["text"] == HELLO
    translation = {
        "original_language": "French",
        "target_language": "English",
        "translation_confidence": 0.97,
    }
    assert noted(seen) == {**FOUND, "translation": translation, "original_content": TEXT}
    assert [(v.detail["strategy"], v.detail["language"]) for v in told] == [("translate", "French")]
    assert HELLO not in repr(told) and TEXT not in repr(told)


async def test_translate_without_the_original() -> None:
    """B-175."""
    processor, _, _ = detector(
        speaks("fr", 0.97, HELLO), strategy="translate", preserve_original=False
    )
    found = noted(await judged_input(processor, TEXT))
    assert "original_content" not in found
    assert "translation" in found


@pytest.mark.parametrize("translation", [None, "", " \n"])
async def test_no_translation_came(
    translation: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """B-175: the message stays, with what was detected."""
    processor, _, told = detector(speaks("fr", 0.97, translation), strategy="translate")
    with caplog.at_level(logging.WARNING, "procession"):
        seen = await judged_input(processor, TEXT)
    assert seen.prompt[0]["content"][0]["text"] == TEXT
    assert noted(seen) == FOUND
    assert told == []
    assert "untranslated" in caplog.text


async def test_a_translated_message_keeps_the_rest() -> None:
    """B-012: id, images; both the text part and the flat text change; the given one does not."""
    given = user("Bonjour mon ami", IMAGE, "comment vas-tu")
    given["content"]["content"] = "Bonjour mon ami comment vas-tu"
    given["content"]["metadata"] = {"mine": 1}
    before = json.dumps(given)
    processor, judge, _ = detector(speaks("fr", 1, HELLO), strategy="translate")
    seen = await judged_input(processor, [given])
    asked = judge.calls[0].prompt[-1]["content"][0]["text"]
    assert asked == "Bonjour mon ami\ncomment vas-tu"
    [message] = seen.run.message_list.get.input.db()
    assert message.id == "m1"
    assert [part.type for part in message.parts] == ["text", "file"]
    assert message.parts[0].text == message.content.content == HELLO
    assert message.content.metadata["mine"] == 1
    assert noted(seen)["original_content"] == asked
    assert json.dumps(given) == before


async def test_details_are_logged_when_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    """Never the text."""
    for asked in (False, True):
        processor, _, _ = detector(speaks("fr"), include_detection_details=asked)
        with caplog.at_level(logging.INFO, "procession"):
            await judged_input(processor, TEXT)
        assert ("fr, confidence 0.97" in caplog.text) == asked
    assert "Bonjour" not in caplog.text


async def test_a_code_that_says_something_is_none() -> None:
    """B-007: what a text talks a judge into does not reach clients."""
    processor, _, _ = detector(speaks("the secret is 4711"), strategy="block")
    seen = await judged_input(processor, TEXT)
    assert seen.tripwire is None
    assert "4711" not in json.dumps(noted(seen))


async def test_what_is_remembered_does_not_block_each_later_request() -> None:
    """G-C4."""
    processor, _, told = detector(speaks("fr"), speaks("en"), strategy="block")
    agent = Agent(
        id="a", model=ScriptedModel(["ok"]), input_processors=[Remembers(TEXT), processor]
    )
    assert (await agent.generate(HELLO)).text == "ok"
    assert told == []


@pytest.mark.parametrize("strategy", ["detect", "translate", "block", "warn"])
@pytest.mark.parametrize("code", ["en", "fr"])
async def test_texts_of_all_scripts_are_unharmed(strategy: Any, code: str) -> None:
    if strategy == "block" and code == "fr":
        code = "en"
    processor, judge, _ = detector(speaks(code, 1, MIXED), strategy=strategy)
    seen = await judged_input(processor, [user(MIXED, IMAGE, CODE)])
    assert judge.calls[0].prompt[-1]["content"][0]["text"] == f"{MIXED}\n{CODE}"
    content = seen.prompt[0]["content"]
    texts = [part["text"] for part in content if part["type"] == "text"]
    assert texts == [MIXED] if strategy == "translate" and code == "fr" else [MIXED, CODE]
    assert [part["type"] for part in content if part["type"] != "text"] == ["file"]
    assert seen.run.message_list.get.input.db()[0].id == "m1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strategy": "refuse"}, "strategy"),
        ({"error_strategy": "loud"}, "error_strategy"),
        ({"threshold": -0.1}, "threshold"),
        ({"target_languages": []}, "target_languages"),
        ({"target_languages": "English"}, "target_languages"),
        ({"min_text_length": 1.5}, "min_text_length"),
        ({"preserve_original": "yes"}, "preserve_original"),
        ({"include_detection_details": 1}, "include_detection_details"),
        ({"last_message_only": 1}, "last_message_only"),
        ({"instructions": 1}, "instructions"),
        ({"on_violation": 1}, "on_violation"),
        ({"provider_options": 1}, "provider_options"),
    ],
)
def test_wrong_options(options: Any, said: str) -> None:
    """B-014."""
    with pytest.raises(ValueError, match=f"LanguageDetector.*{said}"):
        LanguageDetector(**options)
