"""What providers send, read without trust: a value of another kind than expected is empty."""

from __future__ import annotations

import secrets
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from ..records import clean_json

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "clean_but",
    "count",
    "entries",
    "mapping",
    "mappings",
    "moment",
    "new_call_id",
    "new_prefix",
    "word",
]


def mapping(value: Any) -> dict[str, Any]:
    """`value` if it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def entries(value: Any) -> list[Any]:
    """`value` if it is a JSON array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def mappings(value: Any) -> list[dict[str, Any]]:
    """The entries of a JSON array as objects; what is none is an empty one."""
    return list(map(mapping, entries(value)))


def clean_but(value: Any, way: Sequence[str]) -> Any:
    """`value` as clean JSON, but for what lies at the end of `way`, of keys, through any arrays.

    That is where texts grow: a piece may end in half a character, whose other half is to come.
    """
    if not way:
        return value
    if isinstance(value, list):
        return [clean_but(entry, way) for entry in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return clean_json(value)
    first, *rest = way
    own = cast("dict[str, Any]", value)
    cleaned = clean_json({name: entry for name, entry in own.items() if name != first})
    return {**cleaned, first: clean_but(own[first], rest)} if first in own else cleaned


def word(value: Any) -> str:
    """`value` if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int | None:
    """`value` if it is a whole number, else unknown."""
    return value if type(value) is int else None


def moment(value: Any) -> datetime | None:
    """The time of so many seconds since 1970; `None` for what is no time of this world."""
    if value and isinstance(value, int | float):
        with suppress(ValueError, OverflowError, OSError):
            return datetime.fromtimestamp(value, UTC)
    return None


def new_call_id(prefix: str = "call") -> str:
    """An id for a call that the provider gave none."""
    return f"{prefix}_{secrets.token_hex(12)}"


def new_prefix() -> str:
    """What makes the ids of an answer's blocks unique over a run's steps.

    Lanes and parts are told apart by them.
    """
    return secrets.token_hex(4)
