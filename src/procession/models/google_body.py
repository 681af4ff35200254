"""From a model request to the body of a Gemini request: settings, tools, options and all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from .google_prompt import Contents
from .google_schema import gemini_schema

if TYPE_CHECKING:
    from ..model import ModelRequest, ToolDefinition

__all__ = ["gemini_body"]

Json = dict[str, Any]

_SETTINGS = (
    ("temperature", "temperature"),
    ("max_output_tokens", "maxOutputTokens"),
    ("top_p", "topP"),
    ("top_k", "topK"),
    ("stop_sequences", "stopSequences"),
    ("seed", "seed"),
    ("presence_penalty", "presencePenalty"),
    ("frequency_penalty", "frequencyPenalty"),
)

_BESIDE = frozenset({"safetySettings", "cachedContent", "labels", "serviceTier", "store"})
"""Options of the whole request; all others configure the generation."""


def gemini_body(model: str, request: ModelRequest, provider: str) -> tuple[Json, list[Json]]:
    """The body, and warnings about what it cannot express.

    Raises `InputError` for a part that this wire format has no place for.
    """
    warnings: list[Json] = []
    options = _options(request.provider_options, provider)
    newest = _is_third_generation(model)
    contents = Contents(strict=newest, system_apart=not model.startswith(("gemma-2", "gemma-3")))
    contents.read(request.prompt)
    generation = _settings(request.settings)
    body: Json = {"contents": contents.turns}
    tool_config = _put_tools(body, request, options, newest=newest)
    structured = options.pop("structuredOutputs", True)
    if request.response_format is not None:
        schema = request.response_format.get("schema") if structured else None
        if request.tools and not newest:
            contents.system.append(_asks_for_json(schema))
            message = "this model cannot be bound to JSON beside tools: it is asked for it in words"
            warnings.append({"type": "other", "message": message})
        else:
            generation["responseMimeType"] = "application/json"
            if schema is not None:
                generation["responseJsonSchema"] = gemini_schema(schema)
    if contents.system:
        body["systemInstruction"] = {"parts": contents.system}
    if tool_config:
        body["toolConfig"] = tool_config
    for name, value in options.items():
        (body if name in _BESIDE else generation)[name] = value
    if generation:
        body["generationConfig"] = generation
    return body, warnings


def _is_third_generation(model: str) -> bool:
    """Whether a model is of the third generation or later, as `gemini-pro-latest` is."""
    name = model.rpartition("/")[2]
    found = re.match(r"gemini-(\d+)", name)
    return int(found[1]) >= 3 if found else name.startswith("gemini-")


def _options(given: Mapping[str, Any] | None, provider: str) -> Json:
    """Options under `google`, and those under the provider's own name on top of them."""
    options: Json = {}
    for key in dict.fromkeys(("google", provider)):
        found = (given or {}).get(key)
        if isinstance(found, Mapping):
            options |= cast("Mapping[str, Any]", found)
    return options


def _settings(settings: Mapping[str, Any]) -> Json:
    return {theirs: settings[ours] for ours, theirs in _SETTINGS if settings.get(ours) is not None}


def _asks_for_json(schema: Any) -> Json:
    if schema is None:
        return {"text": "Answer with JSON and nothing else."}
    text = msgspec.json.encode(schema).decode()
    return {"text": f"Give your final answer as JSON and nothing else. Its JSON Schema:\n{text}"}


# ── tools ──────────────────────────────────────────────────────────────────────────────────────


def _put_tools(body: Json, request: ModelRequest, options: Json, *, newest: bool) -> Json:
    """Put the tools into the body; what configures their use is returned.

    `options` loses what says so: `tools`, Google's own ones by name (`"googleSearch"`) or with
    their settings (`{"fileSearch": {…}}`), and `toolConfig`.
    """
    config: Json = dict(options.pop("toolConfig", None) or {})
    named: list[Any] = list(options.pop("tools", None) or ())
    tools: list[Json] = [{tool: {}} if isinstance(tool, str) else tool for tool in named]
    if request.tools:
        if tools and newest:
            config.setdefault("includeServerSideToolInvocations", True)
        tools.append({"functionDeclarations": [_declaration(tool) for tool in request.tools]})
        calling = _calling(request.tool_choice)
        if calling:
            config["functionCallingConfig"] = {
                **calling,
                **(config.get("functionCallingConfig") or {}),
            }
    if tools:
        body["tools"] = tools
    return config


def _declaration(tool: ToolDefinition) -> Json:
    declaration: Json = {
        "name": tool.name,
        "description": tool.description,
        "parametersJsonSchema": gemini_schema(tool.input_schema),
    }
    return declaration | _options(tool.provider_options, "google")


def _calling(choice: str | Mapping[str, Any]) -> Json:
    """How freely functions are called; nothing where that is the model's own choice."""
    if isinstance(choice, str):
        return {"none": {"mode": "NONE"}, "required": {"mode": "ANY"}}.get(choice, {})
    return {"mode": "ANY", "allowedFunctionNames": [choice["toolName"]]}
