"""What a call may ask for as structured output, and what that means: a form for the model, a check.

pydantic and jsonschema are imported when the first call asks for an object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypedDict, TypeVar, cast

from ..errors import ConfigurationError, InputError, StructuredOutputError
from ..schema import problem_lines
from .forms import Misfit, form_of
from .json_text import read_json, unwrapped
from .partial_json import JSONReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import UnionType
    from typing import _SpecialForm  # pyright: ignore[reportPrivateUsage]  # a Literal is one

    from ..model import LanguageModel, ModelSpec

__all__ = ["Asked", "ErrorStrategy", "StructuredOutputOptions", "asked_for"]

T = TypeVar("T")

ErrorStrategy = Literal["strict", "warn", "fallback"]
"""What becomes of an answer that does not fit: an error, no object, or the fallback value."""

STRATEGIES = ("strict", "warn", "fallback")


class StructuredOutputOptions(TypedDict, Generic[T], total=False):
    """`structured_output={"schema": City}`: the answer as an object, beside its text.

    `schema` is a pydantic model, a dataclass, a `TypedDict` or any other type that pydantic reads,
    or a JSON Schema as a mapping; without one, any JSON will do. `model` answers a second call,
    which turns the text of the first one into the object; `instructions` (by default made from the
    schema), `model_settings` and `provider_options` are for that call.

    `error_strategy` says what happens when the answer does not fit, once no retries are left:
    `"strict"` (the default) fails the run, `"warn"` logs it and gives no object, `"fallback"` gives
    `fallback_value`. `json_prompt_injection` describes the schema in the system message instead of
    handing it to the provider.
    """

    schema: type[T] | Mapping[str, Any] | UnionType | _SpecialForm | None
    model: ModelSpec
    instructions: str
    error_strategy: ErrorStrategy
    fallback_value: Any
    json_prompt_injection: bool
    model_settings: Mapping[str, Any]
    provider_options: Mapping[str, Any]


_KEYS = frozenset(StructuredOutputOptions.__annotations__)


class UnknownStrategyError(ConfigurationError, ValueError):
    """An option with a word that means nothing (B-014)."""


class Asked:
    """The structured output of a call or a step, made ready."""

    __slots__ = (
        "_structuring",
        "fallback",
        "form",
        "injects",
        "instructions",
        "model",
        "options",
        "strategy",
    )

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.form = form_of(options.get("schema"))
        self.strategy: ErrorStrategy = options.get("error_strategy") or "strict"
        self.fallback = options.get("fallback_value")
        self.model: ModelSpec | None = options.get("model")
        self._structuring: LanguageModel | None = None
        self.injects = bool(options.get("json_prompt_injection"))
        self.instructions: str | None = options.get("instructions")

    def structuring(self, resolve: Callable[[ModelSpec], LanguageModel]) -> LanguageModel | None:
        """The model that makes the object, resolved once; `None`: it is the one that answers.

        Raises what `resolve` raises.
        """
        if self._structuring is None and self.model is not None:
            self._structuring = resolve(self.model)
        return self._structuring

    def reader(self) -> JSONReader:
        """A reader for an answer."""
        return JSONReader(wrapper=self.form.wrapper, whole=self.form.whole)

    def response_format(self) -> dict[str, Any] | None:
        """What the provider is told; `None` when the schema is told in words (R-560, R-567)."""
        if self.injects:
            return None
        found: dict[str, Any] = {"type": "json"}
        if self.form.json_schema is not None:
            found["schema"] = self.form.json_schema
        if self.form.name is not None:
            found["name"] = self.form.name
        return found

    def told(self) -> str:
        """The schema in words, for a system message."""
        if self.form.json_schema is None:
            return "Answer with JSON and nothing else."
        schema = json.dumps(self.form.json_schema, ensure_ascii=False)
        return f"Answer with JSON that fits this JSON Schema, and with nothing else:\n{schema}"

    def read(self, text: str) -> tuple[Any, Any]:
        """The object that a text holds, as it was written and as Python has it.

        Raises `StructuredOutputError`.
        """
        try:
            plain = unwrapped(read_json(text), self.form.wrapper)
        except InputError as error:
            raise StructuredOutputError(f"the answer is {error}", text=text) from None
        return plain, self.fitted(plain, text)

    def fitted(self, plain: Any, text: str = "") -> Any:
        """An object as Python has it; `text` is what it was read from.

        Raises `StructuredOutputError`.
        """
        try:
            return self.form.check(plain)
        except Misfit as misfit:
            lines = problem_lines(misfit.problems, "the object")
            raise StructuredOutputError(
                f"the answer does not fit the schema. {lines}", misfit.problems, text=text
            ) from None
        except Exception as error:  # of a validator of the schema's own
            problem = f"the answer could not be checked: {type(error).__name__}"
            raise StructuredOutputError(problem, text=text) from error


def asked_for(options: Any) -> Asked | None:
    """What the options of a call or a step ask for; raises `ConfigurationError` (R-560, B-014)."""
    if options is None:
        return None
    if not isinstance(options, Mapping):
        kind = type(options).__name__
        raise ConfigurationError(
            f"structured_output must be a mapping {{'schema': …}}, or None, not {kind}"
        )
    given = cast("Mapping[str, Any]", options)
    if not given:
        return None
    _check_keys(given)
    return Asked(given)


def _check_keys(given: Mapping[str, Any]) -> None:
    unknown = sorted(str(key) for key in given if key not in _KEYS)
    if unknown:
        _refuse(f"has no option {unknown[0]!r}; there are {', '.join(sorted(_KEYS))}")
    strategy = given.get("error_strategy")
    if strategy is not None and strategy not in STRATEGIES:
        raise UnknownStrategyError(
            f"structured_output: error_strategy must be one of {', '.join(STRATEGIES)}"
        )
    if strategy == "fallback" and "fallback_value" not in given:
        _refuse("error_strategy 'fallback' needs a fallback_value")
    if not isinstance(given.get("instructions", ""), str | None):
        _refuse(f"instructions must be a text, not {type(given['instructions']).__name__}")
    for key in ("model_settings", "provider_options"):
        if not isinstance(given.get(key), Mapping | None):
            _refuse(f"{key} must be a mapping, or None, not {type(given[key]).__name__}")


def _refuse(problem: str) -> NoReturn:
    raise ConfigurationError(f"structured_output: {problem}")
