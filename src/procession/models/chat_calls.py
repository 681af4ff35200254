"""The tool calls of a chat completion, put together from fragments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ..chunks import (
    Chunk,
    ToolCallPayload,
    ToolInputDeltaPayload,
    ToolInputEndPayload,
    ToolInputStartPayload,
)
from ..tools import parse_tool_input
from .json_values import new_call_id

if TYPE_CHECKING:
    from .chat_blocks import TextBlocks
    from .chat_wire import Call, Function
    from .half_characters import HalfCharacters

__all__ = ["OpenCalls"]


class _OpenCall:
    """A tool call whose arguments are arriving."""

    __slots__ = ("id", "name", "pieces", "started")

    def __init__(self, call_id: str | None) -> None:
        self.id = call_id or new_call_id()
        self.name = ""
        self.pieces: list[str] = []
        self.started = False


class OpenCalls:
    """The calls under way. Several may grow side by side; each is complete when all are."""

    __slots__ = ("_blocks", "_by_index", "_calls", "_halves", "closed_any")

    def __init__(self, blocks: TextBlocks, halves: HalfCharacters) -> None:
        self.closed_any = False
        """Whether the answer has called a tool."""
        self._blocks = blocks  # a call that begins ends the text before it
        self._halves = halves
        self._calls: list[_OpenCall] = []
        self._by_index: dict[int, _OpenCall] = {}

    def add(self, out: list[Chunk], fragment: Call) -> None:
        """More of a call, or the first of it."""
        call = self._call_of(fragment)
        function = fragment.function
        if function is None:
            return
        if function.name and not call.started:
            call.name = function.name
            self._start(out, call)
        self._grow(out, call, self._halves.whole(call.id, _arguments(function)))

    def close(self, out: list[Chunk]) -> None:
        """All calls are complete."""
        for call in self._calls:
            self._grow(out, call, self._halves.end(call.id))
            if not call.started:
                self._start(out, call)
            end = ToolInputEndPayload(tool_call_id=call.id)
            out.append(Chunk(type="tool-call-input-streaming-end", payload=end))
            payload = ToolCallPayload(
                tool_call_id=call.id,
                tool_name=call.name,
                args=parse_tool_input("".join(call.pieces)),
            )
            out.append(Chunk(type="tool-call", payload=payload))
            self.closed_any = True
        self._calls.clear()
        self._by_index.clear()

    def _call_of(self, fragment: Call) -> _OpenCall:
        """The open call a fragment belongs to; a new one where none fits.

        Fragments name their call by index. Servers that leave it out, or always send 0, begin a
        new call with a new id (or, without ids, with a name).
        """
        named = fragment.function is not None and bool(fragment.function.name)
        if fragment.index is not None:
            known = self._by_index.get(fragment.index)
            if known is not None and not (named and fragment.id and fragment.id != known.id):
                return known
        elif fragment.id:
            known = next((call for call in self._calls if call.id == fragment.id), None)
            if known is not None:
                return known
        elif self._calls and not named:
            return self._calls[-1]
        fresh = _OpenCall(fragment.id)
        self._calls.append(fresh)
        if fragment.index is not None:
            self._by_index[fragment.index] = fresh
        return fresh

    def _start(self, out: list[Chunk], call: _OpenCall) -> None:
        self._blocks.close(out)
        call.started = True
        payload = ToolInputStartPayload(tool_call_id=call.id, tool_name=call.name)
        out.append(Chunk(type="tool-call-input-streaming-start", payload=payload))
        if call.pieces:
            out.append(_piece(call.id, "".join(call.pieces)))

    def _grow(self, out: list[Chunk], call: _OpenCall, piece: str) -> None:
        if piece:
            call.pieces.append(piece)
            if call.started:
                out.append(_piece(call.id, piece))


def _arguments(function: Function) -> str:
    """A piece of the arguments' text."""
    piece = function.arguments
    if piece.__class__ is str:
        return piece
    # A few servers send the object itself instead of its text.
    return "" if piece is None else json.dumps(piece)


def _piece(call_id: str, text: str) -> Chunk:
    payload = ToolInputDeltaPayload(tool_call_id=call_id, args_text_delta=text)
    return Chunk(type="tool-call-delta", payload=payload)
