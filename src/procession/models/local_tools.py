"""Tool calls for a model that was never taught any: its answer is bound to a JSON Schema.

Measured with SmolLM2-135M: bound to one of the tools it picks the right one and fills in the
arguments; given the choice to answer instead, it takes whichever the prompt names last. So that
choice is not the model's: a tool is offered only to a request that has something in common with it
(or when the caller requires one), and once a tool has answered the model speaks freely.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..chunks import (
    BlockPayload,
    Chunk,
    DeltaPayload,
    ToolCallPayload,
    ToolInputDeltaPayload,
    ToolInputEndPayload,
    ToolInputStartPayload,
)
from ..tools import parse_tool_input
from .chat_prompt import output_text
from .json_values import new_call_id

if TYPE_CHECKING:
    from ..model import ModelRequest, ToolDefinition

__all__ = ["BoundAnswer", "call_schema", "offered_tools", "spoken_prompt"]

Json = dict[str, Any]


def offered_tools(request: ModelRequest) -> Sequence[ToolDefinition]:
    """The tools of which the model must call one now; none if it is to answer freely."""
    choice = request.tool_choice
    if isinstance(choice, Mapping):
        return [tool for tool in request.tools if tool.name == choice["toolName"]]
    if choice == "required":
        return request.tools
    if choice == "none" or not request.prompt or request.prompt[-1]["role"] != "user":
        return ()
    asked = _text_of(request.prompt[-1]["content"])
    return [tool for tool in request.tools if _concerns(asked, tool)]


def _concerns(asked: str, tool: ToolDefinition) -> bool:
    properties: dict[str, Any] = tool.input_schema.get("properties") or {}
    told = _words(" ".join([tool.name, tool.description, *properties]))
    if told & _words(asked):
        return True
    # "What is 12 plus 30?" names no tool that adds, yet it has the numbers for one.
    numbers = [p for p in properties.values() if p.get("type") in ("number", "integer")]
    return bool(numbers) and len(re.findall(r"\d+(?:\.\d+)?", asked)) >= len(numbers)


_WORD = re.compile(r"[^\W\d_]{3,}")
_COMMON = frozenset(
    (
        "about all and any anything are call can could does for from get gets give gives given "
        "has have how into its let list make makes me more name not one our please read return "
        "returns set show shows some something tell tells text than that the their them then "
        "there these they thing this tool two use used user uses value was what when where "
        "which who whose will with would you your"
    ).split()
)


def _words(text: str) -> set[str]:
    """The telling words, without the endings that English gives them."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", text)
    words = {word.lower() for word in _WORD.findall(spaced)} - _COMMON
    return {re.sub(r"(?<=...)(?:ing|es|s|ed)$", "", word) for word in words}


def call_schema(tools: Sequence[ToolDefinition]) -> Json:
    """A schema of one call of one of the tools: `{"tool": name, "arguments": {...}}`."""
    definitions: Json = {}
    calls = [_call_of(tool, definitions) for tool in tools]
    schema: Json = calls[0] if len(calls) == 1 else {"anyOf": calls}
    return {**schema, "$defs": definitions} if definitions else schema


def _call_of(tool: ToolDefinition, definitions: Json) -> Json:
    arguments = dict(tool.input_schema)
    # References count from the root of the whole schema: the definitions move there.
    own: Json = arguments.pop("$defs", None) or {}
    for name, definition in own.items():
        definitions[f"{tool.name}.{name}"] = _moved(definition, tool.name)
    arguments = _moved(arguments, tool.name)
    arguments.setdefault("type", "object")
    arguments.setdefault("additionalProperties", False)
    return {
        "type": "object",
        "properties": {"tool": {"const": tool.name}, "arguments": arguments},
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }


def _moved(schema: Any, prefix: str) -> Any:
    if isinstance(schema, list):
        return [_moved(entry, prefix) for entry in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    moved = {key: _moved(value, prefix) for key, value in cast("Json", schema).items()}
    target = moved.get("$ref")
    if isinstance(target, str) and target.startswith("#/$defs/"):
        moved["$ref"] = f"#/$defs/{prefix}.{target.removeprefix('#/$defs/')}"
    return moved


def spoken_prompt(prompt: Sequence[Json], tools: Sequence[ToolDefinition]) -> list[Json]:
    """The prompt in words alone: the model's template has no place for calls and their results."""
    systems = [entry["content"] for entry in prompt if entry["role"] == "system"]
    if tools:
        systems.append(_instruction(tools))
    spoken: list[Json] = []
    if systems:
        spoken.append({"role": "system", "content": "\n\n".join(systems)})
    asked = ""
    for entry in prompt:
        role = entry["role"]
        if role == "assistant":
            said = _said(entry["content"])
            if said:
                spoken.append({"role": "assistant", "content": said})
        elif role == "tool":
            # A model this small has lost sight of the question: it is asked once more.
            again = f" So, {asked}" if asked and entry is prompt[-1] else ""
            spoken.append({"role": "user", "content": _reported(entry["content"]) + again})
        elif role == "user":
            asked = _text_of(entry["content"])
            spoken.append(entry)
    return spoken


def _instruction(tools: Sequence[ToolDefinition]) -> str:
    lines = "\n".join(f"{tool.description} {_shape(tool)}" for tool in tools)
    return f"Choose the tool that fits what the user says.\n{lines}"


def _shape(tool: ToolDefinition) -> str:
    properties: dict[str, Any] = tool.input_schema.get("properties") or {}
    shown = ", ".join(f'"{name}": {_kind(schema)}' for name, schema in properties.items())
    return f'{{"tool": "{tool.name}", "arguments": {{{shown}}}}}'


def _kind(schema: Any) -> str:
    if isinstance(schema, dict):
        form = cast("Json", schema)
        if "enum" in form:
            return " or ".join(map(json.dumps, form["enum"]))
        if isinstance(form.get("type"), str):
            return form["type"]
    return "value"


def _said(parts: Any) -> str:
    if isinstance(parts, str):
        return parts
    said: list[str] = []
    for part in parts:
        if part["type"] == "text":
            said.append(part["text"])
        elif part["type"] == "tool-call":
            said.append(f"I call {part['toolName']} with {json.dumps(part['input'])}.")
    return "\n".join(said)


def _reported(results: Sequence[Json]) -> str:
    told = [
        f"The result of {part['toolName']} is {output_text(part['output'])}" for part in results
    ]
    return "\n".join(line if line.endswith((".", "!", "?")) else f"{line}." for line in told)


def _text_of(parts: Any) -> str:
    if isinstance(parts, str):
        return parts
    return " ".join(part["text"] for part in parts if part["type"] == "text")


_OPENING = re.compile(r'\s*\{\s*"tool"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*')
# What may be the end of the whole answer is held back: it is no part of the arguments.
_SURE = re.compile(r"(?s).*[^\s}]")


class BoundAnswer:
    """Turns the text of a bound answer into the chunks of a tool call, as it arrives."""

    def __init__(self) -> None:
        self._held = ""
        self._call_id = ""
        self._name = ""
        self._arguments: list[str] = []

    def feed(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """`chunks` with the text replaced by the call that it spells."""
        out: list[Chunk] = []
        for chunk in chunks:
            if chunk.type == "text-delta":
                self._text(out, chunk.payload.text)
            elif chunk.type == "text-end":
                self._end(out)
            elif chunk.type == "finish":
                outcome = chunk.payload.step_result
                if self._call_id and outcome.reason == "stop":
                    outcome.reason = "tool-calls"
                out.append(chunk)
            elif chunk.type != "text-start":
                out.append(chunk)
        return out

    def _text(self, out: list[Chunk], text: str) -> None:
        self._held += text
        if not self._call_id:
            opening = _OPENING.match(self._held)
            if opening is None:
                return
            self._held = self._held[opening.end() :]
            self._call_id = new_call_id()
            self._name = json.loads(opening[1])
            start = ToolInputStartPayload(tool_call_id=self._call_id, tool_name=self._name)
            out.append(Chunk(type="tool-call-input-streaming-start", payload=start))
        if not self._arguments:
            self._held = self._held.lstrip()
        sure = _SURE.match(self._held)
        if sure is not None:
            self._release(out, sure.end())

    def _release(self, out: list[Chunk], length: int) -> None:
        text, self._held = self._held[:length], self._held[length:]
        if text:
            self._arguments.append(text)
            delta = ToolInputDeltaPayload(tool_call_id=self._call_id, args_text_delta=text)
            out.append(Chunk(type="tool-call-delta", payload=delta))

    def _end(self, out: list[Chunk]) -> None:
        if not self._call_id:
            return self._as_text(out)
        self._release(out, len(self._held.rstrip().removesuffix("}").rstrip()))
        end = ToolInputEndPayload(tool_call_id=self._call_id)
        out.append(Chunk(type="tool-call-input-streaming-end", payload=end))
        call = ToolCallPayload(
            tool_call_id=self._call_id,
            tool_name=self._name,
            args=parse_tool_input("".join(self._arguments)),
        )
        out.append(Chunk(type="tool-call", payload=call))

    def _as_text(self, out: list[Chunk]) -> None:
        """Cut off before it named a tool: what there is, is all that can be told."""
        block = f"text-{secrets.token_hex(4)}"
        out += [
            Chunk(type="text-start", payload=BlockPayload(id=block)),
            Chunk(type="text-delta", payload=DeltaPayload(id=block, text=self._held)),
            Chunk(type="text-end", payload=BlockPayload(id=block)),
        ]
