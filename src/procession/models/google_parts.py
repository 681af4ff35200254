"""The parts of a Gemini answer, turned into chunks.

A signature belongs to the part it came with, and goes back on that same part. It is kept as
`providerMetadata.google.thoughtSignature` of the block, call or file; where it came on an empty
part of its own behind a text, `signedApart` says so, and where there was no text to keep it with,
an empty reasoning block holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from ..chunks import (
    Chunk,
    FilePayload,
    Payload,
    ToolCallPayload,
    ToolInputDeltaPayload,
    ToolInputEndPayload,
    ToolInputStartPayload,
    ToolResultPayload,
)
from ..errors import InputError
from ..records import clean_json
from ..tools import parse_tool_input
from .json_values import new_call_id

if TYPE_CHECKING:
    from .chat_blocks import TextBlocks
    from .google_wire import Part

__all__ = ["CODE", "AnswerParts"]

Json = dict[str, Any]

CODE = "CODE_EXECUTION"
"""What we call the tool that runs code; the others have a type in the API itself."""


class AnswerParts:
    """The parts so far: text goes to the blocks, everything else is whole when it comes."""

    __slots__ = ("_blocks", "_ids", "_running", "called")

    def __init__(self, blocks: TextBlocks) -> None:
        self.called = False
        """Whether the answer has called a tool of ours."""
        self._blocks = blocks
        self._ids: set[str] = set()
        # Calls that the provider executes: the id of the last one of each tool, for results
        # that do not say which call they belong to.
        self._running: dict[str, str] = {}

    def add(self, out: list[Chunk], part: Part) -> None:
        """One part."""
        if part.function_call is not None:
            self._call(out, part)
        elif part.executable_code is not None:
            code = _record(part.executable_code)
            args = {key: code[key] for key in ("language", "code") if key in code}
            self._own_call(out, CODE, args, code.get("id"), part.thought_signature)
        elif part.code_execution_result is not None:
            self._code_result(out, part)
        elif part.tool_call is not None:
            call = _record(part.tool_call)
            kind = str(call.get("toolType") or "TOOL")
            self._own_call(out, kind, call.get("args"), call.get("id"), part.thought_signature)
        elif part.tool_response is not None:
            result = _record(part.tool_response)
            kind = str(result.get("toolType") or "TOOL")
            value = _record(result.get("response"))
            self._own_result(out, kind, value, result.get("id"), part.thought_signature)
        elif part.inline_data is not None or part.file_data is not None:
            self._file(out, part)
        else:
            self._text(out, part)

    def _text(self, out: list[Chunk], part: Part) -> None:
        blocks, signature = self._blocks, part.thought_signature
        kind = "reasoning" if part.thought else "text"
        if part.text:
            blocks.add(out, kind, part.text)
            if signature and blocks.kind == kind:
                # No other text may join a signed one.
                blocks.close(out, _signed(signature))
        elif signature and blocks.kind == kind:
            blocks.close(out, _meta(thoughtSignature=signature, signedApart=True))
        elif signature:
            blocks.open(out, "reasoning")
            blocks.close(out, _meta(thoughtSignature=signature, thought=bool(part.thought)))

    def _call(self, out: list[Chunk], part: Part) -> None:
        call = _record(part.function_call)
        self.called = True
        name = call.get("name")
        _put_call(
            out,
            self._blocks,
            ToolCallPayload(
                tool_call_id=self._fresh(call.get("id")),
                tool_name=name if isinstance(name, str) else "",
                args=_arguments(call.get("args")),
                provider_metadata=_signed(part.thought_signature),
            ),
        )

    def _own_call(
        self, out: list[Chunk], kind: str, args: Any, given: Any, signature: str | None
    ) -> None:
        """A call that the provider executes. What it needs to be sent back is its metadata."""
        call_id = self._running[kind] = self._fresh(given)
        about: Json = {"toolType": kind}
        if isinstance(given, str) and given:
            about["id"] = given
        if signature:
            about["thoughtSignature"] = signature
        _put_call(
            out,
            self._blocks,
            ToolCallPayload(
                tool_call_id=call_id,
                tool_name=kind.lower(),
                args=_arguments(args),
                provider_executed=True,
                provider_metadata=_meta(**about),
            ),
        )

    def _code_result(self, out: list[Chunk], part: Part) -> None:
        result = _record(part.code_execution_result)
        value = {key: result[key] for key in ("outcome", "output") if key in result}
        payload = self._own_result(out, CODE, value, result.get("id"), part.thought_signature)
        if value.get("outcome") not in ("OUTCOME_OK", None):
            payload.is_error = True

    def _own_result(
        self, out: list[Chunk], kind: str, value: Any, given: Any, signature: str | None
    ) -> ToolResultPayload:
        self._blocks.close(out)
        known = isinstance(given, str) and given in self._ids
        payload = ToolResultPayload(
            tool_call_id=given if known else self._running.get(kind) or self._fresh(given),
            tool_name=kind.lower(),
            result=_clean(value),
            provider_executed=True,
        )
        if signature:
            # Call and result are one part of a message: each signature has its own name there.
            payload.provider_metadata = _meta(resultThoughtSignature=signature)
        out.append(Chunk(type="tool-result", payload=payload))
        return payload

    def _file(self, out: list[Chunk], part: Part) -> None:
        self._blocks.close(out)
        file = _record(part.file_data if part.inline_data is None else part.inline_data)
        data = file.get("data") or file.get("fileUri") or ""
        media = file.get("mimeType") or "application/octet-stream"
        if part.thought:
            # A draft on the way to the answer: no file that was asked for, and not sent back.
            draft = Payload(extra={"data": data, "mimeType": media})
            out.append(Chunk(type="reasoning-file", payload=draft))
            return
        payload = FilePayload(
            data=data, mime_type=media, provider_metadata=_signed(part.thought_signature)
        )
        out.append(Chunk(type="file", payload=payload))

    def _fresh(self, given: Any) -> str:
        """The call's own id; another one where it has none, or shares it with another call."""
        call_id = given if isinstance(given, str) and given else ""
        if not call_id or call_id in self._ids:
            call_id = new_call_id()
        self._ids.add(call_id)
        return call_id


def _put_call(out: list[Chunk], blocks: TextBlocks, call: ToolCallPayload) -> None:
    """The chunks of a call whose arguments came in one piece."""
    blocks.close(out)
    call_id = call.tool_call_id
    start = ToolInputStartPayload(
        tool_call_id=call_id,
        tool_name=call.tool_name,
        provider_executed=call.provider_executed,
        provider_metadata=call.provider_metadata,
    )
    out.append(Chunk(type="tool-call-input-streaming-start", payload=start))
    if call.args is not UNSET:
        text = msgspec.json.encode(call.args).decode()
        delta = ToolInputDeltaPayload(tool_call_id=call_id, args_text_delta=text)
        out.append(Chunk(type="tool-call-delta", payload=delta))
    end = ToolInputEndPayload(tool_call_id=call_id)
    out.append(Chunk(type="tool-call-input-streaming-end", payload=end))
    out.append(Chunk(type="tool-call", payload=call))


def _arguments(given: Any) -> Any:
    """A call's arguments; `UNSET` for what is none (R-531)."""
    if given is None:
        return {}
    if isinstance(given, str):
        return parse_tool_input(given)
    try:
        return clean_json(given) if isinstance(given, dict) else UNSET
    except InputError:
        return UNSET


def _clean(value: Any) -> Any:
    try:
        return clean_json(value)
    except InputError as error:
        return {"error": str(error)}


def _record(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _meta(**about: Any) -> Json:
    return {"google": about}


def _signed(signature: str | None) -> Json | UnsetType:
    return _meta(thoughtSignature=signature) if signature else UNSET
