"""`Classifier`: questions, answers and what is checked of both (B-500)."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession import (
    AbortController,
    APICallError,
    ConfigurationError,
    InputError,
    ModelError,
    StructuredOutputError,
)
from procession.chunks import Usage
from procession.engine.interruption import Interrupted
from procession.processors import (
    BooleanAnswer,
    BooleanQuestion,
    ChoiceAnswer,
    ChoiceQuestion,
    Classifier,
    EvaluationModel,
    EvaluationResponse,
    ScoreAnswer,
    ScoreQuestion,
)
from tests.processors.classifying import Evaluates, Hangs, sure

QUESTIONS: dict[str, Any] = {
    "route": ChoiceQuestion(criteria={"billing": "Invoices", "support": None}),
    "quality": {"type": "score", "criteria": ["poor", "fair", "good"], "instructions": "How good?"},
    "urgent": {"type": "boolean"},
}
ANSWERS: dict[str, Any] = {
    "route": {
        "type": "choice",
        "choice": "billing",
        "probabilities": {"support": 0.3, "billing": 0.7},
    },
    "quality": {"type": "score", "score": 1.5, "probabilities": {"0": 0.0, "1": 0.5, "2": 0.5}},
    "urgent": sure(0.2),
}


def triage(answers: Any = ANSWERS, **options: Any) -> tuple[Classifier, Evaluates]:
    model = Evaluates(lambda state: answers, **options)
    return Classifier("triage", model, QUESTIONS), model


# ── what is asked, and answered ────────────────────────────────────────────────────────────────


async def test_questions_of_every_kind() -> None:
    """B-500: one call with the state and all questions, and an answer of its type to each."""
    classifier, model = triage()
    assert isinstance(model, EvaluationModel)
    state = {"subject": "Twice charged", "lines": [1, 2.5, None, True]}
    result = await classifier.evaluate(state, provider_options={"x": {"y": 1}}, run_id="r1")
    assert result.answers.choice("route") == ChoiceAnswer(
        choice="billing", probabilities={"billing": 0.7, "support": 0.3}
    )
    assert result.answers.score("quality") == ScoreAnswer(score=1.5, probabilities=(0.0, 0.5, 0.5))
    assert result.answers.boolean("urgent") == BooleanAnswer(probability=0.2)
    assert result.answers["urgent"] == BooleanAnswer(probability=0.2)
    assert list(result.answers) == list(QUESTIONS)
    (request,) = model.requests
    assert request.state == state
    assert request.questions == {
        "route": ChoiceQuestion(criteria={"billing": "Invoices", "support": None}),
        "quality": ScoreQuestion(criteria=("poor", "fair", "good"), instructions="How good?"),
        "urgent": BooleanQuestion(),
    }
    assert (request.provider_options, request.run_id) == ({"x": {"y": 1}}, "r1")
    assert request.max_retries == 2


async def test_answers_as_objects() -> None:
    """B-500: an evaluation model may answer with them, and may be plain."""

    class Plain:
        def evaluate(self, request: Any) -> EvaluationResponse:
            answers = {"route": ChoiceAnswer(choice="b"), "urgent": BooleanAnswer(probability=1)}
            return EvaluationResponse(answers=answers)

    options = ChoiceQuestion(criteria={"a": 1, "b": {"deep": [2]}})
    classifier = Classifier("c", Plain(), {"route": options, "urgent": {"type": "boolean"}})
    answers = (await classifier.evaluate("text")).answers
    assert answers.choice("route") == ChoiceAnswer(choice="b", probabilities=None)
    assert answers.boolean("urgent").probability == 1.0


async def test_what_the_model_says_beside() -> None:
    """B-500: usage, warnings and metadata of the provider; tokens are told to who counts them."""

    class Talks:
        async def evaluate(self, request: Any) -> EvaluationResponse:
            return EvaluationResponse(
                answers={"a": sure(1)},
                usage=Usage(input_tokens=3, output_tokens=2),
                warnings=["old model"],
                provider_metadata={"example": {"id": "e1"}},
            )

    counted: list[Usage] = []
    classifier = Classifier("c", Talks(), {"a": {"type": "boolean"}})
    result = await classifier.evaluate("text", count_usage=counted.append)
    assert result.usage is not None and result.usage.total_tokens == 5
    assert counted == [result.usage]
    assert result.warnings == ["old model"]
    assert result.provider_metadata == {"example": {"id": "e1"}}
    silent = await triage()[0].evaluate("text")
    assert (silent.usage, silent.warnings, silent.provider_metadata) == (None, [], None)


async def test_questions_with_the_call() -> None:
    """B-500: either in the constructor or in the call, not both, and not neither."""
    model = Evaluates(lambda state: {"a": sure(0.5)})
    asks_nothing = Classifier("c", model)
    result = await asks_nothing.evaluate("text", {"a": {"type": "boolean"}})
    assert result.answers.boolean("a").probability == 0.5
    with pytest.raises(InputError, match="has no questions"):
        await asks_nothing.evaluate("text")
    with pytest.raises(InputError, match="questions of its own"):
        await triage()[0].evaluate("text", {"a": {"type": "boolean"}})
    with pytest.raises(InputError, match="question 'a'"):
        await asks_nothing.evaluate("text", {"a": {"type": "score"}})
    assert len(model.requests) == 1


async def test_a_boolean_question_says_what_true_and_false_are() -> None:
    """B-500: with the words of Python or of JSON for them."""
    given: dict[str, Any] = {
        "a": BooleanQuestion(criteria={True: "unsafe", False: "safe"}),
        "b": {"type": "boolean", "criteria": {"true": "unsafe"}},
    }
    model = Evaluates(lambda state: {"a": sure(0), "b": sure(0)})
    await Classifier("c", model, given).evaluate(1)
    asked = model.requests[0].questions
    assert [asked["a"].criteria, asked["b"].criteria] == [
        {True: "unsafe", False: "safe"},
        {True: "unsafe"},
    ]


async def test_an_answer_that_nobody_asked_for_is_a_mistake_in_the_program() -> None:
    answers = (await triage()[0].evaluate("text")).answers
    with pytest.raises(ConfigurationError, match="no question 'urgnt' was asked"):
        answers.boolean("urgnt")
    with pytest.raises(ConfigurationError, match="'route' is a choice question"):
        answers.boolean("route")


# ── what is checked of answers ─────────────────────────────────────────────────────────────────


def shares(**probabilities: Any) -> dict[str, Any]:
    return {"type": "choice", "choice": "billing", "probabilities": probabilities}


MISFITS: dict[str, tuple[str, Any]] = {
    "unknown choice": ("route", {"type": "choice", "choice": "SECRET"}),
    "no choice": ("route", {"type": "choice"}),
    "a number for a choice": ("route", {"type": "choice", "choice": 1}),
    "another kind": ("route", sure(0.5)),
    "no kind": ("urgent", {"probability": 0.5}),
    "no mapping": ("urgent", 0.5),
    "nothing": ("urgent", None),
    "less than all options": ("route", shares(billing=1)),
    "more than all": ("route", shares(billing=1, support=0, SECRET=0)),
    "not 1 together": ("route", shares(billing=1, support=1)),
    "too little": ("route", shares(billing=0.7, support=0.2)),
    "no number": ("route", shares(billing="1", support=0)),
    "over 1": ("urgent", sure(1.01)),
    "under 0": ("urgent", sure(-0.01)),
    "not finite": ("urgent", sure(math.nan)),
    "a bool": ("urgent", sure(True)),
    "above the scale": ("quality", {"type": "score", "score": 2.01}),
    "below the scale": ("quality", {"type": "score", "score": -1}),
    "infinite": ("quality", {"type": "score", "score": math.inf}),
    "two levels of three": ("quality", {"type": "score", "score": 1, "probabilities": [0.5, 0.5]}),
    "a fourth level": (
        "quality",
        {"type": "score", "score": 1, "probabilities": {"0": 1, "1": 0, "2": 0, "3": 0}},
    ),
    "levels not 1 together": (
        "quality",
        {"type": "score", "score": 1, "probabilities": [0.5, 0.5, 0.5]},
    ),
}


@pytest.mark.parametrize("kind", list(MISFITS))
async def test_an_answer_that_does_not_fit(kind: str) -> None:
    """B-500: it is an error that names the question, and repeats no value; tokens are counted."""
    name, answer = MISFITS[kind]
    classifier, _ = triage({**ANSWERS, name: answer}, usage=Usage(input_tokens=1, output_tokens=1))
    counted: list[Usage] = []
    with pytest.raises(StructuredOutputError, match=f"'triage'.*'{name}'") as raised:
        await classifier.evaluate("text", count_usage=counted.append)
    assert raised.value.problems[0]["path"] == [name]
    assert "SECRET" not in str(raised.value)
    assert len(counted) == 1


@pytest.mark.parametrize(
    "answers",
    [
        {k: v for k, v in ANSWERS.items() if k != "route"},
        {**ANSWERS, "SECRET": sure(1)},
        [],
        None,
    ],
)
async def test_there_is_one_answer_to_each_question(answers: Any) -> None:
    """B-500: not less, and not more."""
    classifier, _ = triage(answers)
    with pytest.raises(StructuredOutputError) as raised:
        await classifier.evaluate("text")
    assert "SECRET" not in str(raised.value)


async def test_a_model_that_returns_something_else() -> None:
    class Wrong:
        async def evaluate(self, request: Any) -> Any:
            return {"answers": ANSWERS}

    with pytest.raises(ModelError, match="EvaluationResponse, not dict"):
        await Classifier("c", Wrong(), QUESTIONS).evaluate("text")


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12).filter(lambda w: sum(w) > 0.01))
def test_distributions_rounded_to_two_places_are_taken(weights: list[float]) -> None:
    """B-500: that they are 1 together holds as far as what is rounded can say so."""
    options = {f"o{number}": None for number in range(len(weights))}
    likely = [round(weight / sum(weights), 2) for weight in weights]
    answer = {
        "type": "choice",
        "choice": "o0",
        "probabilities": dict(zip(options, likely, strict=True)),
    }
    model = Evaluates(lambda state: {"q": answer})
    classifier = Classifier("c", model, {"q": ChoiceQuestion(criteria=options)})
    found = asyncio.run(classifier.evaluate("text")).answers.choice("q")
    assert list((found.probabilities or {}).values()) == likely


# ── failures and stops ─────────────────────────────────────────────────────────────────────────


def busy() -> APICallError:
    return APICallError(
        "busy", status_code=503, is_retryable=True, response_headers={"retry-after-ms": "1"}
    )


@pytest.mark.parametrize(
    ("failures", "max_retries", "calls"), [(2, None, 3), (3, None, 3), (1, 0, 1), (5, 5, 6)]
)
async def test_calls_are_made_again(failures: int, max_retries: int | None, calls: int) -> None:
    """B-500: twice by default, where that may help; the last error stands."""
    left = [busy() for _ in range(failures)]
    model = Evaluates(lambda state: left.pop() if left else {"a": sure(1)})
    classifier = Classifier("c", model, {"a": {"type": "boolean"}})
    options = {} if max_retries is None else {"max_retries": max_retries}
    if calls > failures:
        await classifier.evaluate("text", **options)
    else:
        with pytest.raises(APICallError, match="busy"):
            await classifier.evaluate("text", **options)
    assert len(model.requests) == calls


@pytest.mark.parametrize(
    "error", [ValueError("no"), APICallError("no", status_code=400), ConfigurationError("no")]
)
async def test_other_errors_stand(error: Exception) -> None:
    model = Evaluates(lambda state: error)
    with pytest.raises(type(error)):
        await Classifier("c", model, {"a": {"type": "boolean"}}).evaluate("text")
    assert len(model.requests) == 1


async def test_a_model_that_repeats_calls_itself_is_asked_once() -> None:
    class Repeats(Evaluates):
        repeats_calls = True

    model = Repeats(lambda state: busy())
    with pytest.raises(APICallError):
        await Classifier("c", model, {"a": {"type": "boolean"}}).evaluate("text", max_retries=3)
    assert [request.max_retries for request in model.requests] == [3]


async def test_a_signal_ends_the_wait() -> None:
    """B-500: for the model, and for the pause before it is asked again; nothing is left behind."""
    model, controller = Hangs(), AbortController()
    classifier = Classifier("c", model, {"a": {"type": "boolean"}})
    waiting = asyncio.create_task(classifier.evaluate("text", abort_signal=controller.signal))
    await model.asked.wait()
    controller.abort()
    with pytest.raises(Interrupted):
        await asyncio.wait_for(waiting, 5)
    assert model.open == 0
    controller = AbortController()
    slow = APICallError("busy", is_retryable=True, response_headers={"retry-after": "60"})
    pausing = Evaluates(lambda state: slow)
    classifier = Classifier("c", pausing, {"a": {"type": "boolean"}})
    waiting = asyncio.create_task(classifier.evaluate("text", abort_signal=controller.signal))
    await pausing.answering.wait()
    controller.abort()
    with pytest.raises(Interrupted):
        await asyncio.wait_for(waiting, 5)


async def test_who_is_cancelled_stays_cancelled() -> None:
    model, controller = Hangs(), AbortController()
    classifier = Classifier("c", model, {"a": {"type": "boolean"}})
    waiting = asyncio.create_task(classifier.evaluate("text", abort_signal=controller.signal))
    await model.asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert model.open == 0


async def test_many_at_the_same_time() -> None:
    """One classifier keeps nothing from call to call."""
    model = Evaluates(lambda state: {"a": sure(state / 100)})
    classifier = Classifier("c", model, {"a": {"type": "boolean"}})
    results = await asyncio.gather(*map(classifier.evaluate, range(100)))
    assert [round(found.answers.boolean("a").probability * 100) for found in results] == list(
        range(100)
    )


# ── what is wrong from the start ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        ({}, "at least one question"),
        ([], "at least one question"),
        ({"": {"type": "boolean"}}, "each name"),
        ({1: {"type": "boolean"}}, "each name"),
        ({"a": "boolean"}, "question 'a' must be a ChoiceQuestion"),
        ({"a": {"type": "chioce"}}, "did you mean 'choice'"),
        ({"a": {}}, "type must be"),
        ({"a": {"type": "boolean", "instruction": "x"}}, "did you mean 'instructions'"),
        ({"a": {"type": "choice"}}, "a mapping of at least one option"),
        ({"a": {"type": "choice", "criteria": {}}}, "a mapping of at least one option"),
        ({"a": {"type": "choice", "criteria": {"": "x"}}}, "not empty"),
        ({"a": {"type": "choice", "criteria": {"x": object()}}}, "JSON data"),
        ({"a": {"type": "score", "criteria": ["one"]}}, "at least two levels"),
        ({"a": {"type": "score", "criteria": "levels"}}, "at least two levels"),
        ({"a": {"type": "boolean", "criteria": {"yes": "x"}}}, "True and False"),
        ({"a": {"type": "boolean", "criteria": ["x"]}}, "True and False"),
        ({"a": {"type": "boolean", "instructions": {1, 2}}}, "instructions must be JSON data"),
    ],
)
def test_questions_that_are_none(questions: Any, said: str) -> None:
    """B-500, B-014: at construction, by name."""
    with pytest.raises(ValueError, match=said):
        Classifier("c", Hangs(), questions)


async def test_other_options_that_are_none() -> None:
    with pytest.raises(InputError, match="id"):
        Classifier("", Hangs())
    with pytest.raises(InputError, match="model"):
        Classifier("c", None)  # type: ignore[arg-type]
    classifier, model = triage()
    with pytest.raises(InputError, match="max_retries"):
        await classifier.evaluate("text", max_retries=-1)
    loop: list[Any] = []
    loop.append(loop)
    for state in (object(), {"a": {1}}, math.nan, loop):
        with pytest.raises(InputError, match="state must be JSON data"):
            await classifier.evaluate(state)
    assert model.requests == []
