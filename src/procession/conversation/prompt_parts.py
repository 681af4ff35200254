"""Message parts as they stand in a provider prompt (R-353 to R-377).

Pure functions from parts to plain data. What a model has no use for gives nothing (R-357).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote_to_bytes

from ..errors import InputError, refuse
from ..messages import (
    FilePart,
    Part,
    ReasoningPart,
    ToolInvocation,
    ToolInvocationPart,
    part_from_json,
)
from ..records import clean_json, clean_text

__all__ = [
    "as_part",
    "assistant_part",
    "attachment_parts",
    "file_entry",
    "has_outcome",
    "is_url",
    "outcome_of",
    "reasoning_text",
    "tool_call",
    "tool_result",
    "user_content",
]

Entry = dict[str, Any]

IMAGE_TYPE = "image/jpeg"
"""What an image counts as whose sender has not said what it is (R-365)."""
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_OUTCOMES = frozenset({"result", "output-error", "output-denied"})


def as_part(part: Any) -> Part:
    """`part` itself, or the part that a mapping of the JSON form stands for."""
    if isinstance(part, Part):
        return part
    if isinstance(part, Mapping):
        return part_from_json(dict(part))  # pyright: ignore[reportUnknownArgumentType]
    refuse(f"content.parts holds a {type(part).__name__}: use the part classes, such as TextPart")


def with_options(entry: Entry, options: Any) -> Entry:
    """`entry`, with `providerOptions` when there are any (R-353)."""
    if options:
        entry["providerOptions"] = clean_json(options)
    return entry


def text_entry(part: Part) -> Entry | None:
    """A text part; an empty one gives nothing."""
    text = said_by(part)
    if not text:
        return None
    return with_options({"type": "text", "text": clean_text(text)}, part.provider_metadata)


def said_by(part: Part) -> str:
    """The text of a part of type `text`, which may have been another part before (R-394)."""
    text = getattr(part, "text", None)
    return text if isinstance(text, str) else ""


def user_content(parts: Iterable[Part]) -> list[Entry]:
    """What a user message says: its texts and files (R-360, R-361)."""
    content: list[Entry] = []
    for part in parts:
        kind = part.type
        entry = text_entry(part) if kind == "text" else None
        if kind == "file":
            entry = file_entry(part)
        if entry is not None:
            content.append(entry)
    return content


def assistant_part(part: Part) -> Entry | None:
    """A text, file or reasoning part of an assistant message; others give nothing here."""
    kind = part.type
    if kind == "text":
        return text_entry(part)
    if kind == "file":
        return file_entry(part)
    if kind == "reasoning":
        entry = {"type": "reasoning", "text": clean_text(reasoning_text(part))}
        return with_options(entry, part.provider_metadata)
    return None


def reasoning_text(part: Part) -> str:
    """What a reasoning part says: `reasoning`, else its text details joined (R-367)."""
    if not isinstance(part, ReasoningPart):
        return getattr(part, "reasoning", "") or getattr(part, "text", "")
    if part.reasoning:
        return part.reasoning
    return "".join(d.get("text", "") for d in part.details if d.get("type") == "text")


def has_outcome(call: ToolInvocation) -> bool:
    """Whether the call is over, one way or the other; an open one is not sent (R-376)."""
    return call.state in _OUTCOMES


def tool_call(part: ToolInvocationPart) -> Entry:
    """The call (R-371, R-377)."""
    call = part.tool_invocation
    entry: Entry = {
        "type": "tool-call",
        "toolCallId": call.tool_call_id,
        "toolName": call.tool_name,
        "input": clean_json({} if call.args is None else call.args),
    }
    if part.provider_executed:
        entry["providerExecuted"] = True
    return with_options(entry, part.provider_metadata)


def tool_result(part: ToolInvocationPart) -> Entry:
    """The outcome, or a stand-in for one that is still missing (R-372, R-376)."""
    call = part.tool_invocation
    entry: Entry = {
        "type": "tool-result",
        "toolCallId": call.tool_call_id,
        "toolName": call.tool_name,
        "output": _shaped(part) or outcome_of(call),
    }
    return with_options(entry, part.provider_metadata)


def _shaped(part: ToolInvocationPart) -> Any:
    """What the tool itself made of its result for the model (R-374)."""
    if part.provider_metadata is None or not has_outcome(part.tool_invocation):
        return None
    own: Any = part.provider_metadata.get("mastra")
    shaped: Any = own.get("modelOutput") if isinstance(own, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return clean_json(shaped) if shaped is not None else None


def outcome_of(call: ToolInvocation) -> Entry:
    """The outcome as a prompt states it (R-373)."""
    if call.state == "output-error":
        return {"type": "error-text", "value": clean_text(call.error_text or "")}
    if call.state == "output-denied":
        return {"type": "text", "value": denial(call)}
    if call.state != "result":
        return {"type": "json", "value": {"status": "pending"}}
    value = clean_json(call.result)
    return {"type": "text" if isinstance(value, str) else "json", "value": value}


def denial(call: ToolInvocation) -> str:
    """Why a call was not allowed to run."""
    reason = call.approval.get("reason") if call.approval else None
    return clean_text(str(reason)) if reason else "The call was not approved, so it did not run."


def attachment_parts(attachments: Sequence[Mapping[str, Any]], parts: Sequence[Part]) -> list[Part]:
    """Attachments as file parts, but for those that are a part already (R-364)."""
    known = {part.data for part in parts if part.type == "file" and isinstance(part.data, str)}
    return [
        FilePart(
            mime_type=item.get("contentType") or item.get("mediaType") or _type_in(item["url"]),
            data=item["url"],
            filename=item.get("name"),
        )
        for item in attachments
        if item.get("url") and item["url"] not in known
    ]


def _type_in(url: str) -> str:
    found = re.match(r"data:([^;,]+)", url)
    return found[1] if found else IMAGE_TYPE


def is_url(data: Any) -> bool:
    """Whether file data is an address rather than the file; a data URL is the file."""
    return isinstance(data, str) and _URL.match(data) is not None


def _image_type_in(data: Any) -> str | None:
    """The kind of image that a data URL names; a message may have it under `IMAGE_TYPE`."""
    found = re.match(r"data:(image/[^;,]+)", data) if isinstance(data, str) else None
    return found[1] if found else None


def file_entry(part: Part) -> Entry:
    """A file or image; its data as base64 text, or the URL as it stands (R-361, R-362)."""
    data: Any = getattr(part, "data", None)
    media_type: str = getattr(part, "mime_type", None) or "application/octet-stream"
    if media_type == IMAGE_TYPE:
        media_type = _image_type_in(data) or media_type
    entry: Entry = {
        "type": "file",
        "mediaType": media_type,
        "data": data if is_url(data) else base64_text(data),
    }
    filename = getattr(part, "filename", None)
    if filename:
        entry["filename"] = clean_text(filename)
    return with_options(entry, part.provider_metadata)


def base64_text(data: Any) -> str:
    """File data as plain base64. Raises `InputError` when it is nothing of that kind (R-363)."""
    if isinstance(data, bytes | bytearray | memoryview):
        return base64.b64encode(cast("bytes", data)).decode("ascii")
    if not isinstance(data, str):
        refuse(f"a file's data must be base64 text, a URL or bytes, not {type(data).__name__}")
    if data.startswith("data:"):
        return _payload(data)
    return _checked(data)


def _payload(url: str) -> str:
    head, comma, body = url.partition(",")
    if not comma:
        refuse("a file's data URL has no comma, so there is no data in it")
    if head.endswith(";base64"):
        return _checked(body)
    return base64.b64encode(unquote_to_bytes(body)).decode("ascii")


def _checked(text: str) -> str:
    """Strict base64: line breaks, the URL-safe alphabet and missing padding are put right."""
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        mended = "".join(text.split()).replace("-", "+").replace("_", "/")
        mended += "=" * (-len(mended) % 4)
        try:
            binascii.a2b_base64(mended, strict_mode=True)
        except (binascii.Error, ValueError):
            raise InputError(
                f"a file's data is neither base64 nor a URL: {text[:20]!r}…; "
                f"read the file and give its bytes"
            ) from None
        return mended
    return text
