"""Copies of messages: to work on, and to notice an edit in place by (R-033).

Beside what a message was turned into stands a snapshot of what it was made of: parts and
containers are copied, the leaves (texts, numbers) are shared. Comparing the live parts with the
snapshot is one C-speed `==`, because equal leaves are the same objects; any edit, however deep,
makes it false. Values that compare equal (`1`, `1.0` and `True`) are the same to it.
"""

from __future__ import annotations

import copy
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ..errors import InputError
from ..memo import UNSEEN
from ..messages import Message, MessageContent, TextPart
from ..records import Record, clean_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..messages import Part

__all__ = [
    "Opaque",
    "changed_at",
    "frozen",
    "isolated",
    "isolated_form",
    "isolated_part",
    "plain_copy",
    "same",
    "snapshot",
    "too_deep",
]

_LEAVES = frozenset({str, int, float, bool, type(None), bytes, datetime, date, Decimal, UUID})
_FIXED = frozenset(
    "type text created_at mime_type media_type filename title id source_id model preliminary "
    "provider_executed tool_call_id tool_name state is_error error_text prompt_memo".split()
)
"""Fields that hold texts, numbers or nothing."""


class Opaque(Exception):
    """A value that may change without anyone noticing: what holds it is not remembered."""


def snapshot(value: Any) -> Any:
    """A copy that shares leaves and no container. Raises `Opaque` for what cannot be watched."""
    cls = value.__class__
    if cls in _LEAVES:
        return value
    if cls is dict:
        return {k: v if v.__class__ in _LEAVES else snapshot(v) for k, v in value.items()}
    if cls is list:
        return [v if v.__class__ in _LEAVES else snapshot(v) for v in value]
    if cls is tuple:
        return tuple([v if v.__class__ in _LEAVES else snapshot(v) for v in value])
    if isinstance(value, Record):
        return _snapshot_record(value, snapshot)
    if isinstance(value, Enum):
        return value
    raise Opaque


def _snapshot_record(record: Any, copied: Any) -> Any:
    twin = record.__copy__()
    for name in _HOLDERS.get(record.__class__) or _may_hold(record.__class__):
        value = getattr(record, name)
        if value is not None and value.__class__ not in _LEAVES:
            setattr(twin, name, copied(value))
    return twin


_HOLDERS: dict[type[Any], tuple[str, ...]] = {}


def _may_hold(cls: type[Any]) -> tuple[str, ...]:
    """The fields of a record class that may hold containers: all but those of plain text."""
    names: tuple[str, ...] = cls.__struct_fields__
    found = _HOLDERS[cls] = tuple(name for name in names if name not in _FIXED)
    return found


def same(live: Sequence[Any], remembered: Sequence[Any]) -> bool:
    """`live == remembered`; a value whose comparison fails was put there since, so it is not."""
    try:
        return live == remembered
    except Exception:
        return False


def isolated(message: Message) -> Message:
    """A copy of `message` that shares no mutable container with it; the memo stays (R-393).

    Values inside tool results or metadata that are no plain data are copied with `deepcopy`, where
    that is possible.
    Raises `InputError` for a value that is nested too deeply, or contains itself.
    """
    try:
        return _copied(message, _isolate)
    except RecursionError:
        raise too_deep(message) from None


def frozen(message: Message) -> Message:
    """A private copy to compare `message` with, without memo.

    Raises `Opaque` when it holds a value that cannot be watched.
    """
    try:
        made = _copied(message, snapshot)
    except RecursionError:
        raise Opaque from None
    made.prompt_memo = UNSEEN
    return made


def _copied(message: Any, copied: Callable[[Any], Any]) -> Message:
    made = message.__copy__()
    content = made.content = message.content.__copy__()
    content.parts = [
        part.__copy__()
        if part.__class__ is TextPart and part.provider_metadata is None and part.extra is None
        else copied(part)
        for part in content.parts
    ]
    if (
        content.metadata is not None
        or content.provider_metadata is not None
        or content.tool_invocations is not None
        or content.experimental_attachments is not None
        or content.reasoning is not None
        or content.annotations is not None
        or content.extra is not None
    ):
        for name in _CONTENT_HOLDERS:
            value = getattr(content, name)
            if value is not None:
                setattr(content, name, copied(value))
    if made.extra:
        made.extra = copied(made.extra)
    return made


_CONTENT_HOLDERS = tuple(
    name for name in MessageContent.__struct_fields__ if name not in ("parts", "format", "content")
)


def too_deep(message: Message) -> InputError:
    """The error for a message with a value that is nested too deeply; it names the place."""
    return InputError(
        f"message {message.id!r}: {_deep_place(message)} is nested too deeply, or contains itself"
    )


def _deep_place(message: Message) -> str:
    content = message.content
    for index, part in enumerate(content.parts):
        place = f"content.parts[{index}]"
        if not isinstance(part, Record):  # pyright: ignore[reportUnnecessaryIsInstance]
            if _is_deep(part):
                return place
        elif name := _deep_field(part):
            return f"{place}.{name}"
    if name := _deep_field(content):
        return f"content.{name}"
    return _deep_field(message) or "a value"


def _deep_field(record: Record) -> str:
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, Record):
            if record.__class__ is not Message and (inner := _deep_field(value)):
                return f"{name}.{inner}"
        elif name != "parts" and _is_deep(value):
            return name
    return ""


def _is_deep(value: Any) -> bool:
    try:
        clean_kept(value)
    except InputError:
        return True
    return False


def isolated_part(part: Part) -> Part:
    """A copy of a part that shares no mutable container with it."""
    return _isolate(part)


def _isolate(value: Any) -> Any:
    cls = value.__class__
    if cls in _LEAVES:
        return value
    if cls is dict:
        return {k: _isolate(v) for k, v in value.items()}
    if cls is list:
        return [_isolate(v) for v in value]
    if isinstance(value, Record):
        return _snapshot_record(value, _isolate)
    try:
        return copy.deepcopy(value)
    except RecursionError:
        raise
    except Exception:  # a lock, a connection: there is only one
        return value


def changed_at(parts: Sequence[Part], remembered: Sequence[Any]) -> int:
    """The index of the first part that is no longer what it was."""
    for index, (part, known) in enumerate(zip(parts, remembered, strict=False)):
        if not same([part], [known]):
            return index
    return min(len(parts), len(remembered))


def isolated_form(form: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping that stands for a message, sharing no container with what the caller gave.

    Raises `InputError` for a value that is nested too deeply, or contains itself.
    """
    try:
        return _isolate(dict(form))
    except RecursionError:
        raise InputError(
            f"message {form.get('id')!r}: a value is nested too deeply, or contains itself"
        ) from None


def plain_copy(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Prompt entries of one's own: they share no container with the remembered ones."""
    return _isolate(entries)
