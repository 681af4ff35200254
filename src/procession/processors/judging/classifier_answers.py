"""What a classifier is answered, and the check that each answer fits its question (B-500)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Literal, TypeVar, cast

from msgspec import Struct, structs

from ...errors import ConfigurationError, StructuredOutputError
from .classifier_questions import BooleanQuestion, ChoiceQuestion, Question, ScoreQuestion

__all__ = ["Answer", "BooleanAnswer", "ChoiceAnswer", "ClassifierAnswers", "ScoreAnswer", "fitting"]


class ChoiceAnswer(Struct, frozen=True, kw_only=True):
    """The key of an option, and how likely each of them is, where the model tells: together 1."""

    choice: str
    probabilities: dict[str, float] | None = None
    type: Literal["choice"] = "choice"


class ScoreAnswer(Struct, frozen=True, kw_only=True):
    """A place on the scale, 0 to the number of levels less one, between two levels perhaps.

    `probabilities` has one for each level, where the model tells them.
    """

    score: float
    probabilities: tuple[float, ...] | None = None
    type: Literal["score"] = "score"


class BooleanAnswer(Struct, frozen=True, kw_only=True):
    """How likely it is so, 0 to 1: near 0 the model is sure that it is not."""

    probability: float
    type: Literal["boolean"] = "boolean"


Answer = ChoiceAnswer | ScoreAnswer | BooleanAnswer
"""An answer of one of the kinds."""

A = TypeVar("A", ChoiceAnswer, ScoreAnswer, BooleanAnswer)


class ClassifierAnswers(dict[str, Answer]):
    """The answers by the names of their questions.

    `answers.boolean("unsafe")` is `answers["unsafe"]`, and of the type that it says. For a question
    that was not asked, or is of another kind, it raises `ConfigurationError`: that is a mistake in
    the program, which nobody should take for an answer.
    """

    def choice(self, name: str) -> ChoiceAnswer:
        """The answer to a choice question."""
        return self._of(ChoiceAnswer, name)

    def score(self, name: str) -> ScoreAnswer:
        """The answer to a score question."""
        return self._of(ScoreAnswer, name)

    def boolean(self, name: str) -> BooleanAnswer:
        """The answer to a boolean question."""
        return self._of(BooleanAnswer, name)

    def _of(self, kind: type[A], name: str) -> A:
        found = self.get(name)
        if isinstance(found, kind):
            return found
        if found is None:
            raise ConfigurationError(f"no question {name!r} was asked; there are {', '.join(self)}")
        raise ConfigurationError(f"question {name!r} is a {found.type} question")


def fitting(owner: str, questions: Mapping[str, Question], given: Any) -> ClassifierAnswers:
    """The answers, each of which fits its question; there is one for each, and no other.

    They may be `Answer`s, or mappings such as `{"type": "boolean", "probability": 0.9}`. Raises
    `StructuredOutputError`, whose text repeats no value.
    """
    if not isinstance(given, Mapping):
        raise StructuredOutputError(f"{owner}: the model gave no answers by their questions")
    answers = cast("Mapping[Any, Any]", given)
    found = ClassifierAnswers()
    for name, question in questions.items():
        if name not in answers:
            raise StructuredOutputError(f"{owner}: question {name!r} was not answered")
        try:
            found[name] = _fit(question, answers[name])
        except _Misfit as misfit:
            problem = str(misfit)
            raise StructuredOutputError(
                f"{owner}: the answer to {name!r} does not fit: {problem}",
                [{"path": [name], "problem": problem}],
            ) from None
    if len(answers) > len(questions):
        raise StructuredOutputError(f"{owner}: the model answered what nobody had asked")
    return found


class _Misfit(Exception):
    """An answer that does not fit its question; the text says why, without the value."""


def _fit(question: Question, answer: Any) -> Answer:
    fields = _fields(answer)
    if isinstance(question, ChoiceQuestion):
        _check_kind("choice", fields)
        return _fit_choice(list(question.criteria), fields)
    if isinstance(question, ScoreQuestion):
        _check_kind("score", fields)
        return _fit_score(len(question.criteria), fields)
    assert isinstance(question, BooleanQuestion)
    _check_kind("boolean", fields)
    return BooleanAnswer(probability=_number("probability", fields.get("probability"), 1))


def _fields(answer: Any) -> Mapping[Any, Any]:
    if isinstance(answer, ChoiceAnswer | ScoreAnswer | BooleanAnswer):
        return structs.asdict(answer)
    if not isinstance(answer, Mapping):
        raise _Misfit("it is neither an answer nor a mapping")
    return cast("Mapping[Any, Any]", answer)


def _check_kind(kind: str, fields: Mapping[Any, Any]) -> None:
    if fields.get("type") != kind:
        raise _Misfit(f"its type is not {kind!r}")


def _fit_choice(options: Sequence[str], fields: Mapping[Any, Any]) -> ChoiceAnswer:
    choice = fields.get("choice")
    if not isinstance(choice, str) or choice not in options:
        raise _Misfit("the choice is none of the options")
    given = fields.get("probabilities")
    if given is None:
        return ChoiceAnswer(choice=choice)
    if not isinstance(given, Mapping) or set(cast("Any", given)) != set(options):
        raise _Misfit("probabilities must have each option, and nothing else")
    by_option = cast("Mapping[str, Any]", given)
    likely = _distribution([by_option[option] for option in options])
    return ChoiceAnswer(choice=choice, probabilities=dict(zip(options, likely, strict=True)))


def _fit_score(levels: int, fields: Mapping[Any, Any]) -> ScoreAnswer:
    score = _number("score", fields.get("score"), levels - 1)
    given = fields.get("probabilities")
    if given is None:
        return ScoreAnswer(score=score)
    if isinstance(given, Mapping):  # in JSON the levels are keys
        by_level = {str(key): value for key, value in cast("Mapping[Any, Any]", given).items()}
        given = [by_level.pop(str(level), None) for level in range(levels)] + list(by_level)
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise _Misfit("probabilities must be one for each level")
    each = list(cast("Sequence[Any]", given))
    if len(each) != levels:
        raise _Misfit("probabilities must be one for each level")
    return ScoreAnswer(score=score, probabilities=tuple(_distribution(each)))


def _distribution(given: Sequence[Any]) -> list[float]:
    """Probabilities, which are 1 together, but for what rounding each to two places may do."""
    found = [_number("each of probabilities", value, 1) for value in given]
    if abs(sum(found) - 1) > 0.005 * len(found) + 1e-9:
        raise _Misfit("probabilities must be 1 together")
    return found


def _number(name: str, value: Any, most: float) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if not good or not 0 <= value <= most:
        raise _Misfit(f"{name} must be a number from 0 to {most:g}")
    return float(value)
