"""A metadata filter as a condition of PostgreSQL on the column `metadata`, of type `jsonb`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from .filters import All, Condition, Not

if TYPE_CHECKING:
    from .filters import Filter

__all__ = ["where"]


def where(chosen: Filter) -> tuple[str, list[Any]]:
    """A condition that is true or false, never null, and the values for its marks."""
    if isinstance(chosen, Condition):
        return _equal(chosen) if chosen.operator == "=" else _ordered(chosen)
    if isinstance(chosen, Not):
        condition, values = where(chosen.condition)
        return f"NOT {condition}", values
    word, nothing = (" AND ", "TRUE") if isinstance(chosen, All) else (" OR ", "FALSE")
    parts = [where(each) for each in chosen.filters]
    together = word.join(condition for condition, _ in parts) or nothing
    return f"({together})", [value for _, values in parts for value in values]


def _equal(condition: Condition) -> tuple[str, list[Any]]:
    # Containment is what the index on the metadata answers.
    wanted = [_json({condition.field: operand}) for operand in condition.operands]
    contained = " OR ".join(["metadata @> %s::jsonb"] * len(wanted)) or "FALSE"
    return f"({contained})", wanted


def _ordered(condition: Condition) -> tuple[str, list[Any]]:
    (operand,) = condition.operands
    # The name of a field is an identifier, and so needs no escape.
    value, sign = f"metadata -> '{condition.field}'", condition.operator
    if isinstance(operand, str):
        text = f"metadata ->> '{condition.field}'"
        related, kind, wanted = f'({text}) COLLATE "C" {sign} %s', "string", operand
    else:
        related, kind, wanted = f"({value}) {sign} %s::jsonb", "number", _json(operand)
    return f"coalesce(jsonb_typeof({value}) = '{kind}' AND {related}, FALSE)", [wanted]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
