"""Calls of an agent: their options, and what they give."""

import asyncio
import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from procession import AbortController, RequestContext
from procession.records import plain

from .builtin import apply_cache_options
from .names import camel, snake_top
from .processors import build_list, scripted_hook
from .schemas import whole_schema
from .storage import recalled_roles, stored_messages
from .trace import (
    chunk_form,
    error_form,
    message_form,
    step_form,
    tripwire_form,
    usage_form,
    without,
)
from .transforms import known
from .world import CallLog, World

_PLAIN = (
    "max_steps max_processor_retries tool_choice active_tools memory system instructions "
    "provider_options"
).split()
_LISTS = ("input_processors", "output_processors", "error_processors")
_OPTIONS = frozenset(
    (
        *_PLAIN,
        *_LISTS,
        "prepare_step",
        "request_context",
        "context",
        "model_settings",
        "structured_output",
        "abort_after_chunks",
        "response_cache",
    )
)
_SETTLE_MS = 20
_UI_BOOKKEEPING = ("createdAt", "threadId", "resourceId", "modelId", "provider", "mastra")


async def run_call(world: World, agent: Any, call: Mapping[str, Any]) -> dict[str, Any]:
    """Make one call and give its part of the trace."""
    world.log = CallLog()
    options: Mapping[str, Any] = call.get("options") or {}
    controller = AbortController()
    given = call_options(world, options, controller)
    trace: dict[str, Any] = {"method": call["method"]}
    run = _streamed if call["method"] == "stream" else _generated
    messages: list[Any] | None = None
    try:
        prompt = _input(world, call["input"])
        messages = await run(agent, prompt, given, call, controller, trace)
    except Exception as error:
        trace["threw"] = error_form(error)
    await asyncio.sleep(call.get("settle_ms", _SETTLE_MS) / 1000)
    if messages is not None:
        trace["messages"] = [message_form(message) for message in messages]
    if world.memory is not None:
        trace["persisted"] = await stored_messages(world, options)
        if call.get("record_recall"):
            trace["recalled_roles"] = await recalled_roles(world, options)
    return trace | {"log": world.log.events, "model_calls": world.log.model_calls}


def call_options(
    world: World, options: Mapping[str, Any], controller: AbortController
) -> dict[str, Any]:
    """The keyword arguments of `stream` and `generate`."""
    known(options, _OPTIONS, "option of a call")
    given = {key: copy.deepcopy(options[key]) for key in _PLAIN if key in options}
    given |= {key: build_list(world, options[key]) for key in _LISTS if key in options}
    for key, make in _MAKERS.items():
        if key in options:
            given[key] = make(world, options[key])
    if "prepare_step" in options:
        ops = options["prepare_step"]
        # A new list of operations each time: its runs are counted from the start.
        given["prepare_step"] = scripted_hook(world, "prepareStep", "prepareStep", ops, id(given))
    if "request_context" in options or "response_cache" in options:
        context = RequestContext(copy.deepcopy(options.get("request_context") or {}))
        if "response_cache" in options:
            apply_cache_options(world, context, options["response_cache"])
        given["request_context"] = context
    if "abort_after_chunks" in options:
        given["abort_signal"] = controller.signal
        if options["abort_after_chunks"] == 0:
            controller.abort()
    return given


def _input(world: World, value: Any) -> Any:
    """A text, or a list of messages, some of which may be in database form."""
    if isinstance(value, str):
        return value
    return [
        world.make(message["db"], datetime.now(UTC)) if "db" in message else copy.deepcopy(message)
        for message in value
    ]


def _structured(world: World, value: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: copy.deepcopy(entry) for key, entry in value.items()}
    given["schema"] = whole_schema(value["schema"])
    if "model" in value:
        given["model"] = world.model(value["model"])
    if "fallback" in given:
        given["fallback_value"] = given.pop("fallback")
    return given


_MAKERS: dict[str, Callable[[World, Any], Any]] = {
    "context": _input,
    "model_settings": lambda world, settings: snake_top(copy.deepcopy(settings)),
    "structured_output": _structured,
}


async def _streamed(
    agent: Any,
    prompt: Any,
    given: dict[str, Any],
    call: Mapping[str, Any],
    controller: AbortController,
    trace: dict[str, Any],
) -> list[Any]:
    """Read a stream to its end, then everything it says about itself."""
    stream = await agent.stream(prompt, **given)
    limit = (call.get("options") or {}).get("abort_after_chunks")
    trace["chunks"] = []
    try:
        async for chunk in stream.full_stream:
            trace["chunks"].append(chunk_form(chunk))
            if len(trace["chunks"]) == limit:
                controller.abort()
    except Exception as error:
        trace["stream_threw"] = error_form(error)
    result: dict[str, Any] = {}
    for name, form in _VALUES.items():
        try:
            result[camel(name)] = form(await getattr(stream, name))
        except Exception as error:
            result[camel(name)] = {"$rejected": str(error)}
    trace["result"] = result | _attributes(stream)
    await _extras(trace["result"], stream, call)
    return stream.message_list.get.all.db()


async def _generated(
    agent: Any,
    prompt: Any,
    given: dict[str, Any],
    call: Mapping[str, Any],
    controller: AbortController,
    trace: dict[str, Any],
) -> list[Any]:
    """Wait for the whole result."""
    output = await agent.generate(prompt, **given)
    values = {camel(name): form(getattr(output, name)) for name, form in _VALUES.items()}
    trace["result"] = values | _attributes(output)
    await _extras(trace["result"], output, call)
    return output.messages


def _attributes(output: Any) -> dict[str, Any]:
    return {"tripwire": tripwire_form(output.tripwire), "error": error_form(output.error)}


async def _extras(result: dict[str, Any], output: Any, call: Mapping[str, Any]) -> None:
    """What is only of interest in some scenarios."""
    if "structured_output" in (call.get("options") or {}):
        try:
            result["object"] = plain(await _now(output.object))
        except Exception as error:
            result["object"] = {"$rejected": str(error)}
    if call.get("record_ui_metadata"):
        response = await _now(output.response)
        result["uiMetadata"] = [
            {
                "role": m["role"],
                "metadata": without(plain(m.get("metadata") or {}), _UI_BOOKKEEPING),
            }
            for m in response.ui_messages
        ]


async def _now(value: Any) -> Any:
    """Values of a stream are awaited, those of a result are there."""
    return await value if hasattr(value, "__await__") else value


def _calls(chunks: list[Any]) -> list[dict[str, Any]]:
    return [_picked(chunk, "toolCallId", "toolName", "args") for chunk in chunks]


def _results(chunks: list[Any]) -> list[dict[str, Any]]:
    return [_picked(chunk, "toolCallId", "toolName", "result") for chunk in chunks]


def _picked(chunk: Any, *keys: str) -> dict[str, Any]:
    return {key: plain(chunk.payload.get(key)) for key in keys}


_VALUES: dict[str, Callable[[Any], Any]] = {
    "text": lambda text: text,
    "finish_reason": lambda reason: reason,
    "usage": usage_form,
    "steps": lambda steps: [step_form(step) for step in steps],
    "tool_calls": _calls,
    "tool_results": _results,
}
