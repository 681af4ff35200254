"""Signals: reminders and notices to the model that stand in the conversation (R-700 to R-721)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from msgspec import field

from .conversation.prompt_parts import as_part, user_content
from .errors import InputError, refuse
from .ids import new_id
from .messages import FilePart, Message, MessageContent, Part, TextPart
from .records import Record, clean_json, clean_text, format_time, parse_time, plain

__all__ = ["Signal", "is_transient", "rendered_parts", "repeats", "signal_content"]

_TAGS = {
    "user": "user",
    "state": "state",
    "reactive": "system-reminder",
    "notification": "notification",
}
_OLD_NAMES = {"user-message": "user", "system-reminder": "reactive"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
_KEYS = {
    "tagName": "tag_name",
    "providerOptions": "provider_options",
    "createdAt": "created_at",
    "acceptedAt": "accepted_at",
}


class Signal(Record, kw_only=True):
    """A notice to the model.

    `type` is `user`, `state`, `reactive` or `notification`; `contents` a text or a list of text
    and file parts. The model sees one user message, `<tag a="1">contents</tag>`. A `transient` one
    is in the prompts of the current run only. Raises `InputError` for an unknown type, for missing
    contents, and for a transient `state` signal (R-700, R-703, R-704).
    """

    type: str
    contents: str | list[Part]
    id: str = field(default_factory=new_id)
    tag_name: str = ""
    attributes: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    provider_options: dict[str, Any] | None = None
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    accepted_at: datetime | None = None
    transient: bool | None = None

    def __post_init__(self) -> None:
        self.type = _OLD_NAMES.get(self.type, self.type)
        if self.type not in _TAGS:
            raise InputError(f"a signal's type is one of {', '.join(_TAGS)}, not {self.type!r}")
        if self.type == "state" and self.transient:
            raise InputError("a state signal cannot be transient: leave transient out")
        self.tag_name = self.tag_name or _TAGS[self.type]
        self.contents = _contents(self.contents)
        self.attributes = clean_json(self.attributes)

    @classmethod
    def of(cls, value: Any, **defaults: Any) -> Signal:
        """A signal from a `Signal`, a stored signal message, or a mapping (R-703).

        Keys may be snake_case or camelCase. `defaults` are used for what is missing.
        """
        if isinstance(value, Signal):
            return value
        if isinstance(value, Message):
            return cls.from_message(value)
        if not isinstance(value, Mapping):
            refuse(f"a signal is a mapping with type and contents, not a {type(value).__name__}")
        given = {
            _KEYS.get(key, key): item for key, item in cast("Mapping[str, Any]", value).items()
        }
        if given.get("contents") is None:
            refuse('a signal needs contents: {"type": "reactive", "contents": "…"}')
        known = {key: given[key] for key in cls.__struct_fields__ if given.get(key) is not None}
        for key in ("created_at", "accepted_at"):
            if key in known:
                known[key] = parse_time(known[key])
        try:
            return cls(**{**defaults, **known})
        except TypeError as error:
            raise InputError(f"a signal needs type and contents: {error}") from None

    @classmethod
    def from_message(cls, message: Message) -> Signal:
        """The signal that a stored message is, rendered as it was (R-721)."""
        metadata = message.content.metadata or {}
        stored: Any = metadata.get("signal")
        facts: dict[str, Any] = dict(stored) if isinstance(stored, dict) else {}  # pyright: ignore[reportUnknownArgumentType]
        return cls.of(
            {
                "type": "reactive",
                **facts,
                "id": message.id,
                "tagName": facts.get("tagName") or message.type,
                "contents": _stored_contents(message),
                "createdAt": message.created_at,
                "providerOptions": message.content.provider_metadata,
            }
        )

    def to_db_message(self) -> Message:
        """As it is stored: role `signal`, the raw contents, all else in metadata (R-720)."""
        contents = self.contents
        parts: list[Part] = [TextPart(text=contents)] if isinstance(contents, str) else contents
        facts = self._facts("attributes", "metadata", "transient")
        return Message(
            id=self.id,
            role="signal",
            type=self.tag_name,
            created_at=self.created_at,
            content=MessageContent(
                parts=list(parts),
                metadata={"signal": facts},
                provider_metadata=self.provider_options,
            ),
        )

    def to_llm_message(self) -> dict[str, Any]:
        """The prompt entry the model sees. Raises `InputError` for a bad name (R-702, R-705)."""
        entry: dict[str, Any] = {"role": "user", "content": user_content(rendered_parts(self))}
        if self.provider_options:
            entry["providerOptions"] = plain(self.provider_options)
        return entry

    def to_data_part(self) -> dict[str, Any]:
        """As clients see it: `data-user-message` for type `user`, else `data-signal` (R-715)."""
        data = {
            **self._facts("attributes", "metadata", "transient"),
            "contents": self._raw_contents(),
        }
        kind = "data-user-message" if self.type == "user" else "data-signal"
        return {"type": kind, "data": data}

    def _raw_contents(self) -> Any:
        """The contents as they were given, without the time stamps of stored parts."""
        if isinstance(self.contents, str):
            return self.contents
        return [
            {key: value for key, value in part.to_json().items() if key != "createdAt"}
            for part in self.contents
        ]

    def _facts(self, *optional: str) -> dict[str, Any]:
        facts: dict[str, Any] = {"id": self.id, "type": self.type, "tagName": self.tag_name}
        facts["createdAt"] = format_time(self.created_at)
        if self.accepted_at is not None:
            facts["acceptedAt"] = format_time(self.accepted_at)
        for name in optional:
            value = getattr(self, name)
            if value:
                facts[name] = value
        return facts


def _contents(contents: Any) -> str | list[Part]:
    if isinstance(contents, str):
        return clean_text(contents)
    if not isinstance(contents, Sequence):
        refuse(f"a signal's contents are a text or a list of parts, not {type(contents).__name__}")
    found: list[Part] = []
    for item in cast("Sequence[Any]", contents):
        part = TextPart(text=item) if isinstance(item, str) else as_part(_file_form(item))
        if part.type not in ("text", "file"):
            refuse(f"a signal's contents are text and file parts, not {part.type!r}")
        if isinstance(part, TextPart):
            part.text = clean_text(part.text)
        found.append(part)
    return found


def _file_form(item: Any) -> Any:
    """A file part may name its type `mediaType`, as prompts do, or `mimeType`, as stores do."""
    if not isinstance(item, Mapping):
        return item
    given = dict(cast("Mapping[str, Any]", item))
    if given.get("type") != "file":
        return given
    kind = given.pop("mediaType", None) or given.pop("media_type", None) or given.get("mime_type")
    return {"mimeType": kind or "application/octet-stream", **given}


def _stored_contents(message: Message) -> str | list[Part]:
    parts = message.content.parts
    if not parts:
        return message.content.content or ""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    return [part for part in parts if isinstance(part, TextPart | FilePart)]


def signal_content(message: Message) -> list[dict[str, Any]]:
    """The prompt content of a stored signal message (R-359)."""
    return user_content(rendered_parts(Signal.from_message(message)))


def is_transient(message: Message) -> bool:
    """Whether a message is a signal for the current run only (R-723)."""
    facts: Any = (message.content.metadata or {}).get("signal") if message.role == "signal" else 0
    return isinstance(facts, dict) and bool(cast("dict[str, Any]", facts).get("transient"))


def repeats(message: Message, signal: Signal) -> bool:
    """Whether a message is an earlier copy of a transient signal."""
    if not is_transient(message):
        return False
    earlier = Signal.from_message(message)
    return (
        earlier.type == signal.type
        and earlier.tag_name == signal.tag_name
        and earlier.attributes == signal.attributes
        and _unstamped(earlier) == _unstamped(signal)
    )


def _unstamped(signal: Signal) -> Any:
    contents = signal.contents
    if isinstance(contents, str):
        return contents
    return [part.replace(created_at=None) for part in contents]


def rendered_parts(signal: Signal) -> list[Part]:
    """The parts a model is shown: the first text in its element, the others as they are (R-710)."""
    contents = signal.contents
    if isinstance(contents, str):
        return [TextPart(text=_element(signal, contents))]
    parts = list(contents)
    for index, part in enumerate(parts):
        if isinstance(part, TextPart):
            parts[index] = part.replace(text=_element(signal, part.text))
            return parts
    wrapping = _element(signal, "")
    return [TextPart(text=wrapping), *parts] if wrapping else parts


def _element(signal: Signal, text: str) -> str:
    """`<tag a="1">text</tag>`; a user's own words without attributes stay plain (R-707)."""
    attributes = _attribute_text(signal.attributes or {})
    if signal.type == "user" and not attributes:
        return text
    tag = _checked_name(signal.tag_name, "tag")
    if not text:
        return f"<{tag}{attributes} />"
    return f"<{tag}{attributes}>{_escaped(text)}</{tag}>"


def _attribute_text(attributes: Mapping[str, Any]) -> str:
    return "".join(
        f' {_checked_name(name, "attribute")}="{_quoted(_shown(value))}"'
        for name, value in attributes.items()
        if value is not None
    )


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str | int | float):
        return str(value)
    refuse(f"a signal's attributes are texts, numbers or booleans, not {type(value).__name__}")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', "&quot;")


def _checked_name(name: str, what: str) -> str:
    if _NAME.fullmatch(name) is None:
        refuse(
            f"{name!r} is no {what} name of a signal: a letter or underscore, "
            f"then letters, digits, '.', '-' or '_'"
        )
    return name
