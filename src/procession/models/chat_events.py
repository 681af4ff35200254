"""The events of an OpenAI chat completion, turned into chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET

from ..chunks import (
    Chunk,
    DeltaPayload,
)
from ..records import clean_json
from .answer_events import AnswerEvents, response_metadata, value_of
from .call_errors import streamed_error
from .chat_blocks import TextBlocks, plain_text
from .chat_calls import OpenCalls
from .chat_extras import Extras
from .chat_wire import (
    Call,
    Event,
    decode_event,
    decode_plain,
    usage_of,
)
from .json_values import clean_but, mapping

if TYPE_CHECKING:
    from .chat_wire import Delta, PlainEvent

__all__ = ["ChatEvents"]

_REASONS = {
    "stop": "stop",
    "length": "length",
    "model_length": "length",
    "content_filter": "content-filter",
    "sensitive": "content-filter",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "error": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
}


class ChatEvents(AnswerEvents[Event]):
    """One answer under way."""

    part_name = "chat completion chunk"

    def __init__(self, provider: str, *, include_raw: bool = False) -> None:
        super().__init__(provider, include_raw=include_raw)
        self._blocks = TextBlocks(provider, self._halves)
        self._calls = OpenCalls(self._blocks, self._halves)
        self._extras = Extras(provider)
        self._reason: str | None = None
        self._described = False
        self._plain = False
        self._usage: Any = None

    def feed(self, events: list[bytes]) -> list[Chunk]:
        """The chunks that these events stand for."""
        out: list[Chunk] = []
        for data in events:
            if self.failed or self.finished:
                break
            try:
                if self._plain:
                    # By far the commonest event, on a path of its own: more of the open text block.
                    text = _only_text(decode_plain(data))
                    if text is not None:
                        payload = DeltaPayload(id=self._blocks.id, text=text)
                        out.append(Chunk(type="text-delta", payload=payload))
                        continue
                event = decode_event(data)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._odd(out, data)
                continue
            self._take(out, event, data)
        return out

    def _cut(self, out: list[Chunk]) -> None:
        if self._reason is not None:
            self._finish(out)

    def _tell(self, out: list[Chunk], event: Event, record: Any, *, first: bool) -> None:
        """What is said of the answer as a whole."""
        heading = mapping(record)
        # Some servers send an event without an id before the answer begins.
        if first and (heading.get("id") or event.choices):
            self._described = True
            names = ("id", "model", "created")
            payload = response_metadata(*map(heading.get, names))
            out.append(Chunk(type="response-metadata", payload=payload))
        self._extras.keep(heading)

    def _event(self, out: list[Chunk], event: Event, data: bytes) -> None:
        self._plain = False
        first = not self._described
        if first or event.usage or (event.choices and event.choices[0].finish_reason):
            self._tell(out, event, clean_json(value_of(data)), first=first)
        if event.error:
            self._fail(out, streamed_error(event.error))
            return
        if event.search_results or event.citations:
            self._extras.put_sources(out, event.search_results or event.citations)
        for choice in event.choices or ():
            if choice.index:  # only the first of several answers is asked for
                continue
            delta = choice.delta or choice.message
            if delta is not None:
                self._delta(out, delta)
            if choice.logprobs:
                self._extras.weigh(choice.logprobs)
            if choice.finish_reason:
                self._reason = str(choice.finish_reason)
                self._close(out)
        # The last one counts, they are never added (G-P2).
        self._usage = _usage_in(event) or self._usage
        text_is_open = self._blocks.kind == "text" and not self._halves
        self._plain = text_is_open and not self._include_raw

    def _delta(self, out: list[Chunk], delta: Delta) -> None:
        blocks = self._blocks
        if delta.reasoning_details:
            self._extras.think(delta.reasoning_details)
        # Some servers send the same reasoning under several names.
        thought = plain_text(
            delta.reasoning_content or delta.reasoning or _told(delta.reasoning_details)
        )
        if thought:
            blocks.add(out, "reasoning", thought)
        if delta.content:
            if delta.content.__class__ is str:
                self._speak(out, "text", delta.content)
            else:
                self._parts(out, delta.content)
        if delta.refusal:
            self._speak(out, "refusal", plain_text(delta.refusal))
        if delta.annotations or delta.images or delta.executed_tools:
            self._extras.put(out, delta)
        if delta.tool_calls or delta.function_call:
            self._end_thought(out)
            for fragment in delta.tool_calls or ():
                self._calls.add(out, fragment)
            if delta.function_call is not None:
                self._calls.add(out, Call(index=-1, function=delta.function_call))

    def _speak(self, out: list[Chunk], kind: str, text: str) -> None:
        if self._blocks.kind == "reasoning":
            self._end_thought(out)
        self._blocks.add(out, kind, text)

    def _end_thought(self, out: list[Chunk]) -> None:
        """Close what is being thought, and keep with it what the server wants to see again."""
        if self._blocks.kind == "reasoning":
            self._blocks.close(out, self._extras.thoughts())

    def _parts(self, out: list[Chunk], parts: Any) -> None:
        """Content in typed parts, as some servers send it: text, and thinking around texts."""
        entries = cast("list[Any]", parts if isinstance(parts, list) else [parts])
        for part in entries:
            if isinstance(part, dict) and "thinking" in part:
                self._blocks.add(out, "reasoning", plain_text(part["thinking"]))
            else:
                self._speak(out, "text", plain_text(part))

    def _close(self, out: list[Chunk]) -> None:
        self._end_thought(out)
        self._blocks.close(out)
        late = self._extras.thoughts()
        if late is not UNSET:  # thoughts without a text, or what came after it
            self._blocks.open(out, "reasoning")
            self._blocks.close(out, late)
        self._calls.close(out)

    def _finish(self, out: list[Chunk], reason: str | None = None) -> None:
        raw = self._reason
        reason = reason or _REASONS.get(raw or "", "other")
        if reason == "stop" and self._calls.closed_any:
            reason = "tool-calls"  # so it ends when the request named the tool to call
        self._put_finish(out, reason, raw, usage_of(self._usage), self._extras.metadata())

    def _end_marked(self, out: list[Chunk]) -> None:
        self._close(out)
        self._finish(out)

    def _loose(self, value: Any) -> list[Event]:
        self._plain = False
        return [msgspec.convert(clean_but(value, ("choices", "delta")), Event)]


def _usage_in(event: Event) -> Any:
    """The usage, where servers put it."""
    if event.usage:
        return event.usage
    if isinstance(event.x_groq, dict):
        return cast("dict[str, Any]", event.x_groq).get("usage")  # pyright: ignore[reportUnknownMemberType]
    return event.choices[0].usage if event.choices else None


def _only_text(event: PlainEvent) -> str | None:
    """The text of an event that brings text and nothing else."""
    if event.error or event.usage or not event.choices:
        return None
    choice = event.choices[0]
    delta = choice.delta
    if (
        delta is None
        or choice.finish_reason is not None
        or choice.index
        or choice.logprobs
        or delta.tool_calls
        or delta.reasoning_content
        or delta.reasoning
        or delta.refusal
        or delta.function_call
        or delta.annotations
    ):
        return None
    return delta.content if delta.content and delta.content.__class__ is str else None


def _told(details: Any) -> list[Any]:
    """The records of thoughts that have a text to read, or a summary of it."""
    entries = cast("list[Any]", details if isinstance(details, list) else [])
    records = (cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict))
    return [record.get("text") or record.get("summary") or "" for record in records]
