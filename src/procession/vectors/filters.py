"""Metadata filters: from what a caller writes to conditions, and what a condition means."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from ..errors import InputError
from ..records import clean_text

__all__ = ["ABSENT", "All", "AnyOf", "Condition", "Filter", "Not", "parse_filter", "same_kind"]

Operator = Literal["=", "<", "<=", ">", ">="]

ABSENT: Any = object()
"""What stands for a value that is missing, or is no single value: a list or an object."""


class Condition(Struct, frozen=True):
    """What the value of a field must be: equal to one of `operands`, or related to the only one."""

    field: str
    operator: Operator
    operands: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        """Whether it holds for a value; for `ABSENT` never."""
        if value is ABSENT:
            return False
        relation = _RELATIONS[self.operator]
        return any(
            same_kind(value, operand) and relation(value, operand) for operand in self.operands
        )


class Not(Struct, frozen=True):
    """What must not hold."""

    condition: Condition


class All(Struct, frozen=True):
    """Filters that must all hold; of none, anything does."""

    filters: tuple[Filter, ...]


class AnyOf(Struct, frozen=True):
    """Filters of which one must hold."""

    filters: tuple[Filter, ...]


Filter: TypeAlias = Condition | Not | All | AnyOf

_RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ORDERS: Mapping[str, Operator] = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_KNOWN = "$eq, $ne, $gt, $gte, $lt, $lte, $in and $nin; around fields $and and $or"
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_DEEPEST = 20


def same_kind(one: Any, other: Any) -> bool:
    """Whether two values can be compared: both are numbers, texts, truth values, or None."""
    return _kind(one) is _kind(other)


def _kind(value: object) -> type[object]:
    return float if type(value) is int else type(value)


def parse_filter(given: Any) -> All:
    """The conditions of a filter; `InputError` with what is wrong with it, without its values."""
    return _parse(given, _DEEPEST)


def _parse(given: Any, depth: int) -> All:
    if given is None:
        return All(())
    if not isinstance(given, Mapping):
        raise InputError(f"a filter is a mapping of fields to values, not {_type(given)}")
    if depth == 0:
        raise InputError(f"a filter is nested more than {_DEEPEST} levels deep")
    filters: list[Filter] = []
    for name, wanted in cast("Mapping[Any, Any]", given).items():
        if name in ("$and", "$or"):
            filters.append(_combined(name, wanted, depth))
        else:
            filters += _of_field(name, wanted)
    return All(tuple(filters))


def _combined(name: str, given: Any, depth: int) -> Filter:
    if not isinstance(given, list | tuple) or not given:
        raise InputError(f"{name} takes a list of filters, with at least one in it")
    filters = tuple(_parse(each, depth - 1) for each in cast("list[Any]", given))
    return All(filters) if name == "$and" else AnyOf(filters)


def _of_field(name: Any, wanted: Any) -> list[Filter]:
    if isinstance(name, str) and name.startswith("$"):
        raise InputError(f"a filter has no operator {name!r} here: there are {_KNOWN}")
    if not isinstance(name, str) or not _FIELD.fullmatch(name):
        raise InputError("a field of a filter is a name of letters, digits and _")
    if not isinstance(wanted, Mapping):
        return [Condition(name, "=", (_value(name, wanted),))]
    operators = cast("Mapping[Any, Any]", wanted)
    if not operators:
        raise InputError(f"the filter of {name!r} has no operator: there are {_KNOWN}")
    return [_condition(name, word, operand) for word, operand in operators.items()]


def _condition(name: str, word: Any, operand: Any) -> Filter:
    if word in ("$in", "$nin"):
        if not isinstance(operand, list | tuple | set | frozenset):
            raise InputError(f"{word} of {name!r} takes a list of values, not {_type(operand)}")
        values = cast("list[Any]", operand)
        among = Condition(name, "=", tuple(_value(name, each) for each in values))
        return among if word == "$in" else Not(among)
    if word in ("$eq", "$ne"):
        equal = Condition(name, "=", (_value(name, operand),))
        return equal if word == "$eq" else Not(equal)
    if word in _ORDERS:
        if type(operand) not in (int, float, str):
            raise InputError(f"{word} of {name!r} takes a number or a text, not {_type(operand)}")
        return Condition(name, _ORDERS[word], (_value(name, operand),))
    raise InputError(f"the filter of {name!r} has an unknown operator {word!r}: there are {_KNOWN}")


def _value(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value).replace("\0", "\ufffd")
    if (
        value is None
        or isinstance(value, bool | int)
        or (isinstance(value, float) and isfinite(value))
    ):
        return value
    raise InputError(
        f"the filter of {name!r} compares with a text, a number, True, False or None, "
        f"not {_type(value)}"
    )


def _type(value: Any) -> str:
    return f"a value of type {type(value).__name__}"
