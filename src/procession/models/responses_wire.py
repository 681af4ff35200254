"""The records of an OpenAI Responses stream, down to the fields that are used.

Field types are loose on purpose: several servers speak this format, and not all of them exactly.
Items stay plain mappings, because what they hold goes back to the provider as it came.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ..chunks import Usage
from .json_values import count, mapping

__all__ = ["Event", "Item", "decode_event", "usage_of"]

Item = dict[str, Any]
"""An output item, as the provider wrote it."""


class Event(Struct, gc=False):
    """One event of the stream."""

    type: str = ""
    delta: Any = None
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item: Any = None
    annotation: Any = None
    logprobs: Any = None
    response: Any = None
    error: Any = None
    code: Any = None
    message: Any = None
    object: Any = None  # `response`, where a server answers in one piece although asked to stream


decode_event = msgspec.json.Decoder(Event).decode
"""The event that a record of the stream stands for; raises `msgspec.DecodeError`."""


def usage_of(record: Any) -> Usage:
    """The counts of a usage record; what it does not say stays unknown (G-P3)."""
    given = mapping(record)
    if not given:
        return Usage()
    inputs = mapping(given.get("input_tokens_details"))
    outputs = mapping(given.get("output_tokens_details"))
    return Usage(
        input_tokens=count(given.get("input_tokens")),
        output_tokens=count(given.get("output_tokens")),
        total_tokens=count(given.get("total_tokens")),
        reasoning_tokens=count(outputs.get("reasoning_tokens")),
        cached_input_tokens=count(inputs.get("cached_tokens")),
        cache_creation_input_tokens=count(inputs.get("cache_write_tokens")),
        raw=given,
    )
