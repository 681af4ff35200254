"""`ClassifierProcessor` on messages: what decides, and what failures mean (B-510 to B-512)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from procession import AbortController, Agent, ConfigurationError, Policy
from procession.chunks import Usage
from procession.processors import Classifier, ClassifierProcessor
from procession.testing import ScriptedModel
from tests.laws.kit import PlayedModel, end, said
from tests.processors.classifying import Evaluates, Hangs, badness, is_bad
from tests.processors.judging import (
    CODE,
    IMAGE,
    MIXED,
    PATIENT,
    Remembers,
    Told,
    judged_answer,
    judged_input,
    user,
)


def blocks(answers: Any, context: Any) -> None:
    if answers.boolean("bad").probability >= 0.5:
        context.abort("not that")


def filters(answers: Any, context: Any) -> None:
    if answers.boolean("bad").probability >= 0.5:
        context.filter()


def classifying(
    on_result: Any = blocks, answers: Any = is_bad, **options: Any
) -> tuple[ClassifierProcessor, Evaluates, Told]:
    model, told = Evaluates(answers), Told()
    processor = ClassifierProcessor(
        classifier=badness(model), on_result=on_result, on_violation=told, **options
    )
    return processor, model, told


# ── what decides ───────────────────────────────────────────────────────────────────────────────


async def test_on_result_is_told_everything() -> None:
    """B-510: the answers, the phase and the whole result; nothing called, nothing changes."""
    heard: list[Any] = []

    def listen(answers: Any, context: Any) -> bool:
        heard.append((answers["bad"].probability, context.phase, context.result.answers))
        return False

    processor, model, told = classifying(listen)
    seen = await judged_input(processor, ["one", "two bad"])
    assert [(probability, phase) for probability, phase, _ in heard] == [
        (0.1, "input"),
        (0.9, "input"),
    ]
    assert heard[0][2].boolean("bad").probability == 0.1
    assert model.states == ["one", "two bad"]
    assert (seen.text, seen.tripwire, told) == ("ok", None, [])
    heard.clear()
    await judged_answer(processor, ["one"])
    assert [phase for _, phase, _ in heard] == ["stream", "output"]


async def test_abort() -> None:
    """B-510, B-007, B-009, B-010: the reason is the callback's alone; no word of the text."""
    processor, _, told = classifying()
    seen = await judged_input(processor, "SECRET bad")
    assert (seen.tripwire.reason, seen.tripwire.processor_id) == ("not that", "classifier")
    assert seen.tripwire.retry is False
    message_id = seen.tripwire.metadata["message_id"]
    assert seen.tripwire.metadata == {
        "processor_id": "classifier",
        "strategy": "block",
        "phase": "process_input",
        "message_id": message_id,
    }
    assert seen.model.calls == []
    assert [(v.processor_id, v.message, v.detail) for v in told] == [  # B-903
        ("classifier", "not that", seen.tripwire.metadata)
    ]


async def test_filter() -> None:
    """B-510, B-006: the message is removed, and the run goes on."""
    processor, _, told = classifying(filters)
    seen = await judged_input(processor, ["one", "bad", "three"])
    assert [entry["content"][0]["text"] for entry in seen.prompt] == ["one", "three"]
    assert [(v.processor_id, v.detail["strategy"]) for v in told] == [("classifier", "filter")]


async def test_on_result_may_be_async() -> None:
    async def later(answers: Any, context: Any) -> None:
        await asyncio.sleep(0)
        blocks(answers, context)

    processor, _, _ = classifying(later)
    assert (await judged_input(processor, "bad")).tripwire.reason == "not that"
    assert (await judged_input(processor, "good")).tripwire is None


async def test_an_abort_stands_whatever_the_callback_makes_of_it() -> None:
    def swallows(answers: Any, context: Any) -> None:
        try:
            context.abort("not that")
        except BaseException:
            pass

    processor, _, _ = classifying(swallows)
    seen = await judged_input(processor, "text")
    assert seen.tripwire.reason == "not that"
    assert seen.model.calls == []


async def test_what_is_remembered_does_not_end_each_later_request() -> None:
    """G-C4: it is left out instead; what is new ends the run as ever."""
    processor, _, told = classifying()
    model = ScriptedModel(["ok"])
    agent = Agent(id="a", model=model, input_processors=[Remembers("bad", "good"), processor])
    assert (await agent.generate("hi")).text == "ok"
    users = [entry for entry in model.calls[0].prompt if entry["role"] == "user"]
    assert [entry["content"][0]["text"] for entry in users] == ["good", "hi"]
    assert [violation.detail["strategy"] for violation in told] == ["filter"]
    assert (await agent.generate("bad as well")).tripwire is not None


async def test_two_under_different_ids_and_under_the_same() -> None:
    """B-512: they decide apart; here not even those of one id share what they know of a run."""
    for ids in (("first", "second"), ("same", "same")):
        windows: list[list[Any]] = []
        processors: list[Any] = []
        for id in ids:
            processor, model, _ = classifying(id=id, chunk_window=2)
            windows.append(model.requests)
            processors.append(processor)
        model = PlayedModel([[*said("one ", "two"), end()]])
        agent = Agent(id="a", model=model, output_processors=processors)
        assert (await agent.generate("go")).text == "one two"
        for requests in windows:
            assert [request.state for request in requests] == ["one ", "one two", "one two"]
    processor, _, _ = classifying(id="first")
    assert (await judged_input(processor, "bad")).tripwire.processor_id == "first"


# ── what is classified ─────────────────────────────────────────────────────────────────────────


async def test_only_texts_and_only_the_last_message() -> None:
    """B-011, B-023."""
    processor, model, _ = classifying(last_message_only=True)
    seen = await judged_input(processor, ["bad", user(IMAGE, "one", "two")])
    assert model.states == ["one\ntwo"]
    assert seen.tripwire is None
    processor, model, _ = classifying()
    await judged_input(processor, [user(IMAGE), user(" \n", id="m2")])
    assert model.states == []


async def test_at_most_so_many_characters() -> None:
    """`max_input_length`: of a message the first ones."""
    processor, model, _ = classifying(max_input_length=5)
    await judged_input(processor, ["one two three", "four"])
    assert model.states == ["one t", "four"]


async def test_texts_of_all_scripts_are_unharmed() -> None:
    processor, model, _ = classifying()
    seen = await judged_input(processor, [user(MIXED, IMAGE, CODE)])
    assert model.states == [f"{MIXED}\n{CODE}"]
    content = seen.prompt[0]["content"]
    assert [content[0]["text"], content[2]["text"]] == [MIXED, CODE]


async def test_options_and_tokens_of_the_call() -> None:
    """B-022: the provider's options, the run's id, signal and retries; tokens are counted apart."""
    processor, model, _ = classifying(provider_options={"x": {"y": 1}})
    model.usage = Usage(input_tokens=7, output_tokens=5)
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[processor], max_retries=3)
    controller = AbortController()
    out = await agent.generate(["one", "two"], abort_signal=controller.signal, run_id="r1")
    request = model.requests[0]
    assert request.provider_options == {"x": {"y": 1}}
    assert (request.run_id, request.abort_signal) == ("r1", controller.signal)
    assert request.max_retries == 3
    assert (out.processor_usage.input_tokens, out.processor_usage.output_tokens) == (14, 10)
    assert out.usage.input_tokens == 3


async def test_a_language_model_classifies() -> None:
    """B-501: with the classifier as it is."""
    judge = ScriptedModel(['{"answer_1": 0.9}'])
    processor = ClassifierProcessor(classifier=badness(judge), on_result=blocks)
    seen = await judged_input(processor, "text")
    assert seen.tripwire.reason == "not that"
    assert (await seen.run.processor_usage).output_tokens == 1


# ── failures ───────────────────────────────────────────────────────────────────────────────────


def raises(answers: Any, context: Any) -> None:
    raise KeyError("SECRET")


FAILURES: dict[str, tuple[Any, Any, str]] = {
    "the model raises": (blocks, lambda state: ValueError("SECRET"), "ValueError"),
    "nonsense": (blocks, lambda state: {"SECRET": 1}, "StructuredOutputError"),
    "on_result raises": (raises, is_bad, "KeyError"),
}


@pytest.mark.parametrize("kind", list(FAILURES))
@pytest.mark.parametrize("place", ["input", "stream", "output"])
@pytest.mark.parametrize("error_strategy", [None, "strict", "warn"])
async def test_a_failure(
    kind: str, place: str, error_strategy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """B-511, B-902: it closes by default; under `warn` the text passes; either is an event."""
    on_result, answers, name = FAILURES[kind]
    options = {} if error_strategy is None else {"error_strategy": error_strategy}

    def of_the_place(found: Any, context: Any) -> None:
        if context.phase == place:
            on_result(found, context)

    def for_the_place(state: Any) -> Any:
        is_there = place != "output" or state == "fine words"
        return answers(state) if is_there else is_bad(state)

    processor, _, told = classifying(of_the_place, for_the_place, **options)
    with caplog.at_level(logging.DEBUG, "procession"):
        if place == "input":
            seen = await judged_input(processor, "fine words")
        else:
            seen = await judged_answer(processor, ["fine ", "words"])
    if error_strategy == "warn":
        assert seen.tripwire is None
        assert seen.text == ("ok" if place == "input" else "fine words")
        assert {(e.action, e.error) for e in seen.events} == {("bypassed", name)}
    else:
        assert seen.tripwire.reason == "ClassifierProcessor could not check the text"
        metadata = seen.tripwire.metadata
        assert (metadata["error"], metadata["types"]) == (True, [])
        assert [(e.action, e.error) for e in seen.events] == [("blocked", name)]
        assert len(told) == 1
    assert seen.error is None
    assert "SECRET" not in repr((seen.tripwire, seen.events, told)) + caplog.text


@pytest.mark.parametrize("error_strategy", ["strict", "warn"])
async def test_what_is_set_up_wrongly_is_always_raised(error_strategy: Any) -> None:
    """B-511: a model that nobody knows, a question that was not asked; no policy covers it."""

    def misspells(answers: Any, context: Any) -> None:
        if answers.boolean("bda").probability:
            context.abort("not that")

    for processor in (
        ClassifierProcessor(
            classifier=badness("nobody/knows"), on_result=blocks, error_strategy=error_strategy
        ),
        classifying(misspells, error_strategy=error_strategy)[0],
    ):
        processor.policy = Policy(on_error="allow")
        agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[processor])
        with pytest.raises(ConfigurationError):
            await agent.generate("hi")


async def test_one_that_hangs() -> None:
    """A policy's timeout ends it, and so does the caller's signal; nothing is left behind."""
    model = Hangs()
    processor = ClassifierProcessor(
        classifier=badness(model), on_result=blocks, policy=Policy(timeout=PATIENT)
    )
    seen = await judged_input(processor, "text")
    assert seen.tripwire.metadata["kind"] == "timeout"
    assert model.open == 0
    model, controller = Hangs(), AbortController()
    processor = ClassifierProcessor(
        classifier=badness(model), on_result=blocks, error_strategy="warn"
    )
    running = asyncio.create_task(judged_input(processor, "text", abort_signal=controller.signal))
    await model.asked.wait()
    controller.abort()
    seen = await running
    assert "abort" in seen.types
    assert (seen.tripwire, seen.model.calls, model.open) == (None, [], 0)
    assert seen.events == []


async def test_many_runs_at_the_same_time() -> None:
    """One processor in many runs: each has its own verdict and its own window."""
    processor, _, _ = classifying(chunk_window=9)

    async def one(number: int) -> tuple[str, bool]:
        word = "bad" if number % 3 == 0 else f"fine{number}"
        seen = await judged_answer(processor, [f"{number}:", word])
        return seen.text, seen.tripwire is not None

    outcomes = await asyncio.gather(*map(one, range(30)))
    assert outcomes == [
        (f"{n}:", True) if n % 3 == 0 else (f"{n}:fine{n}", False) for n in range(30)
    ]


async def test_the_event_names_what_the_language_model_raised() -> None:
    """B-026: not only that its answer is missing."""
    judge = ScriptedModel([ValueError("SECRET")])
    processor = ClassifierProcessor(classifier=badness(judge), on_result=blocks)
    seen = await judged_input(processor, "text")
    assert [(event.action, event.error) for event in seen.events] == [("blocked", "ValueError")]


# ── options that are none ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"classifier": None}, "classifier must be a Classifier"),
        ({"classifier": Classifier("empty", Hangs())}, "'empty' has no questions"),
        ({"on_result": None}, "on_result"),
        ({"on_result": 3}, "on_result"),
        ({"error_strategy": "loud"}, "error_strategy"),
        ({"granularity": "word"}, "granularity"),
        ({"chunk_window": -1}, "chunk_window"),
        ({"max_input_length": 0}, "max_input_length"),
        ({"last_message_only": 1}, "last_message_only"),
        ({"provider_options": 3}, "provider_options"),
        ({"on_violation": 3}, "on_violation"),
    ],
)
def test_wrong_options(options: Any, said: str) -> None:
    """B-014."""
    given: Any = {"classifier": badness(Hangs()), "on_result": blocks, **options}
    with pytest.raises(ValueError, match=f"ClassifierProcessor.*{said}"):
        ClassifierProcessor(**given)


def test_a_name_is_looked_up_on_an_app_and_there_is_none() -> None:
    """B-510, B-511: it is said at once, whatever the strategy."""
    with pytest.raises(ConfigurationError, match=r"'safety'.*no app.*give the Classifier itself"):
        ClassifierProcessor(classifier="safety", on_result=blocks, error_strategy="warn")  # type: ignore[arg-type]
