"""The common ground of messages, parts and chunks: typed attributes in Python, camelCase in JSON.

A record knows its fields; whatever else the JSON held is kept in `extra` and written back (R-304),
because msgspec drops keys it does not know. Values that belong to the user are never touched
(R-395): only a record's own field names are translated.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from operator import is_
from typing import Any, ClassVar, Self, cast

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from .errors import APICallError, InputError

__all__ = [
    "MAX_DEPTH",
    "Record",
    "clean_json",
    "clean_kept",
    "clean_record",
    "clean_text",
    "format_time",
    "own",
    "parse_time",
    "plain",
]

_APART = frozenset({"extra", "prompt_memo"})
"""Fields that are no JSON keys: the slot for unknown keys, and a message's prompt memo."""

MAX_DEPTH = 200
"""How deep values that enter a run may be nested: what JSON libraries take, with room to spare.

A limit of our own, because the interpreter's depends on how deep the stack is at the moment.
"""

_TOO_DEEP = "a value is nested too deeply, or contains itself: no JSON form"


class Record(Struct, rename="camel", kw_only=True):
    """Base of everything that has a JSON form. `extra` holds keys this version does not know."""

    extra: dict[str, Any] | None = None

    _names: ClassVar[dict[str, str]]

    @classmethod
    def names(cls) -> dict[str, str]:
        """JSON key to attribute name, in field order; `extra` is not a key, nor is a memo."""
        found = cls.__dict__.get("_names")
        if found is None:
            pairs = zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True)
            found = {key: name for key, name in pairs if name not in _APART}
            cls._names = found
        return found

    def replace(self, **changes: Any) -> Self:
        """A copy with changes; every other field, unknown ones too, is kept (R-393).

        The copy is shallow: nested lists and dicts are shared until they are replaced as well.
        """
        return replace(self, **changes)

    def __getitem__(self, key: str) -> Any:
        """Read by JSON key: `payload["toolCallId"]` is `payload.tool_call_id` (R-502)."""
        name = self.names().get(key)
        if name is not None:
            value = getattr(self, name)
            if value is not UNSET:
                return value
        elif self.extra is not None and key in self.extra:
            return self.extra[key]
        raise KeyError(key)

    def __setitem__(self, key: str, value: Any) -> None:
        """Write by JSON key; an unknown key goes to `extra`."""
        name = self.names().get(key)
        if name is not None:
            setattr(self, name, value)
        else:
            self.extra = {**(self.extra or {}), key: value}

    def __contains__(self, key: object) -> bool:
        """Whether a JSON key has a value."""
        return isinstance(key, str) and self.get(key, UNSET) is not UNSET

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a JSON key, or `default`."""
        try:
            return self[key]
        except KeyError:
            return default

    def to_json(self) -> dict[str, Any]:
        """The JSON form as plain data: absent fields are left out, unknown keys written back."""
        out: dict[str, Any] = {}
        for key, name in self.names().items():
            value = getattr(self, name)
            if value is not None and value is not UNSET:
                out[key] = plain(value)
        if self.extra:
            out.update(plain(self.extra))
        return out

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Build from the JSON form. Values are taken as they are; unknown keys land in `extra`."""
        names = cls.names()
        known: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for key, value in data.items():
            name = names.get(key)
            if name is None:
                extra[key] = value
            else:
                known[name] = value
        try:
            return cls(**known, extra=extra or None)
        except TypeError as error:
            raise InputError(
                f"{cls.__name__}: {error}; keys given: {sorted(map(str, data))}"
            ) from None


def plain(value: Any) -> Any:
    """`value` as JSON data (dict, list, str, int, float, bool, None), whatever it is made of.

    Errors become `{name, message, …}` (R-503), bytes base64, times ISO 8601; objects that msgspec
    or pydantic can dump are dumped, anything else becomes its `str`. Cycles raise `InputError`.
    """
    try:
        return _plain(value)
    except RecursionError:
        raise InputError(_TOO_DEEP) from None


def _plain(value: Any) -> Any:
    cls = value.__class__
    if cls is str or cls is int or cls is bool or cls is float or value is None:
        return value
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Any, Any]", value)
        return {str(k): _plain(v) for k, v in mapping.items() if v is not UNSET}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v) for v in cast("list[Any]", value)]
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, BaseException):
        return error_form(value)
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(cast("bytes", value)).decode("ascii")
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return _plain(dump(mode="json"))
    try:
        return msgspec.to_builtins(value, enc_hook=str)
    except (TypeError, ValueError):
        return str(value)


def error_form(error: BaseException) -> dict[str, Any]:
    """An exception as JSON: name, message and, for API errors, status and retryable flag."""
    form: dict[str, Any] = {"name": type(error).__name__, "message": _message_of(error)}
    for key, name in (("statusCode", "status_code"), ("isRetryable", "is_retryable")):
        value = getattr(error, name, None)
        if value is not None:
            form[key] = value
    return form


def _message_of(error: BaseException) -> str:
    try:
        said = error.message if isinstance(error, APICallError) else str(error)
        return clean_text(said)
    except Exception:  # an exception whose own text fails still has a name
        return ""


def format_time(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds and a trailing Z, as the reference's clients write it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(value: Any) -> datetime:
    """An aware `datetime` from ISO 8601 text, epoch milliseconds or a `datetime`."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, int | float):
            value = datetime.fromtimestamp(value / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise InputError(f"not a time: {str(value)[:40]!r}") from None
    if not isinstance(value, datetime):
        raise InputError(f"not a time: {type(value).__name__}")
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def clean_text(text: str) -> str:
    """Text that has an encoding: lone surrogates become U+FFFD.

    Surrogate pairs are joined to the character they stand for. Clean text comes back as it is,
    at the cost of a scan.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean_json(value: Any) -> Any:
    """`value` as JSON data with clean texts; what is clean already comes back as it is.

    For values that enter a run from outside: tool results, data. JSON has no word for NaN and
    infinity: they become `None`, as everywhere on the web. Raises `InputError` for a value
    that contains itself or is nested more than `MAX_DEPTH` levels deep.
    """
    try:
        return _clean(value, MAX_DEPTH, kept=False)
    except RecursionError:
        raise InputError(_TOO_DEEP) from None


def clean_kept(value: Any) -> Any:
    """As `clean_json`, but what is no plain data stays what it is: its giver's own object."""
    try:
        return _clean(value, MAX_DEPTH, kept=True)
    except RecursionError:
        raise InputError(_TOO_DEEP) from None


def own(value: Any) -> Any:
    """`value` in lists and dicts of its own: its giver may go on to change his."""
    if value.__class__ is dict:
        return {key: own(entry) for key, entry in value.items()}
    if value.__class__ is list:
        return [own(entry) for entry in value]
    return value


def clean_record(record: Record) -> None:
    """Clean the texts in a record's fields, in place; what is clean stays the same objects."""
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if value is None or value is UNSET:
            continue
        cls = value.__class__
        if cls is str:
            if value.isascii():
                continue
            made = clean_text(value)
        elif cls is dict or cls is list:
            made = clean_kept(value)
        else:
            if isinstance(value, Record):
                clean_record(value)
            continue
        if made is not value:
            setattr(record, name, made)


def _clean(value: Any, levels: int, *, kept: bool) -> Any:
    cls = value.__class__
    if cls is str:
        return clean_text(value)
    if value is None or cls is int or cls is bool:
        return value
    if cls is float:
        return value if kept or isfinite(value) else None
    if cls is dict or (kept and issubclass(cls, dict)):
        return _clean_dict(value, _deeper(levels), kept)
    if cls is list or (kept and cls is tuple):
        levels = _deeper(levels)
        cleaned: Any = [_clean(v, levels, kept=kept) for v in value]
        if all(map(is_, cleaned, value)):
            return value
        return cleaned if cls is list else tuple(cleaned)
    return value if kept else _clean(plain(value), levels, kept=False)


def _deeper(levels: int) -> int:
    if not levels:
        raise InputError(_TOO_DEEP)
    return levels - 1


def _clean_dict(value: dict[Any, Any], levels: int, kept: bool) -> dict[Any, Any]:
    cleaned: dict[Any, Any] = {}
    same = True
    for key, entry in value.items():
        name = clean_text(key) if isinstance(key, str) else key if kept else str(key)
        cleaned[name] = made = _clean(entry, levels, kept=kept)
        same = same and name is key and made is entry
    return value if same else cleaned
