"""The tool calls of an answer under way: those its caller answers, and those of the provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from ..chunks import (
    Chunk,
    ToolCallPayload,
    ToolInputDeltaPayload,
    ToolInputEndPayload,
    ToolInputStartPayload,
    ToolResultPayload,
)
from .json_values import new_call_id, word
from .responses_sources import image_chunk
from .responses_tools import call_parts, hosted_parts, is_hosted

if TYPE_CHECKING:
    from .half_characters import HalfCharacters
    from .responses_wire import Item

__all__ = ["CallItem"]


class CallItem:
    """One call. Several may grow side by side; each is complete by itself."""

    __slots__ = ("_halves", "_id", "_item", "_meta", "_name", "_pieces", "_provider", "hosted")

    def __init__(
        self, provider: str, halves: HalfCharacters, item: Item, name: str, after: str
    ) -> None:
        self.hosted = is_hosted(item)
        """Whether the provider answers it."""
        self._provider = provider
        self._halves = halves
        self._item = item
        self._name = name
        self._id = _call_id(item, hosted=self.hosted)
        # Reasoning and what came right after it are only sent back together.
        self._meta: Item = {"afterReasoning": after} if after else {}
        self._pieces: list[str] = []

    def start(self, out: list[Chunk]) -> None:
        """The call has begun."""
        payload = ToolInputStartPayload(tool_call_id=self._id, tool_name=self._name)
        if self.hosted:
            payload.provider_executed = True
        out.append(Chunk(type="tool-call-input-streaming-start", payload=payload))

    def add(self, out: list[Chunk], text: str) -> None:
        """More of the arguments' text."""
        text = self._halves.whole(self._id, text)
        if not text:
            return
        first = not self._pieces
        self._pieces.append(text)
        self._piece(out, self._shown(text, first=first))

    def done(self, out: list[Chunk], item: Item) -> None:
        """The call is complete, and so is its result if the provider answers it."""
        kind = self._item.get("type")  # a call stays what it began as
        item = {**item, "type": kind} if item.get("type") else {**self._item, **item, "type": kind}
        lost = self._halves.end(self._id)
        if lost:
            self._pieces.append(lost)
            self._piece(out, self._shown(lost, first=False))
        self._fill_in(out, item)
        end = ToolInputEndPayload(tool_call_id=self._id)
        out.append(Chunk(type="tool-call-input-streaming-end", payload=end))
        if self.hosted:
            self._answered(out, item)
        else:
            parts = call_parts(item)
            self._call(out, item, parts.args, parts.kept)

    def _fill_in(self, out: list[Chunk], item: Item) -> None:
        """The arguments of `item`, where they did not come in pieces; and the other way round."""
        kind = item.get("type")
        if kind == "code_interpreter_call":
            if self._pieces:
                container = msgspec.json.encode(item.get("container_id")).decode()
                self._piece(out, f'","container_id":{container}}}')
            return
        if kind not in ("function_call", "mcp_call", "custom_tool_call"):
            return
        field = "input" if kind == "custom_tool_call" else "arguments"
        given = word(item.get(field))
        if self._pieces and not given:
            item[field] = "".join(self._pieces)
        elif given and not self._pieces:
            self._piece(out, self._shown(given, first=True))
        if kind == "custom_tool_call" and word(item.get(field)):
            self._piece(out, '"}')

    def _shown(self, text: str, *, first: bool) -> str:
        """A piece as JSON text: code and custom inputs are no JSON by themselves."""
        kind = self._item.get("type")
        name = {"code_interpreter_call": "code", "custom_tool_call": "input"}.get(word(kind))
        if name is None:
            return text
        inside = msgspec.json.encode(text).decode()[1:-1]
        return f'{{"{name}":"{inside}' if first else inside

    def _piece(self, out: list[Chunk], text: str) -> None:
        payload = ToolInputDeltaPayload(tool_call_id=self._id, args_text_delta=text)
        out.append(Chunk(type="tool-call-delta", payload=payload))

    def _call(self, out: list[Chunk], item: Item, args: Any, kept: Item) -> None:
        meta = dict(self._meta)
        if word(item.get("id")):
            meta["itemId"] = item["id"]
        if item.get("type") != "function_call":
            meta["itemType"] = item.get("type")
        if kept:
            meta["item"] = kept
        payload = ToolCallPayload(tool_call_id=self._id, tool_name=self._name, args=args)
        payload.provider_executed = True if self.hosted else UNSET
        payload.provider_metadata = {self._provider: meta} if meta else UNSET
        out.append(Chunk(type="tool-call", payload=payload))

    def _answered(self, out: list[Chunk], item: Item) -> None:
        image = None
        if item.get("type") == "image_generation_call":
            # Before the call: what follows a call begins another block of the message.
            image = image_chunk(self._provider, item)
        if image is not None:
            out.append(image)
        parts = hosted_parts(item)
        self._call(out, item, parts.args, parts.kept)
        payload = ToolResultPayload(
            tool_call_id=self._id,
            tool_name=self._name,
            result=parts.result,
            provider_executed=True,
        )
        if item.get("status") == "failed" or item.get("error"):
            payload.is_error = True
        out.append(Chunk(type="tool-result", payload=payload))


def _call_id(item: Item, *, hosted: bool) -> str:
    by_item = hosted or item.get("type") == "mcp_approval_request"
    names = ("id", "call_id") if by_item else ("call_id", "id")
    found = next((word(item.get(name)) for name in names if word(item.get(name))), "")
    return found or new_call_id()
