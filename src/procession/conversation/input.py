"""Any accepted form becomes a `Message`: text, stored, role and content, UI, flat old messages.

Whatever comes in has clean text afterwards: NUL and lone surrogates become U+FFFD. The forms of
parts are in `part_input`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ..errors import InputError
from ..messages import (
    Message,
    MessageContent,
    Part,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
    part_from_json,
)
from ..records import clean_kept, clean_text, parse_time
from ..signals import Signal
from .admission import NO_TIME
from .part_input import content_part, ui_part

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["NotAMessageError", "SystemEntry", "ToolResults", "read_messages"]


class NotAMessageError(InputError, TypeError):
    """A value of a type that no message form has (R-326)."""


class SystemEntry(Struct, frozen=True):
    """A system message that came in with others; it goes to the system messages (R-330)."""

    message: dict[str, Any]


class ToolResults(Struct, frozen=True):
    """A role-`tool` message: outcomes for calls that are in the list already (R-335)."""

    parts: list[ToolInvocationPart]


Incoming = Message | SystemEntry | ToolResults

_SNAKE = {
    "created_at": "createdAt",
    "thread_id": "threadId",
    "resource_id": "resourceId",
    "provider_options": "providerOptions",
    "provider_metadata": "providerMetadata",
    "tool_invocations": "toolInvocations",
}
_TICK = timedelta(milliseconds=1)
_LEGACY = ("experimental_attachments", "toolInvocations", "reasoning", "annotations")


def read_messages(value: Any) -> list[Incoming]:
    """What `value` says, in order; `None` says nothing (R-325).

    `Message` objects come back as they are, everything else is read. An id that is missing is made
    up; a missing time is left to the list. Raises `NotAMessageError` for a value of another kind
    and `InputError` for a message without content.
    """
    if isinstance(value, Message | str | Mapping | Signal) or value is None:
        found = _read(value)
        return [] if found is None else [found]
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        raise NotAMessageError(
            f"{type(value).__name__} is no message: give a text, a Message, a mapping with role "
            f"and content, or a list of these"
        )
    given = list(cast("Iterable[Any]", value))
    items: list[Incoming | None] = [
        item if item.__class__ is Message and item.role != "system" else _read(item)
        for item in given
    ]
    _keep_order(given, items)
    return [item for item in items if item is not None]


def _keep_order(given: Sequence[Any], items: Sequence[Incoming | None]) -> None:
    """What clients hold stays in their order, though only the answers among it tell a time (R-383).

    A message without a time that stands before such an answer is from just before it.
    """
    timed = [
        place
        for place, item in enumerate(items)
        if item is not given[place] and _is_timed_by_ui(given[place], item)
    ]
    if not timed:
        return
    following: datetime | None = None
    earlier = {place: at for at, place in zip([None, *timed], timed, strict=False)}
    before: int | None = None
    for place in range(timed[-1], -1, -1):
        item = items[place]
        if not isinstance(item, Message):
            continue
        if place in earlier:
            following, before = item.created_at, earlier[place]
        elif item.created_at is NO_TIME and following is not None:
            item.created_at = following - _TICK
            if before is not None:
                previous = cast("Message", items[before])
                item.created_at = max(item.created_at, previous.created_at)


def _is_timed_by_ui(given: Any, item: Incoming | None) -> bool:
    return (
        isinstance(given, Mapping)
        and "parts" in given
        and cast("Mapping[str, Any]", given).get("createdAt") is None
        and isinstance(item, Message)
        and item.created_at is not NO_TIME
    )


def _read(value: Any) -> Incoming | None:
    if value is None:
        return None
    if isinstance(value, Message):
        return _system(value.text, None) if value.role == "system" else value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Signal):
        return value.to_db_message()
    if isinstance(value, Mapping):
        return _mapping(cast("Mapping[str, Any]", value))
    raise NotAMessageError(
        f"{type(value).__name__} is no message: give a text, a Message, or a mapping with role "
        f"and content"
    )


def _system(text: str, options: Any) -> SystemEntry:
    message: dict[str, Any] = {"role": "system", "content": clean_text(text)}
    if options:
        message["providerOptions"] = clean_kept(options)
    return SystemEntry(message)


def _text(text: str) -> Message:
    said = clean_text(text)
    content = MessageContent(parts=[TextPart(text=said)], content=said)
    return Message(id="", role="user", content=content, created_at=NO_TIME)


def _mapping(value: Mapping[str, Any]) -> Incoming:
    data = {_SNAKE.get(key, key): item for key, item in value.items()}
    role = data.get("role")
    if not isinstance(role, str):
        raise NotAMessageError(f"a message needs a role; keys given: {sorted(map(str, value))}")
    content = data.get("content")
    if role == "system":
        return _system(_joined(content, data), data.get("providerOptions"))
    if role == "tool":
        return ToolResults(_tool_results(content))
    if role not in ("user", "assistant", "signal"):
        raise InputError(f"role {role!r} is unknown: use user, assistant, system, tool or signal")
    if isinstance(content, Mapping | MessageContent):
        return _stored(data)
    if isinstance(data.get("parts"), Sequence) and not isinstance(content, list):
        return _ui(data)
    if isinstance(content, str):
        return _flat(data, content)
    if isinstance(content, Sequence):
        return _with_parts(data, [content_part(part) for part in cast("Sequence[Any]", content)])
    raise InputError(f"a message of role {role!r} needs content: a text, or a list of parts")


def _joined(content: Any, data: Mapping[str, Any]) -> str:
    """The text of a system message in any form."""
    if isinstance(content, str):
        return content
    if isinstance(content, MessageContent):
        return "".join(p.text for p in content.parts if p.type == "text") or content.content or ""
    parts: Any = content
    if isinstance(content, Mapping):
        form = cast("Mapping[str, Any]", content)
        parts = form.get("parts") or [{"type": "text", "text": form.get("content") or ""}]
    if parts is None:
        parts = data.get("parts")
    if not isinstance(parts, Sequence):
        raise InputError("a system message needs content: a text")
    texts = [_text_of(part) for part in cast("Sequence[Any]", parts)]
    return "".join(text for text in texts if isinstance(text, str))


def _text_of(part: Any) -> Any:
    return cast("Mapping[str, Any]", part).get("text") if isinstance(part, Mapping) else None


def _tool_results(content: Any) -> list[ToolInvocationPart]:
    if not isinstance(content, Sequence) or isinstance(content, str):
        raise InputError("a message of role 'tool' needs content: a list of tool-result parts")
    parts = [content_part(item) for item in cast("Sequence[Any]", content)]
    return [part for part in parts if isinstance(part, ToolInvocationPart)]


def _message(data: Mapping[str, Any], content: MessageContent) -> Message:
    created = data.get("createdAt")
    return Message(
        id=clean_text(str(data.get("id") or "")),
        role=data["role"],
        content=content,
        created_at=NO_TIME if created is None else parse_time(created),
        thread_id=data.get("threadId"),
        resource_id=data.get("resourceId"),
        type=data.get("type") if data["role"] == "signal" else None,
    )


def _stored(data: dict[str, Any]) -> Message:
    """The stored form (R-300, R-304)."""
    content = data["content"]
    if isinstance(content, MessageContent):
        made = Message.from_json({**data, "content": {}})
        made.content = content
    else:
        form = dict(cast("Mapping[str, Any]", content))
        given: list[Any] = form.get("parts") or []
        made = Message.from_json({**data, "content": {**form, "parts": []}})
        made.content.parts = [_stored_part(part) for part in given]
    made.id = clean_text(str(data.get("id") or ""))
    if not data.get("createdAt"):
        made.created_at = NO_TIME
    return made


def _stored_part(part: Any) -> Part:
    if isinstance(part, Part):
        return part
    if not isinstance(part, Mapping):
        raise InputError(f"a message part is a mapping with a type, not {type(part).__name__}")
    return part_from_json(dict(cast("Mapping[str, Any]", part)))


def _ui(data: dict[str, Any]) -> Message:
    """A message as AI SDK clients hold it: `parts` beside `role` (R-391)."""
    metadata = data.get("metadata")
    if data.get("createdAt") is None and isinstance(metadata, Mapping):
        data["createdAt"] = _time_in(cast("Mapping[str, Any]", metadata))
    parts = [ui_part(part) for part in data["parts"]]
    text = data.get("content")
    if not parts and not text:
        raise InputError(f"a message of role {data['role']!r} needs content: it has no parts")
    message = _with_parts(data, parts)
    if isinstance(text, str) and text:
        message.content.content = text
    return message


def _time_in(metadata: Mapping[str, Any]) -> datetime | None:
    """`createdAt` that `ui()` put into the metadata, when it is a time (R-383)."""
    try:
        return parse_time(metadata["createdAt"])
    except (KeyError, InputError):
        return None


def _flat(data: dict[str, Any], text: str) -> Message:
    """Role and text; old messages have tool calls and attachments beside it."""
    parts: list[Part] = [TextPart(text=text)] if text else []
    for call in data.get("toolInvocations") or ():
        parts.append(ToolInvocationPart(tool_invocation=ToolInvocation.from_json(dict(call))))
    message = _with_parts(data, parts)
    message.content.content = text
    return message


def _with_parts(data: Mapping[str, Any], parts: list[Part]) -> Message:
    """A message of the parts, with the flat text that old readers look for (R-303)."""
    texts = [part.text for part in parts if part.type == "text"]
    flat: str | None = None
    if texts:
        flat = "\n".join(texts) if data["role"] == "user" else texts[-1]
    legacy = {key: data[key] for key in _LEGACY if data.get(key) is not None}
    content = MessageContent.from_json({"content": flat, **legacy})
    content.parts = parts
    metadata = data.get("metadata")
    if isinstance(metadata, Mapping):
        content.metadata = dict(cast("Mapping[str, Any]", metadata))
    content.provider_metadata = data.get("providerOptions") or data.get("providerMetadata")
    return _message(data, content)
