"""Pieces of the schemas that judges are asked to keep to.

Many servers bind a model to a schema and yet know no bounds of numbers: what has to be between 0
and 1 is a choice of values for them. What has no end is given one, or small models write on.
"""

from __future__ import annotations

from typing import Any

__all__ = ["REASON", "SHARE", "asked_share", "listed"]

SHARE: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}
"""What is taken for a score or a confidence."""

REASON: dict[str, Any] = {"type": ["string", "null"], "maxLength": 300}
"""Why, in a sentence; what is taken may be longer."""

_STEPS = 20


def asked_share(*, or_null: bool = False) -> dict[str, Any]:
    """What is asked for where a share is wanted: in steps of 0.05, for a judge knows no finer."""
    values: list[float | None] = [step / _STEPS for step in range(_STEPS + 1)]
    if not or_null:
        return {"type": "number", "enum": values}
    return {"type": ["number", "null"], "enum": [*values, None]}


def listed(properties: dict[str, Any], most: int | None = None) -> dict[str, Any]:
    """So many objects at most, each with all of these properties; `null` is none (B-029)."""
    entry = {"type": "object", "properties": properties, "required": list(properties)}
    found: dict[str, Any] = {"type": ["array", "null"], "items": entry}
    return found if most is None else {**found, "maxItems": most}
