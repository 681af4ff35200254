"""JSON Schemas from the short form of scenarios."""

from collections.abc import Mapping
from typing import Any


def object_schema(fields: Mapping[str, str]) -> dict[str, Any]:
    """`{"city": "string", "days?": "number"}` as a JSON Schema object.

    A `?` after the name or the type makes a field optional; `any` has no type.
    """
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, kind in fields.items():
        optional = name.endswith("?") or kind.endswith("?")
        name, kind = name.removesuffix("?"), kind.removesuffix("?")
        properties[name] = {} if kind == "any" else {"type": kind}
        if not optional:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def whole_schema(fields: Mapping[str, str]) -> dict[str, Any]:
    """The schema of a structured answer, in which everything is required."""
    properties = {name: {} if kind == "any" else {"type": kind} for name, kind in fields.items()}
    return {"type": "object", "properties": properties, "required": list(properties)}
