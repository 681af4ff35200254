"""The questions that a classifier asks, of three kinds, in the forms they may have (B-500)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

from msgspec import Struct

from ...errors import OptionError
from ...records import clean_json
from ..option_checks import one_of

__all__ = [
    "BooleanQuestion",
    "ChoiceQuestion",
    "Question",
    "Questions",
    "ScoreQuestion",
    "json_data",
    "questions_of",
]


class ChoiceQuestion(Struct, frozen=True, kw_only=True):
    """Which of these is it?

    `criteria` has the options by their keys, each with what it stands for, or `None` when the key
    says enough. `instructions` is the question; without it the question's name stands for it. Both
    may be any JSON data.
    """

    criteria: Mapping[str, Any]
    instructions: Any = None


class ScoreQuestion(Struct, frozen=True, kw_only=True):
    """How far up a scale is it? `criteria` describes its levels, from the lowest, 0, on; two or
    more."""

    criteria: Sequence[Any]
    instructions: Any = None


class BooleanQuestion(Struct, frozen=True, kw_only=True):
    """Is it so? `criteria` may say what `True` and `False` stand for."""

    criteria: Mapping[bool, Any] | None = None
    instructions: Any = None


Question = ChoiceQuestion | ScoreQuestion | BooleanQuestion
"""A question of one of the kinds."""

Questions = Mapping[str, Question | Mapping[str, Any]]
"""Questions by name. `{"type": "choice", "criteria": …, "instructions": …}` stands for one too."""

_KINDS: dict[str, type[Question]] = {
    "choice": ChoiceQuestion,
    "score": ScoreQuestion,
    "boolean": BooleanQuestion,
}
_TRUTHS: dict[Any, bool] = {True: True, False: False, "true": True, "false": False}


def questions_of(owner: str, given: Any) -> dict[str, Question]:
    """The questions in one form, of their own; raises `OptionError` for what is none."""
    if not isinstance(given, Mapping) or not given:
        raise OptionError(f"{owner}: questions must be a mapping of at least one question")
    found: dict[str, Question] = {}
    for name, question in cast("Mapping[Any, Any]", given).items():
        if not isinstance(name, str) or not name:
            raise OptionError(f"{owner}: questions: each name must be a text that is not empty")
        found[name] = _checked(f"{owner}: question {name!r}", question)
    return found


def json_data(owner: str, name: str, value: Any) -> Any:
    """`value` as JSON data of its own, with clean texts; raises `OptionError` for what is none."""
    try:
        return clean_json(json.loads(json.dumps(value, allow_nan=False)))
    except (TypeError, ValueError, RecursionError):
        raise OptionError(f"{owner}: {name} must be JSON data") from None


def _checked(owner: str, given: Any) -> Question:
    question = _from_mapping(owner, cast("Any", given)) if isinstance(given, Mapping) else given
    if isinstance(question, ChoiceQuestion):
        criteria: Any = _options(owner, question.criteria)
    elif isinstance(question, ScoreQuestion):
        criteria = _levels(owner, question.criteria)
    elif isinstance(question, BooleanQuestion):
        criteria = _truths(owner, question.criteria)
    else:
        raise OptionError(
            f"{owner} must be a ChoiceQuestion, ScoreQuestion or BooleanQuestion, or a mapping "
            f"with a type, not {type(question).__name__}"
        )
    instructions = json_data(owner, "instructions", question.instructions)
    return type(question)(criteria=criteria, instructions=instructions)


def _from_mapping(owner: str, given: Mapping[Any, Any]) -> Question:
    kind = _KINDS[one_of(owner, "type", given.get("type"), _KINDS)]
    for key in given:
        one_of(owner, "each key", key, ("type", "criteria", "instructions"))
    # A question that needs criteria says so itself.
    return kind(criteria=given.get("criteria"), instructions=given.get("instructions"))  # type: ignore[arg-type]


def _options(owner: str, criteria: Any) -> dict[str, Any]:
    if not isinstance(criteria, Mapping) or not criteria:
        _refuse(owner, "a mapping of at least one option")
    options = cast("Mapping[Any, Any]", criteria)
    if not all(isinstance(key, str) and key for key in options):
        _refuse(owner, "a mapping whose keys are texts that are not empty")
    return json_data(owner, "criteria", dict(options))


def _levels(owner: str, criteria: Any) -> tuple[Any, ...]:
    is_list = isinstance(criteria, Sequence) and not isinstance(criteria, str)
    levels = list(cast("Sequence[Any]", criteria)) if is_list else []
    if len(levels) < 2:
        _refuse(owner, "a list of at least two levels")
    return tuple(json_data(owner, "criteria", levels))


def _truths(owner: str, criteria: Any) -> dict[bool, Any] | None:
    if criteria is None:
        return None
    if not isinstance(criteria, Mapping):
        _refuse(owner, "a mapping of True and False")
    found: dict[bool, Any] = {}
    for key, meaning in cast("Mapping[Any, Any]", criteria).items():
        if not isinstance(key, bool | str) or key not in _TRUTHS:
            _refuse(owner, "a mapping of True and False")
        found[_TRUTHS[key]] = json_data(owner, "criteria", meaning)
    return found


def _refuse(owner: str, kinds: str) -> NoReturn:
    raise OptionError(f"{owner}: criteria must be {kinds}")
