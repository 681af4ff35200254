"""How a conversion is remembered, and how an edit in place is noticed (R-033).

Beside the converted entries stands a structural snapshot of what they were made of: parts and
containers are copied, the leaves (texts, numbers) are shared. Comparing the live parts with the
snapshot is one C-speed `==`, because equal leaves are the same objects; any edit, however deep,
makes it false. Values that compare equal (`1`, `1.0` and `True`) are the same to it.

A memo is never changed once it is on a message, so copies of a message and concurrent runs may
share it.
"""

from __future__ import annotations

import copy
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .messages import MessageContent, TextPart
from .records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .messages import Message, Part
    from .prompt_run import PromptRun

__all__ = ["Opaque", "PromptMemo", "isolated", "plain_copy", "same", "snapshot"]

_LEAVES = frozenset({str, int, float, bool, type(None), bytes, datetime, date, Decimal, UUID})
_FIXED = frozenset(
    "type text created_at mime_type media_type filename title id source_id model preliminary "
    "provider_executed tool_call_id tool_name state is_error error_text prompt_memo".split()
)
"""Fields that hold texts, numbers or nothing."""


class Opaque(Exception):
    """A value that may change without anyone noticing: what holds it is not remembered."""


class PromptMemo:
    """What a message was turned into.

    `facts` is what counts beside the parts, `parts` the snapshot, `entries` the prompt entries.
    `bounds` are (index of part, index of entry) where each block of an assistant message begins.
    `whole` tells that `parts` covers the message and not only its beginning. `stamped` is how many
    parts had a time stamp when the message was added; `run` the remembered conversation it is in.
    """

    __slots__ = ("bounds", "entries", "facts", "has_urls", "parts", "run", "stamped", "whole")

    facts: tuple[Any, ...]
    parts: list[Any]
    entries: list[dict[str, Any]]
    bounds: list[tuple[int, int]]
    whole: bool
    has_urls: bool
    stamped: int
    run: PromptRun | None

    def __init__(self, stamped: int = 0) -> None:
        self.facts = ()
        self.parts = []
        self.entries = []
        self.bounds = []
        self.whole = False
        self.has_urls = False
        self.stamped = stamped
        self.run = None

    def __eq__(self, other: object) -> bool:
        """Always: what is remembered of a message makes it no different from another."""
        return other is None or isinstance(other, PromptMemo)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<memo of {len(self.entries)} entries>"

    def __deepcopy__(self, seen: object) -> PromptMemo:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return PromptMemo, (self.stamped,)


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

    Values inside tool results or metadata that are no plain data are copied with `deepcopy`.
    """
    made = copy.copy(message)
    content = made.content = copy.copy(message.content)
    content.parts = [
        copy.copy(part) if part.__class__ is TextPart and not _holds_more(part) else _isolate(part)
        for part in content.parts
    ]
    for name in _CONTENT_HOLDERS:
        value = getattr(content, name)
        if value is not None:
            setattr(content, name, _isolate(value))
    if made.extra:
        made.extra = _isolate(made.extra)
    return made


_CONTENT_HOLDERS = tuple(
    name for name in MessageContent.__struct_fields__ if name not in ("parts", "format", "content")
)


def _holds_more(part: Part) -> bool:
    """Whether a text part holds anything that could be changed in place."""
    return part.provider_metadata is not None or part.extra is not None


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
    return copy.deepcopy(value)


def changed_at(parts: Sequence[Part], remembered: Sequence[Any]) -> int:
    """The index of the first part that is no longer what it was."""
    for index, (part, known) in enumerate(zip(parts, remembered, strict=False)):
        if not same([part], [known]):
            return index
    return min(len(parts), len(remembered))


def plain_copy(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Prompt entries of one's own: they share no container with the remembered ones."""
    return _isolate(entries)
