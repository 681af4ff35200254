"""Where a Gemini answer comes from: its grounding and its citations, as source chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ..chunks import Chunk, SourcePayload
from .json_values import new_prefix

if TYPE_CHECKING:
    from .google_wire import Candidate

__all__ = ["Sources"]

Json = dict[str, Any]


class Sources:
    """The sources named so far: later events may repeat those of earlier ones."""

    __slots__ = ("_known", "_prefix")

    def __init__(self) -> None:
        self._known: set[tuple[Any, ...]] = set()
        self._prefix = new_prefix()

    def add(self, out: list[Chunk], candidate: Candidate) -> None:
        """A chunk for each source that was not named before."""
        for entry in _entries(candidate.grounding_metadata, "groundingChunks"):
            for kind, found in entry.items():
                if isinstance(found, dict):
                    self._put(out, _source(kind, cast("Json", found)))
        for entry in _entries(candidate.citation_metadata, "citationSources", "citations"):
            self._put(out, _source("citation", entry))

    def _put(self, out: list[Chunk], source: SourcePayload | None) -> None:
        if source is None:
            return
        key = (source.url, source.title, source.filename, str(source.provider_metadata))
        if key in self._known:
            return
        self._known.add(key)
        source.id = f"source-{self._prefix}-{len(self._known)}"
        out.append(Chunk(type="source", payload=source))


def _entries(metadata: Any, *keys: str) -> list[Json]:
    if not isinstance(metadata, dict):
        return []
    record = cast("Json", metadata)
    found: list[Any] = []
    for key in keys:
        value = record.get(key)
        found += cast("list[Any]", value) if isinstance(value, list) else []
    return [entry for entry in found if isinstance(entry, dict)]


def _source(kind: str, found: Json) -> SourcePayload | None:
    """A web page, or a document of the caller's own that has no address on the web."""
    address = _text(found, "sourceUri" if kind == "image" else "uri")
    title = _text(found, "title")
    if address and address.startswith(("http://", "https://")):
        payload = SourcePayload(id="", source_type="url", url=address)
        if title:
            payload.title = title
        return payload
    if kind != "retrievedContext":
        return None
    name = address or _text(found, "documentName") or _text(found, "fileSearchStore")
    payload = SourcePayload(
        id="",
        source_type="document",
        title=title or name or "Unknown document",
        mime_type="text/plain",
        provider_metadata={"google": found},
    )
    if name:
        payload.filename = name.rsplit("/", 1)[-1]
    return payload


def _text(record: Json, key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""
