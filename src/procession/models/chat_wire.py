"""The records of an OpenAI chat completion stream, down to the fields that are used.

Field types are loose on purpose: dozens of servers speak this format, and few of them exactly.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ..chunks import Usage
from .json_values import count, mapping

__all__ = [
    "Call",
    "Choice",
    "Delta",
    "Event",
    "Function",
    "PlainEvent",
    "decode_event",
    "decode_plain",
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


decode_event = msgspec.json.Decoder(Event).decode
"""The event that a record of the stream stands for; raises `msgspec.DecodeError`."""

decode_plain = msgspec.json.Decoder(PlainEvent).decode
"""The same, read faster."""


def usage_of(record: Any) -> Usage:
    """The counts of a usage record; what it does not say stays unknown (G-P3)."""
    given = mapping(record)
    if not given:
        return Usage()
    inputs = mapping(given.get("prompt_tokens_details"))
    outputs = mapping(given.get("completion_tokens_details"))
    cached = (inputs.get("cached_tokens"), *(given.get(name) for name in _CACHED))
    return Usage(
        input_tokens=count(given.get("prompt_tokens")),
        output_tokens=count(given.get("completion_tokens")),
        total_tokens=count(given.get("total_tokens")),
        reasoning_tokens=count(outputs.get("reasoning_tokens", given.get("reasoning_tokens"))),
        cached_input_tokens=next((count(found) for found in cached if found is not None), None),
        cache_creation_input_tokens=count(inputs.get("cache_write_tokens")),
        raw=given,
    )


_CACHED = ("cached_tokens", "prompt_cache_hit_tokens")
"""Where some servers count what was read from a cache, beside the place that OpenAI has for it."""
