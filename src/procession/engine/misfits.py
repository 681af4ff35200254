"""What is wrong with a chunk that a model or a hook has made.

Chunks are not checked as they come, for that would cost time with every one of them: they are
looked at when a hook has made them, or when something went wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import UNSET

from ..chunks import PAYLOAD_TYPES, Chunk, DeltaPayload
from ..errors import ModelError
from ..records import Record

__all__ = ["as_exception", "chunk_problem", "read_problem"]


def read_problem(read: Any) -> str | None:
    """What is wrong with what a model delivered in one read, if anything is."""
    asked = "stream(request) must yield lists of chunks"
    if not isinstance(read, Iterable):
        return f"{asked}, not {_kind(read)}"
    if not isinstance(read, Collection):
        return None  # an iterator, which is used up
    for chunk in cast("Collection[Any]", read):
        if not isinstance(chunk, Chunk):
            return f"{asked}; a {_kind(read)} with {_kind(chunk)} in it came"
        problem = chunk_problem(chunk)
        if problem is not None:
            return problem
    return None


def _kind(value: Any) -> str:
    return type(value).__name__


def as_exception(error: Any) -> Exception:
    """What an `error` chunk tells of, as an exception."""
    if isinstance(error, Exception):
        return error
    said: Any = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else None
    told = said or cast("Any", error) or "the model reported an error, without a word on it"
    made = ModelError(str(told))
    made.cause = error
    return made


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


@lru_cache(maxsize=256)  # reading annotations costs more than all else that is done to a chunk
def _fields(kind: type[Record]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _misfit(record: Record) -> str | None:
    """Which field has a value of the wrong type; optional ones may be `None`."""
    given: dict[str, Any] = {}
    for field in _fields(type(record)):
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
