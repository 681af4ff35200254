"""Remembering a conversation as a whole (see `prompt_run`)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..memo import REFUSED, PromptMemo
from ..messages import Message
from .admission import NO_TIME, admit
from .prompt_entries import Entries, entries_of, single_text
from .prompt_files import has_urls
from .prompt_memo import frozen
from .prompt_run import SHORTEST, PromptRun

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["remember"]

_ROLES = frozenset({"user", "assistant", "signal"})


def remember(messages: Sequence[Any], *, keep_pending: bool = False) -> PromptRun | None:
    """Remember a conversation as a whole, up to the first message that cannot be.

    Nothing in the messages is changed but what is remembered on them. `None` for too few.
    """
    if len(messages) < SHORTEST:
        return None
    held: list[Message] = []
    entries: Entries = []
    offsets = [0]
    ids: set[str] = set()
    for message in messages:
        if not _is_regular(message, held, ids):
            break
        try:
            copy = frozen(message)
            admit(copy)
            if copy != message:
                break  # its texts are not clean yet
            entry = single_text(copy)
            if entry is None:
                entries += entries_of(copy, copy.content.parts, keep_pending)
            else:
                entries.append(entry)
        except Exception:  # said where the message itself is converted
            break
        held.append(copy)
        offsets.append(len(entries))
        ids.add(copy.id)
    count = len(held)
    if count < len(messages) and isinstance(messages[count], Message):
        messages[count].prompt_memo = REFUSED
    if count < SHORTEST:
        return None
    run = PromptRun(held, entries, offsets, pending=keep_pending, has_urls=has_urls(entries))
    memo = PromptMemo(run)
    for message in messages[:count]:
        message.prompt_memo = memo
    return run


def _is_regular(message: Any, before: list[Message], ids: set[str]) -> bool:
    """Whether a message has what messages in a list have: an id of its own, its place in time."""
    if not isinstance(message, Message) or message.role not in _ROLES:
        return False
    id: Any = message.id
    if id.__class__ is not str or not id or id in ids:
        return False
    time: Any = message.created_at
    if time.__class__ is not datetime or time.tzinfo is None or time is NO_TIME:
        return False
    return not before or before[-1].created_at <= time
