"""Annotations of an answer, and files that it names, as chunks."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from ..chunks import Chunk, FilePayload, SourcePayload
from .json_values import word

if TYPE_CHECKING:
    from .responses_wire import Item

__all__ = ["image_chunk", "source_chunk"]

_DETAILS = {
    "type": "type",
    "start_index": "startIndex",
    "end_index": "endIndex",
    "index": "index",
    "file_id": "fileId",
    "container_id": "containerId",
}


def source_chunk(provider: str, annotation: Item) -> Chunk | None:
    """A citation as a source; `None` for one that names nothing."""
    url, name = word(annotation.get("url")), word(annotation.get("filename"))
    file_id = word(annotation.get("file_id"))
    details = {ours: annotation[own] for own, ours in _DETAILS.items() if own in annotation}
    meta: dict[str, Any] = {provider: details}
    source = f"source-{secrets.token_hex(8)}"
    if url:
        payload = SourcePayload(
            id=source,
            source_type="url",
            url=url,
            title=word(annotation.get("title")) or None,
            provider_metadata=meta,
        )
    elif name or file_id:
        payload = SourcePayload(
            id=source,
            source_type="document",
            title=name or file_id,
            mime_type="text/plain",
            provider_metadata=meta,
        )
        if name:
            payload.filename = name
    else:
        return None
    return Chunk(type="source", payload=payload)


def image_chunk(provider: str, item: Item) -> Chunk | None:
    """The image that a generation call has made."""
    data = word(item.get("result"))
    if not data:
        return None
    payload = FilePayload(
        data=data,
        mime_type=f"image/{word(item.get('output_format')) or 'png'}",
        provider_metadata={provider: {"itemId": item.get("id")}},
    )
    return Chunk(type="file", payload=payload)
