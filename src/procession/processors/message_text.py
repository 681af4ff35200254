"""The text of a message, and a copy of a message with another text (B-011, B-012)."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..messages import Message

__all__ = ["texts_of", "with_text", "with_texts"]


def texts_of(message: Message) -> list[str]:
    """The texts of the text parts; the flat text only where there are none (B-011)."""
    found = [part.text for part in message.content.parts if part.type == "text"]
    if not found and message.content.content:
        return [message.content.content]
    return found


def with_texts(message: Message, change: Callable[[str], str]) -> Message:
    """The message with `change` applied to each text part and to the flat text (B-012).

    A copy when something changed, else the message itself; other parts are shared with it.
    """
    parts, changed = list(message.content.parts), False
    for position, part in enumerate(parts):
        if part.type != "text":
            continue
        text = change(part.text)
        if text != part.text:
            edited: Any = copy(part)
            edited.text = text
            parts[position] = edited
            changed = True
    flat = message.content.content
    if flat:
        flat = change(flat)
        changed = changed or flat != message.content.content
    if not changed:
        return message
    made = copy(message)
    made.content = content = copy(message.content)
    content.parts, content.content = parts, flat
    return made


def with_text(message: Message, text: str) -> Message:
    """A copy of the message that says `text`, in place of all that it said (B-012).

    Of several text parts the first one has it, and the others are left out; the rest stays.
    """
    parts: list[Any] = []
    has_text = False
    for part in message.content.parts:
        if part.type != "text":
            parts.append(part)
        elif not has_text:
            has_text = True
            edited: Any = copy(part)
            edited.text = text
            parts.append(edited)
    made = copy(message)
    made.content = content = copy(message.content)
    content.parts = parts
    if content.content or not has_text:
        content.content = text
    return made
