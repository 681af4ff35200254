"""What an adapter makes of an answer, in the form of the expected files."""

import json
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

from procession.chunks import Chunk, Usage
from procession.errors import APICallError
from procession.model import ModelRequest

from .items import items_of

__all__ = ["read"]

Json = dict[str, Any]


async def read(model: Any, api: str) -> Json:
    """Ask the model anything, and write down what it answered."""
    prompt = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    chunks: list[Chunk] = []
    try:
        async with aclosing(model.stream(ModelRequest(prompt=prompt, settings={}))) as answer:
            async for read in answer:
                chunks += read
    except APICallError as error:
        return _failed(error, error.status_code)
    failure = next((chunk.payload.error for chunk in chunks if chunk.type == "error"), None)
    if failure is not None:
        return _failed(failure, _stated_code(failure))
    return _meaning(chunks, api)


def _failed(error: Exception, status: Any) -> Json:
    return {"error": {"type": type(error).__name__, "status": status, "message": str(error)}}


def _stated_code(error: Exception) -> Any:
    """How the provider itself calls an error that came inside a stream.

    That stream began with status 200; the official clients show the record's `code` instead.
    """
    body = getattr(error, "response_body", None)
    try:
        record = json.loads(body or "null")
    except ValueError:
        record = None
    code = record.get("code") if isinstance(record, dict) else None
    return getattr(error, "status_code", None) if code is None else str(code)


def _meaning(chunks: list[Chunk], api: str) -> Json:
    finish = next((chunk.payload for chunk in chunks if chunk.type == "finish"), None)
    texts = _texts(chunks)
    found: Json = {
        "text": texts["text"],
        "reasoning": texts["reasoning"],
        "toolCalls": _calls(chunks, api),
        "finish": finish.step_result.raw_reason if finish is not None else None,
        "usage": _usage(finish.output.usage, api) if finish is not None else None,
    }
    if api == "chat":
        found["refusal"] = texts["refusal"]
    return found | items_of(chunks, api)


def _texts(chunks: Iterable[Chunk]) -> dict[str, str]:
    """The joined text of each kind of block."""
    kinds: dict[str, str] = {}
    pieces: dict[str, list[str]] = {"text": [], "reasoning": [], "refusal": []}
    for chunk in chunks:
        payload = chunk.payload
        if chunk.type == "reasoning-start":
            kinds[payload.id] = "reasoning"
        elif chunk.type == "text-start":
            kinds[payload.id] = "refusal" if _refuses(payload.provider_metadata) else "text"
        elif chunk.type in ("text-delta", "reasoning-delta"):
            pieces[kinds[payload.id]].append(payload.text)
    return {kind: "".join(texts) for kind, texts in pieces.items()}


def _refuses(metadata: Any) -> bool:
    return isinstance(metadata, dict) and any("refusal" in own for own in metadata.values())


def _calls(chunks: Iterable[Chunk], api: str) -> list[Json]:
    """The calls; those that the provider executes itself only where its calls are one kind."""
    calls: list[Json] = []
    for chunk in chunks:
        if chunk.type != "tool-call":
            continue
        payload = chunk.payload
        executed = payload.provider_executed is True
        call: Json = {"name": payload.tool_name, "args": _json(payload.args)}
        if api != "generate":  # that API's calls have no ids
            call["id"] = payload.tool_call_id
        if api == "messages":
            call["providerExecuted"] = executed
        elif executed:
            continue
        calls.append(call)
    return calls


def _json(value: Any) -> Any:
    return value if isinstance(value, dict | list | str | int | float | bool) else None


def _usage(usage: Usage, api: str) -> Json | None:
    counts = {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "total": usage.total_tokens,
        "cached": usage.cached_input_tokens,
        "reasoning": usage.reasoning_tokens,
        "cacheWrite": usage.cache_creation_input_tokens,
    }
    if api == "generate" and isinstance(usage.raw, dict):
        # Its SDK shows two counts that are sums here as they come: without what the provider's own
        # tools read, and without thoughts.
        counts["input"] = usage.raw.get("promptTokenCount")
        counts["output"] = usage.raw.get("candidatesTokenCount")
    if api == "messages" and isinstance(usage.raw, dict):
        # Its SDK shows what came from the cache, or went there, beside the other input.
        counts["input"] = usage.raw.get("input_tokens")
        counts["total"] = None
    known = {name: count for name, count in counts.items() if count is not None}
    return known or None
