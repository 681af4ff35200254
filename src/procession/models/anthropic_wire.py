"""The events of an Anthropic message stream, down to the fields that are used.

Field types are loose where other servers speak this format too, and not all of them exactly.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ..chunks import Usage
from .json_values import count, mapping

__all__ = ["Delta", "Event", "Json", "decode_event", "merged_usage", "usage_of"]

Json = dict[str, Any]


class Delta(Struct, gc=False):
    """What an event adds to a block, or to what is known of the message."""

    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: Any = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: Any = None
    container: Any = None


class Event(Struct, gc=False):
    """One event. The last five fields are there when an answer comes in one piece."""

    type: str | None = None
    index: int | None = None
    delta: Delta | None = None
    content_block: Json | None = None
    message: Json | None = None
    usage: Any = None
    error: Any = None
    context_management: Any = None
    id: Any = None
    model: Any = None
    content: Any = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


decode_event = msgspec.json.Decoder(Event).decode
"""The event that a record of the stream stands for; raises `msgspec.DecodeError`."""


def merged_usage(known: Json, news: Any) -> Json:
    """The counts so far: each event tells totals, which replace earlier ones (G-P2)."""
    return known | {key: value for key, value in mapping(news).items() if value is not None}


def usage_of(given: Json) -> Usage:
    """The counts of a usage record; what it does not say stays unknown (G-P3).

    This API counts what it read from its cache, or wrote there, beside the other input; input is
    all of it here, as it is with other providers.
    """
    fresh = count(given.get("input_tokens"))
    read = count(given.get("cache_read_input_tokens"))
    written = count(given.get("cache_creation_input_tokens"))
    details = mapping(given.get("output_tokens_details"))
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=count(given.get("output_tokens")),
        reasoning_tokens=count(details.get("thinking_tokens")),
        cached_input_tokens=read,
        cache_creation_input_tokens=written,
        raw=given or None,
    )
