"""From a model request to the body of an Anthropic message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from .anthropic_options import own_options, snake, with_cache_control
from .anthropic_schema import native_schema
from .anthropic_turns import Turns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model import ModelRequest, ToolDefinition

__all__ = ["DEFAULT_MAX_TOKENS", "message_body"]

Json = dict[str, Any]

DEFAULT_MAX_TOKENS = 16_384
"""The API insists on a limit: this one, beside what may be thought, where none is given."""


def message_body(model: str, provider: str, request: ModelRequest) -> tuple[Json, list[Json]]:
    """The body, and warnings about what it cannot express.

    Raises `InputError` for a part that this wire format has no place for.
    """
    warnings: list[Json] = []
    options = own_options(provider, request.provider_options)
    for name in _NOT_IN_THE_BODY:
        options.pop(name, None)
    turns = Turns(provider, request.prompt, warnings)
    body: Json = {"model": model, "max_tokens": 0, "messages": turns.messages}
    _put_settings(body, request.settings, warnings)
    _put_tools(body, provider, request, options)
    _put_output(body, turns.system, request.response_format, options)
    if turns.system:
        body["system"] = turns.system
    body |= snake(options)
    if not body["max_tokens"]:
        body["max_tokens"] = DEFAULT_MAX_TOKENS + _thinking_budget(body)
    _drop_beside_thinking(body, warnings)
    body["stream"] = True
    return body, warnings


_NOT_IN_THE_BODY = ("betas", "anthropicBeta")

_SETTINGS = (
    ("max_output_tokens", "max_tokens"),
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("top_k", "top_k"),
    ("stop_sequences", "stop_sequences"),
)
_UNKNOWN = (
    ("seed", "seed"),
    ("presence_penalty", "presencePenalty"),
    ("frequency_penalty", "frequencyPenalty"),
)


def _put_settings(body: Json, settings: Mapping[str, Any], warnings: list[Json]) -> None:
    for ours, theirs in _SETTINGS:
        value = settings.get(ours)
        if value is not None:
            body[theirs] = value
    for ours, name in _UNKNOWN:
        if settings.get(ours) is not None:
            warnings.append({"type": "unsupported-setting", "setting": name})


def _thinking_budget(body: Json) -> int:
    thinking: Any = body.get("thinking")
    budget: Any = cast("Json", thinking).get("budget_tokens") if isinstance(thinking, dict) else 0
    return budget or 0


def _drop_beside_thinking(body: Json, warnings: list[Json]) -> None:
    """The API refuses these while the model thinks (`top_p` from 0.95 on is taken)."""
    thinking: Any = body.get("thinking")
    if not isinstance(thinking, dict) or cast("Json", thinking).get("type") == "disabled":
        return
    for theirs, name in (("temperature", "temperature"), ("top_k", "topK"), ("top_p", "topP")):
        if theirs not in body or (theirs == "top_p" and body["top_p"] >= 0.95):
            continue
        del body[theirs]
        details = "not taken while the model thinks"
        warnings.append({"type": "unsupported-setting", "setting": name, "details": details})


# ── tools ──────────────────────────────────────────────────────────────────────────────────────


def _put_tools(body: Json, provider: str, request: ModelRequest, options: Json) -> None:
    """The caller's tools, then those that the provider executes (option `tools`)."""
    tools = [_tool(tool, provider) for tool in request.tools]
    tools += snake(options.pop("tools", None) or [])
    one_by_one = options.pop("disableParallelToolUse", None)
    if not tools:
        return
    body["tools"] = tools
    choice = _tool_choice(request.tool_choice)
    if one_by_one is not None and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = one_by_one
    body["tool_choice"] = choice


def _tool(tool: ToolDefinition, provider: str) -> Json:
    own = own_options(provider, tool.provider_options)
    form: Json = {"name": tool.name}
    if not own.get("type"):  # tools that the API itself defines have neither
        form["input_schema"] = tool.input_schema
        if tool.description:
            form["description"] = tool.description
    rest = {name: value for name, value in own.items() if name != "cacheControl"}
    return with_cache_control(form | snake(rest), own)


def _tool_choice(choice: str | Mapping[str, Any]) -> Json:
    if not isinstance(choice, str):
        return {"type": "tool", "name": choice["toolName"]}
    return {"type": "any" if choice == "required" else choice}


# ── structured output ──────────────────────────────────────────────────────────────────────────

_JSON_ONLY = "Answer with one JSON value and nothing else: no explanation, no code fence."


def _put_output(
    body: Json, system: list[Json], wanted: Mapping[str, Any] | None, options: Json
) -> None:
    config: Json = snake(options.pop("outputConfig", None) or {})
    effort = options.pop("effort", None)
    if effort is not None:
        config["effort"] = effort
    schema = (wanted or {}).get("schema")
    if schema is not None:
        config["format"] = {"type": "json_schema", "schema": native_schema(schema)}
    elif wanted is not None:
        system.append({"type": "text", "text": _JSON_ONLY})  # it takes no format without a schema
    if config:
        body["output_config"] = config
