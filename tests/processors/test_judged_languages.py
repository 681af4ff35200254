"""Conversations in many languages, with code and images, pass all judges unharmed (B-011)."""

# ruff: noqa: RUF001, the marks of these scripts are what is tested

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from procession import Agent
from procession.processors import (
    ClassifierProcessor,
    LanguageDetector,
    ModelSelectionProcessor,
    ModerationProcessor,
)
from procession.testing import ScriptedModel
from tests.laws.kit import PlayedModel, end, said
from tests.processors.classifying import badness
from tests.processors.judging import CODE, IMAGE, MIXED, JudgeByText, user
from tests.processors.test_moderation import rated

TEXTS = {
    "fr": "Où est l'œuvre ? « C'est déjà prêt », dit-il. Ça va… n'est-ce pas ?",
    "de": "Straßen und Größe: „übermäßig“ schön! Öffnet z. B. um 8 Uhr.",
    "zh": "你好，世界。今天天气很好！“真的吗？”他问。",
    "ko": "안녕하세요. 오늘은 날씨가 좋네요! 정말요?",
    "ja": "こんにちは、世界。今日はいい天気です！「本当？」と彼は聞いた。",
    "ar": "مرحبا بالعالم. كيف حالك؟ الطقس جميل اليوم!",
    "hi": "नमस्ते दुनिया। आज मौसम अच्छा है! सच में?",
    "all": MIXED,
    "code": f"Look:\n{CODE}Voilà. 以上。",
}
CONVERSATION = [user(text, IMAGE, CODE, id=f"m-{name}") for name, text in TEXTS.items()]
BAD = "ja"
"""The language of the one text that a strict judge does not let pass."""


def judge(verdict: str, other: str) -> JudgeByText:
    """Finds something in one text, and nothing in the others."""
    return JudgeByText(lambda text: other if TEXTS[BAD] in text else verdict)


def moderation(finds: bool, **options: Any) -> tuple[Any, JudgeByText]:
    model = judge(rated(), rated(hate=1) if finds else rated())
    return ModerationProcessor(model=model, **options), model


def classifier(finds: bool, **options: Any) -> tuple[Any, JudgeByText]:
    answers = [json.dumps({"answer_1": 0.9 if found else 0.1}) for found in (False, finds)]
    model = judge(*answers)

    def decide(answers: Any, context: Any) -> None:
        if answers.boolean("bad").probability > 0.5:
            context.filter()

    return ClassifierProcessor(classifier=badness(model), on_result=decide, **options), model


def language(finds: bool, **options: Any) -> tuple[Any, JudgeByText]:
    of = {code: json.dumps({"iso_code": code, "confidence": 1}) for code in ("en", "ja")}
    model = judge(of["en"], of["ja"] if finds else of["en"])
    return LanguageDetector(model=model, **options), model


ON_MESSAGES = [
    *[(moderation, {"strategy": strategy}) for strategy in ("block", "warn", "filter")],
    (classifier, {}),
    *[(language, {"strategy": strategy}) for strategy in ("detect", "warn", "block")],
]
on_messages = pytest.mark.parametrize(
    ("make", "options"), ON_MESSAGES, ids=lambda value: getattr(value, "__name__", str(value))
)


async def sent(*processors: Any) -> tuple[Any, list[list[Any]]]:
    """What a model gets of the conversation, by message."""
    model = ScriptedModel(["ok"])
    agent = Agent(id="a", model=model, input_processors=list(processors))
    result = await agent.generate(CONVERSATION)
    if not model.calls:
        return result, []
    prompt = [entry for entry in model.calls[0].prompt if entry["role"] == "user"]
    return result, [entry["content"] for entry in prompt]


async def unguarded(*, without: str = "") -> list[list[Any]]:
    _, contents = await sent()
    return [c for name, c in zip(TEXTS, contents, strict=True) if name != without]


@on_messages
async def test_what_is_harmless_reaches_the_model_as_it_came(make: Any, options: Any) -> None:
    """Texts, code and images, in their places; the judge is shown each message's text, whole."""
    processor, model = make(False, **options)
    _, contents = await sent(processor)
    assert contents == await unguarded()
    assert model.texts == [f"{text}\n{CODE}" for text in TEXTS.values()]


@on_messages
async def test_one_text_of_many_is_acted_on_alone(make: Any, options: Any) -> None:
    """The others are what they were."""
    processor, _ = make(True, **options)
    result, contents = await sent(processor)
    if options.get("strategy") == "block":
        assert result.tripwire is not None
        assert contents == []
    elif make is classifier or options["strategy"] == "filter":
        assert contents == await unguarded(without=BAD)
    else:
        assert contents == await unguarded()


async def test_a_translation_takes_the_place_of_its_text_alone() -> None:
    """B-175: the image and the other messages stay."""
    verdict = {"iso_code": "ja", "confidence": 1, "translated_text": "Hello, Größe 你好"}
    clean = json.dumps({"iso_code": "en", "confidence": 1, "translated_text": None})
    model = judge(clean, json.dumps(verdict))
    _, contents = await sent(LanguageDetector(model=model, strategy="translate"))
    before = await unguarded()
    at = list(TEXTS).index(BAD)
    assert contents[:at] + contents[at + 1 :] == before[:at] + before[at + 1 :]
    assert contents[at][0]["text"] == "Hello, Größe 你好"
    assert [part for part in contents[at] if part["type"] != "text"] == [
        part for part in before[at] if part["type"] != "text"
    ]


@pytest.mark.parametrize("name", TEXTS)
async def test_the_model_is_selected_by_the_text_as_it_is(name: str) -> None:
    """B-530: an image beside it, code behind it; the chosen model gets the message as it came."""
    model = JudgeByText(lambda text: json.dumps({"answer_1": "small"}))
    small = ScriptedModel(["small"])
    selection = ModelSelectionProcessor(
        choices=[
            {"model": small, "criteria": "all", "name": "small"},
            {"model": None, "criteria": "none", "name": "large"},
        ],
        model=model,
    )
    agent = Agent(id="a", model=ScriptedModel(["large"]), input_processors=[selection])
    given = [user(TEXTS[name], IMAGE, CODE)]
    assert (await agent.generate(given)).text == "small"
    assert model.texts == [f"{TEXTS[name]}\n{CODE}"]
    content = small.calls[0].prompt[-1]["content"]
    assert [content[0]["text"], content[2]["text"]] == [TEXTS[name], CODE]


ON_STREAMS = [(make, options) for make, options in ON_MESSAGES if make is not language]


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("granularity", ["sentence", "part", "step", "end"])
@pytest.mark.parametrize(
    ("make", "options"), ON_STREAMS, ids=lambda value: getattr(value, "__name__", str(value))
)
async def test_an_answer_in_all_languages_comes_as_it_was_said(
    make: Any, options: Any, granularity: str, size: int
) -> None:
    """G-A8: block by block, a language each, however it is cut; the judge sees all of it, once."""
    processor, model = make(False, granularity=granularity, **options)
    parts: list[Any] = []
    for name, text in TEXTS.items():
        cut = [text[at : at + size] for at in range(0, len(text), size)]
        parts += said(*cut, id=name)
    agent = Agent(id="a", model=PlayedModel([[*parts, end()]]), output_processors=[processor])
    run = await agent.stream("go")
    found = dict.fromkeys(TEXTS, "")
    async with asyncio.timeout(20):
        async for chunk in run:
            if chunk.type == "text-delta":
                found[chunk.payload.id] += chunk.payload.text
    assert found == TEXTS
    assert await run.text == "".join(TEXTS.values())
    units = model.texts if granularity in ("sentence", "part") else model.texts[: len(TEXTS)]
    if granularity == "end":
        assert units[-1] == "".join(TEXTS.values())
    else:
        assert "".join(units).startswith("".join(TEXTS.values()))
