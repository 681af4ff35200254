"""From the stream parts a provider sends to chunks of our form (R-506).

Scripts may be written in either form: chunks, or mappings in the provider form (the stream parts of
`LanguageModelV2`), which recorded exchanges use.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from msgspec import UNSET, structs

from ..chunks import (
    BlockPayload,
    Chunk,
    DeltaPayload,
    ErrorPayload,
    FilePayload,
    FinishPayload,
    ResponseMetadataPayload,
    SourcePayload,
    StepOutcome,
    StepOutput,
    ToolCallPayload,
    ToolInputDeltaPayload,
    ToolInputEndPayload,
    ToolInputStartPayload,
    ToolResultPayload,
    Usage,
    payload_from_json,
)
from ..errors import APICallError, InputError
from ..tools import parse_tool_input

__all__ = ["DELAY", "Part", "as_error", "as_part", "chunk_of", "in_one_piece"]

Part = Chunk | Mapping[str, Any]
"""A chunk, or a mapping in provider form."""

DELAY = "$delay"
"""The type of the part that waits: `{"type": "$delay", "ms": 80}`."""

_DELTAS = ("text-delta", "reasoning-delta")


def as_part(part: Any) -> Part:
    """`part` itself when it can be played; raises `InputError` for anything else."""
    if isinstance(part, Chunk):
        return part
    if isinstance(part, Mapping):
        mapping = cast("Mapping[str, Any]", part)
        if isinstance(mapping.get("type"), str):
            return mapping
    raise InputError(f"a stream part is a Chunk or a mapping with a type, not {part!r:.60}")


def as_error(error: Any) -> Exception:
    """The exception a script means: itself, or made of `{status?, message, retryable?, …}`.

    A mapping with a status, or with `retryable`, is an `APICallError`; one of `kind: "plain"` is an
    ordinary exception.
    """
    if isinstance(error, Exception):
        return error
    if not isinstance(error, Mapping):
        return RuntimeError(str(error))
    form = cast("Mapping[str, Any]", error)
    message = str(form.get("message", ""))
    if form.get("kind") == "plain":
        return RuntimeError(message)
    return APICallError(
        message,
        status_code=form.get("status"),
        is_retryable=bool(form.get("retryable", False)),
        response_body=form.get("body"),
        response_headers=form.get("headers"),
    )


def chunk_of(part: Part) -> Chunk:
    """A fresh chunk for `part`; what is played twice must not share anything."""
    if isinstance(part, Chunk):
        return copy.deepcopy(part)
    kind: str = part["type"]
    make = _MAKERS.get(kind)
    if make is not None:
        return make(kind, part)
    rest = {key: copy.deepcopy(value) for key, value in part.items() if key != "type"}
    if kind.startswith("data-"):
        return Chunk.from_json({"type": kind, **rest})
    return Chunk(type=kind, payload=payload_from_json(kind, rest))


def in_one_piece(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts as a provider that does not stream gives them: one delta per block (R-549).

    The joined delta stands where the block's first one stood. Nothing is carried over an `error`
    part: what follows it was never there.
    """
    kept = list(parts)
    error = next((i for i, part in enumerate(kept) if _type(part) == "error"), len(kept))
    texts: dict[tuple[str, str], list[str]] = {}
    for part in kept[:error]:
        if _type(part) in _DELTAS:
            texts.setdefault(_lane(part), []).append(_delta(part))
    for position, part in enumerate(kept):
        if position > error or _type(part) not in _DELTAS:
            yield part
        elif _lane(part) in texts:
            yield _with_text(part, "".join(texts.pop(_lane(part))))


def _type(part: Part) -> str:
    return part.type if isinstance(part, Chunk) else part["type"]


def _lane(part: Part) -> tuple[str, str]:
    block: str = part.payload.id if isinstance(part, Chunk) else part["id"]
    return _type(part), block


def _delta(part: Part) -> str:
    return part.payload.text if isinstance(part, Chunk) else part["delta"]


def _with_text(part: Part, text: str) -> Part:
    if isinstance(part, Chunk):
        return structs.replace(part, payload=structs.replace(part.payload, text=text))
    return {**part, "delta": text}


def _optional(part: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """The values of `part` under attribute names; what is absent stays absent."""
    return {
        name: copy.deepcopy(part[key]) for name, key in names.items() if part.get(key) is not None
    }


def _block(kind: str, part: Mapping[str, Any]) -> Chunk:
    given = _optional(part, provider_metadata="providerMetadata", signature="signature")
    return Chunk(type=kind, payload=BlockPayload(id=part["id"], **given))


def _text(kind: str, part: Mapping[str, Any]) -> Chunk:
    given = _optional(part, provider_metadata="providerMetadata")
    return Chunk(type=kind, payload=DeltaPayload(id=part["id"], text=part["delta"], **given))


def _source(kind: str, part: Mapping[str, Any]) -> Chunk:
    given = _optional(
        part,
        title="title",
        url="url",
        mime_type="mediaType",
        filename="filename",
        provider_metadata="providerMetadata",
    )
    source_type: str = part.get("sourceType", "url")
    return Chunk(type=kind, payload=SourcePayload(id=part["id"], source_type=source_type, **given))


def _file(kind: str, part: Mapping[str, Any]) -> Chunk:
    given = _optional(part, filename="filename", provider_metadata="providerMetadata")
    data = part["data"]
    if isinstance(data, str):
        given["base64"] = data
    return Chunk(type=kind, payload=FilePayload(data=data, mime_type=part["mediaType"], **given))


def _tool_input_start(kind: str, part: Mapping[str, Any]) -> Chunk:
    given = _optional(
        part,
        provider_executed="providerExecuted",
        provider_metadata="providerMetadata",
        dynamic="dynamic",
    )
    payload = ToolInputStartPayload(tool_call_id=part["id"], tool_name=part["toolName"], **given)
    return Chunk(type="tool-call-input-streaming-start", payload=payload)


def _tool_input_delta(kind: str, part: Mapping[str, Any]) -> Chunk:
    payload = ToolInputDeltaPayload(tool_call_id=part["id"], args_text_delta=part["delta"])
    return Chunk(type="tool-call-delta", payload=payload)


def _tool_input_end(kind: str, part: Mapping[str, Any]) -> Chunk:
    payload = ToolInputEndPayload(tool_call_id=part["id"])
    return Chunk(type="tool-call-input-streaming-end", payload=payload)


def _tool_call(kind: str, part: Mapping[str, Any]) -> Chunk:
    given = _optional(
        part, provider_executed="providerExecuted", provider_metadata="providerMetadata"
    )
    text = part.get("input", "")
    args = parse_tool_input(text) if isinstance(text, str) else copy.deepcopy(text)
    payload = ToolCallPayload(
        tool_call_id=part["toolCallId"], tool_name=part["toolName"], args=args, **given
    )
    return Chunk(type=kind, payload=payload)


def _tool_result(kind: str, part: Mapping[str, Any]) -> Chunk:
    given = _optional(
        part,
        is_error="isError",
        provider_executed="providerExecuted",
        provider_metadata="providerMetadata",
    )
    payload = ToolResultPayload(
        tool_call_id=part["toolCallId"],
        tool_name=part["toolName"],
        result=copy.deepcopy(part.get("result")),
        **given,
    )
    return Chunk(type=kind, payload=payload)


def _finish(kind: str, part: Mapping[str, Any]) -> Chunk:
    usage: Any = part.get("usage") or {}
    reason = part.get("finishReason")
    outcome = StepOutcome(reason=reason, raw_reason=part.get("rawFinishReason", UNSET))
    if reason == "unknown":
        outcome.reason = "other"
        outcome.raw_reason = "unknown"
    output = StepOutput(
        usage=usage if isinstance(usage, Usage) else Usage.from_json(copy.deepcopy(usage))
    )
    payload = FinishPayload(step_result=outcome, output=output)
    metadata = part.get("providerMetadata")
    if metadata is not None:
        payload.metadata = {"providerMetadata": copy.deepcopy(metadata)}
    return Chunk(type=kind, payload=payload)


def _response_metadata(kind: str, part: Mapping[str, Any]) -> Chunk:
    given = _optional(part, id="id", model_id="modelId", timestamp="timestamp")
    return Chunk(type=kind, payload=ResponseMetadataPayload(**given))


def _error(kind: str, part: Mapping[str, Any]) -> Chunk:
    return Chunk(type=kind, payload=ErrorPayload(error=as_error(part.get("error"))))


_MAKERS: dict[str, Callable[[str, Mapping[str, Any]], Chunk]] = {
    "text-start": _block,
    "text-delta": _text,
    "text-end": _block,
    "reasoning-start": _block,
    "reasoning-delta": _text,
    "reasoning-end": _block,
    "source": _source,
    "file": _file,
    "tool-input-start": _tool_input_start,
    "tool-input-delta": _tool_input_delta,
    "tool-input-end": _tool_input_end,
    "tool-call": _tool_call,
    "tool-result": _tool_result,
    "finish": _finish,
    "response-metadata": _response_metadata,
    "error": _error,
}
