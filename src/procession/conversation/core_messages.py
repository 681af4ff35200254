"""AI SDK v4 core messages and v5 model messages (section 8, R-321)."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from ..messages import Part, ReasoningPart, ToolInvocationPart
from ..records import plain
from ..signals import Signal, rendered_parts
from .prompt import add_entries
from .prompt_entries import block_starts
from .prompt_memo import plain_copy
from .prompt_parts import (
    as_part,
    attachment_parts,
    base64_text,
    denial,
    has_outcome,
    is_url,
    said_by,
    with_options,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ..messages import Message

__all__ = ["hidden", "to_core", "to_model"]

Form = dict[str, Any]


def hidden(message: Message, hide_signals: bool | Collection[str]) -> bool:
    """Whether a message is a signal that is not to be shown (R-380, R-390)."""
    if message.role != "signal" or hide_signals is False:
        return False
    return hide_signals is True or Signal.from_message(message).type in hide_signals


def to_model(messages: Sequence[Message], *, keep_pending: bool = False) -> list[Form]:
    """The messages as AI SDK v5 model messages, in the caller's own lists and dicts."""
    entries: list[Form] = []
    add_entries(entries, messages, keep_pending=keep_pending)
    return plain_copy(entries)


def to_core(
    messages: Iterable[Message],
    hide_signals: bool | Collection[str] = True,
    *,
    keep_pending: bool = False,
) -> list[Form]:
    """The messages as AI SDK v4 core messages (R-380 to R-382)."""
    found: list[Form] = []
    for message in messages:
        if hidden(message, hide_signals):
            continue
        options = message.content.provider_metadata
        for role, content in _core(message, keep_pending):
            found.append(with_options({"role": role, "content": content}, options))
    return found


def _core(message: Message, keep_pending: bool) -> list[tuple[str, list[Form]]]:
    parts = [as_part(part) for part in message.content.parts]
    if message.role == "assistant":
        return _assistant(parts, message.content.content, keep_pending)
    if message.role == "signal":
        parts = rendered_parts(Signal.from_message(message))
    attachments = message.content.experimental_attachments
    if attachments:
        parts = [*attachment_parts(attachments, parts), *parts]
    said = [form for part in parts for form in _said(part)]
    if not parts and message.content.content:
        said = [{"type": "text", "text": message.content.content}]
    return [("user", said)] if said else []


def _assistant(
    parts: list[Part], flat: str | None, keep_pending: bool
) -> list[tuple[str, list[Form]]]:
    if not parts and flat:
        return [("assistant", [{"type": "text", "text": flat}])]
    found: list[tuple[str, list[Form]]] = []
    starts = block_starts(parts, 0, keep_pending)
    for begin, end in zip(starts, [*starts[1:], len(parts)], strict=True):
        said: list[Form] = []
        outcomes: list[Form] = []
        for part in parts[begin:end]:
            if isinstance(part, ToolInvocationPart) and part.type == "tool-invocation":
                if keep_pending or has_outcome(part.tool_invocation):
                    said.append(_call(part))
                    outcomes.append(_outcome(part))
            else:
                said += _said(part)
        found += [(r, c) for r, c in (("assistant", said), ("tool", outcomes)) if c]
    return found


def _said(part: Part) -> list[Form]:
    """A text, file or reasoning part; reasoning gives one form for each detail (R-381)."""
    kind = part.type
    if kind == "text" and said_by(part):
        forms = [{"type": "text", "text": said_by(part)}]
    elif kind == "file":
        forms = [_file(part)]
    elif kind == "reasoning" and isinstance(part, ReasoningPart):
        forms = _reasoning(part)
    else:
        return []
    return [with_options(form, part.provider_metadata) for form in forms]


def _reasoning(part: ReasoningPart) -> list[Form]:
    forms: list[Form] = []
    for detail in part.details:
        if detail.get("type") == "redacted":
            forms.append({"type": "redacted-reasoning", "data": detail.get("data")})
        elif detail.get("type") == "text":
            form: Form = {"type": "reasoning", "text": detail.get("text", "")}
            if detail.get("signature"):
                form["signature"] = detail["signature"]
            forms.append(form)
    return forms or [{"type": "reasoning", "text": part.reasoning}]


def _file(part: Part) -> Form:
    """Images as bytes, or their URL; other files as base64 or URL (R-382)."""
    data: Any = getattr(part, "data", None)
    media_type: str = getattr(part, "mime_type", None) or "application/octet-stream"
    content = data if is_url(data) else base64_text(data)
    if media_type.startswith("image/"):
        image = content if is_url(content) else base64.b64decode(content)
        return {"type": "image", "image": image, "mimeType": media_type}
    form: Form = {"type": "file", "data": content, "mimeType": media_type}
    filename = getattr(part, "filename", None)
    return {**form, "filename": filename} if filename else form


def _call(part: ToolInvocationPart) -> Form:
    call = part.tool_invocation
    form: Form = {
        "type": "tool-call",
        "toolCallId": call.tool_call_id,
        "toolName": call.tool_name,
        "args": plain({} if call.args is None else call.args),
    }
    return with_options(form, part.provider_metadata)


def _outcome(part: ToolInvocationPart) -> Form:
    call = part.tool_invocation
    form: Form = {
        "type": "tool-result",
        "toolCallId": call.tool_call_id,
        "toolName": call.tool_name,
    }
    if call.state == "output-error":
        form.update(result=call.error_text or "", isError=True)
    elif call.state == "output-denied":
        form["result"] = denial(call)
    elif call.state == "result":
        form["result"] = plain(call.result)
        if call.is_error:
            form["isError"] = True
    else:
        form["result"] = {"status": "pending"}
    return with_options(form, part.provider_metadata)
