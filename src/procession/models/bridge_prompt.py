"""The provider prompt as messages of pydantic-ai."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)

from ..errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["messages_of"]

Json = dict[str, Any]


def messages_of(prompt: Sequence[Json], provider: str) -> list[ModelMessage]:
    """The messages: requests and answers by turns, whatever number of entries each is."""
    messages: list[ModelMessage] = []
    for entry in prompt:
        last = messages[-1] if messages else None
        if entry["role"] == "assistant":
            said = _said(entry["content"], provider)
            if isinstance(last, ModelResponse):
                messages[-1] = ModelResponse(parts=[*last.parts, *said], provider_name=provider)
            elif said:
                messages.append(ModelResponse(parts=said, provider_name=provider))
        elif isinstance(last, ModelRequest):
            messages[-1] = ModelRequest(parts=[*last.parts, *_asked(entry)])
        else:
            messages.append(ModelRequest(parts=_asked(entry)))
    return messages


def _asked(entry: Json) -> list[ModelRequestPart]:
    role, content = entry["role"], entry["content"]
    if role == "system":
        return [SystemPromptPart(content=content)]
    if role == "user":
        if isinstance(content, str):
            return [UserPromptPart(content=content)]
        parts = [_user_content(part) for part in content]
        if len(parts) == 1 and isinstance(parts[0], str):
            return [UserPromptPart(content=parts[0])]
        return [UserPromptPart(content=parts)]
    if role == "tool":
        return [_returned(part) for part in content]
    raise InputError(f"a prompt entry has the unknown role {role!r}")


def _user_content(part: Json) -> UserContent:
    if part["type"] == "text":
        return part["text"]
    if part["type"] != "file":
        kind = part["type"]
        raise InputError(f"a user message has a part of type {kind!r}: only text and file are sent")
    data, media = part["data"], part["mediaType"]
    if isinstance(data, str) and data.startswith(("http://", "https://")):
        return _address(data, media)
    return _binary(data, media)


def _address(url: str, media: str) -> UserContent:
    known = None if media.endswith("/*") else media
    kinds = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl}
    return kinds.get(media.partition("/")[0], DocumentUrl)(url=url, media_type=known)


def _binary(data: Any, media: str) -> BinaryContent:
    if isinstance(data, str):
        data = base64.b64decode(data.rpartition(",")[2])
    return BinaryContent(data=data, media_type="image/jpeg" if media == "image/*" else media)


def _returned(part: Json) -> ToolReturnPart:
    output = part["output"]
    kind, value = output.get("type"), output.get("value")
    failed = kind in ("error-text", "error-json")
    return ToolReturnPart(
        tool_name=part["toolName"],
        content=value,
        tool_call_id=part["toolCallId"],
        outcome="failed" if failed else "success",
    )


def _said(parts: Any, provider: str) -> list[ModelResponsePart]:
    if isinstance(parts, str):
        return [TextPart(content=parts)]
    found = (_said_part(part, provider) for part in parts)
    return [part for part in found if part is not None]


def _said_part(part: Json, provider: str) -> ModelResponsePart | None:
    """One part, with what pydantic-ai said of it when it came, signatures among it."""
    own = _own(part, provider)
    kind = part["type"]
    if kind == "text":
        return TextPart(content=part["text"], **own)
    if kind == "reasoning":
        signature = own.pop("signature", None)
        return ThinkingPart(content=part["text"], signature=signature, **own)
    if kind == "file":
        return FilePart(content=_binary(part["data"], part["mediaType"]), **own)
    named = {"tool_name": part["toolName"], "tool_call_id": part["toolCallId"]}
    if kind == "tool-call" and part.get("providerExecuted"):
        return NativeToolCallPart(args=part["input"], **named, **own)
    if kind == "tool-call":
        return ToolCallPart(args=part["input"], **named, **own)
    if kind == "tool-result":
        own.pop("id", None)
        return NativeToolReturnPart(content=part["output"].get("value"), **named, **own)
    return None


_KEPT = {
    "id": "id",
    "signature": "signature",
    "providerName": "provider_name",
    "providerDetails": "provider_details",
}


def _own(part: Json, provider: str) -> Json:
    options: Json = part.get("providerOptions") or {}
    own: Json = options.get(provider) or {}
    return {theirs: own[ours] for ours, theirs in _KEPT.items() if ours in own}
