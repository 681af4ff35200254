"""From a model request to the body of an OpenAI Responses call.

Nothing is left at the provider: `store` is false unless it is asked for, and what a reasoning model
must see again comes back to us encrypted and goes with the next call.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from .json_values import mapping
from .responses_input import responses_input
from .responses_tools import built_in, own_options, snake_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model import ModelRequest, ToolDefinition
    from .responses_wire import Item

__all__ = ["responses_body"]


def responses_body(model: str, provider: str, request: ModelRequest) -> tuple[Item, list[Item]]:
    """The body, and warnings about what it cannot express.

    Raises `InputError` for a part that this wire format has no place for.
    """
    warnings: list[Item] = []
    options = snake_keys(own_options(provider, request.provider_options))
    strict = options.pop("strict_json_schema", None)
    stored = options.setdefault("store", False) is True
    items = responses_input(request.prompt, provider, warnings, stored=stored)
    body: Item = {"model": model, "input": items}
    _put_settings(body, request, warnings)
    if request.tools:
        body["tools"] = [_tool(tool, provider, strict) for tool in request.tools]
        body["tool_choice"] = _tool_choice(request, provider)
    _put_text(body, options, request, strict)
    _put_reasoning(body, options)
    _put_include(body, options, reasons=provider == "openai" and _may_reason(model) and not stored)
    return {**body, **options, "stream": True}, warnings


_SETTINGS = (
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("max_output_tokens", "max_output_tokens"),
)
_UNSUPPORTED = (
    ("top_k", "topK"),
    ("seed", "seed"),
    ("stop_sequences", "stopSequences"),
    ("presence_penalty", "presencePenalty"),
    ("frequency_penalty", "frequencyPenalty"),
)


def _put_settings(body: Item, request: ModelRequest, warnings: list[Item]) -> None:
    settings: Mapping[str, Any] = request.settings
    for ours, theirs in _SETTINGS:
        value = settings.get(ours)
        if value is not None:
            body[theirs] = value
    for ours, shown in _UNSUPPORTED:
        if settings.get(ours) is not None:
            warnings.append({"type": "unsupported-setting", "setting": shown})


def _put_text(body: Item, options: Item, request: ModelRequest, strict: Any) -> None:
    text = dict(mapping(options.pop("text", None)))
    verbosity = options.pop("text_verbosity", None)
    if verbosity is not None:
        text["verbosity"] = verbosity
    if request.response_format is not None:
        text["format"] = _format(request.response_format, strict)
    if text:
        body["text"] = text


def _format(wanted: Mapping[str, Any], strict: Any) -> Item:
    schema = wanted.get("schema")
    if schema is None:
        return {"type": "json_object"}
    form: Item = {"type": "json_schema", "name": wanted.get("name") or "response", "schema": schema}
    if strict is not None:
        form["strict"] = strict
    return form


def _put_reasoning(body: Item, options: Item) -> None:
    reasoning = dict(mapping(options.pop("reasoning", None)))
    for name in ("effort", "summary"):
        value = options.pop(f"reasoning_{name}", None)
        if value is not None:
            reasoning[name] = value
    if reasoning:
        body["reasoning"] = reasoning


def _put_include(body: Item, options: Item, *, reasons: bool) -> None:
    wanted: Any = options.pop("include", None) or []
    include = list(cast("list[Any]", wanted))
    if reasons and _ENCRYPTED not in include:
        include.append(_ENCRYPTED)
    if include:
        body["include"] = include


_ENCRYPTED = "reasoning.encrypted_content"


def _may_reason(model: str) -> bool:
    """Whether the model may reason: those that never do refuse to be asked for it."""
    return re.match(r"(ft:)?(gpt-3|gpt-4|chatgpt-|gpt-5[\d.]*-chat)", model) is None


def _tool(tool: ToolDefinition, provider: str, strict: Any) -> Item:
    form = built_in(provider, tool)
    if form is not None:
        return form
    # What is not strict must say so: the API takes functions for strict ones.
    function: Item = {"type": "function", "name": tool.name, "strict": strict is True}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.input_schema
    return function | snake_keys(own_options(provider, tool.provider_options))


def _tool_choice(request: ModelRequest, provider: str) -> Any:
    choice = request.tool_choice
    if isinstance(choice, str):
        return choice
    name = choice["toolName"]
    chosen = next((tool for tool in request.tools if tool.name == name), None)
    form = built_in(provider, chosen) if chosen is not None else None
    if form is None:
        return {"type": "function", "name": name}
    if form["type"] == "custom":
        return {"type": "custom", "name": name}
    if form["type"] == "mcp":
        return {"type": "mcp", "server_label": form.get("server_label")}
    return {"type": form["type"]}
