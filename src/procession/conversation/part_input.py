"""Parts as callers and clients write them, made into the parts that are stored.

Two families: content parts of role-and-content messages (AI SDK v4 and v5), and parts of UI
messages. Only a part's own keys are read in both spellings; values are taken as they are (R-395).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from ..errors import InputError
from ..messages import (
    FilePart,
    Part,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
    part_from_json,
)

__all__ = ["content_part", "ui_part"]

Form = dict[str, Any]

_SNAKE = {
    "media_type": "mediaType",
    "mime_type": "mimeType",
    "tool_call_id": "toolCallId",
    "tool_name": "toolName",
    "provider_options": "providerOptions",
    "provider_metadata": "providerMetadata",
    "provider_executed": "providerExecuted",
    "is_error": "isError",
    "error_text": "errorText",
    "tool_invocation": "toolInvocation",
    "source_id": "sourceId",
    "created_at": "createdAt",
}


def _form(value: Any) -> Form:
    if not isinstance(value, Mapping):
        raise InputError(
            f"a part is a mapping with a type, such as "
            f'{{"type": "text", "text": "…"}}, not {type(value).__name__}'
        )
    data = {_SNAKE.get(key, key): item for key, item in cast("Mapping[str, Any]", value).items()}
    if not isinstance(data.get("type"), str):
        raise InputError(f"a part needs a type; keys given: {sorted(map(str, data))}")
    return data


def content_part(value: Any) -> Part:
    """A part of a role-and-content message. Unknown types are kept as they are (R-304)."""
    if isinstance(value, str):
        return TextPart(text=value)
    if isinstance(value, Part):
        return value
    data = _form(value)
    read = _CONTENT.get(data["type"])
    if read is None:
        return part_from_json(data)
    part = _read(read, data)
    part.provider_metadata = data.get("providerOptions") or data.get("providerMetadata")
    return part


def ui_part(value: Any) -> Part:
    """A part of a UI message (R-391). Parts that are stored as they are shown pass through."""
    if isinstance(value, Part):
        return value
    data = _form(value)
    kind: str = data["type"]
    read = _UI.get(kind)
    if read is None and kind.startswith("tool-") and kind != "tool-invocation":
        data.setdefault("toolName", kind.removeprefix("tool-"))
        read = _ui_tool
    if read is None:
        return part_from_json(data)
    part = _read(read, data)
    part.provider_metadata = (
        data.get("providerMetadata")
        or data.get("callProviderMetadata")
        or data.get("providerOptions")
    )
    return part


def _read(read: Callable[[Form], Part], data: Form) -> Part:
    try:
        return read(data)
    except KeyError as error:
        raise InputError(
            f"a part of type {data['type']!r} needs {error.args[0]!r}; keys given: {sorted(data)}"
        ) from None


def _text(data: Form) -> Part:
    text = data["text"]
    if not isinstance(text, str):
        raise InputError(f"the text of a text part must be a text, not {type(text).__name__}")
    return TextPart(text=text)


def _reasoning(data: Form) -> Part:
    text: str = data["text"]
    detail = {"type": "text", "text": text}
    if data.get("signature"):
        detail["signature"] = data["signature"]
    return ReasoningPart(reasoning=text, details=[detail])


def _redacted(data: Form) -> Part:
    return ReasoningPart(details=[{"type": "redacted", "data": data["data"]}])


def _file_data(value: Any) -> str:
    """File data as text: bytes become base64, URL objects their text."""
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(cast("bytes", value)).decode("ascii")
    return value if isinstance(value, str) else str(value)


def _media_type(data: Form, content: str, default: str) -> str:
    given = data.get("mediaType") or data.get("mimeType")
    if given:
        return given
    found = re.match(r"data:([^;,]+)", content)
    return found[1] if found else default


def _image(data: Form) -> Part:
    # without a type of its own it counts as a JPEG, also where a data URL says otherwise.
    # A model is told what the data URL says.
    kind = data.get("mediaType") or data.get("mimeType") or "image/jpeg"
    return FilePart(mime_type=kind, data=_file_data(data["image"]))


def _file(data: Form) -> Part:
    content = _file_data(data["data"] if "data" in data else data["url"])
    kind = _media_type(data, content, "application/octet-stream")
    return FilePart(mime_type=kind, data=content, filename=data.get("filename"))


def _tool_call(data: Form) -> Part:
    call = ToolInvocation(
        tool_call_id=data["toolCallId"],
        tool_name=data["toolName"],
        args=data["input"] if "input" in data else data.get("args", {}),
    )
    return ToolInvocationPart(tool_invocation=call, provider_executed=data.get("providerExecuted"))


def _tool_result(data: Form) -> Part:
    call = ToolInvocation(
        tool_call_id=data["toolCallId"],
        tool_name=data.get("toolName") or "",
        state="result",
        result=data.get("result"),
    )
    output = data.get("output")
    if isinstance(output, Mapping):
        _take_output(call, cast("Mapping[str, Any]", output))
    elif "output" in data:
        call.result = output
    if data.get("isError"):
        call.is_error = True
    return ToolInvocationPart(tool_invocation=call, provider_executed=data.get("providerExecuted"))


def _take_output(call: ToolInvocation, output: Mapping[str, Any]) -> None:
    """The v5 output form: what kind it is, and its value."""
    kind, value = output.get("type"), output.get("value")
    if kind in ("error-text", "error-json"):
        call.state = "output-error"
        call.result = None
        call.error_text = value if isinstance(value, str) else str(value)
    elif kind in ("text", "json", "content"):
        call.result = value
    else:
        call.result = output


_UI_STATES = {
    "input-streaming": "partial-call",
    "input-available": "call",
    "output-available": "result",
}


def _ui_tool(data: Form) -> Part:
    state: str = data.get("state") or "input-available"
    call = ToolInvocation(
        tool_call_id=data["toolCallId"],
        tool_name=data["toolName"],
        state=_UI_STATES.get(state, state),
        args=data.get("input") or data.get("args") or {},
        raw_input=data.get("rawInput"),
        result=data.get("output"),
        error_text=data.get("errorText"),
        approval=data.get("approval"),
    )
    return ToolInvocationPart(
        tool_invocation=call,
        provider_executed=data.get("providerExecuted"),
        title=data.get("title"),
        preliminary=data.get("preliminary"),
    )


def _ui_reasoning(data: Form) -> Part:
    if "reasoning" in data:  # an older client's form, which is the stored one
        return ReasoningPart(reasoning=data["reasoning"], details=data.get("details") or [])
    return _reasoning(data)


def _ui_source(data: Form) -> Part:
    source: Form = {"sourceType": "url", "id": data["sourceId"], "url": data["url"]}
    if data.get("title"):
        source["title"] = data["title"]
    return SourcePart(source=source)


_CONTENT: dict[str, Callable[[Form], Part]] = {
    "text": _text,
    "reasoning": _reasoning,
    "redacted-reasoning": _redacted,
    "image": _image,
    "file": _file,
    "tool-call": _tool_call,
    "tool-result": _tool_result,
}
_UI: dict[str, Callable[[Form], Part]] = {
    "text": _text,
    "reasoning": _ui_reasoning,
    "dynamic-tool": _ui_tool,
    "file": _file,
    "image": _image,
    "source-url": _ui_source,
}
