"""What spans show of a run's content, and of what hooks did to it.

Shown is what may be stored: the same messages, in the form in which processors have left them, once
the outcome of the run is known. What a hook has changed is told in numbers, before and after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..engine.leaving import to_be_stored
from ..records import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..messages import Message

__all__ = ["MOST_MESSAGES", "Shape", "differences", "input_of", "messages_form", "outcomes_of"]

MOST_MESSAGES = 50
"""So many messages are shown of a list, the last ones."""
_LOOKED_AT = 20


class Shape(NamedTuple):
    """A list of messages in numbers. What it costs does not depend on how long the list is."""

    messages: Any
    """The list itself, which nobody changes: a change makes another one."""
    sizes: dict[str, tuple[int, int]]
    """Parts and characters of the last messages, by id."""
    system: Any

    @classmethod
    def of(cls, shown: tuple[Any, Any]) -> Shape:
        """The shape of what a hook is shown."""
        messages, system = shown
        # A history that nobody has asked for is not read for this.
        last: Sequence[Message] = messages[-_LOOKED_AT:] if messages.__class__ is list else ()
        return cls(messages, {m.id: (len(m.content.parts), _size(m)) for m in last}, system)


def _size(message: Message) -> int:
    size = 0
    for part in message.content.parts:
        text = getattr(part, "text", None)
        if isinstance(text, str):
            size += len(text)
    return size


def differences(before: Shape, after: Shape) -> list[dict[str, Any]]:
    """What a hook did to the message list (O-027), without a word of it."""
    found: list[dict[str, Any]] = []
    if before.messages is not after.messages:
        old, new = ({m.id for m in shape.messages} for shape in (before, after))
        if gone := sorted(old - new):
            found.append({"type": "remove_by_ids", "count": len(gone), "ids": gone[:50]})
        if came := sorted(new - old):
            found.append({"type": "add", "count": len(came), "ids": came[:50]})
    if before.system is not after.system and before.system != after.system:
        grown = len(after.system) - len(before.system)
        found.append({"type": "add_system" if grown > 0 else "change_system", "count": abs(grown)})
    for id, was in before.sizes.items():
        now = after.sizes.get(id)
        if now is not None and now != was:
            before_after = {"before": was[1], "after": now[1]}
            found.append({"type": "edit", "ids": [id], "characters": before_after})
    return found


def messages_form(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The last messages as JSON data."""
    return [
        {"role": message.role, "parts": plain([part.to_json() for part in message.content.parts])}
        for message in messages[-MOST_MESSAGES:]
    ]


def input_of(run: Any, kept: Sequence[Message]) -> list[dict[str, Any]]:
    """What a run was given, as far as it may be stored."""
    own = {message.id for message in run.message_list.get.input.db()}
    return messages_form([message for message in kept if message.id in own])


def outcomes_of(kept: Sequence[Message]) -> dict[str, Any]:
    """The calls of tools that may be stored, by id."""
    found: dict[str, Any] = {}
    for message in kept:
        for part in message.content.parts:
            invocation = getattr(part, "tool_invocation", None)
            if invocation is not None:
                found[invocation.tool_call_id] = invocation
    return found


kept_of = to_be_stored
"""The messages of a run that may be shown."""
