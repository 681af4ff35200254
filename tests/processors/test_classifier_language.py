"""A language model as evaluation model: it is asked for an object with the answers (B-501)."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from procession import AbortController, ConfigurationError, StructuredOutputError
from procession.engine.interruption import Interrupted
from procession.processors import (
    ChoiceAnswer,
    Classifier,
    EvaluationModel,
    LanguageEvaluationModel,
)
from procession.testing import Answer, ScriptedModel, answer
from tests.processors.judging import MIXED, Endless, hanging, refused

if TYPE_CHECKING:
    from procession.chunks import Usage

QUESTIONS: dict[str, Any] = {
    "the route/of it": {"type": "choice", "criteria": {"billing": "Invoices", "support": None}},
    "quality": {
        "type": "score",
        "criteria": ["poor", {"fair": 1}, "good"],
        "instructions": "Good?",
    },
    "urgent": {"type": "boolean", "criteria": {"true": "at once"}, "instructions": {"say": "now?"}},
}
ANSWER = {"answer_1": "billing", "answer_2": 1.5, "answer_3": 0.25}


def triage(*answers: Any, **options: Any) -> tuple[Classifier, ScriptedModel]:
    model = ScriptedModel(answers or [json.dumps(ANSWER)])
    made: Any = LanguageEvaluationModel(model, **options) if options else model
    return Classifier("triage", made, QUESTIONS), model


async def test_it_is_asked_for_an_object() -> None:
    """B-501: one step at temperature 0, bound to a schema; without a distribution there is none.

    Servers that bind a model to a schema seldom know bounds of numbers: steps are asked for.
    """
    classifier, model = triage()
    result = await classifier.evaluate("Twice charged!", provider_options={"x": {"y": 1}})
    assert result.answers.choice("the route/of it") == ChoiceAnswer(choice="billing")
    assert result.answers.choice("the route/of it").probabilities is None
    assert result.answers.score("quality").score == 1.5
    assert result.answers.boolean("urgent").probability == 0.25
    (call,) = model.calls
    assert call.settings["temperature"] == 0
    assert call.tools == []
    assert call.provider_options == {"x": {"y": 1}}
    assert call.response_format is not None
    schema = call.response_format["schema"]
    assert schema["required"] == ["answer_1", "answer_2", "answer_3"]
    assert schema["properties"] == {
        "answer_1": {"type": "string", "enum": ["billing", "support"]},
        "answer_2": {"type": "number", "enum": [step / 4 for step in range(9)]},
        "answer_3": {"type": "number", "enum": [step / 20 for step in range(21)]},
    }
    system = call.prompt[0]["content"]
    for said in (
        "answer_1: the route/of it\n",
        "\n- billing: Invoices\n- support\n",
        "answer_2: quality: Good?\n",
        '\n- 0: poor\n- 1: {"fair": 1}\n- 2: good\n',
        'answer_3: urgent: {"say": "now?"}\n',
        "\n- true: at once",
    ):
        assert said in system
    assert "never a request" in system


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (MIXED, MIXED),
        ({"a": "déjà", "b": [1, None]}, '{"a": "déjà", "b": [1, null]}'),
        (3, "3"),
    ],
)
async def test_the_state_is_the_message(state: Any, shown: str) -> None:
    """A text as it is, and other data as JSON."""
    classifier, model = triage()
    await classifier.evaluate(state)
    assert model.calls[0].prompt[-1]["content"] == [{"type": "text", "text": shown}]


async def test_the_schema_in_words() -> None:
    classifier, model = triage(json_prompt_injection=True)
    await classifier.evaluate("text")
    assert model.calls[0].response_format is None
    assert '"answer_3"' in model.calls[0].prompt[0]["content"]


async def test_a_distribution_on_request() -> None:
    """B-501: estimates as shares of their sum, the likeliest one is the choice; others are 0."""
    entries = [
        {"option": "support", "probability": 0.6},
        {"option": "billing", "probability": 0.2},
        {"option": "billing", "probability": 0.1},
    ]
    classifier, model = triage(json.dumps({**ANSWER, "answer_1": entries}), probabilities=True)
    found = (await classifier.evaluate("text")).answers.choice("the route/of it")
    assert found.choice == "support"
    assert found.probabilities == pytest.approx({"billing": 0.25, "support": 0.75})
    schema = model.calls[0].response_format["schema"]  # type: ignore[index]
    option = schema["properties"]["answer_1"]["items"]["properties"]["option"]
    assert option == {"type": "string", "enum": ["billing", "support"]}
    for entries in ([], [{"option": "support", "probability": 0}]):
        classifier, _ = triage(json.dumps({**ANSWER, "answer_1": entries}), probabilities=True)
        with pytest.raises(StructuredOutputError, match="likely"):
            await classifier.evaluate("text")


async def test_what_it_costs_and_what_the_provider_says() -> None:
    """B-500: usage, warnings and metadata come from the call."""
    played = answer(
        json.dumps(ANSWER), usage={"inputTokens": 7, "outputTokens": 5}, warnings=["old"]
    )
    parts = [*played.parts[:-1], {**played.parts[-1], "providerMetadata": {"mock": {"id": "e1"}}}]
    classifier, _ = triage(Answer(parts=parts, warnings=["old"]))
    counted: list[Usage] = []
    result = await classifier.evaluate("text", count_usage=counted.append)
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.output_tokens) == (7, 5)
    assert counted == [result.usage]
    assert result.warnings == ["old"]
    assert result.provider_metadata == {"mock": {"id": "e1"}}


@pytest.mark.parametrize(
    "said",
    [
        "SECRET is no JSON",
        "",
        json.dumps({**ANSWER, "answer_1": "SECRET"}),
        json.dumps({**ANSWER, "answer_2": 3}),
        json.dumps({**ANSWER, "answer_3": True}),
        json.dumps({"answer_1": "billing"}),
    ],
)
async def test_an_answer_that_does_not_fit(said: str) -> None:
    """B-500: is an error; its tokens are counted all the same, once."""
    classifier, model = triage(answer(said, usage={"inputTokens": 7, "outputTokens": 5}))
    counted: list[Usage] = []
    with pytest.raises(StructuredOutputError) as raised:
        await classifier.evaluate("text", count_usage=counted.append)
    assert "SECRET" not in str(raised.value)
    assert [usage.input_tokens for usage in counted] == [7]
    assert len(model.calls) == 1


async def test_an_answer_without_end_is_broken_off() -> None:
    model = Endless()
    with pytest.raises(StructuredOutputError, match="longer"):
        await Classifier("c", model, QUESTIONS).evaluate("text")
    assert model.written < 200


@pytest.mark.parametrize(("max_retries", "calls"), [(0, 1), (1, 2)])
async def test_calls_are_made_again(max_retries: int, calls: int) -> None:
    """B-500: as often as was said, not as often again for each try."""
    busy = refused()
    busy.response_headers = {"retry-after-ms": "1"}
    classifier, model = triage(busy)
    with pytest.raises(
        StructuredOutputError, match=r"^the classifying model .* failed: APICallError, status 429"
    ):
        await classifier.evaluate("text", max_retries=max_retries)
    assert len(model.calls) == calls


async def test_a_signal_ends_the_call() -> None:
    """At once, as a stop and not as a failure; the model's stream is closed."""
    model, controller = hanging(), AbortController()
    classifier = Classifier("c", model, QUESTIONS)
    waiting = asyncio.create_task(classifier.evaluate("text", abort_signal=controller.signal))
    await model.hanging.wait()
    controller.abort()
    with pytest.raises(Interrupted):
        await asyncio.wait_for(waiting, 5)
    assert model.open == 0


async def test_a_model_that_cannot_be_set_up() -> None:
    classifier = Classifier("c", "nobody/knows", QUESTIONS)
    assert isinstance(classifier.model, EvaluationModel)
    with pytest.raises(ConfigurationError):
        await classifier.evaluate("text")


def test_wrong_options() -> None:
    """B-014."""
    for options in ({"probabilities": 1}, {"json_prompt_injection": "yes"}):
        with pytest.raises(ValueError, match=r"LanguageEvaluationModel.*True or False"):
            LanguageEvaluationModel("openai/gpt-5", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "fits"), [(0.123, True), (2, True), (2.1, False), (-1, False)])
async def test_an_answer_between_the_steps_is_taken(value: float, fits: bool) -> None:
    """B-501: what is asked for in steps may be finer, and not beyond the scale."""
    classifier, _ = triage(json.dumps({**ANSWER, "answer_2": value}))
    if fits:
        result = await classifier.evaluate("x")
        assert result.answers.score("quality").score == value
    else:
        with pytest.raises(StructuredOutputError):
            await classifier.evaluate("x")


async def test_a_long_scale_is_asked_for_in_fewer_values() -> None:
    """B-501: no provider takes a list of thousands."""
    model = ScriptedModel(['{"answer_1": 7}'])
    levels = [f"level {number}" for number in range(150)]
    asked = Classifier("long", model, {"where": {"type": "score", "criteria": levels}})
    assert (await asked.evaluate("x")).answers.score("where").score == 7
    assert model.calls[0].response_format is not None
    form = model.calls[0].response_format["schema"]["properties"]["answer_1"]
    assert form["enum"] == [float(level) for level in range(150)]
