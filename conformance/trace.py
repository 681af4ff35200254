"""The forms in which traces hold what the library gives: usage, errors, chunks, messages, prompts.

What may differ from run to run (times, headers) and what is the library's bookkeeping is left out;
what belongs to the user is kept as it is.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from procession.chunks import Usage
from procession.records import Record, plain

VOLATILE = frozenset(
    "runId from createdAt updatedAt timestamp startedAt endedAt acceptedAt headers request "
    "modelMetadata traceId spanId".split()
)
BOOKKEEPING = "mastra"
"""The key under which the library keeps notes of its own in provider metadata."""


def without(form: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """A copy that lacks some keys."""
    gone = frozenset(names)
    return {key: value for key, value in form.items() if key not in gone}


def json_form(value: Any) -> dict[str, Any]:
    """A record, or a mapping that stands for one, as plain JSON data."""
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, Mapping):
        return plain(dict(value))
    # A cached chunk has just these two.
    return {"type": value.type, "payload": plain(value.payload)}


def usage_form(usage: Usage | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The three counts every provider gives."""
    if usage is None:
        return None
    form = json_form(usage)
    return {key: form.get(key) for key in ("inputTokens", "outputTokens", "totalTokens")}


def error_form(error: Any) -> Any:
    """`{message, statusCode?, isRetryable?}` of an exception or its JSON form."""
    if error is None:
        return None
    form = plain(error)
    if not isinstance(form, dict):
        return {"message": str(form)}
    return {
        key: form[key]
        for key in ("message", "statusCode", "isRetryable")
        if form.get(key) is not None
    }


def metadata_form(metadata: Mapping[str, Any] | None, *drop: str) -> dict[str, Any] | None:
    """Metadata without the library's own entries; nothing at all when nothing is left."""
    kept = without(plain(dict(metadata or {})), (BOOKKEEPING, *drop))
    signal = kept.get("signal")
    if isinstance(signal, dict):
        kept["signal"] = without(signal, ("createdAt", "acceptedAt"))
    return kept or None


def _tidy_provider_data(form: dict[str, Any]) -> dict[str, Any]:
    """Leave the library's notes out of provider metadata and options, but for `modelOutput`."""
    for key in ("providerMetadata", "providerOptions"):
        data = form.get(key)
        if not isinstance(data, dict) or not isinstance(data.get(BOOKKEEPING), dict):
            continue
        output = {k: v for k, v in data[BOOKKEEPING].items() if k == "modelOutput"}
        kept = without(data, (BOOKKEEPING,)) | ({BOOKKEEPING: output} if output else {})
        form = without(form, (key,)) | ({key: kept} if kept else {})
    return form


def chunk_form(chunk: Any) -> dict[str, Any]:
    """A chunk as `{type, payload}`, or with `data` or `object`."""
    form = json_form(chunk)
    kind: str = form["type"]
    payload = form.get("payload")
    if kind.startswith("data-"):
        return _data_form(form)
    if "object" in form:
        return {"type": kind, "object": form["object"]}
    if kind == "tripwire":
        return {"type": kind, "from": form.get("from"), "payload": payload}
    out: dict[str, Any] = {"type": kind}
    if payload is not None:
        out["payload"] = _payload_form(kind, payload)
    if "data" in form:
        out["data"] = form["data"]
    return out


def _data_form(form: dict[str, Any]) -> dict[str, Any]:
    out = {key: form[key] for key in ("type", "data", "id", "transient") if key in form}
    if form["type"] in ("data-signal", "data-user-message") and isinstance(out.get("data"), dict):
        out["data"] = without(out["data"], ("createdAt", "acceptedAt"))
    return out


def _payload_form(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    if kind == "start":
        return {}
    if kind == "step-start":
        return {"messageId": payload.get("messageId")}
    if kind == "response-metadata":
        return {key: payload[key] for key in ("id", "modelId") if key in payload}
    if kind in ("step-finish", "finish"):
        return _finish_form(payload)
    form = _tidy_provider_data(without(payload, VOLATILE))
    if kind in ("error", "tool-error"):
        form["error"] = error_form(form.get("error"))
    return form


def _finish_form(payload: dict[str, Any]) -> dict[str, Any]:
    outcome: dict[str, Any] = payload.get("stepResult") or {}
    output: dict[str, Any] = payload.get("output") or {}
    form = {key: payload[key] for key in ("messageId",) if key in payload}
    form |= {key: outcome[key] for key in ("reason", "isContinued") if key in outcome}
    form["output"] = {key: output[key] for key in ("text",) if key in output}
    form["output"]["usage"] = usage_form(output.get("usage") or {})
    return form


def part_form(part: Any) -> dict[str, Any]:
    """A part of a message."""
    form = _tidy_provider_data(without(json_form(part), VOLATILE))
    if form["type"] == "step-start":
        form.pop("model", None)
    if form["type"] == "error":
        form["error"] = error_form(form.get("error"))
    return form


def message_form(message: Any) -> dict[str, Any]:
    """A message in database form."""
    form = {
        "id": message.id,
        "role": message.role,
        "type": message.type,
        "threadId": message.thread_id,
        "resourceId": message.resource_id,
        "parts": [part_form(part) for part in message.content.parts],
        "metadata": metadata_form(message.content.metadata, "modelId", "provider"),
    }
    return {key: value for key, value in form.items() if value is not None}


def prompt_form(prompt: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A provider prompt."""
    out: list[dict[str, Any]] = []
    for entry in prompt:
        form = _tidy_provider_data(without(plain(dict(entry)), VOLATILE))
        if isinstance(form.get("content"), list):
            form["content"] = [
                _tidy_provider_data(without(part, VOLATILE)) for part in form["content"]
            ]
        out.append(form)
    return out


def tripwire_form(tripwire: Any) -> dict[str, Any] | None:
    """`{reason, processorId, retry?, metadata?}`."""
    if tripwire is None:
        return None
    form = {"reason": tripwire.reason, "processorId": tripwire.processor_id}
    if tripwire.retry:
        form["retry"] = True
    if tripwire.metadata is not None:
        form["metadata"] = plain(tripwire.metadata)
    return form


def step_outline(step: Any) -> dict[str, Any]:
    """A step as hooks see it: `{text, finishReason, toolCalls, toolResults}`."""
    return {
        "text": step.text,
        "finishReason": step.finish_reason,
        "toolCalls": [chunk.payload.tool_name for chunk in step.tool_calls],
        "toolResults": [plain(chunk.payload.result) for chunk in step.tool_results],
    }


def step_form(step: Any) -> dict[str, Any]:
    """A step of a result: its outline, with tokens and the verdict on it."""
    form = step_outline(step) | {"usage": usage_form(step.usage)}
    if step.tripwire is not None:
        form["tripwire"] = tripwire_form(step.tripwire)
    return form
