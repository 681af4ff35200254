"""The records of an OpenAI Responses stream, down to the fields that are used.

Field types are loose on purpose: several servers speak this format, and not all of them exactly.
Items stay plain mappings, because what they hold goes back to the provider as it came.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
from msgspec import Struct

from ..chunks import ResponseMetadataPayload, Usage

__all__ = ["Event", "Item", "decode_event", "entries", "mapping", "metadata_of", "usage_of", "word"]

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


def mapping(value: Any) -> Item:
    """`value` if it is a JSON object, else an empty one."""
    return cast("Item", value) if isinstance(value, dict) else {}


def entries(value: Any) -> list[Item]:
    """The JSON objects in a list; none if it is no list."""
    return list(map(mapping, cast("list[Any]", value))) if isinstance(value, list) else []


def word(value: Any) -> str:
    """`value` if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def metadata_of(response: Item) -> ResponseMetadataPayload:
    """What the provider calls this response."""
    payload = ResponseMetadataPayload()
    if word(response.get("id")):
        payload.id = response["id"]
    if word(response.get("model")):
        payload.model_id = response["model"]
    created = response.get("created_at")
    if created and isinstance(created, int | float):
        with suppress(ValueError, OverflowError, OSError):  # no time of this world
            payload.timestamp = datetime.fromtimestamp(created, UTC)
    return payload


def usage_of(record: Any) -> Usage:
    """The counts of a usage record; what it does not say stays unknown (G-P3)."""
    given = mapping(record)
    if not given:
        return Usage()
    inputs = mapping(given.get("input_tokens_details"))
    outputs = mapping(given.get("output_tokens_details"))
    return Usage(
        input_tokens=_count(given, "input_tokens"),
        output_tokens=_count(given, "output_tokens"),
        total_tokens=_count(given, "total_tokens"),
        reasoning_tokens=_count(outputs, "reasoning_tokens"),
        cached_input_tokens=_count(inputs, "cached_tokens"),
        cache_creation_input_tokens=_count(inputs, "cache_write_tokens"),
        raw=given,
    )


def _count(given: Item, name: str) -> int | None:
    value = given.get(name)
    return value if type(value) is int else None
