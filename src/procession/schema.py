"""From what a user writes (a function's signature, a JSON Schema) to checked arguments.

pydantic and jsonschema are imported when the first tool needs them, so that importing the package
stays cheap.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args, get_type_hints

from msgspec import Struct

from .errors import ConfigurationError, ToolError

__all__ = [
    "FunctionSchema",
    "check_arguments",
    "json_validator",
    "problem_lines",
    "signature_schema",
]


class FunctionSchema(Struct, frozen=True):
    """How to describe, check and call a function whose arguments a model writes."""

    json_schema: dict[str, Any]
    validate: Callable[[Any], Any]
    call: Callable[[Any, Any], Any]
    takes_context: bool
    """Whether the function asks for the context of its call."""


def signature_schema(
    function: Callable[..., Any], *, context_type: type, given: dict[str, Any] | None
) -> FunctionSchema:
    """The schema of a function's parameters, but for the one annotated with `context_type`.

    That one may be optional (`context_type | None`), so that the function is easy to call by hand.

    With `given`, arguments are checked against that JSON Schema instead of the annotations.
    Raises `ConfigurationError` for a parameter that JSON cannot carry.
    """
    name = getattr(function, "__name__", type(function).__name__)
    parameters = _parameters(function, name)
    context_name = next(
        (p for p, (kind, _) in parameters.items() if context_type in (kind, *get_args(kind))), None
    )
    if context_name is not None:
        del parameters[context_name]
    if given is not None:
        return FunctionSchema(
            given,
            _json_check(name, given),
            _caller(function, context_name),
            context_name is not None,
        )
    model, json_schema = _argument_model(name, parameters)
    return FunctionSchema(
        json_schema,
        _model_check(name, model),
        _caller(function, context_name),
        context_name is not None,
    )


def _parameters(function: Callable[..., Any], name: str) -> dict[str, tuple[Any, Any]]:
    try:
        hints = get_type_hints(function, include_extras=True)
        signature = inspect.signature(function)
    except (NameError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"tool {name!r}: its annotations cannot be read: {error}"
        ) from None
    found: dict[str, tuple[Any, Any]] = {}
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigurationError(
                f"tool {name!r}: parameter {parameter.name!r} must be passable by name"
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        found[parameter.name] = (hints.get(parameter.name, Any), default)
    return found


def _argument_model(
    name: str, parameters: Mapping[str, tuple[Any, Any]]
) -> tuple[Any, dict[str, Any]]:
    """A pydantic model of the parameters, and its JSON Schema."""
    # pydantic refuses field names with a leading underscore and warns about shadowed ones: fields
    # get neutral names, the tool's own are their aliases.
    from pydantic import ConfigDict, Field, create_model
    from pydantic.errors import PydanticUserError

    fields: dict[str, Any] = {
        f"p{i}": (kind, Field(default, alias=parameter))
        for i, (parameter, (kind, default)) in enumerate(parameters.items())
    }
    try:
        model: Any = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        json_schema: dict[str, Any] = model.model_json_schema()
    except PydanticUserError as error:
        raise ConfigurationError(f"tool {name!r}: {error.message}") from None
    json_schema.pop("title", None)
    return model, json_schema


def _model_check(name: str, model: Any) -> Callable[[Any], dict[str, Any]]:
    from pydantic import ValidationError

    names = {field: info.alias for field, info in model.model_fields.items()}

    def check(arguments: Any) -> dict[str, Any]:
        try:
            checked = model.model_validate(arguments)
        except ValidationError as error:
            # Without the input: what was rejected is not repeated to anyone (G-W2).
            problems = [
                {"path": list(p["loc"]), "problem": p["msg"]}
                for p in error.errors(include_url=False, include_context=False, include_input=False)
            ]
        else:
            return {names[field]: getattr(checked, field) for field in names}
        raise invalid_arguments(name, problems)

    return check


def _json_check(name: str, schema: dict[str, Any]) -> Callable[[Any], Any]:
    def check(arguments: Any) -> Any:
        check_arguments(name, schema, arguments)
        return arguments

    return check


def _caller(function: Callable[..., Any], context_name: str | None) -> Callable[[Any, Any], Any]:
    def call(arguments: Mapping[str, Any], context: Any) -> Any:
        if context_name is not None:
            return function(**arguments, **{context_name: context})
        return function(**arguments)

    async def call_async(arguments: Mapping[str, Any], context: Any) -> Any:
        return await call(arguments, context)

    return call_async if inspect.iscoroutinefunction(function) else call


def check_arguments(name: str, schema: dict[str, Any], arguments: Any) -> None:
    """Check `arguments` against a JSON Schema; raises `ToolError` that lists what is wrong.

    Rejected values are left out. A schema that is none is a `ConfigurationError`.
    """
    problems = json_validator(f"tool {name!r}", schema)(arguments)
    if problems:
        raise invalid_arguments(name, problems)


def json_validator(owner: str, schema: dict[str, Any]) -> Callable[[Any], list[dict[str, Any]]]:
    """A function that lists what is wrong with a value, without the value itself.

    Raises `ConfigurationError`, which names the schema's `owner`, for a schema that is none.
    """
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY  # pyright: ignore[reportMissingTypeStubs]

    try:
        cls = validator_for(schema, default=Draft202012Validator)
        cls.check_schema(schema)
        # With the standard's own schemas only: what a $ref names is never fetched.
        validator = cls(schema, registry=REGISTRY)
    except SchemaError as error:
        raise _no_schema(owner, error.message) from None
    except Exception as error:  # a pattern that is none, nested too deeply: many types of error
        raise _no_schema(owner, str(error) or type(error).__name__) from None

    def problems_in(value: Any) -> list[dict[str, Any]]:
        try:
            return [
                {"path": list(error.absolute_path), "problem": _words(error)}
                for error in validator.iter_errors(value)
            ]
        except RecursionError:
            return [{"path": [], "problem": "nested too deeply"}]
        except Exception as error:  # a $ref to nowhere: many types of error
            raise _no_schema(owner, str(error) or type(error).__name__) from None

    return problems_in


def _no_schema(owner: str, problem: str) -> ConfigurationError:
    return ConfigurationError(f"{owner}: invalid JSON Schema: {problem[:200]}")


def _words(error: Any) -> str:
    """What a JSON Schema error says, without the value (jsonschema's own texts repeat it)."""
    if error.validator == "required":
        missing = [key for key in error.validator_value if key not in error.instance]
        return f"missing: {', '.join(missing)}"
    if error.validator == "additionalProperties":
        return "has keys that are not allowed"
    return f"does not satisfy {error.validator}: {str(error.validator_value)[:100]}"


def invalid_arguments(name: str, problems: list[dict[str, Any]]) -> ToolError:
    """The error for arguments that do not fit, worded for the model."""
    lines = problem_lines(problems, "arguments")
    return ToolError(f"The arguments for tool {name!r} are not valid. {lines}", problems)


def problem_lines(problems: Sequence[Mapping[str, Any]], whole: str) -> str:
    """Problems in one line, each with its place; `whole` names the value itself."""
    return "; ".join(
        f"{'.'.join(map(str, p['path'])) or whole}: {p['problem']}" for p in problems[:20]
    )
