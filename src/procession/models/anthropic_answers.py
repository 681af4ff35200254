"""What a tool answered, as the content of a `tool_result` block."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from .anthropic_files import file_block
from .anthropic_options import snake

__all__ = ["answer_blocks"]

Json = dict[str, Any]


def answer_blocks(output: Any, provider: str) -> tuple[Any, bool]:
    """The content, a text or a list of blocks, and whether it tells of a failure."""
    if not isinstance(output, dict) or "value" not in output:
        return _json(output), False
    form = cast("Json", output)
    value, kind = form["value"], str(form.get("type"))
    failed = kind.startswith("error")
    if kind == "content" and isinstance(value, list):
        blocks = [_block(item, provider) for item in cast("list[Any]", value)]
        return [block for block in blocks if block.get("text") != ""], failed
    return value if isinstance(value, str) else _json(value), failed


_NATIVE = frozenset({"search_result", "tool_reference", "document", "image", "browser_state"})
"""Blocks that a tool may give in the API's own form."""


def _block(item: Any, provider: str) -> Json:
    if not isinstance(item, dict):
        return {"type": "text", "text": item if isinstance(item, str) else _json(item)}
    form = cast("Json", item)
    kind = str(form.get("type"))
    if kind == "text" and isinstance(form.get("text"), str):
        return {"type": "text", "text": form["text"]}
    if kind in _NATIVE:
        return snake(form)
    data = form.get("data") or form.get("url")
    if data is not None and (kind in ("media", "file") or kind.split("-")[0] in ("image", "file")):
        media = form.get("mediaType") or ("image/*" if kind.startswith("image") else None)
        return file_block({**form, "data": data, "mediaType": media}, provider)
    return {"type": "text", "text": _json(form)}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
