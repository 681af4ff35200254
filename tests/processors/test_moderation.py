"""`ModerationProcessor` on messages: verdicts, strategies, options (B-100 to B-109)."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from procession import Agent, ConfigurationError, Policy
from procession.processors import ModerationProcessor
from procession.testing import ScriptedModel, answer
from tests.processors.judging import (
    CODE,
    IMAGE,
    MIXED,
    JudgeByText,
    Remembers,
    Told,
    judged_input,
    options_reach_the_judge,
    user,
)


def rated(reason: str | None = "because", /, **scores: float) -> str:
    """An answer of a judge."""
    found = [{"category": name, "score": score} for name, score in scores.items()]
    return json.dumps({"category_scores": found or None, "reason": reason})


def moderation(*answers: Any, **options: Any) -> tuple[ModerationProcessor, ScriptedModel, Told]:
    judge, told = ScriptedModel(answers or [rated()]), Told()
    return ModerationProcessor(model=judge, on_violation=told, **options), judge, told


# ── what is asked ──────────────────────────────────────────────────────────────────────────────


async def test_one_call_for_each_message() -> None:
    """B-022, B-023, B-101, B-103; calls are counted, as B-900 has it."""
    processor, judge, _ = moderation(categories=["spam", "lies"])
    await judged_input(processor, ["one", "two"])
    assert [call.prompt[-1]["content"][0]["text"] for call in judge.calls] == ["one", "two"]
    call = judge.calls[0]
    assert call.settings["temperature"] == 0
    assert call.tools == []
    system = call.prompt[0]["content"]
    assert "- spam\n- lies\n" in system
    assert "- hate" not in system
    assert "piece" in system
    assert call.response_format is not None
    schema = call.response_format["schema"]
    assert schema["required"] == ["category_scores", "reason"]
    category = schema["properties"]["category_scores"]["items"]["properties"]["category"]
    assert category["enum"] == ["spam", "lies"]
    assert schema["properties"]["category_scores"]["maxItems"] == 2


async def test_what_is_asked_for_can_be_bound_without_bounds() -> None:
    """B-101: servers that know no bounds of numbers keep a score between 0 and 1 all the same,
    and a finer one is taken.
    """
    processor, judge, told = moderation(rated(hate=0.501), rated(hate=1.5))
    seen = await judged_input(processor, ["one"])
    assert told[0].detail["scores"] == {"hate": 0.501}
    assert judge.calls[0].response_format is not None
    scores = judge.calls[0].response_format["schema"]["properties"]["category_scores"]
    share = scores["items"]["properties"]["score"]["enum"]
    assert (share[0], share[-1], len(share)) == (0, 1, 21)
    seen = await judged_input(processor, ["two"])  # the model could do as it liked
    assert [event.error for event in seen.events] == ["StructuredOutputError"]


@pytest.mark.parametrize(("score", "trips"), [(0.69, False), (0.7, True), (0.9, True)])
async def test_the_quick_start_of_the_guide(score: float, trips: bool) -> None:
    """E-60, B-024, B-100, B-109."""
    processor = ModerationProcessor(
        model=ScriptedModel([rated(harassment=score)]),
        categories=["hate", "harassment", "violence"],
        threshold=0.7,
        strategy="block",
    )
    seen = await judged_input(processor)
    assert (seen.tripwire is not None) == trips
    if trips:
        assert seen.tripwire.processor_id == "moderation"
        assert seen.tripwire.metadata["categories"] == ["harassment"]


async def test_on_both_sides() -> None:
    """E-63: one instance for the input, one for the output; the judge is asked for each."""
    judge = ScriptedModel([rated()])
    agent = Agent(
        id="a",
        model=ScriptedModel(["ok"]),
        input_processors=[ModerationProcessor(model=judge)],
        output_processors=[ModerationProcessor(model=judge)],
    )
    assert (await agent.generate("hi")).text == "ok"
    asked = [call.prompt[-1]["content"][0]["text"] for call in judge.calls]
    assert asked == ["hi", "ok", "ok"]


def test_the_usual_categories() -> None:
    """B-100: eleven, and a threshold of one half; it blocks."""
    processor = ModerationProcessor()
    assert len(processor.categories) == 11
    assert {"hate", "self-harm/intent", "sexual/minors"} <= set(processor.categories)
    assert (processor.id, processor.threshold, processor.strategy) == ("moderation", 0.5, "block")
    assert (processor.chunk_window, processor.granularity) == (0, "delta")


async def test_options_of_the_call() -> None:
    """B-020: instructions are the whole system text; options reach the provider; in words."""
    await options_reach_the_judge(moderation, '"category_scores"')


async def test_only_the_last_message_is_judged() -> None:
    """B-023: those before it pass unchanged, harmful or not."""
    processor, judge, _ = moderation(rated(hate=1.0), last_message_only=True, strategy="filter")
    seen = await judged_input(processor, ["one", "two"])
    assert [call.prompt[-1]["content"][0]["text"] for call in judge.calls] == ["two"]
    assert [entry["content"][0]["text"] for entry in seen.prompt] == ["one"]


async def test_no_text_no_call() -> None:
    """B-011: a message without any text, or of white space, is passed on."""
    processor, judge, told = moderation(rated(hate=1.0))
    seen = await judged_input(processor, [user(IMAGE), user(" \n", id="m2")])
    assert judge.calls == [] and told == []
    assert seen.tripwire is None
    assert seen.prompt[0]["content"][0]["type"] == "file"


async def test_the_agents_own_model_judges() -> None:
    """B-021: without a model the one is asked that the agent would ask; tokens are apart."""
    model = ScriptedModel([rated(), "ok"])
    agent = Agent(id="a", model=model, input_processors=[ModerationProcessor()])
    out = await agent.generate("hi")
    assert out.text == "ok"
    assert len(model.calls) == 2
    assert out.processor_usage.output_tokens == 1
    assert out.usage.output_tokens == 1


@pytest.mark.parametrize("error_strategy", ["warn", "strict"])
async def test_no_model_to_ask(error_strategy: Any) -> None:
    """B-021: that is set up wrongly, which no error strategy and no policy covers."""
    unknown = ModerationProcessor(
        model="nobody/knows", error_strategy=error_strategy, policy=Policy(on_error="allow")
    )
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[unknown])
    with pytest.raises(ConfigurationError):
        await agent.generate("hi")


# ── what an answer means ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answered", "types"),
    [
        (rated(), None),
        (json.dumps({"category_scores": [], "reason": None}), None),  # B-029
        (rated(hate=0.49), None),
        (rated(hate=0.5), ["hate"]),  # B-024, B-102
        (rated(hate=0.9, violence=0.2, sexual=0.6), ["hate", "sexual"]),  # B-104
        (rated(spam=1.0), None),  # B-030: nobody asked for it
        (rated(spam=1.0, violence=1.0), ["violence"]),
    ],
)
async def test_what_is_flagged(answered: str, types: list[str] | None) -> None:
    processor, _, told = moderation(answered)
    seen = await judged_input(processor)
    found = seen.tripwire and seen.tripwire.metadata["types"]
    assert found == types
    assert len(told) == (types is not None)  # B-903
    assert seen.events == []


async def test_the_highest_score_of_a_category_counts() -> None:
    scores = [{"category": "hate", "score": score} for score in (0.1, 0.8, 0.3)]
    processor, _, told = moderation(json.dumps({"category_scores": scores, "reason": None}))
    await judged_input(processor)
    assert told[0].detail["scores"] == {"hate": 0.8}


async def test_what_a_block_says() -> None:
    """B-007, B-009, B-010, B-031, B-109: the reason in its order, and no word of the text."""
    processor, _, told = moderation(
        rated("It is rude.", hate=0.9, violence=0.25), include_scores=True
    )
    seen = await judged_input(processor, "SECRET words")
    assert seen.tripwire.reason == (
        "Harmful content: hate. It is rude. Scores: hate 0.90, violence 0.25."
    )
    assert seen.tripwire.processor_id == "moderation"
    assert seen.tripwire.retry is False
    message_id = seen.tripwire.metadata["message_id"]
    assert seen.tripwire.metadata == {
        "processor_id": "moderation",
        "strategy": "block",
        "phase": "process_input",
        "message_id": message_id,
        "types": ["hate"],
        "categories": ["hate"],
        "scores": {"hate": 0.9},
    }
    assert isinstance(message_id, str)
    assert [(v.processor_id, v.message, v.detail) for v in told] == [
        ("moderation", seen.tripwire.reason, seen.tripwire.metadata)
    ]
    assert seen.model.calls == []
    assert "SECRET" not in repr((told, seen.tripwire))


async def test_a_reason_without_scores_and_words_of_the_judge() -> None:
    """B-104."""
    processor, _, _ = moderation(rated(None, hate=0.9, violence=0.25))
    seen = await judged_input(processor)
    assert seen.tripwire.reason == "Harmful content: hate."


# ── strategies ─────────────────────────────────────────────────────────────────────────────────


async def test_warn_lets_it_pass(caplog: pytest.LogCaptureFixture) -> None:
    """B-005, B-013."""
    processor, _, told = moderation(rated(hate=0.9), strategy="warn")
    with caplog.at_level(logging.WARNING, "procession"):
        seen = await judged_input(processor, "SECRET")
    assert seen.prompt[0]["content"][0]["text"] == "SECRET"
    assert [v.detail["strategy"] for v in told] == ["warn"]
    assert [v.processor_id for v in told] == ["moderation"]
    assert "Harmful content: hate" in caplog.text
    assert "SECRET" not in caplog.text


async def test_filter_removes_the_message() -> None:
    """B-006, B-033: of several the one, and with all of them gone the model is called still."""
    processor, _, told = moderation(rated(), rated(hate=0.9), rated(), strategy="filter")
    seen = await judged_input(processor, ["one", "two", "three"])
    assert [entry["content"][0]["text"] for entry in seen.prompt] == ["one", "three"]
    assert [v.detail["strategy"] for v in told] == ["filter"]
    processor, _, _ = moderation(rated(hate=0.9), strategy="filter")
    seen = await judged_input(processor)
    assert seen.prompt == []
    assert seen.text == "ok"


async def test_a_block_ends_the_chain() -> None:
    """B-032: processors behind it do not run."""
    first, _, _ = moderation(rated(hate=0.9))
    second, judge, _ = moderation()
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[first, second])
    out = await agent.generate("hi")
    assert out.tripwire is not None
    assert judge.calls == []


async def test_what_is_remembered_does_not_block_each_later_request() -> None:
    """G-C4: it is left out instead; what is new is blocked as ever."""
    told = Told()
    judge = JudgeByText(lambda text: rated(hate=0.9) if "bad" in text else rated())
    processor = ModerationProcessor(model=judge, on_violation=told)
    model = ScriptedModel(["ok"])
    agent = Agent(id="a", model=model, input_processors=[Remembers("bad", "good"), processor])
    assert (await agent.generate("hi")).text == "ok"
    users = [entry for entry in model.calls[0].prompt if entry["role"] == "user"]
    assert [entry["content"][0]["text"] for entry in users] == ["good", "hi"]
    assert [violation.detail["strategy"] for violation in told] == ["filter"]
    assert (await agent.generate("bad as well")).tripwire is not None


@pytest.mark.parametrize("strategy", ["block", "warn", "filter"])
@pytest.mark.parametrize("harmful", [False, True])
async def test_texts_of_all_scripts_are_unharmed(strategy: Any, harmful: bool) -> None:
    """What passes is what came: mixed scripts, code, an image between texts."""
    answered = rated(hate=0.9) if harmful and strategy == "warn" else rated()
    processor, judge, _ = moderation(answered, strategy=strategy)
    seen = await judged_input(processor, [user(MIXED, IMAGE, CODE)])
    assert judge.calls[0].prompt[-1]["content"][0]["text"] == f"{MIXED}\n{CODE}"
    content = seen.prompt[0]["content"]
    assert [part["type"] for part in content] == ["text", "file", "text"]
    assert [content[0]["text"], content[2]["text"]] == [MIXED, CODE]


async def test_the_callers_message_stays_what_it_was() -> None:
    """B-012."""
    given = user("one", IMAGE)
    before = json.dumps(given)
    processor, _, _ = moderation(rated(hate=0.9), strategy="filter")
    await judged_input(processor, [given])
    assert json.dumps(given) == before


async def test_callbacks_of_every_kind() -> None:
    """B-003, B-008: assigned later, async, or one that raises: the run goes on."""
    told: list[Any] = []

    async def tell(violation: Any) -> None:
        told.append(violation.detail["strategy"])

    def fail(violation: Any) -> None:
        told.append("failed")
        raise RuntimeError("SECRET")

    for strategy, callback in (("warn", tell), ("block", tell), ("warn", fail), ("block", fail)):
        processor = ModerationProcessor(
            model=ScriptedModel([rated(hate=0.9)]),
            strategy=strategy,  # type: ignore[arg-type]
        )
        processor.on_violation = callback
        seen = await judged_input(processor)
        assert (seen.tripwire is not None) == (strategy == "block")
        assert seen.error is None
    assert told == ["warn", "block", "failed", "failed"]


async def test_tokens_of_the_judge_are_counted() -> None:
    """B-022: of answers that do not fit as well."""
    usage = {"inputTokens": 7, "outputTokens": 5}
    judge = ScriptedModel([answer(rated(), usage=usage), answer("nonsense", usage=usage)])
    agent = Agent(
        id="a", model=ScriptedModel(["ok"]), input_processors=[ModerationProcessor(model=judge)]
    )
    out = await agent.generate(["one", "two"])
    assert (out.processor_usage.input_tokens, out.processor_usage.output_tokens) == (14, 10)


# ── options that are none ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strategy": "redact"}, "strategy must be 'block' or 'warn' or 'filter'"),
        ({"strategy": "blocks"}, "did you mean 'block'"),
        ({"error_strategy": "loud"}, "error_strategy"),
        ({"granularity": "word"}, "granularity"),
        ({"threshold": 1.5}, "threshold"),
        ({"threshold": "high"}, "threshold"),
        ({"chunk_window": -1}, "chunk_window"),
        ({"categories": []}, "categories"),
        ({"categories": "hate"}, "categories"),
        ({"include_scores": 1}, "include_scores"),
        ({"last_message_only": None}, "last_message_only"),
        ({"instructions": 3}, "instructions"),
        ({"on_violation": 3}, "on_violation"),
        ({"provider_options": 3}, "provider_options"),
        ({"structured_output_options": {"schema": {}}}, "structured_output_options"),
    ],
)
def test_wrong_options(options: Any, said: str) -> None:
    """B-014."""
    with pytest.raises(ValueError, match=f"ModerationProcessor.*{said}"):
        ModerationProcessor(**options)
