"""The content blocks of a message under way, each from its start to its end."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET

from ..chunks import (
    BlockPayload,
    Chunk,
    DeltaPayload,
    ToolCallPayload,
    ToolInputDeltaPayload,
    ToolInputEndPayload,
    ToolInputStartPayload,
)
from ..tools import parse_tool_input
from .anthropic_sources import source_chunk
from .json_values import entries, new_call_id, word

if TYPE_CHECKING:
    from .anthropic_wire import Delta, Json
    from .half_characters import HalfCharacters

__all__ = [
    "CALLS",
    "CALL_FIELDS",
    "Block",
    "CallBlock",
    "TextBlock",
    "ThinkingBlock",
    "text_digest",
]


class Block(Protocol):
    """A block that is growing. Blocks may do so side by side: events name theirs by its index."""

    def start(self, out: list[Chunk], record: Json) -> None:
        """It has begun, perhaps with content."""
        ...

    def add(self, out: list[Chunk], delta: Delta) -> None:
        """More of it."""
        ...

    def stop(self, out: list[Chunk]) -> None:
        """It is complete."""
        ...


class TextBlock:
    """Text, and where it was found. What is cited goes back with the text on the next call."""

    def __init__(self, provider: str, halves: HalfCharacters, name: str) -> None:
        self.id = name
        """The id of its chunks."""
        self._provider = provider
        self._halves = halves
        self._citations: list[Any] = []

    def start(self, out: list[Chunk], record: Json) -> None:
        """The text has begun."""
        out.append(Chunk(type="text-start", payload=BlockPayload(id=self.id)))
        self._text(out, self._halves.whole(self.id, word(record.get("text"))))
        for citation in entries(record.get("citations")):
            self._cite(out, citation)

    def add(self, out: list[Chunk], delta: Delta) -> None:
        """More text, or where it was found."""
        if delta.text:
            self._text(out, self._halves.whole(self.id, delta.text))
        if delta.citation is not None:
            self._cite(out, delta.citation)

    def stop(self, out: list[Chunk]) -> None:
        """The text is complete."""
        self._text(out, self._halves.end(self.id))
        meta = {self._provider: {"citations": self._citations}} if self._citations else UNSET
        payload = BlockPayload(id=self.id, provider_metadata=meta)
        out.append(Chunk(type="text-end", payload=payload))

    def _text(self, out: list[Chunk], text: str) -> None:
        if text:
            out.append(Chunk(type="text-delta", payload=DeltaPayload(id=self.id, text=text)))

    def _cite(self, out: list[Chunk], citation: Any) -> None:
        self._citations.append(citation)
        source = source_chunk(self._provider, f"{self.id}-{len(self._citations)}", citation)
        if source is not None:
            out.append(source)


class ThinkingBlock:
    """Thoughts with their signature, or thoughts that only the provider can read."""

    def __init__(self, provider: str, halves: HalfCharacters, name: str) -> None:
        self._provider = provider
        self._halves = halves
        self._id = name
        self._pieces: list[str] = []
        self._signature: str | None = None
        self._hidden: Any = None

    def start(self, out: list[Chunk], record: Json) -> None:
        """The thoughts have begun."""
        payload = BlockPayload(id=self._id)
        self._signature = word(record.get("signature")) if "signature" in record else None
        if record.get("type") == "redacted_thinking":
            self._hidden = record.get("data")
            payload.provider_metadata = {self._provider: {"redactedData": self._hidden}}
        out.append(Chunk(type="reasoning-start", payload=payload))
        self._text(out, self._halves.whole(self._id, word(record.get("thinking"))))

    def add(self, out: list[Chunk], delta: Delta) -> None:
        """More thoughts, or the signature."""
        if delta.thinking:
            self._text(out, self._halves.whole(self._id, delta.thinking))
        if delta.signature:
            self._signature = (self._signature or "") + delta.signature

    def stop(self, out: list[Chunk]) -> None:
        """The thoughts are complete."""
        self._text(out, self._halves.end(self._id))
        payload = BlockPayload(id=self._id)
        if self._hidden is not None:
            payload.provider_metadata = {self._provider: {"redactedData": self._hidden}}
        elif self._signature is not None:
            payload.signature = self._signature
            signed = {
                "signature": self._signature,
                # Thoughts must go back as they came, or not at all: this tells which.
                "signedText": text_digest("".join(self._pieces)),
            }
            payload.provider_metadata = {self._provider: signed}
        out.append(Chunk(type="reasoning-end", payload=payload))

    def _text(self, out: list[Chunk], text: str) -> None:
        if text:
            self._pieces.append(text)
            payload = DeltaPayload(id=self._id, text=text)
            out.append(Chunk(type="reasoning-delta", payload=payload))


def text_digest(text: str) -> str:
    """A short mark of a text: another text has another one."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""The types of blocks that call a tool; all but the first are answered by the provider itself."""


CALL_FIELDS = (
    ("caller", "caller"),
    ("serverName", "server_name"),
    ("toolsetName", "toolset_name"),
)
"""What goes back with a call: our name of it, and the API's."""


class CallBlock:
    """A tool call, its arguments arriving as pieces of JSON text."""

    def __init__(self, provider: str, halves: HalfCharacters) -> None:
        self.id = self.name = ""
        self._provider = provider
        self._halves = halves
        self._given: Any = None
        self._pieces: list[str] = []
        self._executed = False
        self.meta: Json = {}
        """What must be sent back with the call beside its arguments."""

    def start(self, out: list[Chunk], record: Json) -> None:
        """The call has begun. A few servers send all arguments with this, and no pieces."""
        self.id = word(record.get("id")) or new_call_id("toolu")
        self.name = word(record.get("name"))
        self._given = record.get("input")
        self._executed = record.get("type") != "tool_use"
        self.meta = _call_metadata(record)
        payload = ToolInputStartPayload(tool_call_id=self.id, tool_name=self.name)
        if self._executed:
            payload.provider_executed = True
        out.append(Chunk(type="tool-call-input-streaming-start", payload=payload))

    def add(self, out: list[Chunk], delta: Delta) -> None:
        """More of the arguments' text."""
        if delta.partial_json:
            self._piece(out, self._halves.whole(self.id, delta.partial_json))

    def stop(self, out: list[Chunk]) -> None:
        """The call is complete."""
        self._piece(out, self._halves.end(self.id))
        if not self._pieces and self._given:
            self._piece(out, msgspec.json.encode(self._given).decode())
        end = ToolInputEndPayload(tool_call_id=self.id)
        out.append(Chunk(type="tool-call-input-streaming-end", payload=end))
        payload = ToolCallPayload(
            tool_call_id=self.id,
            tool_name=self.name,
            args=parse_tool_input("".join(self._pieces)),
            provider_executed=True if self._executed else UNSET,
            provider_metadata={self._provider: self.meta} if self.meta else UNSET,
        )
        out.append(Chunk(type="tool-call", payload=payload))

    def _piece(self, out: list[Chunk], text: str) -> None:
        if text:
            self._pieces.append(text)
            payload = ToolInputDeltaPayload(tool_call_id=self.id, args_text_delta=text)
            out.append(Chunk(type="tool-call-delta", payload=payload))


def _call_metadata(record: Json) -> Json:
    meta: Json = {} if record.get("type") == "tool_use" else {"type": record["type"]}
    return meta | {
        ours: record[theirs] for ours, theirs in CALL_FIELDS if record.get(theirs) is not None
    }
