"""The response of a step as it is kept, and what is made of it again (C-063, C-071, C-090)."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypedDict, cast

import msgspec

from ...chunks import Chunk, payload_from_json
from ...engine.misfits import read_problem
from ...errors import InputError
from ...processor import CachedLLMStepChunk, CachedLLMStepResponse
from ...records import clean_json, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...processor import ProcessLLMResponseArgs

__all__ = ["Pending", "entry_of", "form_of", "read_entry", "take"]

_ENDED_WELL = frozenset({"stop", "length", "tool-calls"})
"""Other reasons say that the answer is not what was asked for (C-093)."""
_NEVER_KEPT = frozenset({"step-start"})
"""Which the engine makes anew, with ids of the run."""
_NEVER_READ = frozenset({"error", "abort", "tripwire", "raw"})
_HEADERS = "headers"


class Pending(TypedDict):
    """A response that is to be written when its run has ended well. It is JSON data, as states
    are that a waiting run is kept with.
    """

    key: str
    form: str | None
    """Which form of answer was asked for."""
    entry: dict[str, Any]
    """What will be written; empty until the model has answered, or when it has not ended well."""
    calls: list[str]
    """The calls whose results belong to it."""
    results: dict[str, Any]


def take(pending: Pending, args: ProcessLLMResponseArgs) -> None:
    """Note the response of a step; the results of its tools come as they come."""
    kept = [chunk for chunk in args.chunks if chunk.type not in _NEVER_KEPT]
    if _reason(kept) not in _ENDED_WELL:
        return
    chunks = [{"type": chunk.type, "payload": _slim(chunk)} for chunk in kept]
    pending["calls"] = _calls(chunks)
    if pending["calls"]:
        args.on_tool_result(pending["results"].__setitem__)
    found = {
        "form": pending["form"],
        "warnings": plain(args.warnings),
        "request": _json_or_none(args.request),
        "rawResponse": _json_or_none(args.raw_response),
    }
    pending["entry"] = {"chunks": chunks, **{name: v for name, v in found.items() if v}}


def entry_of(pending: Pending) -> dict[str, Any] | None:
    """What is kept, as JSON data; `None` when something is missing that a replay would need."""
    calls, results = pending["calls"], pending["results"]
    if not pending["entry"] or not results.keys() >= set(calls):
        return None
    known = {"toolResults": {id: results[id] for id in calls}} if calls else {}
    return {**pending["entry"], **known}


def _reason(chunks: Sequence[CachedLLMStepChunk]) -> Any:
    for chunk in reversed(chunks):
        if chunk.type == "finish":
            outcome: dict[str, Any] = chunk.payload.get("stepResult") or {}
            return outcome.get("reason")
    return None


def _slim(chunk: CachedLLMStepChunk) -> dict[str, Any]:
    """A payload without what belongs to one call: headers, which may hold secrets, and times."""
    payload = dict(chunk.payload)
    if chunk.type == "response-metadata":
        payload.pop("timestamp", None)
        payload.pop(_HEADERS, None)
    metadata = payload.get("metadata")
    if chunk.type == "finish" and isinstance(metadata, dict) and _HEADERS in metadata:
        given = cast("dict[str, Any]", metadata)
        payload["metadata"] = {k: v for k, v in given.items() if k != _HEADERS}
    return payload


def _calls(chunks: Sequence[Mapping[str, Any]]) -> list[str]:
    """The calls that are ours to answer: the provider's own come with their results."""
    return [
        chunk["payload"]["toolCallId"]
        for chunk in chunks
        if chunk["type"] == "tool-call" and not chunk["payload"].get("providerExecuted")
    ]


def _json_or_none(value: Any) -> Any:
    """Plain data as it is, without headers; what is no plain data is left out."""
    if not value:
        return None
    try:
        made: Any = msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    if not isinstance(made, dict):
        return made
    return {k: v for k, v in cast("dict[str, Any]", made).items() if k != _HEADERS}


def form_of(response_format: Mapping[str, Any] | None) -> str | None:
    """Which form of answer is asked for: a text has none."""
    if not response_format:
        return None
    said = msgspec.json.encode(plain(response_format), order="deterministic")
    return hashlib.sha256(said).hexdigest()[:16]


def read_entry(entry: Any, form: str | None) -> CachedLLMStepResponse | None:
    """The response to replay; `None` for one that answers in another form.

    Raises `InputError` for anything that is no whole response.
    """
    try:
        return _read(entry, form)
    except (TypeError, KeyError, AttributeError, ValueError):
        raise InputError("what the cache gave is no response of a model") from None


def _read(entry: Any, form: str | None) -> CachedLLMStepResponse | None:
    kept = cast("dict[str, Any]", entry)
    stored, results = kept["chunks"], kept.get("toolResults", {})
    chunks = [_anew(chunk["type"], dict(chunk["payload"])) for chunk in stored]
    calls = _calls(stored)
    _check_whole(chunks, calls, results)
    if kept.get("form") != form:
        return None
    return CachedLLMStepResponse(
        chunks=chunks,
        tool_results={id: results[id] for id in calls},
        warnings=[*kept.get("warnings", ())],
        request={**kept.get("request", {})},
        raw_response=kept.get("rawResponse"),
    )


def _anew(kind: str, payload: dict[str, Any]) -> CachedLLMStepChunk:
    if kind == "response-metadata":
        payload["timestamp"] = datetime.now(UTC)  # C-071
    return CachedLLMStepChunk(kind, payload)


def _check_whole(chunks: list[CachedLLMStepChunk], calls: list[str], results: Any) -> None:
    made = [Chunk(chunk.type, payload_from_json(chunk.type, chunk.payload)) for chunk in chunks]
    if (problem := read_problem(made)) is not None:
        raise InputError(problem)
    kinds = {chunk.type for chunk in made}
    if "finish" not in kinds or kinds & _NEVER_READ:
        raise InputError("there is no end to it")
    if len(set(calls)) != len(calls) or not set(calls) <= results.keys():
        raise InputError("results of its tools are missing")
    clean_json(results)  # raises for what is nested too deeply to be a result
