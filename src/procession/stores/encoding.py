"""Rows of threads, messages and resources: what every store keeps, and what comes out of it again.

Contents are kept in the interchangeable JSON form (M-203), as ASCII: databases refuse NUL, lone
surrogates or both, and escaped they take them (M-205). Times are whole microseconds since 1970.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

from ..errors import InputError, StoreError
from ..messages import Message, MessageContent
from ..records import clean_json, plain

__all__ = [
    "KEY",
    "MessageRow",
    "checked_object",
    "fact_of",
    "facts_of",
    "from_json",
    "message_of",
    "moment",
    "now",
    "optional_json",
    "optional_object",
    "row_of",
    "stamp",
    "text",
    "to_json",
]

KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A key of metadata that a filter can ask for."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class MessageRow(NamedTuple):
    """A message as it is kept.

    `extra` is JSON: keys of the message that this version ignores. `facts` is what a filter can
    find in its metadata; reading does without.
    """

    id: str
    thread_id: str
    resource_id: str
    role: str
    type: str | None
    created_at: int
    content: str
    extra: str | None
    facts: str | None = None


def row_of(message: Message, thread_id: str, resource_id: str) -> MessageRow:
    """The row of a message in its thread. Raises `InputError` for what has no JSON form."""
    return MessageRow(
        id=text(message.id, "a message's id"),
        thread_id=thread_id,
        resource_id=resource_id,
        role=text(message.role, "a message's role"),
        type=message.type,
        created_at=stamp(message.created_at),
        content=to_json(message.content.to_json()),
        extra=optional_json(message.extra),
        facts=facts_of(message.content.metadata),
    )


def message_of(row: MessageRow) -> Message:
    """The message of a row, nobody's but the caller's."""
    return Message(
        id=row.id,
        thread_id=row.thread_id,
        resource_id=row.resource_id,
        role=row.role,
        type=row.type,
        created_at=moment(row.created_at),
        content=MessageContent.from_json(from_json(row.content)),
        extra=optional_object(row.extra),
    )


def to_json(value: Mapping[str, Any] | None) -> str:
    """JSON in ASCII; NaN and infinity, for which JSON has no word, become null."""
    data = plain(value)
    try:
        return json.dumps(data, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(data), allow_nan=False, separators=(",", ":"))


def checked_object(value: Any, what: str) -> str:
    """As `to_json`, of what must be a mapping."""
    if not isinstance(value, Mapping):
        raise InputError(f"{what} must be a JSON object, not {type(value).__name__}")
    return to_json(cast("Mapping[str, Any]", value))


def optional_json(value: Mapping[str, Any] | None) -> str | None:
    """As `to_json`; `None` stays `None`."""
    return None if value is None else to_json(value)


def optional_object(text: str | None) -> dict[str, Any] | None:
    """As `from_json`; `None` stays `None`."""
    return None if text is None else from_json(text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in cast("list[Any]", value)]
    return clean_json(value) if isinstance(value, float) else value


def from_json(text: str) -> dict[str, Any]:
    """The JSON object that a row holds. Raises `StoreError` for anything else."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise StoreError("a stored row is damaged: it holds no JSON object")
    return cast("dict[str, Any]", value)


def stamp(time: datetime) -> int:
    """Microseconds since 1970; a time without a zone is UTC. Raises `InputError` for no time."""
    if not isinstance(time, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"a stored time is a datetime, not {type(time).__name__}")
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def now() -> int:
    """This moment, as `stamp` gives it."""
    return stamp(datetime.now(UTC))


def moment(microseconds: int) -> datetime:
    """The time that `stamp` made a number of, in UTC."""
    return _EPOCH + microseconds * _MICROSECOND


def text(value: Any, what: str) -> str:
    """`value`, which must be a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{what} must be a text that is not empty, not {type(value).__name__}")
    return value


def facts_of(metadata: Mapping[str, Any] | None) -> str | None:
    """What a filter can find in metadata: a line for each entry, between line breaks."""
    lines = [
        line
        for key, value in plain(metadata or {}).items()
        if KEY.fullmatch(key) and (line := fact_of(key, value)) is not None
    ]
    return "\n" + "\n".join(lines) + "\n" if lines else None


def fact_of(key: str, value: Any) -> str | None:
    """An entry in one line of ASCII, equal for equal entries; `None` for what is no scalar."""
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            value = None  # as it is stored
        elif value.is_integer():
            value = int(value)
    if value is not None and not isinstance(value, str | int | float):
        return None
    shown = json.dumps(value)
    if len(shown) > 120:
        shown = "#" + hashlib.sha256(shown.encode()).hexdigest()
    return f"{key}={shown}"
