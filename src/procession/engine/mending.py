"""Mending what a model delivers, so that every store and client takes it.

NUL and lone surrogates become U+FFFD wherever a model writes. A character whose surrogates a
provider has cut apart is joined again: its first half waits for the other one, or for the end of
its block.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..chunks import (
    PAYLOAD_TYPES,
    Chunk,
    DeltaPayload,
    ToolInputDeltaPayload,
    ToolInputEndPayload,
    Usage,
)
from ..conversation.prompt_parts import base64_text, is_url
from ..errors import InputError
from ..records import clean_json, clean_kept, clean_record, clean_text
from ..structured.object_chunk import ObjectChunk
from .misfits import chunk_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..chunks import FinishPayload, ToolCallPayload, ToolResultPayload

__all__ = ["Mending", "mend_control", "mend_returned"]

Lane = tuple[str, str]
"""A block's pieces: the type of their chunks, and the id of the block."""

_PIECES = frozenset({"text-delta", "reasoning-delta"})
_FIRST = frozenset({"text-start", "reasoning-start"})
_LAST = {
    "text-end": "text-delta",
    "reasoning-end": "reasoning-delta",
    "tool-call-input-streaming-end": "tool-call-delta",
}
"""The chunks that end a block, and the type of its pieces."""
_counts = attrgetter(*(name for name in Usage.__struct_fields__ if name.endswith("_tokens")))


class Mending:
    """Mends the content of one answer, chunk by chunk."""

    __slots__ = ("_halves", "_odd_ids", "watches")

    def __init__(self) -> None:
        self._halves: dict[Lane, str] = {}
        self._odd_ids = False
        """Whether a block has an id that had to be mended, and so have its pieces."""
        self.watches = False
        """Whether even a clean piece needs `piece`: there are halves, or odd ids."""

    def piece(self, chunk: Chunk) -> None:
        """Mend a piece of text or reasoning."""
        payload = chunk.payload
        payload.text = self._whole((chunk.type, payload.id), payload.text)
        if self._odd_ids:
            payload.id = clean_text(payload.id)

    def _whole(self, lane: Lane, text: str) -> str:
        """A piece's clean text, with the half that waited for it, without one at its end."""
        halves = self._halves
        if halves:
            text = halves.pop(lane, "") + text
            self.watches = self._odd_ids or bool(halves)
        if text and "\ud800" <= text[-1] <= "\udbff":
            halves[lane] = text[-1]
            self.watches = True
            text = text[:-1]
        return clean_text(text)

    def other(self, chunk: Chunk) -> Sequence[Chunk]:
        """Mend any other content; returns what is to be taken in before it: a half that is left.

        Raises `InputError` for values without a JSON form.
        """
        kind, payload = chunk.type, chunk.payload
        left: Sequence[Chunk] = ()
        if self._halves and kind in _LAST:
            call = isinstance(payload, ToolInputEndPayload)
            left = self.let_go((_LAST[kind], payload.tool_call_id if call else payload.id))
        elif kind == "tool-call-delta":
            text = payload.args_text_delta
            if self._halves or not text.isascii():
                payload.args_text_delta = self._whole((kind, payload.tool_call_id), text)
        elif kind == "file":
            _check_file(payload.base64 or payload.data)
        elif kind in _FIRST and clean_text(payload.id) is not payload.id:
            self._odd_ids = self.watches = True
        clean_record(payload if kind in PAYLOAD_TYPES else chunk)
        return left

    def let_go(self, own: Lane | None = None) -> list[Chunk]:
        """Halves whose other half did not come: those of one block, or all that are left."""
        found: list[Chunk] = []
        for lane in [lane for lane in self._halves if own is None or lane == own]:
            kind, id = lane
            text = clean_text(self._halves.pop(lane))
            if kind == "tool-call-delta":
                payload: Any = ToolInputDeltaPayload(tool_call_id=id, args_text_delta=text)
            else:
                payload = DeltaPayload(id=id, text=text)
            found.append(Chunk(kind, payload))
        self.watches = self._odd_ids or bool(self._halves)
        return found


def _check_file(data: Any) -> None:
    """A file that no prompt could hold would break the conversation for good (R-363)."""
    if not is_url(data):
        base64_text(data)


def mend_control(kind: str, payload: Any, *, raw: bool) -> None:
    """Mend a chunk that steers the loop; `raw` says whether the provider's own ones are kept.

    Raises `InputError` for values without a JSON form, `TypeError` for ids that are no texts and
    counts that are no numbers.
    """
    if kind == "stream-start":  # but for the request, which is long, and was made of what is clean
        payload.warnings = clean_kept(list(payload.warnings or ()))
        payload.headers = clean_kept(dict(payload.headers or {}))
    elif kind == "finish":
        _mend_finish(payload)
    elif kind in ("tool-call", "tool-result"):
        _mend_call(payload)
    elif kind == "response-metadata" or (kind == "raw" and raw):
        clean_record(payload)


def _mend_finish(payload: FinishPayload) -> None:
    clean_record(payload.step_result)
    payload.metadata = clean_kept(payload.metadata)
    usage = payload.output.usage
    usage.raw = clean_kept(usage.raw)
    for count in _counts(usage):
        if count is not None and not isinstance(count, int | float):
            raise TypeError("token counts are numbers")


def _mend_call(payload: ToolCallPayload | ToolResultPayload) -> None:
    for text in (payload.tool_call_id, payload.tool_name):
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("the id and the name of a tool call are texts")
    if "result" in payload:
        payload["result"] = clean_json(payload["result"])
    if payload.args is not UNSET:
        try:
            payload.args = clean_json(payload.args)
        except InputError:
            payload.args = UNSET  # what no JSON library takes is a broken call
    clean_record(payload)


def mend_returned(chunk: Chunk) -> str | None:
    """Mend what a hook has made or edited; returns what is wrong with it, if anything is."""
    if isinstance(chunk, ObjectChunk):
        return None  # made of clean text, and costly to look into
    try:
        problem = chunk_problem(chunk)
        if problem is None and chunk.type in _PIECES:
            text = chunk.payload.text
            if not text.isascii():
                chunk.payload.text = clean_text(text)
        elif problem is None:
            clean_record(chunk)
    except InputError as error:
        return str(error)
    return problem


def mend_edited(chunk: Chunk) -> None:
    """Mend a chunk that hooks may have edited in place; raises `InputError` if they spoilt it."""
    problem = mend_returned(chunk)
    if problem is not None:
        raise InputError(f"a process_output_stream hook has spoilt a chunk: {problem}")
