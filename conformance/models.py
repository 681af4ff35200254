"""Scripted models from their description."""

import json
from collections.abc import Mapping
from typing import Any

from procession.testing import Answer, RecordedCall, ScriptedModel
from procession.testing.parts import as_error

from .names import camel_top
from .trace import prompt_form
from .world import World

_SETTINGS = ("temperature", "maxOutputTokens", "topP", "topK", "stopSequences", "seed")


def build_model(world: World, name: str, model: Mapping[str, Any]) -> ScriptedModel:
    """A model that plays its script and notes each call in the log."""

    def on_call(call: RecordedCall) -> None:
        world.event("model_call", model=name, call=call.number)
        form = _outline(call, model) if model.get("record") == "outline" else _whole(call)
        world.log.model_calls.append({"model": name, "call": call.number, **form})

    return ScriptedModel(
        [_answer(call) for call in model["calls"]],
        provider=model.get("provider", "mock"),
        model_id=model.get("model_id", "mock-1"),
        name=name,
        on_call=on_call,
    )


def _answer(call: Mapping[str, Any]) -> Answer:
    return Answer(
        parts=call.get("parts", ()),
        warnings=call.get("warnings") or (),
        delay=call.get("delay_ms", 0) / 1000,
        error=as_error(call["error"]) if "error" in call else None,
    )


def _whole(call: RecordedCall) -> dict[str, Any]:
    """Everything the provider received."""
    choice = call.tool_choice
    form: dict[str, Any] = {
        "prompt": prompt_form(call.prompt),
        "tools": call.tool_names,
        "toolChoice": {"type": choice} if isinstance(choice, str) else choice,
    }
    settings = {k: v for k, v in camel_top(call.settings).items() if k in _SETTINGS}
    if settings:
        form["settings"] = settings
    if call.provider_options:
        form["providerOptions"] = call.provider_options
    if (call.response_format or {}).get("type") == "json":
        form["responseFormat"] = "json"
    return form


def _outline(call: RecordedCall, model: Mapping[str, Any]) -> dict[str, Any]:
    """A few facts about a call whose prompt is the library's to word."""
    response_format = call.response_format or {}
    outline: dict[str, Any] = {"json_response": response_format.get("type") == "json"}
    if "record_contains" in model:
        prompt = json.dumps(call.prompt, ensure_ascii=False, default=str)
        outline["contains"] = {text: text in prompt for text in model["record_contains"]}
    if model.get("record_schema_keys"):
        schema = response_format.get("schema") or {}
        outline["schema_keys"] = sorted(schema.get("properties") or {})
    return {"outline": outline}
