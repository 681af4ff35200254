"""Messages and turns for the tests of stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from procession import text_message
from procession.store import Turn

if TYPE_CHECKING:
    from procession.messages import Message

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def said(text: str, minute: int = 0, **more: Any) -> Message:
    """A message of a user, so many minutes after the start."""
    return text_message(text, created_at=START + timedelta(minutes=minute), **more)


def turn(*messages: Message, **more: Any) -> Turn:
    """What a run leaves in thread `t` of resource `r`."""
    return Turn(**{"thread_id": "t", "resource_id": "r", "messages": messages, "at": START, **more})
