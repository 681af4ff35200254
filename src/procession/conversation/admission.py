"""What a message has to be to stand in a list: its parts are parts, its texts clean, it is stamped.

Clean texts hold neither NUL nor lone surrogates: those become U+FFFD.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..messages import MessageContent, Part, TextPart
from ..records import clean_kept, clean_record
from .prompt_memo import same, too_deep
from .prompt_parts import as_part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..memo import PromptMemo
    from ..messages import Message
    from ..records import Record

__all__ = ["NO_TIME", "STAMPED", "admit", "millis", "stamp"]

NO_TIME = datetime.min.replace(tzinfo=UTC)
"""Stands for a missing `createdAt` until the list gives the time (R-327)."""

STAMPED = frozenset({"input", "response"})
"""The sources whose parts get time stamps (R-329): what came in with the run."""

_CONTENT = tuple(
    name for name in MessageContent.__struct_fields__ if name not in ("parts", "format")
)
_OWN = ("id", "thread_id", "resource_id", "type", "extra")


def admit(message: Message) -> None:
    """Make a message fit to be in a list; it and its parts are changed in place where need be.

    Raises `InputError` for parts that are none, and for a value that is nested too deeply.
    """
    content = message.content
    parts = content.parts
    memo: PromptMemo = message.prompt_memo
    known = memo.whole and same(parts, memo.parts)  # it was in a prompt just like this
    for index, part in enumerate(() if known else parts):
        if part.__class__ is TextPart and part.provider_metadata is None and part.extra is None:
            text: Any = part.text
            if text.__class__ is str and text.isascii():
                continue
        elif not isinstance(part, Part):  # pyright: ignore[reportUnnecessaryIsInstance]
            part = parts[index] = as_part(part)
        try:
            clean_record(part)
        except InputError:
            raise too_deep(message) from None
    if not _is_bare(content):
        _clean_fields(message, content, _CONTENT)
    if (
        not _is_clean(message.id)
        or message.thread_id is not None
        or message.resource_id is not None
        or message.type is not None
        or message.extra is not None
    ):
        _clean_fields(message, message, _OWN)


def _is_clean(text: Any) -> bool:
    return text.__class__ is str and text.isascii()


def _is_bare(content: MessageContent) -> bool:
    """Whether there is nothing beside the parts that could have to be cleaned."""
    return (
        (content.content is None or _is_clean(content.content))
        and content.metadata is None
        and content.provider_metadata is None
        and content.extra is None
        and content.experimental_attachments is None
        and content.tool_invocations is None
        and content.reasoning is None
        and content.annotations is None
    )


def _clean_fields(message: Message, record: Record, names: Iterable[str]) -> None:
    for name in names:
        value = getattr(record, name)
        if value is None:
            continue
        try:
            made = clean_kept(value)
        except InputError:
            raise too_deep(message) from None
        if made is not value:
            setattr(record, name, made)


def millis(moment: datetime) -> int:
    """Epoch milliseconds, as parts are stamped."""
    return int(moment.timestamp() * 1000)


def stamp(message: Message) -> None:
    """Give the parts without a time stamp that of the message (R-329)."""
    moment: int | None = None
    for part in message.content.parts:
        if part.created_at is None:
            if moment is None:
                moment = int(message.created_at.timestamp() * 1000)
            part.created_at = moment
