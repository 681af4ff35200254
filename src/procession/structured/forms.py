"""Schemas for structured output: what a model is shown of one, and how a value is checked.

pydantic and jsonschema are imported when the first call asks for an object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from msgspec import Struct

from ..errors import ConfigurationError
from ..schema import json_validator

__all__ = ["Form", "Misfit", "form_of"]

ELEMENTS = "elements"
RESULT = "result"
"""The keys that lists and other values without members are wrapped in (R-561)."""


class Form(Struct, frozen=True):
    """One schema, made ready: what the model is shown, and how a value is checked."""

    json_schema: Mapping[str, Any] | None
    """The schema as the model gets it, wrapped where it has to be."""
    wrapper: str | None
    whole: bool
    """Whether the value is one of a closed set, of which no half is shown."""
    name: str | None
    check: Callable[[Any], Any]
    """The value in Python; raises `Misfit`."""


class Misfit(Exception):
    """A value does not fit: what is wrong with it, place by place."""

    def __init__(self, problems: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        self.problems = problems


def form_of(schema: Any) -> Form:
    """A schema, made ready; raises `ConfigurationError` for what is none."""
    if schema is None:
        return Form(None, None, False, None, lambda value: value)
    if isinstance(schema, Mapping):
        try:
            text = json.dumps(schema)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"structured_output: the schema is no JSON: {error}") from None
        return _form_of_json(text)
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
            raise Misfit(problems)
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
        raise Misfit([{"path": list(p["loc"]), "problem": p["msg"]} for p in problems])

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
