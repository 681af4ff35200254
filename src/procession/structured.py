"""What a call may ask for as structured output, and what that means: a form for the model, a check.

pydantic and jsonschema are imported when the first call asks for an object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypedDict, TypeVar, cast

from msgspec import Struct

from .errors import ConfigurationError, InputError, StructuredOutputError
from .partial_json import JSONReader, read_json, unwrapped
from .schema import json_validator, problem_lines

if TYPE_CHECKING:
    from types import UnionType
    from typing import _SpecialForm  # pyright: ignore[reportPrivateUsage]  # a Literal is one

    from .model import ModelSpec

__all__ = ["Asked", "ErrorStrategy", "StructuredOutputOptions", "asked_for"]

T = TypeVar("T")

ErrorStrategy = Literal["strict", "warn", "fallback"]
"""What becomes of an answer that does not fit: an error, no object, or the fallback value."""

STRATEGIES = ("strict", "warn", "fallback")
ELEMENTS = "elements"
RESULT = "result"
"""The keys that lists and other values without members are wrapped in (R-561)."""


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


class Form(Struct, frozen=True):
    """One schema, made ready: what the model is shown, and how a value is checked."""

    json_schema: Mapping[str, Any] | None
    """The schema as the model gets it, wrapped where it has to be."""
    wrapper: str | None
    whole: bool
    """Whether the value is one of a closed set, of which no half is shown."""
    name: str | None
    check: Callable[[Any], Any]
    """The value in Python; raises `_Misfit`."""


class _BadChoice(ConfigurationError, ValueError):
    """An option with a word that means nothing (B-014)."""


class _Misfit(Exception):
    """A value does not fit: what is wrong with it, place by place."""

    def __init__(self, problems: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        self.problems = problems


class Asked:
    """The structured output of a call or a step, made ready."""

    __slots__ = ("fallback", "form", "injects", "instructions", "model", "options", "strategy")

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.form = _form_of(options.get("schema"))
        self.strategy: ErrorStrategy = options.get("error_strategy") or "strict"
        self.fallback = options.get("fallback_value")
        self.model: ModelSpec | None = options.get("model")
        self.injects = bool(options.get("json_prompt_injection"))
        self.instructions: str | None = options.get("instructions")

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
        try:
            return plain, self.form.check(plain)
        except _Misfit as misfit:
            lines = problem_lines(misfit.problems, "the object")
            raise StructuredOutputError(
                f"the answer does not fit the schema. {lines}", misfit.problems, text=text
            ) from None


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
        raise _BadChoice(
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


# ── schemas ────────────────────────────────────────────────────────────────────────────────────


def _form_of(schema: Any) -> Form:
    if schema is None:
        return Form(None, None, False, None, lambda value: value)
    if isinstance(schema, Mapping):
        return _form_of_json(json.dumps(schema))
    try:
        return _form_of_type(schema)
    except TypeError:  # not hashable: made anew each time
        return _form_of_type.__wrapped__(schema)


@lru_cache(maxsize=256)
def _form_of_json(text: str) -> Form:
    schema: dict[str, Any] = json.loads(text)
    problems_in = json_validator("structured_output", schema)

    def check(value: Any) -> Any:
        problems = problems_in(value)
        if problems:
            raise _Misfit(problems)
        return value

    return _wrapped(schema, None, check)


@lru_cache(maxsize=256)
def _form_of_type(kind: Any) -> Form:
    from pydantic import TypeAdapter, ValidationError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        schema = adapter.json_schema()
    except Exception as error:  # whatever makes a type unfit: pydantic has many errors for it
        named = getattr(kind, "__name__", type(kind).__name__)
        problem = str(error).splitlines()[0] if isinstance(kind, type) else type(error).__name__
        raise ConfigurationError(
            f"structured_output: schema must be a JSON Schema, or a type that pydantic reads; "
            f"{named} is none ({problem[:200]})"
        ) from None

    def check(value: Any) -> Any:
        try:
            # As JSON, so that strict models take what JSON has no type for.
            return adapter.validate_json(json.dumps(value))
        except ValidationError as error:
            # Without the input: what was rejected is not repeated to anyone (G-W2).
            problems = error.errors(include_url=False, include_context=False, include_input=False)
        raise _Misfit([{"path": list(p["loc"]), "problem": p["msg"]} for p in problems])

    name = re.sub(r"[^\w-]+", "_", getattr(kind, "__name__", ""), flags=re.ASCII)[:64]
    return _wrapped(schema, name if isinstance(kind, type) and name else None, check)


def _wrapped(schema: dict[str, Any], name: str | None, check: Callable[[Any], Any]) -> Form:
    """Providers want an object at the root: what is none becomes its only member (R-561)."""
    key = _wrapper_of(_resolved(schema))
    if key is None:
        return Form(schema, None, False, name, check)
    shared = {k: schema[k] for k in ("$defs", "definitions", "$schema") if k in schema}
    inner = {k: v for k, v in schema.items() if k not in shared}
    wrapped = {
        "type": "object",
        "properties": {key: _moved(inner, key)},
        "required": [key],
        "additionalProperties": False,
        **shared,
    }
    closed = _is_closed(_resolved(schema))
    return Form(wrapped, key, closed, name, check)


def _resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a reference at the root stands for, where it stands in `$defs`."""
    for _ in range(8):
        place = schema.get("$ref")
        parts = place.split("/") if isinstance(place, str) else []
        if len(parts) != 3 or parts[:1] != ["#"]:
            break
        found: Any = cast("Any", schema.get(parts[1]) or {}).get(parts[2])
        if not isinstance(found, Mapping):
            break
        schema = {**schema, "$ref": None, **cast("Mapping[str, Any]", found)}
    return schema


def _wrapper_of(schema: Mapping[str, Any]) -> str | None:
    kind = schema.get("type")
    if kind == "array":
        return ELEMENTS
    if kind == "object" or "properties" in schema:
        return None
    if kind is None and not {"enum", "const", "anyOf", "oneOf"} & schema.keys():
        return None
    return RESULT


def _is_closed(schema: Mapping[str, Any]) -> bool:
    return "enum" in schema or "const" in schema


def _moved(value: Any, key: str) -> Any:
    """References to the root follow the schema to its new place."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, Any]", value)
        return {
            k: _moved_reference(v, key) if k == "$ref" else _moved(v, key)
            for k, v in mapping.items()
        }
    if isinstance(value, list):
        return [_moved(entry, key) for entry in cast("list[Any]", value)]
    return value


def _moved_reference(place: Any, key: str) -> Any:
    if not isinstance(place, str) or not place.startswith("#"):
        return place
    if place.startswith(("#/$defs/", "#/definitions/")):
        return place
    return f"#/properties/{key}{place[1:]}"
