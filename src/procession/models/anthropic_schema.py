"""JSON Schemas as Anthropic's structured outputs take them.

That is a part of JSON Schema: objects are closed, and most limits on values are unknown. What is
left out is told to the model in the description, and still checked where the answer is read.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

__all__ = ["native_schema"]

Json = dict[str, Any]

_KEPT = frozenset(
    {"$ref", "type", "enum", "const", "title", "description", "default", "required", "$defs"}
)
_FORMATS = frozenset("date-time time date duration email hostname uri ipv4 ipv6 uuid".split())
_SILENT = frozenset({"$schema", "$id", "additionalProperties", "examples", "discriminator"})
"""What need not be told to the model where it is left out."""


def native_schema(schema: Any) -> Any:
    """The schema with what is not taken moved into descriptions."""
    if not isinstance(schema, dict):
        return schema
    given = cast("Json", schema)
    out: Json = {}
    told: Json = {}
    for key, value in given.items():
        if key in ("properties", "$defs", "definitions"):
            out[key] = {name: native_schema(own) for name, own in value.items()}
        elif key in ("anyOf", "oneOf", "allOf"):
            out["anyOf" if key == "oneOf" else key] = [native_schema(own) for own in value]
        elif key == "items":
            out[key] = native_schema(value)
        elif key in _KEPT or _is_taken(key, value):
            out[key] = value
        elif key not in _SILENT:
            told[key] = value
    if out.get("type") == "object" or "properties" in out:
        out["additionalProperties"] = False
    if told:
        out["description"] = _described(out.get("description"), told)
    return out


def _is_taken(key: str, value: Any) -> bool:
    return (key == "format" and value in _FORMATS) or (key == "minItems" and value in (0, 1))


def _described(description: Any, told: Json) -> str:
    words = msgspec.json.encode(told).decode()
    return f"{description} ({words})" if description else words
