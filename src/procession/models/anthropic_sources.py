"""What an answer of Anthropic's cites, as sources."""

from __future__ import annotations

from typing import Any

from ..chunks import Chunk, SourcePayload
from .json_values import mapping, word

__all__ = ["source_chunk"]

_MEDIA = {"page_location": "application/pdf"}


def source_chunk(provider: str, name: str, citation: Any) -> Chunk | None:
    """A web page for a search result, else a document of the prompt; `None` for other records.

    Where in it, and what was cited, stands in the provider's metadata.
    """
    record = mapping(citation)
    kind = record.get("type")
    if not isinstance(kind, str):
        return None
    url = word(record.get("url")) or word(record.get("source"))
    payload = SourcePayload(id=name, source_type="url", provider_metadata={provider: record})
    if "://" in url:
        payload.url = url
        payload.title = word(record.get("title")) or None
    else:
        payload.source_type = "document"
        title = word(record.get("document_title")) or word(record.get("title"))
        payload.title = title or url
        payload.mime_type = _MEDIA.get(kind, "text/plain")
    return Chunk(type="source", payload=payload)
