"""The records of an OpenAI chat completion stream, down to the fields that are used.

Field types are loose on purpose: dozens of servers speak this format, and few of them exactly.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import msgspec
from msgspec import Struct

from ..chunks import ResponseMetadataPayload, Usage

__all__ = [
    "Call",
    "Choice",
    "Delta",
    "Event",
    "Function",
    "Heading",
    "PlainEvent",
    "decode_event",
    "decode_heading",
    "decode_plain",
    "metadata_of",
    "usage_of",
]


class Function(Struct, gc=False):
    """What a call names and the text of its arguments, or a piece of it."""

    name: str | None = None
    arguments: Any = None


class Call(Struct, gc=False):
    """A tool call, or a fragment of one."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class PlainDelta(Struct, gc=False):
    """What one event adds to the answer, down to what may stand beside a piece of its text."""

    content: Any = None
    tool_calls: list[Call] | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    function_call: Function | None = None
    annotations: Any = None


class Delta(PlainDelta, gc=False):
    """What one event adds to the answer."""

    reasoning_details: Any = None  # thoughts in records, some of them signed or encrypted
    images: Any = None
    executed_tools: Any = None


class PlainChoice(Struct, gc=False):
    """One of the answers asked for; there is one."""

    delta: PlainDelta | None = None
    finish_reason: Any = None
    index: int | None = None
    logprobs: Any = None


class Choice(Struct, gc=False):
    """One of the answers asked for; there is one."""

    delta: Delta | None = None
    finish_reason: Any = None
    index: int | None = None
    logprobs: Any = None
    message: Delta | None = None  # where a server answers in one piece although asked to stream
    usage: Any = None  # where one provider puts it


class PlainEvent(Struct, gc=False):
    """An event in the middle of a text, down to what tells that it brings more text only."""

    choices: list[PlainChoice] | None = None
    usage: Any = None
    error: Any = None


class Event(Struct, gc=False):
    """One event of the stream."""

    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: Any = None  # where one provider puts the usage
    search_results: Any = None
    citations: Any = None


class Heading(Struct, gc=False):
    """What every event repeats about the response; read once."""

    id: Any = None
    model: Any = None
    created: Any = None


decode_event = msgspec.json.Decoder(Event).decode
"""The event that a record of the stream stands for; raises `msgspec.DecodeError`."""

decode_plain = msgspec.json.Decoder(PlainEvent).decode
"""The same, read faster."""

decode_heading = msgspec.json.Decoder(Heading).decode
"""The heading of the same record."""


def metadata_of(heading: Heading) -> ResponseMetadataPayload:
    """What the provider calls this response."""
    payload = ResponseMetadataPayload()
    if heading.id and isinstance(heading.id, str):
        payload.id = heading.id
    if heading.model and isinstance(heading.model, str):
        payload.model_id = heading.model
    if heading.created and isinstance(heading.created, int | float):
        payload.timestamp = datetime.fromtimestamp(heading.created, UTC)
    return payload


def usage_of(record: Any) -> Usage:
    """The counts of a usage record; what it does not say stays unknown (G-P3)."""
    if not isinstance(record, dict):
        return Usage()
    given = cast("dict[str, Any]", record)
    inputs, outputs = (_details(given, name) for name in ("prompt", "completion"))
    cached = (inputs.get("cached_tokens"), *(given.get(name) for name in _CACHED))
    return Usage(
        input_tokens=_count(given.get("prompt_tokens")),
        output_tokens=_count(given.get("completion_tokens")),
        total_tokens=_count(given.get("total_tokens")),
        reasoning_tokens=_count(outputs.get("reasoning_tokens", given.get("reasoning_tokens"))),
        cached_input_tokens=next((_count(count) for count in cached if count is not None), None),
        cache_creation_input_tokens=_count(inputs.get("cache_write_tokens")),
        raw=given,
    )


_CACHED = ("cached_tokens", "prompt_cache_hit_tokens")
"""Where some servers count what was read from a cache, beside the place that OpenAI has for it."""


def _details(usage: dict[str, Any], of: str) -> dict[str, Any]:
    details = usage.get(f"{of}_tokens_details")
    return cast("dict[str, Any]", details) if isinstance(details, dict) else {}


def _count(value: Any) -> int | None:
    return value if type(value) is int else None
