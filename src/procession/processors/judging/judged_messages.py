"""Messages that are judged one by one, each as a whole (B-011, B-023)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..message_text import texts_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...messages import Message

__all__ = ["GAP", "is_remembered", "one_by_one", "said_in"]

GAP = "\n"
"""What stands between the texts of one message when they are judged together."""


def said_in(message: Message) -> str:
    """All that a message says, in one text; an empty one when it says nothing (B-011)."""
    text = GAP.join(texts_of(message))
    return text if text.strip() else ""


def is_remembered(args: Any, message: Message) -> bool:
    """Whether it was stored before this request: to refuse this one would mend nothing, and each
    later one would be refused as well (G-C4)."""
    return any(known.id == message.id for known in args.message_list.get.remembered.db())


async def one_by_one(
    given: list[Message],
    check: Callable[[Message, str], Awaitable[Message | None]],
    *,
    last_only: bool,
) -> list[Message] | None:
    """What `check` makes of each message that says something, in order; `None`: of none another.

    `check(message, text)` returns the message, another one in its place, or `None` to remove it.
    """
    checked = given[-1:] if last_only else given
    kept = given[: len(given) - len(checked)]
    for message in checked:
        text = said_in(message)
        made = await check(message, text) if text else message
        if made is not None:
            kept.append(made)
    same = len(kept) == len(given) and all(new is old for new, old in zip(kept, given, strict=True))
    return None if same else kept
