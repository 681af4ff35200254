"""Spans in the words of OpenTelemetry's conventions for generative AI.

A call of a model is `chat <model>`, a run of an agent `invoke_agent <name>`, a call of a tool
`execute_tool <name>`. Whatever the conventions have no word for stands under `procession.`. Tokens
have their conventional names on calls of models only, so that who adds them up counts each once
(G-P4); on runs and steps they are `procession.usage.…`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ..option_checks import is_texts

if TYPE_CHECKING:
    from ...trace_store import ExportedSpan

__all__ = ["Conventional", "conventional"]


class Conventional(Struct):
    """Name and attributes of a span; `is_client` for one that asks somebody outside."""

    name: str
    attributes: dict[str, Any]
    is_client: bool = False


_USAGE = {
    "inputTokens": "gen_ai.usage.input_tokens",
    "outputTokens": "gen_ai.usage.output_tokens",
    "reasoningTokens": "gen_ai.usage.reasoning.output_tokens",
    "cachedInputTokens": "gen_ai.usage.cache_read.input_tokens",
    "cacheCreationInputTokens": "gen_ai.usage.cache_creation.input_tokens",
}
_PARAMETERS = {
    "temperature": "gen_ai.request.temperature",
    "max_output_tokens": "gen_ai.request.max_tokens",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "seed": "gen_ai.request.seed",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
}
_PROVIDERS = {
    "google": "gcp.gemini",
    "azure": "azure.ai.openai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "openai-responses": "openai",
}
"""Providers that are called otherwise there."""


def conventional(span: ExportedSpan) -> Conventional:
    """A span as OpenTelemetry's readers expect it."""
    make = _MAKERS.get(span.type)
    made = Conventional(span.name, {}) if make is None else make(span)
    out = made.attributes
    out["procession.span.type"] = span.type
    rest = {
        "entity.type": span.entity_type,
        "entity.id": span.entity_id,
        "entity.name": span.entity_name,
        "run.id": span.run_id,
        "input": span.input,
        "output": span.output,
        "tags": span.tags,
        "metadata": span.metadata,
        "request_context": span.request_context,
        **span.attributes,
    }
    for key, value in rest.items():
        _put(out, f"procession.{key}", value)
    if span.error_info is not None:
        out["error.type"] = str(span.error_info.get("name"))
    return made


def _put(out: dict[str, Any], key: str, value: Any) -> None:
    """An attribute: plain values as they are, lists of texts too, anything else as JSON."""
    if value is None:
        return
    if isinstance(value, bool | int | float | str):
        out[key] = value
    elif _is_texts(value):
        out[key] = value
    else:
        out[key] = json.dumps(value, ensure_ascii=False, default=str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(cast("Any", value)) and is_texts(value)


def _call(span: ExportedSpan) -> Conventional:
    said = span.attributes
    model, provider = str(said.get("model", "")), str(said.get("provider", ""))
    out: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}
    _put(out, "gen_ai.provider.name", _PROVIDERS.get(provider, provider) or None)
    _put(out, "gen_ai.response.model", said.get("response_model"))
    _put(out, "gen_ai.response.id", said.get("response_id"))
    _put(out, "gen_ai.request.stream", said.get("streaming"))
    if said.get("finish_reason") is not None:
        out["gen_ai.response.finish_reasons"] = [str(said["finish_reason"])]
    for given, names in (("usage", _USAGE), ("parameters", _PARAMETERS)):
        for key, value in _entries(said.get(given)):
            if key in names:
                _put(out, names[key], value)
    return Conventional(f"chat {model}".strip(), out, is_client=True)


def _agent(span: ExportedSpan) -> Conventional:
    name = span.entity_name or span.entity_id or ""
    out: dict[str, Any] = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    _put(out, "gen_ai.agent.id", span.entity_id)
    _put(out, "gen_ai.conversation.id", span.attributes.get("thread_id"))
    if span.input is not None:
        out["gen_ai.input.messages"] = json.dumps(_messages(span.input), ensure_ascii=False)
    text = dict(_entries(span.output)).get("text")
    if text is not None:
        answer: dict[str, Any] = {
            "role": "assistant",
            "parts": [{"type": "text", "content": text}],
        }
        if span.attributes.get("finish_reason"):
            answer["finish_reason"] = span.attributes["finish_reason"]
        out["gen_ai.output.messages"] = json.dumps([answer], ensure_ascii=False)
    own = span.name if not span.name.startswith("agent run:") else f"invoke_agent {name}"
    return Conventional(own, out)


def _messages(given: Any) -> list[dict[str, Any]]:
    """Messages in the form of the conventions; parts that are no text are named only."""
    return [
        {"role": str(role), "parts": [_part(part) for part in _items(parts)]}
        for message in _items(given)
        for said in (dict(_entries(message)),)
        if (parts := said.get("parts")) and (role := said.get("role"))
    ]


def _part(part: Any) -> dict[str, Any]:
    said = dict(_entries(part))
    kind = str(said.get("type"))
    return {"type": kind, "content": said.get("text", "")} if kind == "text" else {"type": kind}


def _entries(value: Any) -> list[tuple[str, Any]]:
    return list(cast("dict[str, Any]", value).items()) if isinstance(value, dict) else []


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _tool(span: ExportedSpan) -> Conventional:
    said = span.attributes
    out: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": span.entity_name or "",
    }
    _put(out, "gen_ai.tool.call.id", said.get("tool_call_id"))
    _put(out, "gen_ai.tool.type", said.get("tool_type"))
    _put(out, "gen_ai.tool.description", said.get("tool_description"))
    for value, name in ((span.input, "arguments"), (span.output, "result")):
        if value is not None:
            out[f"gen_ai.tool.call.{name}"] = json.dumps(value, ensure_ascii=False)
    return Conventional(f"execute_tool {span.entity_name or ''}".strip(), out)


def _workflow(span: ExportedSpan) -> Conventional:
    name = span.entity_name or span.entity_id or ""
    out = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": name}
    return Conventional(span.name, out)


_MAKERS = {
    "agent_run": _agent,
    "model_generation": _call,
    "tool_call": _tool,
    "workflow_run": _workflow,
}
