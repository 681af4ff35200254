"""What the response of a run was at a moment, to go back to when an attempt does not count."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..messages import Message, MessageContent, Part

__all__ = ["Marked", "ResponseMark"]


class Marked(Struct, frozen=True):
    """One response message as it was; its parts are the same objects, not copies."""

    message: Message
    content: MessageContent
    parts: list[Part]
    held: list[Part]
    text: str | None
    metadata: dict[str, Any] | None
    provider_metadata: dict[str, Any] | None
    memo: Any

    @classmethod
    def of(cls, message: Message) -> Marked:
        """What `message` is now."""
        content = message.content
        return cls(
            message,
            content,
            content.parts,
            content.parts.copy(),
            content.content,
            dict(content.metadata) if content.metadata else None,
            content.provider_metadata,
            message.prompt_memo,
        )

    def restore(self) -> None:
        """Put the message back to what it was."""
        message, content = self.message, self.content
        self.parts[:] = self.held
        message.content = content
        content.parts = self.parts
        content.content = self.text
        content.metadata = dict(self.metadata) if self.metadata else None
        content.provider_metadata = self.provider_metadata
        message.prompt_memo = self.memo


ResponseMark = list[Marked]
