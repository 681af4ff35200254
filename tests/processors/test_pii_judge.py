"""`PIIDetector` with a judge: what is asked, of whom, and what an answer means (B-020 to B-031)."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from procession import AbortController, Agent, APICallError, ConfigurationError
from procession.processor import ProcessInputArgs, ProcessorViolation
from procession.processors import PIIDetectionEvent, PIIDetector
from procession.testing import ScriptedModel, answer, hook_args

MAIL = "joe@example.com"


def verdict(*found: tuple[str, str, float], rewritten: str | None = None, **more: Any) -> str:
    """An answer of a judge: values with their type and confidence, at offsets that are wrong."""
    detections = [
        {"type": kind, "value": value, "confidence": sure, "start": 0, "end": 1}
        for kind, value, sure in found
    ]
    answered = {"categories": None, "detections": detections or None, "redacted_content": rewritten}
    return json.dumps({**answered, **more})


def flagged(kind: str, score: float, rewritten: str | None = None) -> str:
    """An answer that names a type and no value."""
    return verdict(categories=[{"type": kind, "score": score}], rewritten=rewritten)


async def judged(text: Any, *answers: Any, **options: Any) -> tuple[Any, ScriptedModel]:
    """The prompt's last text, or the tripwire, and the judge."""
    judge = ScriptedModel(answers)
    model = ScriptedModel(["ok"])
    detector = PIIDetector(model=judge, redaction_method="placeholder", **options)
    agent = Agent(id="a", model=model, input_processors=[detector])
    out = await agent.generate(text)
    prompted = model.calls[0].text if model.calls else ""
    return out.tripwire or prompted.splitlines()[-1], judge


# ── what is asked ──────────────────────────────────────────────────────────────────────────────


async def test_one_call_for_each_message() -> None:
    """B-022, B-023: temperature 0, no tools, an object of the schema; the text is the user's."""
    _, judge = await judged(["one", "two"], verdict())
    assert [call.prompt[-1]["content"][0]["text"] for call in judge.calls] == ["one", "two"]
    call = judge.calls[0]
    assert [entry["role"] for entry in call.prompt] == ["system", "user"]
    assert call.settings["temperature"] == 0
    assert call.tools == []
    assert call.response_format is not None
    assert set(call.response_format["schema"]["properties"]) == {
        *("categories", "detections", "redacted_content")
    }
    for kind in ("email", "name", "date-of-birth"):
        assert kind in call.prompt[0]["content"]


async def test_what_is_asked_for_can_be_bound_without_bounds() -> None:
    """B-120: servers that know no bounds of numbers keep shares between 0 and 1 all the same, and
    lists come to an end; a finer share is taken, and a longer value.
    """
    long = "Ada " * 100
    out, judge = await judged(
        long, verdict(("name", long.strip(), 0.701)), detection_types=["name"]
    )
    assert out == "[NAME] "
    call = judge.calls[0]
    assert call.response_format is not None
    properties = call.response_format["schema"]["properties"]
    categories, detections = properties["categories"], properties["detections"]
    shares = (
        categories["items"]["properties"]["score"],
        detections["items"]["properties"]["confidence"],
    )
    for share in shares:
        assert (share["enum"][0], share["enum"][-1], len(share["enum"])) == (0, 1, 21)
    assert (categories["maxItems"], detections["maxItems"]) == (1, 100)
    assert detections["items"]["properties"]["value"]["maxLength"] == 300


async def test_options_of_the_call() -> None:
    """B-020: instructions are the whole system text; options reach the provider; in words."""
    _, judge = await judged(
        "hi", verdict(), instructions="Find it.", provider_options={"x": {"y": 1}}
    )
    assert judge.calls[0].prompt[0]["content"] == "Find it."
    assert judge.calls[0].provider_options == {"x": {"y": 1}}
    _, judge = await judged(
        "hi", verdict(), structured_output_options={"json_prompt_injection": True}
    )
    assert judge.calls[0].response_format is None
    assert '"detections"' in judge.calls[0].prompt[0]["content"]


async def test_no_text_no_call() -> None:
    """B-011: a message without text costs nothing."""
    file = {"type": "file", "mimeType": "image/png", "data": "aGk="}
    message = {"id": "m", "role": "user", "content": {"format": 2, "parts": [file]}}
    judge = ScriptedModel([verdict()])
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[PIIDetector(model=judge)])
    await agent.generate([message])
    assert judge.calls == []


async def test_only_the_last_message_is_judged() -> None:
    """B-023."""
    _, judge = await judged(["one", "two"], verdict(), last_message_only=True)
    assert [call.prompt[-1]["content"][0]["text"] for call in judge.calls] == ["two"]


async def test_the_agents_own_model_judges_what_takes_judgement() -> None:
    """B-021: no model is given, so the agent's is asked, and only for what cannot be found."""
    model = ScriptedModel([verdict(("name", "Ada", 0.9)), "ok"])
    detector = PIIDetector(detection_types=["email", "name"], redaction_method="placeholder")
    agent = Agent(id="a", model=model, input_processors=[detector])
    out = await agent.generate(f"Ada, {MAIL}")
    assert out.text == "ok"
    assert "name" in model.calls[0].prompt[0]["content"]
    assert "email" not in model.calls[0].prompt[0]["content"]
    assert model.calls[1].text.splitlines()[-1] == "[NAME], [EMAIL]"
    assert out.processor_usage.output_tokens == 1
    assert out.usage.output_tokens == 1


@pytest.mark.parametrize("error_strategy", ["warn", "strict"])
async def test_no_model_to_ask(error_strategy: Any) -> None:
    """B-021: that is set up wrongly, which no error strategy covers."""
    detector = PIIDetector(detection_types=["name"], error_strategy=error_strategy)
    with pytest.raises(ConfigurationError, match="PIIDetector has no model"):
        await detector.process_input(hook_args(ProcessInputArgs, messages="Ada"))
    unknown = PIIDetector(model="nobody/knows", error_strategy=error_strategy)
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[unknown])
    with pytest.raises(ConfigurationError):
        await agent.generate("hi")


# ── what an answer means ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        (verdict(), f"Ada Ada {MAIL}"),
        (json.dumps({"categories": [], "detections": []}), f"Ada Ada {MAIL}"),  # B-029
        # B-124: offsets that do not fit are not trusted; each occurrence counts.
        (verdict(("name", "Ada", 0.9)), f"[NAME] [NAME] {MAIL}"),
        (verdict(("name", "Eva", 0.9)), f"Ada Ada {MAIL}"),
        (verdict(("name", "", 0.9)), f"Ada Ada {MAIL}"),
        # B-024: a confidence that equals the threshold counts.
        (verdict(("email", MAIL, 0.6)), "Ada Ada [EMAIL]"),
        (verdict(("email", MAIL, 0.59)), f"Ada Ada {MAIL}"),
        # B-030: types that were not asked for do not.
        (verdict(("colour", "Ada", 0.9)), f"Ada Ada {MAIL}"),
        (flagged("colour", 0.9, "x"), f"Ada Ada {MAIL}"),
        # B-123: without values the rewritten text counts, in which the rest is found locally.
        (flagged("name", 0.6, f"*** *** {MAIL}"), "*** *** [EMAIL]"),
        (flagged("name", 0.59, "*** ***"), f"Ada Ada {MAIL}"),
        (verdict(("name", "Ada", 0.9), rewritten="other"), f"[NAME] [NAME] {MAIL}"),
        # B-125: what overlaps is one region, of the longest type.
        (verdict(("name", "Ada", 0.9), ("address", "Ada Ada", 0.9)), f"[ADDRESS] {MAIL}"),
    ],
)
async def test_answers(answered: str, expected: str) -> None:
    """B-120 to B-125: with a model given, its verdict counts for all types."""
    assert (await judged(f"Ada Ada {MAIL}", answered))[0] == expected


async def test_offsets_that_fit() -> None:
    """B-124: then only that place is meant."""
    there = {"type": "name", "value": "Ada", "confidence": 1, "start": 4, "end": 7}
    assert (await judged("Ada Ada", verdict(detections=[there])))[0] == "Ada [NAME]"


async def test_flagged_but_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """B-123: without values and without a rewritten text it stays, with a warning."""
    with caplog.at_level(logging.WARNING, "procession"):
        assert (await judged("Ada", flagged("name", 0.9)))[0] == "Ada"
    assert "name" in caplog.text
    tripwire, _ = await judged("Ada", flagged("name", 0.9), strategy="block")
    assert (tripwire.metadata["types"], tripwire.metadata["count"]) == (["name"], 0)


async def test_a_message_of_several_parts() -> None:
    """The parts are judged together, and changed each by itself; the flat text goes along."""
    parts = [{"type": "text", "text": "I am Ada"}, {"type": "text", "text": "yes, Ada"}]
    content = {"format": 2, "parts": parts, "content": "I am Adayes, Ada"}
    message = {"id": "m", "role": "user", "content": content}
    judge = ScriptedModel([verdict(("name", "Ada", 0.9)), flagged("name", 1, "I am * yes, *")])
    detector = PIIDetector(model=judge, redaction_method="placeholder")
    for expected in (["I am [NAME]", "yes, [NAME]"], ["I am * yes, *", ""]):
        args = hook_args(ProcessInputArgs, messages=[message])
        made = await detector.process_input(args)
        assert [part.text for part in made[0].parts] == expected
        assert made[0].content.content == "".join(expected)


async def test_events_of_a_judge() -> None:
    """B-127: one for each message, flagged or not; `detection_result` is what counted."""
    heard: list[PIIDetectionEvent] = []
    await judged(
        ["Ada", "Bob"], verdict(("name", "Ada", 0.9)), verdict(), on_detection=heard.append
    )
    assert [(event.input, event.flagged) for event in heard] == [("Ada", True), ("Bob", False)]
    assert [one.value for one in heard[0].detection_result.detections] == ["Ada"]


# ── failures ───────────────────────────────────────────────────────────────────────────────────

FAILURES: list[Any] = [
    APICallError("the text was Ada", status_code=400),
    "no JSON, but Ada",
    '{"categories": null}',
    json.dumps({"categories": [{"type": "name", "score": 7}], "detections": None}),
    answer(),
]


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failing_judge_under_warn(failure: Any, caplog: pytest.LogCaptureFixture) -> None:
    """B-025, B-026: logged without the text; what needs no judge is found all the same."""
    with caplog.at_level(logging.WARNING, "procession"):
        assert (await judged(f"Ada {MAIL}", failure))[0] == "Ada [EMAIL]"
    assert "no verdict" in caplog.text
    assert "Ada" not in caplog.text


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failing_judge_under_strict(failure: Any) -> None:
    """B-025, B-026: blocked, with metadata that says so and no detail of the failure."""
    tripwire, _ = await judged("Ada", failure, error_strategy="strict")
    metadata = dict(tripwire.metadata)
    assert metadata.pop("message_id")
    assert metadata == {
        "processor_id": "pii-detector",
        "strategy": "redact",
        "phase": "process_input",
        "types": [],
        "error": True,
    }
    assert "Ada" not in tripwire.reason
    assert "PIIDetector" in tripwire.reason


async def test_a_verdict_is_no_failure() -> None:
    """B-027: a block is never taken for one."""
    tripwire, _ = await judged("Ada", verdict(("name", "Ada", 0.9)), strategy="block")
    assert tripwire.metadata["types"] == ["name"]
    assert "error" not in tripwire.metadata


async def test_the_callers_signal_ends_a_call() -> None:
    """B-022: a stop is heard while the judge is waited for."""
    controller = AbortController()
    judge = ScriptedModel([answer(verdict(), delay=30)])
    agent = Agent(id="a", model=ScriptedModel(["ok"]), output_processors=[PIIDetector(model=judge)])
    judge.on_call = lambda call: asyncio.get_running_loop().call_soon(controller.abort)
    async with asyncio.timeout(5):
        run = await agent.stream("hi", abort_signal=controller.signal)
        await run.consume_stream()
    assert len(judge.calls) == 1
    assert run.status == "canceled"


# ── the stream ─────────────────────────────────────────────────────────────────────────────────

TEXT = f"I am Ada. Write to {MAIL} or call. Bye Ada"


class Finder:
    """Answers as a judge who knows one name."""

    def __init__(self) -> None:
        self.judge = ScriptedModel([verdict(("name", "Ada", 0.9))])

    def texts(self) -> list[str]:
        """What it was asked about."""
        return [call.prompt[-1]["content"][0]["text"] for call in self.judge.calls]


async def stream(detector: PIIDetector, *pieces: str) -> tuple[str, Any]:
    """The delivered text, and the run."""
    agent = Agent(id="a", model=ScriptedModel([answer(*pieces)]), output_processors=[detector])
    run = await agent.stream("hi")
    chunks = [chunk async for chunk in run.full_stream]
    return "".join(c.payload.text for c in chunks if c.type == "text-delta"), run


def pieces_of(size: int) -> list[str]:
    """The text in pieces of a size."""
    return [TEXT[i : i + size] for i in range(0, len(TEXT), size)]


@pytest.mark.parametrize("size", [1, 7, 100])
async def test_a_stream_is_judged_sentence_by_sentence(size: int) -> None:
    """B-131, law 3: the calls are the same for every cutting; local types are found besides."""
    finder = Finder()
    detector = PIIDetector(model=finder.judge, redaction_method="placeholder")
    text, run = await stream(detector, *pieces_of(size))
    assert text == "I am [NAME]. Write to [EMAIL] or call. Bye [NAME]"
    assert await run.text == text
    sentences = ["I am Ada. ", f"Write to {MAIL} or call. ", "Bye Ada"]
    assert finder.texts() == [*sentences, text]  # with a model given, the whole once more


@pytest.mark.parametrize("size", [1, 7, 100])
async def test_long_sentences_are_judged_in_parts(size: int) -> None:
    """B-131: `buffer_size` characters at the latest."""
    finder = Finder()
    detector = PIIDetector(model=finder.judge, detection_types=["name"], buffer_size=16)
    await stream(detector, *pieces_of(size))
    asked = finder.texts()[:-1]
    assert "".join(asked) == TEXT
    assert max(map(len, asked)) <= 16
    assert asked[:2] == ["I am Ada. ", "Write to joe@exa"]


async def test_what_was_judged_as_it_went_by_is_not_judged_again() -> None:
    """B-021: the agent's own model is asked once for each sentence."""
    model = ScriptedModel([answer("I am Ada."), verdict(("name", "Ada", 0.9))])
    detector = PIIDetector(detection_types=["name"], redaction_method="placeholder")
    agent = Agent(id="a", model=model, output_processors=[detector])
    out = await agent.generate("hi")
    assert out.text == out.messages[-1].text == "I am [NAME]."
    assert len(model.calls) == 2


@pytest.mark.parametrize("strategy", ["block", "filter", "warn"])
async def test_strategies_in_a_judged_stream(strategy: Any) -> None:
    """2.1: nothing of a flagged sentence is delivered under `block` and `filter`."""
    judge = ScriptedModel([verdict(), verdict(("name", "Ada", 0.9)), verdict()])
    told: list[ProcessorViolation] = []
    detector = PIIDetector(
        model=judge, detection_types=["name"], strategy=strategy, on_violation=told.append
    )
    text, run = await stream(detector, *"Hi. Ada here. Bye.")
    expected = {"block": "Hi. ", "filter": "Hi. Bye.", "warn": "Hi. Ada here. Bye."}
    assert text == expected[strategy]
    assert (run.tripwire is not None) == (strategy == "block")
    assert [violation.detail for violation in told] == [
        {
            "processor_id": "pii-detector",
            "strategy": strategy,
            "phase": "process_output_stream",
            "types": ["name"],
            "count": 1,
        }
    ]


@pytest.mark.parametrize("error_strategy", ["warn", "strict"])
async def test_a_judge_that_fails_in_the_stream(error_strategy: Any) -> None:
    """B-028: the chunk goes on unchanged, or the run is blocked."""
    judge = ScriptedModel([APICallError("no", status_code=400)])
    detector = PIIDetector(model=judge, detection_types=["name"], error_strategy=error_strategy)
    text, run = await stream(detector, "Hi Ada.")
    if error_strategy == "warn":
        assert (text, run.tripwire) == ("Hi Ada.", None)
    else:
        assert text == ""
        assert run.tripwire.metadata["error"] is True


@pytest.mark.parametrize("error_strategy", ["warn", "strict"])
async def test_without_types_for_a_judge_a_stream_is_not_judged(error_strategy: Any) -> None:
    """B-130: it goes by redacted, whatever a failure counts as; the whole answer is judged."""
    judge = ScriptedModel([APICallError("no", status_code=400)])
    detector = PIIDetector(model=judge, detection_types=["email"], error_strategy=error_strategy)
    text, run = await stream(detector, "To joe@exam", "ple.com.")
    assert text == "To j*e@*******.com."
    assert len(judge.calls) == 1
    if error_strategy == "strict":
        assert run.tripwire.metadata["phase"] == "process_output_result"


async def test_every_judged_piece_is_an_event() -> None:
    """B-127: for every judge call of a stream, flagged or not."""
    heard: list[Any] = []

    async def listen(event: PIIDetectionEvent) -> None:
        heard.append((event.input, event.flagged))

    judge = ScriptedModel([verdict(), verdict(("name", "Ada", 0.9)), verdict()])
    detector = PIIDetector(model=judge, detection_types=["name"], on_detection=listen)
    await stream(detector, "Hi. Ada here.")
    assert heard == [("Hi. ", False), ("Ada here.", True), ("Hi. A*a here.", False)]
