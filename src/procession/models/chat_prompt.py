"""From a model request to the body of an OpenAI chat completion.

Nothing is cached: an entry costs about a microsecond, less than a check that it is unchanged, and
what a model object would keep would outlive the run it belongs to.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..errors import InputError
from .chat_assistant import assistant_message, call_id, json_text
from .chat_dialect import OPENAI, ChatDialect, dialect_of

if TYPE_CHECKING:
    from ..model import ModelRequest, ToolDefinition

__all__ = ["chat_body", "chat_messages"]

Json = dict[str, Any]


def chat_body(
    model: str, provider: str, request: ModelRequest, dialect: ChatDialect | None = None
) -> tuple[Json, list[Json]]:
    """The body, and warnings about what it cannot express.

    Raises `InputError` for a part that this wire format has no place for.
    """
    dialect = dialect or dialect_of(provider)
    warnings: list[Json] = []
    messages = chat_messages(request.prompt, warnings, dialect, provider)
    body: Json = {"model": model, "messages": messages}
    _put_settings(body, dialect, request.settings, warnings)
    options = _options(provider, request.provider_options)
    strict = options.pop("strict_json_schema", None)
    if request.tools:
        _put_tools(body, dialect, provider, request, warnings)
    if request.response_format is not None:
        _put_format(body, dialect, request.response_format, strict)
    body |= options
    body["stream"] = True
    if dialect.usage_on_request:
        body.setdefault("stream_options", {"include_usage": True})
    return body, warnings


_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "stop_sequences": "stop",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}


def _put_settings(
    body: Json, dialect: ChatDialect, settings: Mapping[str, Any], warnings: list[Json]
) -> None:
    for ours, theirs in (*_SETTINGS.items(), ("max_output_tokens", dialect.limit)):
        value = settings.get(ours)
        if value is None:
            continue
        if theirs in dialect.refused:
            warnings.append({"type": "unsupported-setting", "setting": _camel(ours)})
        else:
            body[dialect.renamed.get(theirs, theirs)] = value


def _camel(name: str) -> str:
    return re.sub("_([a-z])", lambda found: found[1].upper(), name)


_OPTION_NAMES = {
    "logitBias": "logit_bias",
    "maxCompletionTokens": "max_completion_tokens",
    "parallelToolCalls": "parallel_tool_calls",
    "promptCacheKey": "prompt_cache_key",
    "promptCacheRetention": "prompt_cache_retention",
    "reasoningEffort": "reasoning_effort",
    "safetyIdentifier": "safety_identifier",
    "serviceTier": "service_tier",
    "strictJsonSchema": "strict_json_schema",
    "textVerbosity": "verbosity",
}


def _options(provider: str, given: Mapping[str, Any] | None) -> Json:
    """Options under `openai`, and those under the provider's own name on top of them."""
    options: Json = {}
    for key in dict.fromkeys(("openai", provider)):
        found = (given or {}).get(key)
        if isinstance(found, Mapping):
            entries = cast("Mapping[str, Any]", found).items()
            options |= {_OPTION_NAMES.get(name, name): value for name, value in entries}
    return options


def _tool(tool: ToolDefinition, provider: str) -> Json:
    function: Json = {"name": tool.name, "parameters": tool.input_schema}
    if tool.description:
        function["description"] = tool.description
    function |= _options(provider, tool.provider_options)
    return {"type": "function", "function": function}


def _put_tools(
    body: Json,
    dialect: ChatDialect,
    provider: str,
    request: ModelRequest,
    warnings: list[Json],
) -> None:
    """The tools, and who chooses among them, as far as the server lets us."""
    choice = request.tool_choice
    if "tools" in dialect.refused:
        warnings.append({"type": "other", "message": f"{provider} calls no tools: none are sent"})
        return
    if choice == "none" and "none" not in dialect.tool_choices:
        return  # the same without the word
    body["tools"] = [_tool(tool, provider) for tool in request.tools]
    if isinstance(choice, str):
        word: Any = dialect.tool_choices.get(choice)
    elif dialect.names_tool:
        word = {"type": "function", "function": {"name": choice["toolName"]}}
    else:
        word = None
    if word is None:
        word = "auto"
        warnings.append({"type": "unsupported-setting", "setting": "toolChoice"})
    body["tool_choice"] = word


def _put_format(
    body: Json, dialect: ChatDialect, wanted: Mapping[str, Any], strict: bool | None
) -> None:
    schema = wanted.get("schema")
    if schema is None:
        body["response_format"] = {"type": "json_object"}
        return
    if not dialect.json_schema:
        body["response_format"] = {"type": "json_object"}
        told = f"Answer with JSON that fits this JSON Schema, and nothing else: {json_text(schema)}"
        body["messages"].insert(0, {"role": "system", "content": told})
        return
    form: Json = {"name": wanted.get("name") or "response", "schema": schema}
    if strict is not None:
        form["strict"] = strict
    body["response_format"] = {"type": "json_schema", "json_schema": form}


def chat_messages(
    prompt: Sequence[Json],
    warnings: list[Json],
    dialect: ChatDialect = OPENAI,
    provider: str = "openai",
) -> list[Json]:
    """The provider prompt as chat messages; with what was thought, where the dialect wants it."""
    messages: list[Json] = []
    for entry in prompt:
        role = entry["role"]
        if role == "user":
            messages.append({"role": "user", "content": _user_content(entry["content"])})
        elif role == "assistant":
            message = assistant_message(entry["content"], dialect, provider, warnings)
            if message is not None:
                messages.append(message)
        elif role == "tool":
            messages += (_tool_result(part, dialect) for part in entry["content"])
        elif role == "system":
            messages.append({"role": "system", "content": entry["content"]})
        else:
            raise InputError(f"a prompt entry has the unknown role {role!r}")
    return messages


def _user_content(parts: Any) -> Any:
    if isinstance(parts, str):
        return parts
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]  # servers that know no parts take this form
    return [_user_part(part) for part in parts]


def _user_part(part: Json) -> Json:
    kind = part["type"]
    if kind == "text":
        return {"type": "text", "text": part["text"]}
    if kind == "file":
        return _file(part)
    raise InputError(f"a user message has a part of type {kind!r}: only text and file can be sent")


def _file(part: Json) -> Json:
    media: str = part["mediaType"]
    data = part["data"]
    if not isinstance(data, str):  # bytes, from a processor that put them there
        data = base64.b64encode(data).decode("ascii")
    if media.startswith("image/"):
        image: Json = {"url": _data_url(data, "image/jpeg" if media == "image/*" else media)}
        detail = _own(part).get("imageDetail")
        return {"type": "image_url", "image_url": {**image, "detail": detail} if detail else image}
    if media in _AUDIO and not _is_url(data):
        return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO[media]}}
    if media == "application/pdf" and not _is_url(data):
        if data.startswith("file-"):
            return {"type": "file", "file": {"file_id": data}}
        name = part.get("filename") or "document.pdf"
        return {"type": "file", "file": {"filename": name, "file_data": _data_url(data, media)}}
    how = " given by its address" if _is_url(data) else ""
    raise InputError(
        f"a file of type {media!r}{how} cannot be sent over OpenAI chat: it takes images, WAV and "
        f"MP3 audio, and PDF as data"
    )


_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}


def _is_url(data: str) -> bool:
    return data.startswith(("http://", "https://"))


def _data_url(data: str, media: str) -> str:
    if data.startswith("data:") or _is_url(data):
        return data
    return f"data:{media};base64,{data}"


def _own(part: Json) -> Json:
    options: Json = part.get("providerOptions") or {}
    return options.get("openai") or {}


def _tool_result(part: Json, dialect: ChatDialect) -> Json:
    return {
        "role": "tool",
        "tool_call_id": call_id(part["toolCallId"], dialect),
        "content": output_text(part["output"]),
    }


def output_text(output: Any) -> str:
    """A tool's outcome as the text that the model reads."""
    if not isinstance(output, dict) or "value" not in output:
        return json_text(output)
    form = cast("Json", output)
    value, kind = form["value"], form.get("type")
    if kind in ("text", "error-text"):
        return value if isinstance(value, str) else json_text(value)
    if kind == "content" and isinstance(value, list):
        return "\n".join(map(_item_text, cast("list[Json]", value)))
    return json_text(value)


def _item_text(item: Json) -> str:
    """A piece of a tool's outcome; a file is named, for its bytes would be read as words."""
    if item.get("type") == "text":
        return item["text"]
    if "data" in item:
        return f"[a file of type {item.get('mediaType')}, which cannot be shown here]"
    return json_text(item)
