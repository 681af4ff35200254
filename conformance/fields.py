"""What a `record` operation can note of a hook's arguments."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from procession.messages import Message
from procession.records import plain

from .names import camel, camel_top
from .trace import (
    chunk_form,
    error_form,
    metadata_form,
    prompt_form,
    step_outline,
    usage_form,
    without,
)
from .turn import Turn

UNDEFINED = "undefined"
"""How traces write a plain value that does not apply."""


def recorded(name: str, turn: Turn) -> Any:
    """A copy of one field, as it is now."""
    if name in _SCALARS:
        value = turn.arg(_SCALARS[name])
        return UNDEFINED if value is None else plain(value)
    if name.startswith("list."):
        return _view(name.removeprefix("list."), turn.arg("message_list"))
    if name.startswith("request_context."):
        return plain(turn.arg("request_context").get(name.removeprefix("request_context.")))
    read = _FIELDS.get(name)
    if read is None:
        raise ValueError(f"unknown field: {name}")
    return read(turn)


def outline(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Messages as role and parts, each part in a few words."""
    return [
        {"role": message.role, "parts": [_part_outline(part) for part in message.content.parts]}
        for message in messages
    ]


def _part_outline(part: Any) -> str:
    if part.type == "text":
        return f"text:{part.text}"
    if part.type == "reasoning":
        return f"reasoning:{part.reasoning}"
    if part.type == "tool-invocation":
        return f"tool-invocation:{part.tool_invocation.tool_name}:{part.tool_invocation.state}"
    return part.type


def _view(name: str, whole: Any) -> list[dict[str, Any]]:
    """`all`, `input`, …, in database form or converted (`all.ui`, `all.core`)."""
    source, _, form = name.partition(".")
    view = getattr(whole.get, source)
    if form == "ui":
        return [_converted(message, "parts") for message in view.ui()]
    if form == "core":
        return [_converted(message, "content") for message in view.core()]
    return outline(view.db())


def _converted(message: Mapping[str, Any], key: str) -> dict[str, Any]:
    content = plain(message[key])
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": message["role"], key: [_converted_part(part) for part in parts]}


def _converted_part(part: Mapping[str, Any]) -> str:
    kind: str = part["type"]
    if kind in ("text", "reasoning"):
        return f"{kind}:{part['text']}"
    return f"{kind}:{part['toolName']}" if "toolName" in part else kind


def _arg_names(turn: Turn) -> list[str]:
    """The arguments that are not `None`, sorted."""
    names = {"abort"}
    for cls in type(turn.args).__mro__:
        declared: Mapping[str, Any] = inspect.get_annotations(cls)
        names.update(name for name in declared if not name.startswith("_"))
        names.update(name for name, made in vars(cls).items() if isinstance(made, property))
    return sorted(camel(name) for name in names if turn.arg(name) is not None)


def _tool_calls(turn: Turn) -> list[dict[str, Any]]:
    return [
        {"toolName": call.tool_name, "toolCallId": call.tool_call_id, "args": plain(call.args)}
        for call in turn.arg("tool_calls") or ()
    ]


def _output_result(turn: Turn) -> dict[str, Any] | None:
    result = turn.arg("result")
    if result is None:
        return None
    return {
        "text": result.text,
        "finishReason": result.finish_reason,
        "usage": usage_form(result.usage),
        "steps": [step_outline(step) for step in result.steps],
    }


def _settings(turn: Turn) -> dict[str, Any] | None:
    settings = turn.arg("model_settings")
    return None if settings is None else camel_top(plain(dict(settings)))


def _state(turn: Turn) -> dict[str, Any]:
    return {key: value for key, value in plain(turn.state).items() if not key.startswith("__")}


def _provider_metadata(turn: Turn) -> Any:
    metadata = turn.arg("provider_metadata")
    return None if metadata is None else without(plain(dict(metadata)), ("mastra",))


def _aborted(turn: Turn) -> bool:
    signal = turn.arg("abort_signal")
    return signal is not None and signal.aborted


def _is_there(name: str) -> Callable[[Turn], bool]:
    return lambda turn: turn.arg(name) is not None


def _copy(name: str) -> Callable[[Turn], Any]:
    return lambda turn: plain(turn.arg(name))


_SCALARS = {
    "stepNumber": "step_number",
    "retryCount": "retry_count",
    "text": "text",
    "finishReason": "finish_reason",
    "toolName": "tool_name",
    "toolCallId": "tool_call_id",
    "fromCache": "from_cache",
    "providerExecuted": "provider_executed",
}

_FIELDS: dict[str, Callable[[Turn], Any]] = {
    "model": lambda turn: getattr(turn.arg("model"), "model_id", None),
    "partType": lambda turn: turn.part_type,
    "stepsCount": lambda turn: len(turn.arg("steps") or ()),
    "hasWriter": _is_there("writer"),
    "hasAbortSignal": _is_there("abort_signal"),
    "hasMessageList": _is_there("message_list"),
    "structuredOutput": _is_there("structured_output"),
    "abortSignalAborted": _aborted,
    "state": _state,
    "args": _copy("args"),
    "result": _copy("result"),
    "usage": lambda turn: usage_form(turn.arg("usage")),
    "toolChoice": _copy("tool_choice"),
    "activeTools": _copy("active_tools"),
    "providerOptions": _copy("provider_options"),
    "modelSettings": _settings,
    "providerMetadata": _provider_metadata,
    "warnings": _copy("warnings"),
    "messages": lambda turn: outline(turn.messages),
    "messageRoles": lambda turn: [message.role for message in turn.messages],
    "messageMetadata": lambda turn: [
        metadata_form(message.content.metadata, "modelId", "provider") for message in turn.messages
    ],
    "systemMessages": lambda turn: [message["content"] for message in turn.args.system_messages],
    "toolCalls": _tool_calls,
    "toolNames": lambda turn: list(turn.arg("tools") or ()),
    "prompt": lambda turn: prompt_form(turn.arg("prompt") or ()),
    "part": lambda turn: None if turn.part is None else chunk_form(turn.part),
    "chunks": lambda turn: [chunk_form(chunk) for chunk in turn.arg("chunks") or ()],
    "chunkTypes": lambda turn: [chunk.type for chunk in turn.arg("chunks") or ()],
    "streamPartTypes": lambda turn: [chunk.type for chunk in turn.arg("stream_parts") or ()],
    "steps": lambda turn: [step_outline(step) for step in turn.arg("steps") or ()],
    "error": lambda turn: error_form(turn.arg("error")),
    "outputResult": _output_result,
    "argNames": _arg_names,
}
