"""What a step takes and gives: a type, a JSON Schema or nothing; and whether two fit together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, cast

from ..errors import ConfigurationError, InputError
from ..schema import json_validator, problem_lines

__all__ = ["Schema", "check_fit", "schema_of"]


class Schema(Protocol):
    """What a value is checked with."""

    def check(self, value: Any, owner: str) -> Any:
        """The value as it is handed on; raises `InputError`, which names `owner`, for a misfit."""
        ...

    def json_schema(self) -> Mapping[str, Any]:
        """The schema as JSON Schema, for people and for the graph."""
        ...


class _JSONSchema:
    """A JSON Schema: values are handed on as they are."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = dict(schema)
        self._problems_in = json_validator("workflow", self._schema)

    def check(self, value: Any, owner: str) -> Any:
        problems = self._problems_in(value)
        if problems:
            raise _misfit(owner, problems)
        return value

    def json_schema(self) -> Mapping[str, Any]:
        return self._schema


class _TypeSchema:
    """A type that pydantic reads: values are handed on as that type makes them."""

    def __init__(self, kind: Any) -> None:
        from pydantic import TypeAdapter

        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
        except Exception as error:  # whatever makes a type unfit: pydantic has many errors for it
            named = getattr(kind, "__name__", type(kind).__name__)
            problem = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ConfigurationError(
                f"a schema must be a JSON Schema, or a type that pydantic reads; {named} is none: "
                f"{problem[:200]}"
            ) from error
        self._form: Mapping[str, Any] | None = None

    def check(self, value: Any, owner: str) -> Any:
        from pydantic import ValidationError

        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            # Without the input: what was rejected is not repeated to anyone (G-W2).
            problems = error.errors(include_url=False, include_context=False, include_input=False)
        raise _misfit(owner, [{"path": list(p["loc"]), "problem": p["msg"]} for p in problems])

    def json_schema(self) -> Mapping[str, Any]:
        if self._form is None:
            try:
                self._form = self._adapter.json_schema()
            except Exception:  # a type that has no JSON form says nothing of its own
                self._form = {}
        return self._form


def _misfit(owner: str, problems: Sequence[Mapping[str, Any]]) -> InputError:
    return InputError(f"{owner} does not fit its schema. {problem_lines(problems, 'the value')}")


def schema_of(given: Any) -> Schema | None:
    """A schema, made ready; raises `ConfigurationError` for what is none."""
    if given is None:
        return None
    if not isinstance(given, type) and callable(getattr(given, "check", None)):
        return cast("Schema", given)
    if isinstance(given, Mapping):
        return _JSONSchema(cast("Mapping[str, Any]", given))
    try:
        return _of_type(given)
    except TypeError:  # not hashable: made anew each time
        return _TypeSchema(given)


_of_type: Callable[[Any], Schema] = lru_cache(maxsize=256)(_TypeSchema)


def check_fit(given: Schema | None, wanted: Schema | None, place: str) -> None:
    """Raise `ConfigurationError` where the schemas tell that one does not give what the other
    wants. What they do not tell is checked at run time.
    """
    if given is None or wanted is None or given is wanted:
        return
    problem = _problem(given.json_schema(), wanted.json_schema())
    if problem:
        raise ConfigurationError(f"{place}: what comes before does not fit: {problem}")


def _problem(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    phases, others = given.get("x-phases"), wanted.get("x-phases")
    if phases is not None and others is not None:
        return "" if set(phases) & set(others) else "it is of another phase"
    one, other = given.get("type"), wanted.get("type")
    if not isinstance(one, str) or not isinstance(other, str):
        return ""
    if one != other and (one, other) != ("integer", "number"):
        return f"it is of type {one}, and {other} is wanted"
    if one == "array":
        inner = _problem(_items(given), _items(wanted))
        return inner and f"in its entries, {inner}"
    known: Mapping[str, Any] = given.get("properties", {})
    needed: Sequence[str] = wanted.get("required", ())
    missing = [name for name in needed if name not in known]
    if one == "object" and known and missing:
        return f"it has no {', '.join(map(repr, missing))}"
    for name, inner in cast("Mapping[str, Any]", wanted.get("properties", {})).items():
        problem = _problem(known.get(name, {}), inner)
        if problem:
            return f"in {name!r}, {problem}"
    return ""


def _items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    items: Any = schema.get("items", {})
    return cast("Mapping[str, Any]", items) if isinstance(items, Mapping) else {}
