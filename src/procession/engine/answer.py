"""Folding the chunks of one attempt into message parts and into the record of a step.

Content (text, reasoning, sources, files, data) is taken as it left the gate: what a processor
changed or dropped is changed or absent here too. Control (tool calls, results, finish) is noted
before the gate, so dropping such a chunk hides it and no more (R-124, R-128).
"""

from __future__ import annotations

import time
from copy import copy
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..chunks import Chunk, DeltaPayload, FinishPayload, Usage
from ..messages import (
    DataPart,
    FilePart,
    Part,
    ReasoningPart,
    SourceDocumentPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
)
from ..records import clean_kept, clean_text, own

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Answer", "Call"]


class Call:
    """A tool call of this attempt: the chunk that asked for it, and the part that holds it."""

    __slots__ = ("_given", "_shown", "chunk", "executed", "part")

    def __init__(self, chunk: Chunk, part: ToolInvocationPart) -> None:
        self.chunk = chunk
        self.part = part
        self._given: Any = UNSET
        self._shown: Any = UNSET
        self.executed = bool(chunk.payload.provider_executed)
        """Whether the provider runs the tool itself."""

    @property
    def id(self) -> str:
        """The tool call id."""
        return self.part.tool_invocation.tool_call_id

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.part.tool_invocation.tool_name

    @property
    def arguments(self) -> Any:
        """The parsed arguments; `UNSET` when the model's JSON was broken (R-531)."""
        return self.chunk.payload.args

    def disguise(self, were: Any, are: Any) -> None:
        """Show other arguments than those the tool runs with."""
        if self._shown is UNSET or were != self._shown:
            self._given = were
        self._shown = own(are)

    @property
    def to_run_with(self) -> Any:
        """The arguments for the tool: those of the message, unless they are a disguise."""
        shown = self.part.tool_invocation.args
        return self._given if self._shown is not UNSET and shown == self._shown else shown


class _Block:
    """A text or reasoning block under construction: its part and the pieces of its text."""

    __slots__ = ("ended", "id", "part", "pieces")

    def __init__(self, id: str, part: TextPart | ReasoningPart) -> None:
        self.id = id
        self.part = part
        self.ended = False
        self.pieces: list[str] = []


class Answer:
    """What a model's answer has come to so far."""

    __slots__ = (
        "_blocks",
        "_last",
        "_open",
        "add_text",
        "calls",
        "chunks",
        "finish_reason",
        "model_id",
        "parts",
        "provider_metadata",
        "raw_reason",
        "response_id",
        "text_id",
        "timestamp",
        "usage",
    )

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.calls: dict[str, Call] = {}
        self.chunks: dict[str, list[Chunk]] = {}
        """Source and file chunks for the step's record, by kind."""
        self.finish_reason: str | None = None
        self.raw_reason: str | None = None
        self.usage = Usage()
        self.provider_metadata: dict[str, Any] | None = None
        self.response_id: str | None = None
        self.model_id: str | None = None
        self.timestamp: Any = None
        self._blocks: list[_Block] = []
        self._open: dict[tuple[str, str], _Block] = {}
        self._last = ""
        self.text_id: str | None = None
        self.add_text: Callable[[str], None] = list[str]().append

    # ── content, after the gate ────────────────────────────────────────────────────────────────

    def add(self, chunk: Chunk) -> None:
        """Take in a chunk as it left the gate."""
        kind = chunk.type
        if kind == "text-delta":
            payload = chunk.payload
            if payload.id == self.text_id:
                self.add_text(payload.text)
            else:
                self._first_text(payload)
            return
        take = _TAKERS.get(kind)
        if take is not None:
            take(self, chunk)
        elif kind.startswith("data-"):
            self.add_data(chunk)

    def _first_text(self, payload: Any) -> None:
        block = self._block("text", payload)
        self.text_id = payload.id
        self.add_text = block.pieces.append
        block.pieces.append(payload.text)

    def _block(self, kind: str, payload: Any) -> _Block:
        key = (kind, payload.id)
        block = self._open.get(key)
        if block is None or block.ended:  # the id is used again: another block, another part
            part = TextPart(text="") if kind == "text" else ReasoningPart()
            if payload.provider_metadata is not UNSET:
                part.provider_metadata = clean_kept(payload.provider_metadata)
            block = self._open[key] = _Block(payload.id, part)
            self._blocks.append(block)
            self._append(part)
        return block

    def _append(self, part: Part) -> None:
        """Append in stream position; text after a tool call begins a new block (R-314)."""
        if part.type in ("text", "reasoning") and self._last == "tool-invocation":
            self.parts.append(StepStartPart())
        self._last = part.type
        self.parts.append(part)

    def _block_border(self, chunk: Chunk) -> None:
        kind, _, border = chunk.type.partition("-")
        block = self._open.get((kind, chunk.payload.id))
        if block is None or border == "start":
            block = self._block(kind, chunk.payload)
        if border == "end":
            block.ended = True
            self.text_id = None
        part = block.part
        if chunk.payload.provider_metadata is not UNSET:
            part.provider_metadata = chunk.payload.provider_metadata
        if chunk.payload.signature is not UNSET and isinstance(part, ReasoningPart):
            part.details = [{"type": "text", "text": "", "signature": chunk.payload.signature}]

    def restore_block(self, id: str, part: TextPart | ReasoningPart) -> None:
        """Take over a block that was ended, and merged into the message, before."""
        block = _Block(id, part)
        block.ended = True
        block.pieces.append(part.text if isinstance(part, TextPart) else part.reasoning)
        self._blocks.append(block)

    def end_blocks(self) -> None:
        """The model has finished: what comes all the same begins blocks of its own."""
        for block in self._blocks:
            block.ended = True
        self.text_id = None

    def _reasoning(self, chunk: Chunk) -> None:
        self._block("reasoning", chunk.payload).pieces.append(chunk.payload.text)

    def _source(self, chunk: Chunk) -> None:
        payload = chunk.payload
        self.chunks.setdefault("sources", []).append(chunk)
        meta = payload.provider_metadata or None
        if payload.source_type == "document":
            part: Part = SourceDocumentPart(
                source_id=payload.id,
                media_type=payload.mime_type or "application/octet-stream",
                title=payload.title or "",
                filename=payload.filename or None,
                provider_metadata=meta,
            )
        else:
            source = {"sourceType": "url", "id": payload.id, "url": payload.url or ""}
            if payload.title:
                source["title"] = payload.title
            part = SourcePart(source=source, provider_metadata=meta)
        self._append(part)

    def _file(self, chunk: Chunk) -> None:
        payload = chunk.payload
        self.chunks.setdefault("files", []).append(chunk)
        self._append(
            FilePart(
                data=payload.base64 or payload.data,
                mime_type=payload.mime_type,
                filename=payload.filename or None,
                provider_metadata=payload.provider_metadata or None,
            )
        )

    def _rewritten_call(self, chunk: Chunk) -> None:
        """Arguments changed at the gate are what the tool runs with (R-124)."""
        call = self.calls.get(chunk.payload.tool_call_id)
        if call is None:
            return
        call.chunk = chunk
        invocation = call.part.tool_invocation
        if chunk.payload.args is not UNSET:
            invocation.args = chunk.payload.args

    def add_data(self, chunk: Chunk) -> None:
        """Keep a data chunk as a part, unless it is transient (R-200, R-201)."""
        if chunk.transient is True:
            return
        count = len(self.parts)
        put_data_part(self.parts, chunk)
        if count and len(self.parts) > count and self._says_nothing(self.parts[count - 1]):
            # It was delivered before the first word of the block that has begun.
            self.parts[count - 1 :] = reversed(self.parts[count - 1 :])

    def _says_nothing(self, part: Part) -> bool:
        block = self._blocks[-1] if self._blocks else None
        return block is not None and block.part is part and not any(block.pieces)

    # ── control, before the gate ───────────────────────────────────────────────────────────────

    def note_call(self, chunk: Chunk) -> None:
        """Note a tool call as the model made it."""
        payload = chunk.payload
        invocation = ToolInvocation(
            tool_call_id=payload.tool_call_id,
            tool_name=payload.tool_name,
            args={} if payload.args is UNSET else payload.args,
        )
        part = ToolInvocationPart(
            tool_invocation=invocation,
            provider_executed=payload.provider_executed or None,
            provider_metadata=payload.provider_metadata or None,
        )
        self.calls[payload.tool_call_id] = Call(chunk, part)
        self._append(part)

    def disguise(self, tool_call_id: str, were: Any, are: Any) -> None:
        """A call's arguments are shown and stored as `are`; the tool runs with what they `were`."""
        call = self.calls.get(tool_call_id)
        if call is not None:
            call.disguise(were, are)

    def note_metadata(self, chunk: Chunk) -> None:
        """Note what the provider calls its response."""
        payload = chunk.payload
        self.response_id = payload.id or None
        self.model_id = payload.model_id or None
        self.timestamp = payload.timestamp or None

    def note_finish(self, chunk: Chunk) -> None:
        """Note why the model stopped and what it used."""
        payload: FinishPayload = chunk.payload
        reason = payload.step_result.reason
        self.finish_reason = "other" if reason == "unknown" else reason
        self.raw_reason = payload.step_result.raw_reason or None
        self.usage = copy(payload.output.usage)  # hooks are handed the chunk
        metadata = payload.metadata or {}
        self.provider_metadata = metadata.get("providerMetadata")

    # ── the end ────────────────────────────────────────────────────────────────────────────────

    def flush(self) -> list[Part]:
        """Bring the parts up to date with all pieces that have come, and return them.

        Empty texts give no part (R-310); an empty reasoning block stays for its signature.
        """
        for block in self._blocks:
            text = clean_text("".join(block.pieces))
            if isinstance(block.part, ReasoningPart):
                _close_reasoning(block.part, text)
            else:
                block.part.text = text
        self.parts = [p for p in self.parts if p.type != "text" or p.text]
        now = int(time.time() * 1000)
        for part in self.parts:
            if part.created_at is None:
                part.created_at = now
        return self.parts

    @property
    def has_begun(self) -> bool:
        """Whether anything of a response has come."""
        return bool(self.parts or self.response_id)

    def reasoning(self) -> list[Chunk]:
        """One `reasoning-delta` for each block that says something, merged (R-544)."""
        found: list[Chunk] = []
        for block in self._blocks:
            text = "".join(block.pieces)
            if text and isinstance(block.part, ReasoningPart):
                meta = block.part.provider_metadata
                payload = DeltaPayload(
                    id=block.id, text=text, provider_metadata=UNSET if meta is None else meta
                )
                found.append(Chunk("reasoning-delta", payload, from_="AGENT"))
        return found

    def text(self) -> str:
        """The text so far, as the gate let it through."""
        texts = ["".join(b.pieces) for b in self._blocks if isinstance(b.part, TextPart)]
        return clean_text("".join(texts))


def _close_reasoning(part: ReasoningPart, text: str) -> None:
    part.reasoning = text
    detail: dict[str, Any] = {"type": "text", "text": text}
    if part.details and "signature" in part.details[0]:
        detail["signature"] = part.details[0]["signature"]
    part.details = [detail]


def put_data_part(parts: list[Part], chunk: Chunk) -> None:
    """Add a data chunk's part, or put it in the place of the one with its type and id (R-200)."""
    name = chunk.id if isinstance(chunk.id, str) else None
    made = DataPart(type=chunk.type, data=None if chunk.data is UNSET else chunk.data, id=name)
    if name is not None:
        for position, part in enumerate(parts):
            if part.type == chunk.type and isinstance(part, DataPart) and part.id == name:
                parts[position] = made
                return
    parts.append(made)


_TAKERS: dict[str, Callable[[Answer, Chunk], None]] = {
    "text-start": Answer._block_border,  # pyright: ignore[reportPrivateUsage]  # its own methods
    "text-end": Answer._block_border,  # pyright: ignore[reportPrivateUsage]
    "reasoning-start": Answer._block_border,  # pyright: ignore[reportPrivateUsage]
    "reasoning-end": Answer._block_border,  # pyright: ignore[reportPrivateUsage]
    "reasoning-delta": Answer._reasoning,  # pyright: ignore[reportPrivateUsage]
    "source": Answer._source,  # pyright: ignore[reportPrivateUsage]
    "file": Answer._file,  # pyright: ignore[reportPrivateUsage]
    "tool-call": Answer._rewritten_call,  # pyright: ignore[reportPrivateUsage]
}
