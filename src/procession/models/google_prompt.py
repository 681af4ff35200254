"""From the provider prompt to the contents of a Gemini request."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..errors import InputError
from .google_parts import CODE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Contents"]

Json = dict[str, Any]

_NO_SIGNATURE = "skip_thought_signature_validator"
"""What the documentation says to send with calls of another model, which nobody signed."""


class Contents:
    """The contents of one request: what the system says apart, the conversation in turns.

    `strict` is for the models from the third generation on: they refuse calls without a signature,
    and take files inside of a tool's result.
    """

    def __init__(self, *, strict: bool, system_apart: bool = True) -> None:
        self.system: list[Json] = []
        self.turns: list[Json] = []
        self._strict = strict
        self._system_apart = system_apart

    def read(self, prompt: Sequence[Json]) -> None:
        """Take in the prompt. Raises `InputError` for what this API has no place for."""
        for entry in prompt:
            role = entry["role"]
            if role == "system":
                self.system.append({"text": entry["content"]})
            elif role == "user":
                self.turns.append({"role": "user", "parts": _user_parts(entry["content"])})
            elif role == "assistant":
                self._model_turn(_model_parts(entry["content"]))
            elif role == "tool":
                self.turns.append({"role": "user", "parts": self._results(entry["content"])})
            else:
                raise InputError(f"a prompt entry has the unknown role {role!r}")
        if self.system and not self._system_apart:
            self._lead_with_system()

    def _model_turn(self, parts: list[Json]) -> None:
        """Parts of the model; what follows its other parts directly is of the same turn."""
        if not parts:
            return
        if self.turns and self.turns[-1]["role"] == "model":
            self.turns[-1]["parts"] += parts
        else:
            self.turns.append({"role": "model", "parts": parts})
        if self._strict:
            _excuse_call(self.turns[-1]["parts"])

    def _results(self, outcomes: Iterable[Json]) -> list[Json]:
        parts: list[Json] = []
        beside: list[Json] = []
        for outcome in outcomes:
            response, files = _outcome(outcome["output"])
            result: Json = {
                "id": outcome["toolCallId"],
                "name": outcome["toolName"],
                "response": response,
            }
            if files and self._strict:
                result["parts"] = files
            else:
                beside += files
            parts.append({"functionResponse": result})
        return parts + beside

    def _lead_with_system(self) -> None:
        """Models without a place for the system hear it first from the user."""
        said, self.system = self.system, []
        if self.turns and self.turns[0]["role"] == "user":
            self.turns[0]["parts"] = said + self.turns[0]["parts"]
        else:
            self.turns.insert(0, {"role": "user", "parts": said})


def _user_parts(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"text": content}]
    return [_user_part(part) for part in cast("list[Json]", content)]


def _user_part(part: Json) -> Json:
    kind = part["type"]
    if kind == "text":
        return {"text": part["text"]}
    if kind != "file":
        raise InputError(
            f"a user message has a part of type {kind!r}: only text and file can be sent"
        )
    made = _file(part["data"], part["mediaType"])
    own = _own(part)
    for option in ("mediaResolution", "videoMetadata"):
        if option in own:
            made[option] = own[option]
    return made


def _file(data: Any, media: str) -> Json:
    if media == "image/*":
        media = "image/jpeg"
    if not isinstance(data, str):  # bytes, from a processor that put them there
        data = base64.b64encode(data).decode("ascii")
    if "://" in data[:20]:
        return {"fileData": {"mimeType": media, "fileUri": data}}
    if data.startswith("data:"):
        data = data.partition(",")[2]
    return {"inlineData": {"mimeType": media, "data": data}}


def _own(part: Json) -> Json:
    options: Json = part.get("providerOptions") or {}
    own = options.get("google")
    return cast("Json", own) if isinstance(own, dict) else {}


def _model_parts(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"text": content}]
    made: list[Json] = []
    for part in cast("list[Json]", content):
        kind, own = part["type"], _own(part)
        if kind == "text":
            made += _text(part["text"], own)
        elif kind == "reasoning":
            made += _thought(part, own)
        elif kind == "file":
            made.append(_signed(_file(part["data"], part["mediaType"]), own))
        elif part.get("providerExecuted") or kind == "tool-result":
            made += _own_tool(part, own)
        elif kind == "tool-call":
            call = {"id": part["toolCallId"], "name": part["toolName"], "args": part["input"]}
            made.append(_signed({"functionCall": call}, own))
    return made


def _text(text: str, own: Json) -> list[Json]:
    """A text, its signature on it or, as it came, on an empty part behind it."""
    if own.get("signedApart"):
        return [{"text": text}, _signed({"text": ""}, own)]
    return [_signed({"text": text}, own)]


def _thought(part: Json, own: Json) -> list[Json]:
    """A thought of Gemini's; those signed for another provider's model are nothing to it."""
    if not own and part.get("providerOptions"):
        return []
    if not part["text"] and not own.get("thoughtSignature"):
        return []
    if own.get("thought") is False:
        return [_signed({"text": ""}, own)]  # what only held a signature
    return [{**entry, "thought": True} for entry in _text(part["text"], own)]


def _own_tool(part: Json, own: Json) -> list[Json]:
    """A call that Google executed, or its result; those of other providers are left out (R-377)."""
    kind = own.get("toolType")
    if kind is None:
        return []
    identity: Json = {"id": own["id"]} if "id" in own else {}
    if part["type"] == "tool-call":
        if kind == CODE:
            return [_signed({"executableCode": {**_record(part["input"]), **identity}}, own)]
        call = {"toolType": kind, **identity}
        if part["input"]:
            call["args"] = part["input"]
        return [_signed({"toolCall": call}, own)]
    value = part["output"].get("value")
    signature = {"thoughtSignature": own.get("resultThoughtSignature")}
    record = _record(value) or {"output": value}
    if kind == CODE:
        return [_signed({"codeExecutionResult": {**record, **identity}}, signature)]
    response = {"toolType": kind, **identity}
    if value:
        response["response"] = record
    return [_signed({"toolResponse": response}, signature)]


def _record(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _signed(made: Json, own: Json) -> Json:
    signature = own.get("thoughtSignature")
    if isinstance(signature, str) and signature:
        made["thoughtSignature"] = signature
    return made


def _excuse_call(parts: list[Json]) -> None:
    """Of calls made side by side the first is signed. Where none is, another model made them."""
    calls = [part for part in parts if "functionCall" in part]
    if calls and not any("thoughtSignature" in part for part in calls):
        calls[0]["thoughtSignature"] = _NO_SIGNATURE


def _outcome(output: Any) -> tuple[Json, list[Json]]:
    """What a tool said, and the files in it."""
    if not isinstance(output, dict) or "value" not in output:
        return {"output": output}, []
    form = cast("Json", output)
    value, kind = form["value"], form.get("type")
    if kind in ("error-text", "error-json"):
        return {"error": value}, []
    if kind == "content" and isinstance(value, list):
        return _content(cast("list[Any]", value))
    return {"output": value}, []


def _content(items: list[Any]) -> tuple[Json, list[Json]]:
    texts: list[str] = []
    files: list[Json] = []
    for item in items:
        given = cast("Json", item) if isinstance(item, dict) else {"type": "text", "text": item}
        data = given.get("data", given.get("url"))
        if given.get("type") == "text":
            texts.append(str(given.get("text", "")))
        elif data is not None:
            media = given.get("mediaType") or given.get("mimeType") or "application/octet-stream"
            files.append(_file(data, media))
        else:
            texts.append(msgspec.json.encode(given).decode())
    if not texts and files:
        return {"output": "see the attached files"}, files
    return {"output": "\n".join(texts)}, files
