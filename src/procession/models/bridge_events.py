"""The events of pydantic-ai's streams, turned into chunks."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET, UnsetType
from pydantic_ai.messages import (
    FilePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

from ..chunks import (
    BlockPayload,
    Chunk,
    DeltaPayload,
    FilePayload,
    FinishPayload,
    ModelStartPayload,
    ResponseMetadataPayload,
    StepOutcome,
    StepOutput,
    ToolCallPayload,
    ToolInputDeltaPayload,
    ToolInputEndPayload,
    ToolInputStartPayload,
    ToolResultPayload,
    Usage,
)
from ..tools import parse_tool_input
from .json_values import new_prefix

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_ai.messages import ModelResponse

__all__ = ["BridgeEvents"]

_REASONS = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_call": "tool-calls",
    "error": "error",
}


class BridgeEvents:
    """One answer under way."""

    def __init__(self, provider: str, warnings: list[Any]) -> None:
        self._provider = provider
        self._warnings = warnings
        self._prefix = new_prefix()
        self._count = 0
        self._blocks: dict[int, tuple[str, str]] = {}  # kind and id of the open ones, by part
        self._inputs: dict[int, str] = {}  # ids of the calls whose arguments have begun
        self._called: set[str] = set()
        self._started = False

    def whole(self, response: ModelResponse) -> list[Chunk]:
        """The chunks of an answer that came in one piece."""
        out: list[Chunk] = []
        self._start(out)
        for index, part in enumerate(response.parts):
            self._part(out, index, part, response)
            self._part_end(out, index, part)
        return out + self.end(response)

    def feed(self, event: Any, so_far: Callable[[], ModelResponse]) -> list[Chunk]:
        """The chunks of an event; `so_far` gives what has come."""
        out: list[Chunk] = []
        if not self._started:
            self._start(out)
        if isinstance(event, PartStartEvent):
            self._part(out, event.index, event.part, so_far())
        elif isinstance(event, PartDeltaEvent):
            self._delta(out, event.index, event.delta)
        elif isinstance(event, PartEndEvent):
            self._part_end(out, event.index, event.part)
        return out

    def end(self, response: ModelResponse) -> list[Chunk]:
        """What remains: open blocks, the calls, and why it ended."""
        out: list[Chunk] = []
        if not self._started:
            self._start(out)
        for index, part in enumerate(response.parts):
            self._part_end(out, index, part)
            if isinstance(part, ToolCallPart | NativeToolCallPart):
                self._call(out, index, part)
        called = any(isinstance(part, ToolCallPart) for part in response.parts)
        raw = (response.provider_details or {}).get("finish_reason")
        reason = _REASONS.get(response.finish_reason or "", "tool-calls" if called else "stop")
        payload = FinishPayload(
            step_result=StepOutcome(reason=reason, raw_reason=raw or UNSET),
            output=StepOutput(usage=_usage(response)),
            metadata={"providerMetadata": {self._provider: response.provider_details or {}}},
        )
        return [*out, *self._described(response), Chunk(type="finish", payload=payload)]

    def _start(self, out: list[Chunk]) -> None:
        self._started = True
        out.append(Chunk(type="stream-start", payload=ModelStartPayload(warnings=self._warnings)))

    def _described(self, response: ModelResponse) -> list[Chunk]:
        payload = ResponseMetadataPayload(timestamp=response.timestamp)
        if response.provider_response_id:
            payload.id = response.provider_response_id
        if response.model_name:
            payload.model_id = response.model_name
        return [Chunk(type="response-metadata", payload=payload)]

    # ── parts ──────────────────────────────────────────────────────────────────────────────────

    def _part(self, out: list[Chunk], index: int, part: Any, so_far: ModelResponse) -> None:
        if isinstance(part, TextPart | ThinkingPart):
            self._text(
                out, index, "text" if isinstance(part, TextPart) else "reasoning", part.content
            )
        elif isinstance(part, ToolCallPart | NativeToolCallPart):
            self._inputs[index] = part.tool_call_id
            start = ToolInputStartPayload(tool_call_id=part.tool_call_id, tool_name=part.tool_name)
            if isinstance(part, NativeToolCallPart):
                start.provider_executed = True
            out.append(Chunk(type="tool-call-input-streaming-start", payload=start))
            if isinstance(part.args, str):
                self._arguments(out, index, part.args)
        elif isinstance(part, NativeToolReturnPart):
            self._returned(out, cast("NativeToolReturnPart[Any]", part), so_far)
        elif isinstance(part, FilePart):
            data = base64.b64encode(part.content.data).decode("ascii")
            payload = FilePayload(data=data, base64=data, mime_type=part.content.media_type)
            payload.provider_metadata = self._own(part)
            out.append(Chunk(type="file", payload=payload))

    def _delta(self, out: list[Chunk], index: int, delta: Any) -> None:
        if isinstance(delta, TextPartDelta):
            self._text(out, index, "text", delta.content_delta)
        elif isinstance(delta, ThinkingPartDelta):
            self._text(out, index, "reasoning", delta.content_delta or "")
        elif isinstance(delta, ToolCallPartDelta) and isinstance(delta.args_delta, str):
            self._arguments(out, index, delta.args_delta)

    def _text(self, out: list[Chunk], index: int, kind: str, text: str) -> None:
        if index not in self._blocks:
            if not text and kind == "text":
                return
            self._blocks[index] = (kind, f"{kind}-{self._prefix}-{self._count}")
            self._count += 1
            payload = BlockPayload(id=self._blocks[index][1])
            out.append(Chunk(type=f"{kind}-start", payload=payload))
        if text:
            payload = DeltaPayload(id=self._blocks[index][1], text=text)
            out.append(Chunk(type=f"{kind}-delta", payload=payload))

    def _arguments(self, out: list[Chunk], index: int, text: str) -> None:
        if text and index in self._inputs:
            payload = ToolInputDeltaPayload(tool_call_id=self._inputs[index], args_text_delta=text)
            out.append(Chunk(type="tool-call-delta", payload=payload))

    def _part_end(self, out: list[Chunk], index: int, part: Any) -> None:
        """End a block. Calls wait for the end of all: they may grow side by side."""
        kind, block = self._blocks.pop(index, ("", ""))
        if kind:
            payload = BlockPayload(id=block, provider_metadata=self._own(part))
            out.append(Chunk(type=f"{kind}-end", payload=payload))
        elif isinstance(part, NativeToolCallPart):
            self._call(out, index, cast("NativeToolCallPart[Any]", part))

    def _call(self, out: list[Chunk], index: int, part: ToolCallPart | NativeToolCallPart) -> None:
        call_id = part.tool_call_id
        if call_id in self._called:
            return
        self._called.add(call_id)
        if self._inputs.pop(index, None) is not None:
            end = ToolInputEndPayload(tool_call_id=call_id)
            out.append(Chunk(type="tool-call-input-streaming-end", payload=end))
        args = part.args
        payload = ToolCallPayload(
            tool_call_id=call_id,
            tool_name=part.tool_name,
            args=args if isinstance(args, dict) else parse_tool_input(args or ""),
            provider_metadata=self._own(part),
        )
        if isinstance(part, NativeToolCallPart):
            payload.provider_executed = True
        out.append(Chunk(type="tool-call", payload=payload))

    def _returned(
        self, out: list[Chunk], part: NativeToolReturnPart, so_far: ModelResponse
    ) -> None:
        for index, call in enumerate(so_far.parts):
            if isinstance(call, NativeToolCallPart) and call.tool_call_id == part.tool_call_id:
                self._call(out, index, call)
        payload = ToolResultPayload(
            tool_call_id=part.tool_call_id,
            tool_name=part.tool_name,
            result=part.content,
            provider_executed=True,
            provider_metadata=self._own(part),
        )
        out.append(Chunk(type="tool-result", payload=payload))

    def _own(self, part: Any) -> dict[str, Any] | UnsetType:
        """What pydantic-ai wants to see again with this part."""
        told = {
            "id": getattr(part, "id", None),
            "signature": getattr(part, "signature", None),
            "providerName": getattr(part, "provider_name", None),
            "providerDetails": getattr(part, "provider_details", None),
        }
        own = {name: value for name, value in told.items() if value is not None}
        return {self._provider: own} if own else UNSET


def _usage(response: ModelResponse) -> Usage:
    """The counts. pydantic-ai writes 0 for what it was not told: all of them 0 is unknown."""
    theirs = response.usage
    if not (theirs.input_tokens or theirs.output_tokens):
        return Usage()
    details = theirs.details
    return Usage(
        input_tokens=theirs.input_tokens,
        output_tokens=theirs.output_tokens,
        reasoning_tokens=details.get("reasoning_tokens", details.get("thoughts_tokens")),
        cached_input_tokens=theirs.cache_read_tokens,
        cache_creation_input_tokens=theirs.cache_write_tokens,
        raw=dict(details),
    )
