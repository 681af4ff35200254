"""What an MCP server answers, as a tool result: for the client, and for the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp.types import CallToolResult

__all__ = ["error_words", "shown_to_model", "tool_result"]

Json = dict[str, Any]
BLOCKS = "content"
"""The key under which a result has the blocks of an answer that is more than text or data."""


def tool_result(answer: CallToolResult) -> Any:
    """The value of a call: a text, or the structured data; with anything else than text beside
    it, `{"content": blocks, "structuredContent": data}` in the form of the protocol.
    """
    blocks = _blocks(answer)
    data = answer.structured_content
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks) if data is None else data
    found: Json = {BLOCKS: blocks}
    if data is not None:
        found["structuredContent"] = data
    return found


def error_words(answer: CallToolResult) -> str:
    """What a call that failed says to the model."""
    texts = [block["text"] for block in _blocks(answer) if block["type"] == "text"]
    if not texts and answer.structured_content is not None:
        texts = [_as_text(answer.structured_content)]
    return "\n".join(texts) or "the tool failed, and said nothing"


def _blocks(answer: CallToolResult) -> list[Json]:
    return [
        block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in answer.content
    ]


def shown_to_model(result: Any) -> Json:
    """A result as the model sees it: texts and files in their order, what is not for it left out.

    `result` is what `tool_result` gave, as processors have left it.
    """
    blocks = cast("Json", result).get(BLOCKS) if isinstance(result, dict) else None
    if not isinstance(blocks, list) or not _are_blocks(cast("list[Any]", blocks)):
        return {"type": "text" if isinstance(result, str) else "json", "value": result}
    parts = [_part(block) for block in cast("list[Json]", blocks) if _is_for_model(block)]
    data: Any = cast("Json", result).get("structuredContent")
    if data is not None and not any(part["type"] == "text" for part in parts):
        parts.append({"type": "text", "text": _as_text(data)})
    return {"type": "content", "value": parts}


def _are_blocks(blocks: Sequence[Any]) -> bool:
    return all(isinstance(block, dict) and "type" in block for block in blocks)


def _is_for_model(block: Json) -> bool:
    annotations: Json = block.get("annotations") or {}
    audience = annotations.get("audience")
    return not audience or "assistant" in audience


def _part(block: Json) -> Json:
    kind = block["type"]
    if kind == "text":
        return {"type": "text", "text": block.get("text", "")}
    if kind in ("image", "audio"):
        return {"type": "media", "data": block.get("data"), "mediaType": block.get("mimeType")}
    if kind == "resource":
        return _resource(block.get("resource") or {})
    known = {key: block[key] for key in ("uri", "name", "description", "mimeType") if key in block}
    return {"type": "text", "text": _as_text(known)}


def _resource(resource: Json) -> Json:
    if "text" in resource:
        return {"type": "text", "text": resource["text"]}
    media = resource.get("mimeType") or "application/octet-stream"
    if media.startswith("image/") or media == "application/pdf":
        return {"type": "media", "data": resource.get("blob"), "mediaType": media}
    return {"type": "text", "text": f"[{resource.get('uri')}, a file of type {media}]"}


def _as_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
