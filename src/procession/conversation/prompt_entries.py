"""The prompt entries of one message (R-352 to R-379): pure functions to plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..messages import Message, Part, TextPart, ToolInvocationPart
from ..records import clean_text
from ..signals import signal_content
from .prompt_parts import (
    as_part,
    assistant_part,
    attachment_parts,
    has_outcome,
    said_by,
    tool_call,
    tool_result,
    user_content,
    with_options,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Entries", "block_entries", "block_starts", "entries_of", "single_text"]

Entries = list[dict[str, Any]]


def single_text(message: Message) -> dict[str, Any] | None:
    """The entry of a message that is one text and nothing more; `None` for any other."""
    content = message.content
    parts = content.parts
    if len(parts) != 1 or content.provider_metadata is not None:
        return None
    part, role = parts[0], message.role
    if part.__class__ is not TextPart or part.type != "text" or part.provider_metadata is not None:
        return None
    if role != "assistant" and (role != "user" or content.experimental_attachments is not None):
        return None
    text: Any = part.text
    if text.__class__ is not str or not text:
        return None
    return {"role": role, "content": [{"type": "text", "text": clean_text(text)}]}


def entries_of(message: Message, parts: Sequence[Part], keep_pending: bool) -> Entries:
    """The entries of a message that is converted in one go."""
    content = message.content
    parts = [as_part(part) for part in parts]
    if not parts and content.content:
        parts = [TextPart(text=content.content)]
    options = content.provider_metadata
    if message.role == "assistant":
        return _assistant_entries(parts, options, keep_pending)
    if message.role == "signal":
        said = signal_content(message)
    elif message.role == "user":
        if content.experimental_attachments:
            parts = [*attachment_parts(content.experimental_attachments, parts), *parts]
        said = user_content(parts)
    else:
        return []
    return [with_options({"role": "user", "content": said}, options)] if said else []


def _assistant_entries(parts: Sequence[Part], options: Any, keep_pending: bool) -> Entries:
    starts = block_starts(parts, 0, keep_pending)
    entries: Entries = []
    for begin, end in zip(starts, [*starts[1:], len(parts)], strict=True):
        entries += block_entries(parts[begin:end], options, keep_pending)
    return entries


def block_starts(parts: Sequence[Part], begin: int, keep_pending: bool) -> list[int]:
    """Where blocks begin: at step starts, and where something follows a tool (R-369).

    Parts that give nothing do not cut: a data part between two calls leaves them side by side.
    """
    starts = [begin]
    after_tool = False
    for index in range(begin, len(parts)):
        part = parts[index]
        kind = part.type
        if kind == "step-start":
            after_tool = False
        elif isinstance(part, ToolInvocationPart) and kind == "tool-invocation":
            after_tool = after_tool or keep_pending or has_outcome(part.tool_invocation)
            continue
        elif not after_tool or not _says_something(part):
            continue
        after_tool = False
        if index != starts[-1]:
            starts.append(index)
    return starts


def _says_something(part: Part) -> bool:
    kind = part.type
    return kind in ("reasoning", "file") or (kind == "text" and bool(said_by(part)))


def block_entries(parts: Sequence[Part], options: Any, keep_pending: bool) -> Entries:
    """One assistant entry, and one tool entry when calls of the block have outcomes (R-370)."""
    said: Entries = []
    outcomes: Entries = []
    for part in parts:
        if isinstance(part, ToolInvocationPart) and part.type == "tool-invocation":
            if keep_pending or has_outcome(part.tool_invocation):
                said.append(tool_call(part))
                (said if part.provider_executed else outcomes).append(tool_result(part))
        elif (entry := assistant_part(part)) is not None:
            said.append(entry)
    entries: Entries = []
    if said:
        entries.append(with_options({"role": "assistant", "content": said}, options))
    if outcomes:
        entries.append(with_options({"role": "tool", "content": outcomes}, options))
    return entries
