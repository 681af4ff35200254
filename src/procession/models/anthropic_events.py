"""The events of an Anthropic message, turned into chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from ..chunks import (
    Chunk,
    DeltaPayload,
    ToolResultPayload,
)
from .answer_events import AnswerEvents, response_metadata
from .anthropic_blocks import CALLS, CallBlock, TextBlock, ThinkingBlock
from .anthropic_wire import (
    Delta,
    Event,
    decode_event,
    merged_usage,
    usage_of,
)
from .call_errors import streamed_error
from .json_values import clean_but, entries, mapping, new_prefix, word

if TYPE_CHECKING:
    from .anthropic_blocks import Block
    from .anthropic_wire import Json

__all__ = ["AnthropicEvents"]

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool-calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content-filter",
}


class AnthropicEvents(AnswerEvents[Event]):
    """One answer under way."""

    part_name = "message event"

    def __init__(self, provider: str, *, include_raw: bool = False) -> None:
        super().__init__(provider, include_raw=include_raw)
        self._prefix = new_prefix()
        self._blocks: dict[int, Block] = {}
        self._calls: dict[str, tuple[CallBlock, int]] = {}
        self._begun = 0
        self._plain = -1
        self._plain_id = ""
        self._reason: str | None = None
        self._usage: Json = {}
        self._meta: Json = {}

    def feed(self, events: list[bytes]) -> list[Chunk]:
        """The chunks that these events stand for."""
        out: list[Chunk] = []
        for data in events:
            if self.failed or self.finished:
                break
            try:
                event = decode_event(data)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._odd(out, data)
                continue
            # By far the commonest event, on a path of its own: more of the open text block.
            if event.index == self._plain and event.type == "content_block_delta":
                delta = event.delta
                if delta is not None and delta.type == "text_delta" and delta.text:
                    if not self._halves:  # and there are none in what was decoded well
                        payload = DeltaPayload(id=self._plain_id, text=delta.text)
                        out.append(Chunk(type="text-delta", payload=payload))
                        continue
            self._take(out, event, data)
        return out

    def _cut(self, out: list[Chunk]) -> None:
        if self._reason is not None:
            self._finish(out)

    def _event(self, out: list[Chunk], event: Event, data: bytes) -> None:
        kind = event.type
        if kind == "content_block_delta":
            block = self._blocks.get(event.index or 0)
            if block is not None and event.delta is not None:
                block.add(out, event.delta)
        elif kind == "content_block_start":
            self._start(out, event.index or 0, event.content_block or {})
        elif kind == "content_block_stop":
            self._stop(out, event.index or 0)
        elif kind == "message_start":
            self._message(out, event.message or {})
        elif kind == "message_delta":
            self._note(event, event.delta or Delta())
        elif kind == "message_stop":
            self._finish(out)
        elif kind == "error" or (kind is None and event.error):
            self._fail(out, streamed_error(event.error or {}))
        elif kind == "message":
            self._in_one_piece(out, event)

    def _message(self, out: list[Chunk], message: Json) -> None:
        payload = response_metadata(message.get("id"), message.get("model"))
        out.append(Chunk(type="response-metadata", payload=payload))
        self._usage = merged_usage(self._usage, message.get("usage"))

    def _start(self, out: list[Chunk], index: int, record: Json) -> None:
        if index in self._blocks:  # a server that does not say where blocks end
            self._stop(out, index)
        kind = word(record.get("type"))
        name = f"{self._prefix}-{index}"
        block: Block
        if kind == "text":
            block = TextBlock(self._provider, self._halves, f"text-{name}")
            if not self._include_raw:
                self._plain, self._plain_id = index, block.id
        elif kind in ("thinking", "redacted_thinking"):
            block = ThinkingBlock(self._provider, self._halves, f"reasoning-{name}")
        elif kind in CALLS:
            block = CallBlock(self._provider, self._halves)
        else:
            if kind.endswith("_tool_result"):
                self._result(out, kind, record)
            return
        self._blocks[index] = block
        block.start(out, record)
        self._begun += 1
        if isinstance(block, CallBlock):
            self._calls[block.id] = block, self._begun

    def _stop(self, out: list[Chunk], index: int) -> None:
        block = self._blocks.pop(index, None)
        if index == self._plain:
            self._plain = -1
        if block is not None:
            block.stop(out)

    def _result(self, out: list[Chunk], kind: str, record: Json) -> None:
        """What a tool of the provider answered, in the provider's own form."""
        content = record.get("content")
        result: Any = content
        if kind == "mcp_tool_result":
            result = {"content": content, "is_error": bool(record.get("is_error"))}
        failed = str(mapping(content).get("type")).endswith("_error")
        call_id = word(record.get("tool_use_id"))
        call, place = self._calls.get(call_id, (None, self._begun))
        meta: Json = {"resultType": kind}
        if self._begun > place:
            meta["resultAfter"] = self._begun - place  # as many blocks came in between
        if record.get("caller") is not None:
            meta["resultCaller"] = record["caller"]
        self._begun += 1
        payload = ToolResultPayload(
            tool_call_id=call_id,
            tool_name=call.name if call is not None else kind.removesuffix("_tool_result"),
            result=result,
            is_error=True if failed or record.get("is_error") else UNSET,
            provider_executed=True,
            provider_metadata={self._provider: meta},
        )
        out.append(Chunk(type="tool-result", payload=payload))

    def _note(self, event: Event, delta: Delta) -> None:
        """Why the model stops, and what it used; the totals of a `message_delta` are final."""
        self._reason = delta.stop_reason or self._reason
        for name, value in (
            ("stopSequence", delta.stop_sequence),
            ("stopDetails", delta.stop_details),
            ("container", delta.container),
            ("contextManagement", event.context_management),
        ):
            if value is not None:
                self._meta[name] = value
        self._usage = merged_usage(self._usage, event.usage)

    def _in_one_piece(self, out: list[Chunk], event: Event) -> None:
        """A server that answers with the whole message although asked to stream."""
        message = {"id": event.id, "model": event.model, "usage": event.usage}
        self._message(out, message)
        for index, record in enumerate(entries(event.content)):
            self._start(out, index, mapping(record))
            self._stop(out, index)
        stop = Delta(stop_reason=event.stop_reason, stop_sequence=event.stop_sequence)
        self._note(event, stop)
        self._finish(out)

    def _finish(self, out: list[Chunk], reason: str | None = None) -> None:
        raw = self._reason
        if reason is None:
            for index in list(self._blocks):
                self._stop(out, index)
            reason = _REASONS.get(raw or "", "other")
        self._put_finish(out, reason, raw, usage_of(self._usage), self._meta)

    def _loose(self, value: Any) -> list[Event]:
        return [msgspec.convert(clean_but(value, ("delta",)), Event)]
