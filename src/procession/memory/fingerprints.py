"""Telling messages by what they say: clients send them back under ids of their own (G-M3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..messages import OPEN_CALLS, FilePart, TextPart, ToolInvocationPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..messages import Message

__all__ = ["OUTCOMES", "answers", "filled", "fingerprint", "is_answered", "twin_of"]

OUTCOMES = frozenset({"result", "output-error", "output-denied", "approval-responded"})
"""The states in which a client says what became of a call (M-063)."""


def fingerprint(message: Message) -> tuple[Any, ...] | None:
    """What a message says, whoever wrote it down; `None` for one that says nothing."""
    texts: list[str] = []
    others: list[tuple[str, ...]] = []
    for part in message.content.parts:
        if isinstance(part, TextPart):
            texts.append(part.text)
        elif isinstance(part, ToolInvocationPart):
            others.append(("call", part.tool_invocation.tool_call_id))
        elif isinstance(part, FilePart):
            others.append(("file", part.mime_type, str(part.data).rpartition(",")[2]))
    text = "".join(texts).strip() or (message.content.content or "").strip()
    return (message.role, text, *others) if text or others else None


def twin_of(message: Message, stored: Sequence[Message]) -> Message | None:
    """The newest of the stored messages that says the same."""
    mine = fingerprint(message)
    if mine is None:
        return None
    return next((known for known in reversed(stored) if fingerprint(known) == mine), None)


def is_answered(message: Message) -> bool:
    """Whether a message has outcomes of tool calls."""
    return any(
        isinstance(part, ToolInvocationPart) and part.tool_invocation.state in OUTCOMES
        for part in message.content.parts
    )


def filled(stored: Message, given: Message) -> bool:
    """Take over what `given` says of calls that are pending in `stored`; whether there was any."""
    parts = [part for part in given.content.parts if isinstance(part, ToolInvocationPart)]
    return any([answers(part, stored) for part in parts])


def answers(given: ToolInvocationPart, stored: Message) -> bool:
    """Take over what a client says of a call, if it is pending in `stored`; whether it was.

    Of the client's word only the outcome counts: name and arguments of a call stay (M-064).
    """
    new = given.tool_invocation
    for part in stored.content.parts:
        if not isinstance(part, ToolInvocationPart):
            continue
        call = part.tool_invocation
        if call.tool_call_id != new.tool_call_id or call.state not in OPEN_CALLS:
            continue
        if new.state not in OUTCOMES or new.state == call.state:
            return False
        call.state = new.state
        call.result = new.result
        call.is_error = new.is_error
        call.error_text = new.error_text
        if new.approval is not None:
            call.approval = {**(call.approval or {}), **new.approval}
        return True
    return False
