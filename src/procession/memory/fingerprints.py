"""Telling messages by what they say: clients send them back under ids of their own (G-M3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..messages import OPEN_CALLS, FilePart, TextPart, ToolInvocationPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..messages import Message, ToolInvocation

__all__ = ["OUTCOMES", "filled", "fingerprint", "is_answered", "twin_of"]

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
    """Take over what `given` says of calls that are pending in `stored`; whether there was any.

    Of the client's word only the outcome counts: name and arguments of a call stay (M-064).
    """
    pending = {
        part.tool_invocation.tool_call_id: part.tool_invocation
        for part in stored.content.parts
        if isinstance(part, ToolInvocationPart) and part.tool_invocation.state in OPEN_CALLS
    }
    found = False
    for part in given.content.parts if pending else ():
        if not isinstance(part, ToolInvocationPart):
            continue
        call = pending.get(part.tool_invocation.tool_call_id)
        if call is not None and _says_more(part.tool_invocation, call):
            _take_over(part.tool_invocation, call)
            found = True
    return found


def _says_more(given: ToolInvocation, known: ToolInvocation) -> bool:
    return given.state in OUTCOMES and given.state != known.state


def _take_over(given: ToolInvocation, call: ToolInvocation) -> None:
    call.state = given.state
    call.result = given.result
    call.is_error = given.is_error
    call.error_text = given.error_text
    if given.approval is not None:
        call.approval = {**(call.approval or {}), **given.approval}
