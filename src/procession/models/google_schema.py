"""JSON Schemas in the words that Gemini understands.

It takes JSON Schema itself, but not all of its keywords; what it does not know it ignores or, in a
few cases, refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["gemini_schema"]

Json = dict[str, Any]

_UNKNOWN = frozenset({"$schema", "$id", "$comment", "title", "examples", "discriminator"})
_MAPS = frozenset({"properties", "$defs", "definitions"})
_LISTS = frozenset({"anyOf", "prefixItems"})
_FORMATS = frozenset({"date-time", "date", "time"})
_TYPES = ((str, "string"), (bool, "boolean"), (int, "integer"), (float, "number"))


def gemini_schema(schema: Any) -> Any:
    """The schema that says the same as far as Gemini can be told."""
    if not isinstance(schema, Mapping):
        return schema
    given = _with_one_of_all(cast("Mapping[str, Any]", schema))
    made: Json = {}
    for key, value in given.items():
        if key in _UNKNOWN:
            continue
        if key in _MAPS and isinstance(value, Mapping):
            entries = cast("Mapping[str, Any]", value).items()
            made[key] = {name: gemini_schema(entry) for name, entry in entries}
        elif key in _LISTS and isinstance(value, list):
            made[key] = [gemini_schema(entry) for entry in cast("list[Any]", value)]
        elif key in ("items", "additionalProperties"):
            made[key] = gemini_schema(value)
        else:
            made[key] = value
    _put_constant(made)
    _put_bounds(made)
    _put_format(made)
    if "oneOf" in made:
        either = cast("list[Any]", made.pop("oneOf"))
        made.setdefault("anyOf", [gemini_schema(entry) for entry in either])
    return made


def _with_one_of_all(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """`allOf` with one entry, as tools write it around a reference, is that entry."""
    every = given.get("allOf")
    if not isinstance(every, list):
        return given
    entries = cast("list[Any]", every)
    if len(entries) != 1 or not isinstance(entries[0], Mapping):
        return given
    rest = {key: value for key, value in given.items() if key != "allOf"}
    return {**cast("Mapping[str, Any]", entries[0]), **rest}


def _put_constant(made: Json) -> None:
    if "const" not in made:
        return
    constant = made.pop("const")
    if constant is None:
        made.setdefault("type", "null")
        return
    made["enum"] = [constant]
    kind = next((name for cls, name in _TYPES if isinstance(constant, cls)), None)
    if kind is not None:
        made.setdefault("type", kind)


def _put_bounds(made: Json) -> None:
    """Whole numbers above 0 are those from 1 on; of others only the bound itself can be told."""
    step = 1 if made.get("type") == "integer" else 0
    for theirs, ours, sign in (
        ("exclusiveMinimum", "minimum", step),
        ("exclusiveMaximum", "maximum", -step),
    ):
        bound = made.pop(theirs, None)
        if isinstance(bound, int | float) and not isinstance(bound, bool):
            made.setdefault(ours, bound + sign)


def _put_format(made: Json) -> None:
    form = made.get("format")
    if made.get("type") != "string" or form is None or form in _FORMATS:
        return
    del made["format"]
    described = made.get("description")
    made["description"] = f"{described} (format: {form})" if described else f"Format: {form}"
