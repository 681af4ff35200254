"""The text of a message, and a copy of a message with another text (B-011, B-012)."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..messages import Message

__all__ = ["texts_of", "with_texts"]


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
