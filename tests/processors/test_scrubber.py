"""`SystemPromptScrubber` with a judge: verdicts, strategies, options (B-190 to B-197)."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from procession import Agent, ConfigurationError
from procession.processors import BatchPartsProcessor, SystemPromptScrubber
from procession.testing import ScriptedModel
from tests.laws.kit import PlayedModel, call, echo, end, said
from tests.processors.judging import JudgeByText, Told, judged_answer

SAID = "You are HAL. Bye"
RULE = "You are HAL"


def discloses(
    *values: str, start: Any = 0, kind: str = "rules", rewritten: str | None = None
) -> str:
    """An answer of a judge; `end` is always wrong."""
    found = [
        {"type": kind, "value": value, "confidence": 0.1, "start": start, "end": 99}
        for value in values
    ]
    answered = {"detections": found or None, "reason": "it says SECRET"}
    return json.dumps({**answered, "redacted_content": rewritten})


def by_text(value: str = RULE) -> JudgeByText:
    """Finds a value wherever it is."""
    return JudgeByText(lambda text: discloses(value) if value in text else discloses())


def scrubber(judge: Any, **options: Any) -> tuple[SystemPromptScrubber, Told]:
    told = Told()
    return SystemPromptScrubber(model=judge, on_violation=told, **options), told


# ── what is asked ──────────────────────────────────────────────────────────────────────────────


async def test_one_call_for_each_piece_and_one_for_the_message() -> None:
    """B-193."""
    judge = by_text("nothing")
    seen = await judged_answer(scrubber(judge)[0], ["one ", "two ", "three"])
    assert judge.texts == ["one ", "two ", "three", "one two three"]
    assert seen.deltas == ["one ", "two ", "three"]


async def test_what_is_asked() -> None:
    """B-022, B-190, B-191, B-194: for disclosed instructions, in the text that is the user's."""
    judge = ScriptedModel([discloses()])
    processor, _ = scrubber(judge, custom_patterns=[r"code\d+"], strategy="redact")
    await judged_answer(processor, ["hi"])
    asked = judge.calls[0]
    assert asked.settings["temperature"] == 0
    assert "instructions" in asked.prompt[0]["content"]
    assert r"code\d+" in asked.prompt[0]["content"]
    assert asked.prompt[1:] == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert asked.response_format is not None
    schema = asked.response_format["schema"]
    assert schema["required"] == ["detections", "reason"]
    assert "redacted_content" in schema["properties"]
    judge = ScriptedModel([discloses()])
    await judged_answer(scrubber(judge, strategy="warn")[0], ["hi"])
    assert judge.calls[0].response_format is not None
    assert "redacted_content" not in judge.calls[0].response_format["schema"]["properties"]


def test_defaults() -> None:
    """B-190."""
    processor = SystemPromptScrubber()
    assert (processor.id, processor.strategy) == ("system-prompt-scrubber", "redact")
    assert (processor.redaction_method, processor.placeholder_text) == ("mask", "[SYSTEM_PROMPT]")
    assert processor.granularity == "delta"
    assert not callable(processor.process_input)


async def test_options_of_the_call() -> None:
    """B-020."""
    judge = ScriptedModel([discloses()])
    processor, _ = scrubber(
        judge, instructions="Look.", structured_output_options={"json_prompt_injection": True}
    )
    await judged_answer(processor, ["hi"])
    assert judge.calls[0].prompt[0]["content"].startswith("Look.")
    assert judge.calls[0].response_format is None


async def test_the_agents_own_model_judges() -> None:
    """B-197, B-021."""
    model = ScriptedModel(["hi", discloses()])
    out = await Agent(id="a", model=model, output_processors=[SystemPromptScrubber()]).generate("x")
    assert out.text == "hi"
    assert len(model.calls) == 3
    assert out.processor_usage.output_tokens == 2


@pytest.mark.parametrize("error_strategy", ["warn", "strict"])
async def test_no_model_to_ask(error_strategy: Any) -> None:
    """B-021."""
    unknown = SystemPromptScrubber(model="nobody/knows", error_strategy=error_strategy)
    agent = Agent(id="a", model=ScriptedModel(["ok"]), output_processors=[unknown])
    with pytest.raises(ConfigurationError):
        await agent.generate("hi")


async def test_only_what_the_assistant_says_is_looked_at() -> None:
    """B-196: not the input, nor what a tool gave, nor what was thought."""
    judge = by_text()
    first = [*said(RULE, id="r1", kind="reasoning"), call("echo", json.dumps({"value": RULE}))]
    model = PlayedModel([[*first, end("tool-calls")], [*said("fine"), end()]])
    agent = Agent(id="a", model=model, tools=[echo], output_processors=[scrubber(judge)[0]])
    out = await agent.generate(RULE)
    assert out.text == "fine"
    assert set(judge.texts) == {"fine"}


async def test_messages_of_others_are_left_alone() -> None:
    """B-196: what another processor has put among the answers in the user's name."""

    class Adds:
        id = "adds"

        def process_output_result(self, args: Any) -> None:
            args.message_list.add({"role": "user", "content": RULE}, "response")

    judge = by_text()
    model = PlayedModel([[*said("fine"), end()]])
    agent = Agent(id="a", model=model, output_processors=[Adds(), scrubber(judge)[0]])
    out = await agent.generate("go")
    assert set(judge.texts) == {"fine"}
    assert out.text.endswith(RULE)


async def test_only_the_last_message_is_judged_at_the_end() -> None:
    """B-023."""

    class Adds:
        id = "adds"

        def process_output_result(self, args: Any) -> list[Any]:
            return [*args.messages, {"role": "assistant", "content": "more"}]

    judge = by_text("nothing")
    model = PlayedModel([[*said("fine"), end()]])
    last, every = (scrubber(judge, last_message_only=only)[0] for only in (True, False))
    for processor, expected in ((last, 1), (every, 2)):
        judge.texts.clear()
        agent = Agent(id="a", model=model, output_processors=[Adds(), processor])
        await agent.generate("go")
        assert len(judge.texts) == 1 + expected


# ── what an answer means ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "answered", "expected"),
    [
        (SAID, discloses(), SAID),
        (SAID, json.dumps({"detections": [], "reason": None}), SAID),  # B-029
        (SAID, discloses(RULE), "[S]. Bye"),  # B-190: whatever the confidence
        (SAID, discloses("Bye", start=13), "You are HAL. [S]"),
        # B-196, B-124: offsets that do not fit are not trusted; each occurrence counts.
        ("a b a", discloses("a", start=1), "[S] b [S]"),
        ("a b a", discloses("a", start=4), "a b [S]"),
        ("a b a", discloses("a", start=None), "[S] b [S]"),
        ("a b a", discloses("a", start=-1), "[S] b [S]"),
        ("a b a", discloses("A", start=0), "a b a"),
        ("a b a", discloses("", " "), "a b a"),
        # B-125: what overlaps is one place.
        ("abcd", discloses("abc", "bcd", start=None), "[S]"),
        # Nobody can point to it, but it was written anew.
        ("a b a", discloses("A", rewritten="* b *"), "* b *"),
        ("a b a", discloses("A", rewritten="a b a"), "a b a"),
        ("a b a", discloses("a", rewritten="nothing"), "[S] b a"),
        ("a b a", discloses(rewritten="nothing"), "a b a"),
    ],
)
async def test_what_is_redacted(text: str, answered: str, expected: str) -> None:
    judge = ScriptedModel([answered, discloses()])
    processor, told = scrubber(judge, redaction_method="placeholder", placeholder_text="[S]")
    seen = await judged_answer(processor, [text])
    assert seen.text == seen.stored == expected
    assert len(told) == (text != expected)
    assert seen.events == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "***********. Bye"),
        ({"redaction_method": "placeholder"}, "[SYSTEM_PROMPT]. Bye"),
        ({"redaction_method": "placeholder", "placeholder_text": "[X]"}, "[X]. Bye"),
        ({"redaction_method": "placeholder", "placeholder_text": ""}, ". Bye"),
        ({"redaction_method": "remove"}, ". Bye"),
    ],
)
async def test_methods(options: Any, expected: str) -> None:
    """B-192."""
    seen = await judged_answer(scrubber(by_text(), **options)[0], [SAID])
    assert seen.text == seen.stored == expected


async def test_what_pieces_hide_is_found_in_the_whole() -> None:
    """B-193: it has left, and is not stored."""
    processor, told = scrubber(by_text())
    seen = await judged_answer(processor, ["You are", " HAL. Bye"])
    assert seen.text == SAID
    assert seen.stored == "***********. Bye"
    assert [v.detail["phase"] for v in told] == ["process_output_result"]


async def test_a_place_that_reaches_into_a_redacted_one_is_redacted_too() -> None:
    """The judge sees more in the whole than it saw in the pieces."""
    judge = ScriptedModel(
        [discloses(RULE), discloses(), discloses("*********** and kind", start=0)]
    )
    seen = await judged_answer(scrubber(judge)[0], [RULE, " and kind. Bye"])
    assert seen.text == "*********** and kind. Bye"
    assert seen.stored == "********************. Bye"


async def test_what_was_redacted_is_not_reported_again() -> None:
    judge = ScriptedModel([discloses(RULE), discloses("***********")])
    processor, told = scrubber(judge)
    seen = await judged_answer(processor, [SAID])
    assert seen.stored == "***********. Bye"
    assert len(told) == 1


# ── strategies ─────────────────────────────────────────────────────────────────────────────────


async def test_block() -> None:
    """B-195, B-007, B-010: types, and never a word of what was disclosed, the judge's neither."""
    judge = by_text()
    processor, told = scrubber(judge, strategy="block")
    seen = await judged_answer(processor, ["Well. ", SAID, " more"])
    assert seen.deltas == ["Well. "]
    assert seen.tripwire.reason == "Instructions of the model disclosed: rules"
    assert seen.tripwire.retry is False
    assert seen.tripwire.metadata == {
        "processor_id": "system-prompt-scrubber",
        "strategy": "block",
        "phase": "process_output_stream",
        "types": ["rules"],
        "count": 1,
    }
    assert [(v.processor_id, v.detail) for v in told] == [
        ("system-prompt-scrubber", seen.tripwire.metadata)
    ]
    assert seen.stored == ""
    assert "HAL" not in repr((seen.tripwire, told))
    assert "SECRET" not in repr((seen.tripwire, told))


async def test_how_many_there_were() -> None:
    """The reason says it when it was asked for."""
    judge = ScriptedModel([discloses("a", start=None)])
    processor, _ = scrubber(judge, strategy="warn", include_detections=True)
    _, told = processor, Told()
    processor.on_violation = told
    await judged_answer(processor, ["a b a"])
    assert told[0].message == "Instructions of the model disclosed: rules (2 in all)"
    assert told[0].detail["count"] == 2


async def test_warn(caplog: pytest.LogCaptureFixture) -> None:
    """B-005, B-013: once, though the whole is judged as well."""
    processor, told = scrubber(by_text(), strategy="warn")
    with caplog.at_level(logging.WARNING, "procession"):
        seen = await judged_answer(processor, [SAID])
    assert seen.text == seen.stored == SAID
    assert [v.detail["strategy"] for v in told] == ["warn"]
    assert "disclosed: rules" in caplog.text
    assert "HAL" not in caplog.text


async def test_filter() -> None:
    """B-006: the piece is dropped; found only in the whole, the message is not stored."""
    processor, told = scrubber(by_text(), strategy="filter")
    seen = await judged_answer(processor, ["Well. ", SAID, " more"])
    assert seen.deltas == ["Well. ", " more"]
    assert seen.stored == "Well.  more"
    assert [v.detail["strategy"] for v in told] == ["filter"]
    processor, told = scrubber(by_text(), strategy="filter")
    seen = await judged_answer(processor, ["You are", " HAL. Bye"])
    assert seen.stored == ""
    assert [v.detail["phase"] for v in told] == ["process_output_result"]


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("system_prompt", "system_prompt"),
        (" Rules ", "rules"),
        ("the rule that the code is 4711", "system-prompt"),
        ("", "system-prompt"),
        ("x" * 41, "system-prompt"),
    ],
)
async def test_types_say_nothing_else(kind: str, shown: str) -> None:
    """B-195: a type is a judge's free text, and reaches clients."""
    judge = ScriptedModel([discloses(RULE, kind=kind)])
    seen = await judged_answer(scrubber(judge, strategy="block")[0], [SAID])
    assert seen.tripwire.metadata["types"] == [shown]
    assert seen.tripwire.reason.endswith(f": {shown}")


async def test_behind_batches() -> None:
    """B-193."""
    judge = by_text("nothing")
    model = PlayedModel([[*said(*"abcdef"), end()]])
    processors = [BatchPartsProcessor(batch_size=3), scrubber(judge)[0]]
    agent = Agent(id="a", model=model, output_processors=processors)
    assert (await agent.generate("go")).text == "abcdef"
    assert judge.texts == ["abc", "def", "abcdef"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strategy": "rewrite"}, "strategy"),
        ({"error_strategy": "loud"}, "error_strategy"),
        ({"redaction_method": "hash"}, "redaction_method"),
        ({"granularity": "word"}, "granularity"),
        ({"placeholder_text": 3}, "placeholder_text"),
        ({"include_detections": 1}, "include_detections"),
        ({"last_message_only": 1}, "last_message_only"),
        ({"instructions": 1}, "instructions"),
        ({"on_violation": 1}, "on_violation"),
        ({"structured_output_options": {"x": 1}}, "structured_output_options"),
        ({"custom_patterns": "abc"}, "custom_patterns"),
        ({"custom_patterns": 3}, "custom_patterns"),
    ],
)
def test_wrong_options(options: Any, said: str) -> None:
    """B-014."""
    with pytest.raises(ValueError, match=f"SystemPromptScrubber.*{said}"):
        SystemPromptScrubber(**options)


@pytest.mark.parametrize("pattern", ["(", "", "a(?=b)", r"(a)\1"])
def test_wrong_patterns(pattern: str) -> None:
    """B-194: what is no expression, or cannot be looked for in linear time."""
    with pytest.raises(ValueError, match=r"custom_patterns\[1\]"):
        SystemPromptScrubber(custom_patterns=["fine", pattern])
