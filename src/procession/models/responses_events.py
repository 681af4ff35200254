"""The events of an OpenAI Responses stream, turned into chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from ..chunks import (
    Chunk,
    DeltaPayload,
    ErrorPayload,
)
from ..records import clean_json
from .answer_events import AnswerEvents, response_metadata, value_of
from .call_errors import streamed_error
from .json_values import clean_but, mapping, mappings, word
from .responses_calls import CallItem
from .responses_items import Blocks, MessageItem, ReasoningItem
from .responses_tools import tool_name
from .responses_wire import Event, Item, decode_event, usage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..model import ToolDefinition

__all__ = ["ResponsesEvents"]

_TEXT = "response.output_text.delta"
_REASONS = {"max_output_tokens": "length", "content_filter": "content-filter"}

OpenItem = MessageItem | ReasoningItem | CallItem


class ResponsesEvents(AnswerEvents[Event]):
    """One answer under way."""

    part_name = "Responses event"

    def __init__(
        self, provider: str, *, tools: Sequence[ToolDefinition] = (), include_raw: bool = False
    ) -> None:
        super().__init__(provider, include_raw=include_raw)
        self._tools = tools
        self._blocks = Blocks(provider, self._halves)
        # Items are told apart by index: some servers have no index, others change the ids.
        self._open: dict[Any, OpenItem] = {}
        self._done: set[Any] = set()
        self._after = ""  # the id of the reasoning that the next item belongs to
        self._called = False
        self._meta: Item = {}
        self._logprobs: list[Item] = []
        self._described = self._named = False
        # The text block that the last event was for, with the item and the part it belongs to.
        self._text: tuple[str, Any, Any] = ("", None, None)

    def feed(self, events: list[bytes]) -> list[Chunk]:
        """The chunks that these events stand for."""
        out: list[Chunk] = []
        block, item, part = self._text
        for data in events:
            if self.finished:
                break
            try:
                event = decode_event(data)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._odd(out, data)
            else:
                if block and event.type == _TEXT:
                    # By far the commonest event, on a path of its own: more of the open text.
                    text = event.delta
                    if (
                        event.item_id == item
                        and event.content_index == part
                        and text.__class__ is str
                        and text
                        and not event.logprobs
                    ):
                        payload = DeltaPayload(id=block, text=text)
                        out.append(Chunk(type="text-delta", payload=payload))
                        continue
                self._take(out, event, data)
            block, item, part = self._text
        return out

    # ── events ─────────────────────────────────────────────────────────────────────────────────

    def _event(self, out: list[Chunk], event: Event, data: bytes) -> None:
        self._text = ("", None, None)
        take = self._takers.get(event.type)
        if take is not None:
            take(self, out, event)
        elif event.object == "response":
            self._whole(out, data)
        elif event.error:
            self._error(out, event)

    def _describe(self, out: list[Chunk], event: Event) -> None:
        """What the provider calls its response; again when it tells more."""
        response = mapping(event.response)
        if not self._described or (not self._named and word(response.get("model"))):
            self._described = True
            self._named = bool(word(response.get("model")))
            payload = response_metadata(*map(response.get, ("id", "model", "created_at")))
            out.append(Chunk(type="response-metadata", payload=payload))

    def _text_delta(self, out: list[Chunk], event: Event) -> None:
        message = self._message(out, event)
        text = word(event.delta)
        if message is None or not text:
            return
        if event.logprobs:
            self._logprobs += mappings(event.logprobs)
        message.add(out, event.content_index, text)
        if not self._halves and not self._include_raw:
            self._text = (message.block, event.item_id, event.content_index)

    def _refusal(self, out: list[Chunk], event: Event) -> None:
        message = self._message(out, event)
        if message is not None and word(event.delta):
            message.add(out, event.content_index, event.delta, refusal=True)

    def _annotation(self, out: list[Chunk], event: Event) -> None:
        message = self._message(out, event)
        if message is not None:
            message.annotate(out, event.content_index, mapping(event.annotation))

    def _part_done(self, out: list[Chunk], event: Event) -> None:
        found = self._open.get(_key(event))
        if isinstance(found, MessageItem):
            found.close(out)

    def _summary(self, out: list[Chunk], event: Event) -> None:
        self._thought(out, event, "summary", event.summary_index)

    def _reasoning(self, out: list[Chunk], event: Event) -> None:
        self._thought(out, event, "content", event.content_index)

    def _thought(self, out: list[Chunk], event: Event, kind: str, index: Any) -> None:
        found = self._item(out, event, "reasoning")
        if isinstance(found, ReasoningItem) and word(event.delta):
            found.add(out, kind, index, event.delta)

    def _arguments(self, out: list[Chunk], event: Event) -> None:
        found = self._open.get(_key(event))
        if isinstance(found, CallItem):
            found.add(out, word(event.delta))

    # ── items ──────────────────────────────────────────────────────────────────────────────────

    def _message(self, out: list[Chunk], event: Event) -> MessageItem | None:
        found = self._item(out, event, "message")
        return found if isinstance(found, MessageItem) else None

    def _item(self, out: list[Chunk], event: Event, kind: str) -> OpenItem | None:
        """The item an event is for; a server may begin it without saying so."""
        key = _key(event)
        if key not in self._open and key not in self._done:
            self._begin(out, key, {"type": kind, "id": event.item_id})
        return self._open.get(key)

    def _added(self, out: list[Chunk], event: Event) -> None:
        item = mapping(event.item)
        key = _key(event, item)
        if key not in self._open:
            self._begin(out, key, item)

    def _begin(self, out: list[Chunk], key: Any, item: Item) -> None:
        kind = item.get("type")
        if kind == "message":
            self._open[key] = MessageItem(self._blocks, item, self._after)
        elif kind in ("reasoning", "compaction"):
            self._open[key] = ReasoningItem(out, self._blocks, item)
        else:
            name = tool_name(self._provider, item, self._tools)
            call = CallItem(self._provider, self._halves, item, name, self._after)
            self._open[key] = call
            call.start(out)
        self._after = word(item.get("id")) if kind == "reasoning" else ""

    def _item_done(self, out: list[Chunk], event: Event) -> None:
        item = mapping(event.item)
        self._complete(out, _key(event, item), item)

    def _complete(self, out: list[Chunk], key: Any, item: Item) -> None:
        if key in self._done:
            return
        if key not in self._open:
            self._begin(out, key, item)
        self._done |= {key, word(item.get("id")) or key}
        done = self._open.pop(key)
        done.done(out, item)
        if isinstance(done, CallItem) and not done.hosted:
            self._called = True

    # ── the end ────────────────────────────────────────────────────────────────────────────────

    def _whole(self, out: list[Chunk], data: bytes) -> None:
        """An answer in one piece, from a server that does not stream."""
        event = Event(response=clean_json(value_of(data)))
        self._describe(out, event)
        self._ended(out, event)

    def _ended(self, out: list[Chunk], event: Event) -> None:
        self._describe(out, event)
        response = mapping(event.response)
        status = word(response.get("status")) or event.type.rpartition(".")[2]
        if status == "failed" or response.get("error"):
            return self._fail_with(out, _failure(response), response, status)
        for index, item in enumerate(mappings(response.get("output"))):
            # What events have not brought, by its place or by its id.
            if index not in self._done and word(item.get("id")) not in self._done:
                by_id = word(item.get("id")) in self._open
                self._complete(out, item["id"] if by_id else index, item)
        self._close(out)
        word_of_it = mapping(response.get("incomplete_details")).get("reason")
        if status == "completed":
            reason = "tool-calls" if self._called else "stop"
        else:
            reason = _REASONS.get(word(word_of_it), "other")
        if word(word_of_it):
            self._meta["incompleteReason"] = word_of_it
        self._end_as(out, reason, status, response)

    def _close(self, out: list[Chunk]) -> None:
        """Items that nobody has ended: texts are as they are, and so are calls with arguments."""
        for key, item in list(self._open.items()):
            if isinstance(item, CallItem) and item.hosted:
                continue  # without its result it could never be sent back
            self._complete(out, key, {})

    def _end_as(self, out: list[Chunk], reason: str, raw: str, response: Item) -> None:
        meta = self._meta
        for name, own in (("id", "responseId"), ("service_tier", "serviceTier")):
            if word(response.get(name)):
                meta[own] = response[name]
        if self._logprobs:
            meta["logprobs"] = self._logprobs
        self._put_finish(out, reason, raw or None, usage_of(response.get("usage")), meta)

    def _finish(self, out: list[Chunk], reason: str | None = None) -> None:
        self._end_as(out, reason or ("tool-calls" if self._called else "other"), "", {})

    def _error(self, out: list[Chunk], event: Event) -> None:
        error = event.error
        if not error:
            error = {"type": word(event.code), "message": word(event.message)}
        self._fail_with(out, error, {}, "")

    def _fail_with(self, out: list[Chunk], error: Any, response: Item, raw: str) -> None:
        self.failed = True
        out.append(Chunk(type="error", payload=ErrorPayload(error=streamed_error(error))))
        self._end_as(out, "error", raw, response)

    def _odd(self, out: list[Chunk], data: bytes) -> None:
        super()._odd(out, data)
        self._text = ("", None, None)

    def _end_marked(self, out: list[Chunk]) -> None:
        self._close(out)
        self._finish(out)

    def _loose(self, value: Any) -> list[Event]:
        return [msgspec.convert(clean_but(value, ("delta",)), Event)]

    _takers: ClassVar[dict[str, Callable[[Any, list[Chunk], Event], None]]] = {
        "response.created": _describe,
        "response.in_progress": _describe,
        "response.queued": _describe,
        "response.output_item.added": _added,
        "response.output_item.done": _item_done,
        "response.content_part.done": _part_done,
        _TEXT: _text_delta,
        "response.refusal.delta": _refusal,
        "response.output_text.annotation.added": _annotation,
        "response.reasoning_summary_text.delta": _summary,
        "response.reasoning_text.delta": _reasoning,
        "response.function_call_arguments.delta": _arguments,
        "response.mcp_call_arguments.delta": _arguments,
        "response.custom_tool_call_input.delta": _arguments,
        "response.code_interpreter_call_code.delta": _arguments,
        "response.completed": _ended,
        "response.incomplete": _ended,
        "response.failed": _ended,
        "response.cancelled": _ended,
        "error": _error,
    }


def _key(event: Event, item: Item | None = None) -> int | str:
    if event.output_index is not None:
        return event.output_index
    return event.item_id or word((item or {}).get("id"))


def _failure(response: Item) -> Any:
    error = response.get("error")
    if isinstance(error, dict):
        return {"type": mapping(error).get("code"), **mapping(error)}
    return error or {"message": "the provider reports that the response failed"}
