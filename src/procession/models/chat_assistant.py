"""What the assistant said before, in the form in which the server wants to see it again."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from .chat_dialect import ChatDialect

__all__ = ["assistant_message", "call_id", "json_text"]

Json = dict[str, Any]


def assistant_message(
    parts: Any, dialect: ChatDialect, provider: str, warnings: list[Json]
) -> Json | None:
    """The message of one step; `None` when nothing of it can be sent."""
    if isinstance(parts, str):
        return {"role": "assistant", "content": parts}
    said: list[Json] = []
    calls: list[Json] = []
    for part in parts:
        kind = part["type"]
        if kind in ("text", "reasoning"):
            said.append(part)
        elif part.get("providerExecuted"):
            continue  # the server knows of what it executed itself; this API takes none of it back
        elif kind == "tool-call":
            calls.append(_call(part, dialect))
        elif kind == "file":
            warnings.append({"type": "other", "message": "files of the assistant are not sent"})
    texts = [part["text"] for part in said if part["type"] == "text"]
    if not texts and not calls:
        return None
    message: Json = {"role": "assistant", "content": "".join(texts) if texts else None}
    if dialect.thoughts is not None:
        _put_thoughts(message, said, dialect, provider)
    if calls:
        message["tool_calls"] = calls
    return message


def _put_thoughts(message: Json, said: list[Json], dialect: ChatDialect, provider: str) -> None:
    thoughts = [part for part in said if part["type"] == "reasoning"]
    text = "".join(part["text"] for part in thoughts)
    if dialect.thoughts == "thinking":
        if text:
            message["content"] = [_typed(part) for part in said if part["text"]]
    elif dialect.thoughts == "reasoning_details":
        details = [detail for part in thoughts for detail in _details(part, provider)]
        if details:
            message["reasoning_details"] = details
        elif text:
            message["reasoning"] = text
    elif text or dialect.thoughts_always:
        message[str(dialect.thoughts)] = text


def _typed(part: Json) -> Json:
    text = {"type": "text", "text": part["text"]}
    return {"type": "thinking", "thinking": [text]} if part["type"] == "reasoning" else text


def _details(part: Json, provider: str) -> list[Any]:
    """The records, signatures among them, that the provider itself sent for this thought."""
    options: Json = part.get("providerOptions") or {}
    own: Json = options.get(provider) or {}
    details: list[Any] = own.get("reasoning_details") or []
    return details


def _call(part: Json, dialect: ChatDialect) -> Json:
    return {
        "id": call_id(part["toolCallId"], dialect),
        "type": "function",
        "function": {"name": part["toolName"], "arguments": json_text(part["input"])},
    }


_SHORT = re.compile(r"[A-Za-z0-9]{9}")


def call_id(given: str, dialect: ChatDialect) -> str:
    """The id of a call as the server takes it; the same for the call and for its result."""
    if not dialect.short_call_ids or _SHORT.fullmatch(given):
        return given
    return hashlib.sha256(given.encode("utf-8", "replace")).hexdigest()[:9]


def json_text(value: Any) -> str:
    """The JSON of a value."""
    return msgspec.json.encode(value).decode()
