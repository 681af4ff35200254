"""Messages that operations make, and the lists that hooks return."""

import copy
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from procession.messages import Message, MessageContent, TextPart, part_from_json

from .transforms import edit_text, known, merge_metadata, selected

_TICK = timedelta(milliseconds=1)
_LISTS = frozenset(
    "filter reverse transform_text append prepend literal set_metadata select".split()
)
_SYSTEM = frozenset(("append", "set"))

Maker = Callable[[Mapping[str, Any], datetime], Message]
"""Makes a message from its description, dated as told."""


class MessageMaker:
    """Makes the messages of a scenario; their ids are `made-1`, `made-2`, …"""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, made: Mapping[str, Any], created_at: datetime) -> Message:
        self._count += 1
        parts = made.get("parts")
        return Message(
            id=made.get("id") or f"made-{self._count}",
            role=made["role"],
            content=MessageContent(
                parts=[TextPart(text=made.get("text", ""))]
                if parts is None
                else [part_from_json(copy.deepcopy(part)) for part in parts],
                metadata=copy.deepcopy(made.get("metadata")),
            ),
            created_at=created_at,
        )


def after(messages: Sequence[Message]) -> datetime:
    """A time just after the newest message: lists are ordered by time."""
    times = [message.created_at for message in messages]
    return max(times) + _TICK if times else datetime.now(UTC)


def made_after(
    make: Maker, descriptions: Sequence[Mapping[str, Any]], present: Sequence[Message]
) -> list[Message]:
    """Made messages, one after the other, all newer than those present."""
    start = after(present)
    return [make(made, start + i * _TICK) for i, made in enumerate(descriptions)]


def made_before(
    make: Maker, descriptions: Sequence[Mapping[str, Any]], present: Sequence[Message]
) -> list[Message]:
    """Made messages, one after the other, all older than those present."""
    times = [message.created_at for message in present]
    start = (min(times) if times else datetime.now(UTC)) - len(descriptions) * _TICK
    return [make(made, start + i * _TICK) for i, made in enumerate(descriptions)]


def message_list_of(
    value: str | Mapping[str, Any], given: list[Message], present: Sequence[Message], make: Maker
) -> list[Message]:
    """The list that a `messages` value describes.

    `given` is the hook's argument, `present` everything whose time counts.
    """
    if value == "same":
        return given
    if value == "copy":
        return copy.deepcopy(given)
    if value == "empty":
        return []
    assert isinstance(value, Mapping), f"unknown list of messages: {value}"
    known(value, _LISTS, "list of messages")
    if "literal" in value:
        return made_after(make, value["literal"], present)
    messages = selected(given, value["filter"]) if "filter" in value else list(given)
    messages = _edited(messages, value)
    if value.get("reverse"):
        messages.reverse()
    before = made_before(make, value.get("prepend", ()), present)
    return before + messages + made_after(make, value.get("append", ()), present)


def _edited(messages: list[Message], value: Mapping[str, Any]) -> list[Message]:
    """New objects in place of those that are changed; the given ones stay as they were."""
    if "transform_text" not in value and "set_metadata" not in value:
        return messages
    chosen = {id(message) for message in selected(messages, value.get("select"))}
    changed: list[Message] = []
    edited = list(messages)
    for position, message in enumerate(edited):
        if id(message) in chosen:
            edited[position] = copy.deepcopy(message)
            changed.append(edited[position])
    if "transform_text" in value:
        edit_text(changed, value["transform_text"])
    if "set_metadata" in value:
        merge_metadata(changed, value["set_metadata"])
    return edited


def system_list_of(
    value: str | Mapping[str, Any], given: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The system messages that a `systemMessages` value describes."""
    if value == "same":
        return given
    if value == "empty":
        return []
    assert isinstance(value, Mapping), f"unknown system messages: {value}"
    known(value, _SYSTEM, "system messages")
    kept = [] if "set" in value else list(given)
    texts = [*value.get("set", ()), *value.get("append", ())]
    return kept + [{"role": "system", "content": text} for text in texts]
