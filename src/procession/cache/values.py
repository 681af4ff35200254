"""Values as caches keep them: JSON, with a form of its own for bytes and times (C-115)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec

from ..errors import InputError, StoreError
from ..records import MAX_DEPTH

__all__ = ["dumped", "loaded"]

_BYTES, _TIME = "$bytes", "$time"


def dumped(value: Any) -> bytes:
    """JSON of a value; raises `InputError` for one that has none."""
    try:
        return msgspec.json.encode(_tagged(value, MAX_DEPTH))
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"a cache keeps JSON data, bytes and times: {error}") from None


def loaded(data: bytes | str) -> Any:
    """The value of what `dumped` gave; raises `StoreError` for anything else."""
    try:
        value = msgspec.json.decode(data)
        marked = b'"$' in data if isinstance(data, bytes) else '"$' in data
        return _untagged(value) if marked else value
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError("what the cache holds under this key is none of its values") from error


def _tagged(value: Any, levels: int) -> Any:
    cls = value.__class__
    if cls is str or value is None or cls is int or cls is bool or cls is float:
        return value
    if cls is dict and levels:
        return {_escaped(key): _tagged(entry, levels - 1) for key, entry in value.items()}
    if not levels:
        raise InputError("a value is nested too deeply for a cache, or contains itself")
    if isinstance(value, list | tuple):
        return [_tagged(entry, levels - 1) for entry in cast("list[Any]", value)]
    if isinstance(value, bytes | bytearray | memoryview):
        return {_BYTES: base64.b64encode(cast("bytes", value)).decode("ascii")}
    if isinstance(value, datetime):
        return {_TIME: value.isoformat()}
    if isinstance(value, Mapping):
        return _tagged(dict(cast("Mapping[Any, Any]", value)), levels)
    return value


def _escaped(key: Any) -> Any:
    return f"${key}" if key.__class__ is str and key[:1] == "$" else key


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        return [_untagged(entry) for entry in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    mapping = cast("dict[str, Any]", value)
    if len(mapping) == 1:
        (key, inner), *_ = mapping.items()
        if key == _BYTES:
            return base64.b64decode(inner, validate=True)
        if key == _TIME:
            return datetime.fromisoformat(inner)
    return {
        key.removeprefix("$") if key.startswith("$$") else key: _untagged(entry)
        for key, entry in mapping.items()
    }
