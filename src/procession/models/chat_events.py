"""The events of an OpenAI chat completion, turned into chunks."""

from __future__ import annotations

import json
import secrets
from typing import Any, cast

import msgspec
from msgspec import UNSET

from ..chunks import (
    BlockPayload,
    Chunk,
    DeltaPayload,
    ErrorPayload,
    FinishPayload,
    StepOutcome,
    StepOutput,
    ToolCallPayload,
    ToolInputDeltaPayload,
    ToolInputEndPayload,
    ToolInputStartPayload,
)
from ..errors import ModelError
from ..records import clean_text
from ..tools import parse_tool_input
from .chat_wire import (
    Call,
    Delta,
    Event,
    Function,
    Heading,
    call_error,
    decode_event,
    decode_heading,
    metadata_of,
    usage_of,
)

__all__ = ["ChatEvents"]


class _OpenCall:
    """A tool call whose arguments are arriving."""

    __slots__ = ("id", "name", "pieces", "started")

    def __init__(self, call_id: str | None) -> None:
        self.id = call_id or f"call_{secrets.token_hex(12)}"
        self.name = ""
        self.pieces: list[str] = []
        self.started = False


_REASONS = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "error": "error",
}


class ChatEvents:
    """One answer under way. `failed` and `finished` say that nothing more is to be expected."""

    def __init__(self, provider: str, *, include_raw: bool = False) -> None:
        self.failed = False
        self.finished = False
        self._provider = provider
        self._include_raw = include_raw
        # Block ids are unique over a run's steps: lanes and parts are told apart by them.
        self._prefix = secrets.token_hex(4)
        self._count = 0
        self._kind = ""
        self._block = ""
        self._calls: list[_OpenCall] = []
        self._by_index: dict[int, _OpenCall] = {}
        self._reason: str | None = None
        self._called = False
        self._described = False
        self._plain = False
        self._usage: Any = None
        self._halves: dict[str, str] = {}

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
            if self._plain:
                # By far the commonest event, on a path of its own: more of the open text block.
                text = _only_text(event)
                if text is not None:
                    payload = DeltaPayload(id=self._block, text=text)
                    out.append(Chunk(type="text-delta", payload=payload))
                    continue
            if not self._described:
                self._describe(out, event, decode_heading(data))
            if self._include_raw:
                out.append(Chunk(type="raw", payload=msgspec.json.decode(data)))
            self._event(out, event)
            self._plain = self._kind == "text" and not self._halves and not self._include_raw
        return out

    def end(self) -> list[Chunk]:
        """What remains when the connection has ended; no finish if the answer was cut short."""
        out: list[Chunk] = []
        if self._reason is not None and not self.finished:
            self._finish(out)
        return out

    def _describe(self, out: list[Chunk], event: Event, heading: Heading) -> None:
        # Some servers send an event without an id before the answer begins.
        if heading.id or event.choices:
            self._described = True
            out.append(Chunk(type="response-metadata", payload=metadata_of(heading)))

    def _event(self, out: list[Chunk], event: Event) -> None:
        if event.error:
            # Inside a stream that began well. An open block stays open: it broke off.
            return self._fail(out, call_error(event.error))
        for choice in event.choices or ():
            if choice.index:  # only the first of several answers is asked for
                continue
            delta = choice.delta or choice.message
            if delta is not None:
                self._delta(out, delta)
            if choice.finish_reason:
                self._reason = str(choice.finish_reason)
                self._close_block(out)
                self._close_calls(out)
        if event.usage:
            self._usage = event.usage  # the last one counts, they are never added (G-P2)
        elif isinstance(event.x_groq, dict):
            extras = cast("dict[str, Any]", event.x_groq)  # pyright: ignore[reportUnknownMemberType]
            self._usage = extras.get("usage") or self._usage

    def _delta(self, out: list[Chunk], delta: Delta) -> None:
        # Some servers send the same reasoning under both names.
        thought = delta.reasoning_content or delta.reasoning
        if thought:
            self._text(out, "reasoning", _plain_text(thought))
        if delta.content:
            if delta.content.__class__ is str:
                self._text(out, "text", delta.content)
            else:
                self._parts(out, delta.content)
        if delta.refusal:
            self._text(out, "refusal", _plain_text(delta.refusal))
        if delta.tool_calls:
            for call in delta.tool_calls:
                self._fragment(out, self._call_of(call), call.function)
        if delta.function_call is not None:
            legacy = Call(index=-1, function=delta.function_call)
            self._fragment(out, self._call_of(legacy), legacy.function)

    def _parts(self, out: list[Chunk], parts: Any) -> None:
        """Content in typed parts, as some servers send it: text, and thinking around texts."""
        entries = cast("list[Any]", parts if isinstance(parts, list) else [parts])
        for part in entries:
            if isinstance(part, dict) and "thinking" in part:
                self._text(out, "reasoning", _plain_text(part["thinking"]))
            else:
                self._text(out, "text", _plain_text(part))

    def _text(self, out: list[Chunk], kind: str, text: str) -> None:
        if self._halves or not text.isascii():
            text = self._whole_characters(kind, text)
        if not text:
            return
        if self._kind != kind:
            self._open_block(out, kind)
        payload = DeltaPayload(id=self._block, text=text)
        out.append(Chunk(type=_delta_type(kind), payload=payload))

    def _open_block(self, out: list[Chunk], kind: str) -> None:
        self._close_block(out)
        self._kind = kind
        self._block = f"{kind}-{self._prefix}-{self._count}"
        self._count += 1
        start = BlockPayload(id=self._block)
        if kind == "refusal":
            start.provider_metadata = {self._provider: {"refusal": True}}
        chunk_type = "reasoning-start" if kind == "reasoning" else "text-start"
        out.append(Chunk(type=chunk_type, payload=start))

    def _close_block(self, out: list[Chunk]) -> None:
        if self._kind:
            if self._halves.pop(self._kind, ""):
                lost = DeltaPayload(id=self._block, text="\ufffd")  # its other half never came
                out.append(Chunk(type=_delta_type(self._kind), payload=lost))
            chunk_type = "reasoning-end" if self._kind == "reasoning" else "text-end"
            out.append(Chunk(type=chunk_type, payload=BlockPayload(id=self._block)))
            self._kind = ""

    def _whole_characters(self, lane: str, text: str) -> str:
        """Join a surrogate pair that was cut in two; half a one waits for the rest."""
        text = self._halves.pop(lane, "") + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._halves[lane] = text[-1]
            text = text[:-1]
        return clean_text(text)

    def _call_of(self, call: Call) -> _OpenCall:
        """The open call a fragment belongs to; a new one where none fits.

        Fragments name their call by index. Servers that leave it out, or always send 0, begin a
        new call with a new id (or, without ids, with a name).
        """
        named = call.function is not None and bool(call.function.name)
        if call.index is not None:
            known = self._by_index.get(call.index)
            if known is not None and not (named and call.id and call.id != known.id):
                return known
        elif call.id:
            known = next((open_ for open_ in self._calls if open_.id == call.id), None)
            if known is not None:
                return known
        elif self._calls and not named:
            return self._calls[-1]
        fresh = _OpenCall(call.id)
        self._calls.append(fresh)
        if call.index is not None:
            self._by_index[call.index] = fresh
        return fresh

    def _fragment(self, out: list[Chunk], call: _OpenCall, function: Function | None) -> None:
        if function is None:
            return
        if function.name and not call.started:
            call.name = function.name
            self._start_call(out, call)
        piece = function.arguments
        if piece.__class__ is not str:
            # A few servers send the object itself instead of its text.
            piece = "" if piece is None else json.dumps(piece)
        if self._halves or not piece.isascii():
            piece = self._whole_characters(call.id, piece)
        if piece:
            call.pieces.append(piece)
            if call.started:
                out.append(_piece(call.id, piece))

    def _start_call(self, out: list[Chunk], call: _OpenCall) -> None:
        self._close_block(out)
        call.started = True
        payload = ToolInputStartPayload(tool_call_id=call.id, tool_name=call.name)
        out.append(Chunk(type="tool-call-input-streaming-start", payload=payload))
        if call.pieces:
            out.append(_piece(call.id, "".join(call.pieces)))

    def _close_calls(self, out: list[Chunk]) -> None:
        for call in self._calls:
            if not call.started:
                self._start_call(out, call)
            end = ToolInputEndPayload(tool_call_id=call.id)
            out.append(Chunk(type="tool-call-input-streaming-end", payload=end))
            payload = ToolCallPayload(
                tool_call_id=call.id,
                tool_name=call.name,
                args=parse_tool_input("".join(call.pieces)),
            )
            out.append(Chunk(type="tool-call", payload=payload))
            self._called = True
        self._calls.clear()
        self._by_index.clear()

    def _finish(self, out: list[Chunk], reason: str | None = None) -> None:
        self.finished = True
        raw = self._reason
        reason = reason or _REASONS.get(raw or "", "other")
        if reason == "stop" and self._called:
            reason = "tool-calls"  # so it ends when the request named the tool to call
        outcome = StepOutcome(reason=reason, raw_reason=raw if raw is not None else UNSET)
        payload = FinishPayload(
            step_result=outcome,
            output=StepOutput(usage=usage_of(self._usage)),
            metadata={"providerMetadata": {self._provider: {}}},
        )
        out.append(Chunk(type="finish", payload=payload))

    def _fail(self, out: list[Chunk], error: ModelError) -> None:
        self.failed = True
        out.append(Chunk(type="error", payload=ErrorPayload(error=error)))
        self._finish(out, "error")

    def _odd(self, out: list[Chunk], data: bytes) -> None:
        """An event that is no clean JSON: the end mark, half a surrogate pair, or rubbish."""
        data = data.strip()
        if data == b"[DONE]":
            self._close_block(out)
            self._close_calls(out)
            self._finish(out)
        elif data:
            try:
                value = json.loads(data.decode("utf-8", "replace"))
                event = msgspec.convert(value, Event)
                heading = msgspec.convert(value, Heading)
            except (ValueError, RecursionError):
                # The data itself may be private: it is not part of the error.
                problem = f"{self._provider} sent an event that is no chat completion chunk"
                self._fail(out, ModelError(problem))
                return
            self._plain = False
            if not self._described:
                self._describe(out, event, heading)
            self._event(out, event)


def _only_text(event: Event) -> str | None:
    """The text of an event that brings text and nothing else."""
    if event.error or event.usage or not event.choices:
        return None
    choice = event.choices[0]
    delta = choice.delta
    if (
        delta is None
        or choice.finish_reason is not None
        or choice.index
        or delta.tool_calls is not None
        or delta.reasoning_content is not None
        or delta.reasoning is not None
        or delta.refusal is not None
        or delta.function_call is not None
    ):
        return None
    return delta.content if delta.content and delta.content.__class__ is str else None


def _delta_type(kind: str) -> str:
    return "reasoning-delta" if kind == "reasoning" else "text-delta"


def _piece(call_id: str, text: str) -> Chunk:
    payload = ToolInputDeltaPayload(tool_call_id=call_id, args_text_delta=text)
    return Chunk(type="tool-call-delta", payload=payload)


def _plain_text(value: Any) -> str:
    """The text of a string, a part with `text`, or a list of either."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        text = cast("dict[str, Any]", value).get("text")
        return text if isinstance(text, str) else ""
    if isinstance(value, list):
        return "".join(map(_plain_text, cast("list[Any]", value)))
    return ""
