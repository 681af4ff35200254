"""Messages as AI SDK v5 clients hold them (section 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..messages import ReasoningPart, TextPart, ToolInvocationPart
from ..records import format_time, plain
from ..signals import Signal
from .core_messages import hidden
from .prompt_parts import (
    as_part,
    attachment_parts,
    base64_text,
    denial,
    is_url,
    reasoning_text,
    said_by,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ..messages import Message, Part

__all__ = ["to_ui"]

Form = dict[str, Any]


def to_ui(messages: Iterable[Message], hide_signals: bool | Collection[str] = True) -> list[Form]:
    """UI messages `{id, role, metadata, parts}` (R-383).

    Signals that are not hidden appear as `data-signal` parts of the assistant message before them;
    those of type `user` as user messages (R-390).
    """
    found: list[Form] = []
    for message in messages:
        if message.role != "signal":
            found.append(_ui(message))
        elif not hidden(message, hide_signals):
            _show_signal(found, message)
    return found


def _show_signal(found: list[Form], message: Message) -> None:
    signal = Signal.from_message(message)
    if signal.type == "user":
        found.append({**_ui(message), "role": "user"})
        return
    part = {**signal.to_data_part(), "id": signal.id}
    if found and found[-1]["role"] == "assistant":
        found[-1]["parts"].append(part)
    else:
        found.append({**_ui(message), "role": "assistant", "parts": [part]})


def _ui(message: Message) -> Form:
    content = message.content
    parts = [as_part(part) for part in content.parts]
    if content.experimental_attachments:
        parts = [*attachment_parts(content.experimental_attachments, parts), *parts]
    if not parts and content.content:
        parts = [TextPart(text=content.content)]
    return {
        "id": message.id,
        "role": message.role,
        "metadata": _metadata(message),
        "parts": [_part(part) for part in parts],
    }


def _metadata(message: Message) -> Form:
    content = message.content
    metadata: Form = plain(content.metadata or {})
    metadata["createdAt"] = format_time(message.created_at)
    if message.thread_id:
        metadata["threadId"] = message.thread_id
    if message.resource_id:
        metadata["resourceId"] = message.resource_id
    if content.provider_metadata:
        metadata["providerMetadata"] = plain(content.provider_metadata)
    return metadata


def _part(part: Part) -> Form:
    show = _SHOWN.get(part.type)
    if show is None:
        return part.to_json()  # steps, data, errors and unknown parts as they are
    form = show(part)
    if part.provider_metadata:
        key = "callProviderMetadata" if part.type == "tool-invocation" else "providerMetadata"
        form[key] = plain(part.provider_metadata)
    return form


def _text(part: Part) -> Form:
    return {"type": "text", "text": said_by(part)}


def _reasoning(part: Part) -> Form:
    text = (
        reasoning_text(part) if isinstance(part, ReasoningPart) else part.to_json().get("text", "")
    )
    return {"type": "reasoning", "text": text, "state": "done"}


def _tool(part: Part) -> Form:
    if not isinstance(part, ToolInvocationPart):
        return part.to_json()
    call = part.tool_invocation
    form: Form = {
        "type": f"tool-{call.tool_name}",
        "toolCallId": call.tool_call_id,
        "state": "input-available",
        "input": plain(call.args),
    }
    if call.state == "result":
        form.update(state="output-available", output=plain(call.result))
    elif call.state == "output-error":
        form.update(state="output-error", errorText=call.error_text or "")
    elif call.state == "output-denied":
        form.update(state="output-available", output=denial(call))
    if part.provider_executed is not None:
        form["providerExecuted"] = part.provider_executed
    return form


def _file(part: Part) -> Form:
    """The file as a URL; base64 becomes a data URL (R-387)."""
    data: Any = getattr(part, "data", None)
    media_type: str = getattr(part, "mime_type", None) or "application/octet-stream"
    is_address = is_url(data) or (isinstance(data, str) and data.startswith("data:"))
    url = data if is_address else f"data:{media_type};base64,{base64_text(data)}"
    form: Form = {"type": "file", "mediaType": media_type, "url": url}
    filename = getattr(part, "filename", None)
    return {**form, "filename": filename} if filename else form


def _source(part: Part) -> Form:
    source: Any = getattr(part, "source", None)
    if not isinstance(source, dict):
        return part.to_json()
    form: Form = {
        "type": "source-url",
        "sourceId": source.get("id"),  # pyright: ignore[reportUnknownMemberType]
        "url": source.get("url"),  # pyright: ignore[reportUnknownMemberType]
    }
    title: Any = source.get("title")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return {**form, "title": title} if title else form


_SHOWN: dict[str, Callable[[Part], Form]] = {
    "text": _text,
    "reasoning": _reasoning,
    "tool-invocation": _tool,
    "file": _file,
    "source": _source,
}
