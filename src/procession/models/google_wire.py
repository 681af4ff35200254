"""The records of a Gemini answer, down to the fields that are used.

What is only handed on (grounding, ratings) stays plain data; the usage, which every event repeats
and only the last one is asked for, stays text until then.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from ..chunks import ResponseMetadataPayload, Usage
from .answer_events import response_metadata
from .json_values import clean_but, count

__all__ = [
    "Candidate",
    "Event",
    "Part",
    "decode_event",
    "decode_events",
    "loose_events",
    "metadata_of",
    "usage_of",
]


class Part(Struct, rename="camel", gc=False):
    """A piece of content: one of its kinds, perhaps with a signature."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: Any = None
    executable_code: Any = None
    code_execution_result: Any = None
    tool_call: Any = None
    tool_response: Any = None
    inline_data: Any = None
    file_data: Any = None


class Content(Struct, gc=False):
    """What one event adds to an answer."""

    parts: list[Part] | None = None


class Candidate(Struct, rename="camel", gc=False):
    """One of the answers asked for; there is one."""

    content: Content | None = None
    finish_reason: Any = None
    finish_message: Any = None
    index: int | None = None
    grounding_metadata: Any = None
    citation_metadata: Any = None
    url_context_metadata: Any = None
    safety_ratings: Any = None


NO_USAGE = Raw()


class Event(Struct, rename="camel", gc=False):
    """One event of the stream."""

    candidates: list[Candidate] | None = None
    usage_metadata: Raw = NO_USAGE
    prompt_feedback: Any = None
    error: Any = None
    response_id: Any = None
    model_version: Any = None
    create_time: Any = None


decode_event = msgspec.json.Decoder(Event).decode
"""The event that a record of the stream stands for; raises `msgspec.DecodeError`."""

decode_events = msgspec.json.Decoder(list[Event]).decode
"""The events of an answer in one array, as it comes where nobody asked for server-sent events."""


_GROWING = ("candidates", "content", "parts", "text")


def loose_events(value: Any) -> list[Event]:
    """Events of plain data, from texts that only a lenient reader takes; else `ValueError`."""
    records = cast("list[Any]", value if isinstance(value, list) else [value])
    events: list[Event] = []
    for record in records:
        if not isinstance(record, dict):
            raise ValueError("an event is an object")
        given: dict[str, Any] = clean_but(record, _GROWING)
        usage = given.pop("usageMetadata", None)
        event = msgspec.convert(given, Event)
        if isinstance(usage, dict):
            event.usage_metadata = Raw(msgspec.json.encode(usage))
        events.append(event)
    return events


def metadata_of(event: Event) -> ResponseMetadataPayload:
    """What the provider calls this response."""
    payload = response_metadata(event.response_id, event.model_version)
    if isinstance(event.create_time, str):
        with suppress(ValueError):  # no time, or half a character in it
            payload.timestamp = msgspec.convert(event.create_time, datetime)
    return payload


def usage_of(raw: Raw) -> Usage:
    """The counts of a usage record; what it does not say stays unknown (G-P3).

    Gemini counts thoughts apart from the answer, and what its own tools read apart from the prompt.
    Here output and input are everything that was generated and read, as with other providers:
    their sum is the total.
    """
    try:
        record = msgspec.json.decode(raw) if raw else None
    except msgspec.DecodeError:
        record = None
    if not isinstance(record, dict):
        return Usage()
    given = cast("dict[str, Any]", record)
    thoughts = count(given.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=_sum(
            count(given.get("promptTokenCount")), count(given.get("toolUsePromptTokenCount"))
        ),
        output_tokens=_sum(count(given.get("candidatesTokenCount")), thoughts),
        total_tokens=count(given.get("totalTokenCount")),
        reasoning_tokens=thoughts,
        cached_input_tokens=count(given.get("cachedContentTokenCount")),
        raw=given,
    )


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
