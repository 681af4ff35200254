"""What is wrong with a chunk that a model or a hook has made.

Chunks are not checked as they come, for that would cost time with every one of them: they are
looked at when a hook has made them, or when something went wrong.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from ..chunks import PAYLOAD_TYPES, DeltaPayload
from ..records import Record

__all__ = ["chunk_problem"]


def chunk_problem(chunk: Any) -> str | None:
    """What does not fit in a chunk, in words that hold no values; `None`: nothing."""
    kind, payload = chunk.type, chunk.payload
    if payload.__class__ is DeltaPayload and payload.text.__class__ is str:
        if kind == "text-delta" and payload.id.__class__ is str:
            return None
    if not isinstance(kind, str):
        return f"the type of a chunk must be a text, not {type(kind).__name__}"
    expected = PAYLOAD_TYPES.get(kind)
    if expected is None:
        return None
    if not isinstance(payload, expected):
        given = type(payload).__name__
        return f"the payload of {kind!r} must be a {expected.__name__}, not {given}"
    problem = _misfit(payload)
    return None if problem is None else f"the payload of {kind!r} does not fit: {problem}"


def _misfit(record: Record) -> str | None:
    """Which field has a value of the wrong type; optional ones may be `None`."""
    given: dict[str, Any] = {}
    for field in msgspec.structs.fields(type(record)):
        value = getattr(record, field.name)
        if isinstance(value, Record):
            problem = _misfit(value)
            if problem is not None:
                return f"{field.name}: {problem}"
        if value is not UNSET and (field.required or value is not None):
            given[field.encode_name] = value
    try:
        made = msgspec.convert(given, type(record))
    except (msgspec.ValidationError, RecursionError) as error:
        return str(error)  # which names types and keys, no values
    for name in type(record).names().values():
        wanted, found = getattr(made, name), getattr(record, name)
        if isinstance(wanted, Record) and not isinstance(found, Record):
            return f"{name} must be a {type(wanted).__name__}, not {type(found).__name__}"
    return None
