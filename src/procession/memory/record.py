"""What of a run's messages goes into storage: the record, which no prompt ever shows (M-084)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..conversation.prompt_memo import isolated
from ..messages import TextPart, ToolInvocationPart

if TYPE_CHECKING:
    from ..messages import Message, Part

__all__ = ["WORKING_MEMORY_TOOLS", "record_of"]

WORKING_MEMORY_TOOLS = frozenset({"updateWorkingMemory", "setWorkingMemory"})
"""The tools with which a model keeps its notes: their calls are no part of the conversation."""

_NOTES = re.compile(r"<working_memory>.*?(?:</working_memory>|\Z)", re.DOTALL)
_FRAME = frozenset({"step-start"})


def record_of(message: Message) -> Message | None:
    """The message as it is stored; `None` for one that is not. The message itself stays as it is.

    Left out are tool calls that broke off, what belongs to working memory, and answers without any
    content, of which nothing remains or in which nothing ever was.
    """
    parts = message.content.parts
    if message.role != "assistant":
        return message
    if not any(map(_changes, parts)):
        return message if any(map(_says_something, parts)) else None
    made = isolated(message)
    kept = [part for part in map(_kept, made.content.parts) if part is not None]
    if not any(map(_says_something, kept)):
        return None
    made.content.parts = kept
    if made.content.content:
        made.content.content = _without_notes(made.content.content)
    return made


def _says_something(part: Part) -> bool:
    return part.type not in _FRAME and (not isinstance(part, TextPart) or bool(part.text))


def _changes(part: Part) -> bool:
    if isinstance(part, TextPart):
        return "<working_memory>" in part.text
    return isinstance(part, ToolInvocationPart) and _is_left_out(part)


def _is_left_out(part: ToolInvocationPart) -> bool:
    call = part.tool_invocation
    return call.state == "partial-call" or call.tool_name in WORKING_MEMORY_TOOLS


def _kept(part: Part) -> Part | None:
    if not _changes(part):
        return part
    if isinstance(part, TextPart):
        part.text = _without_notes(part.text)
        return part if part.text else None
    return None


def _without_notes(text: str) -> str:
    return _NOTES.sub("", text).strip()
