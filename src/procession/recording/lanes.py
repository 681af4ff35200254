"""What a processor was handed of a stream, block by block, and how long it took over it."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..chunks import DeltaPayload
from ..engine.tracks import content_of
from .snapshots import Changed, as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..chunks import Chunk

__all__ = ["LaneTrack", "changed_lanes"]

_MOSTLY_UNTIMED = 0xF
"""Of the calls of a plain hook every sixteenth is timed: time stamps cost more than the call."""
_CALL = "tool-call"


class LaneTrack:
    """One processor's `process_output_stream` over one attempt: its calls, its texts, its time."""

    sees_all = True
    """Whether the hook is called for what it has nothing to do with, so that it is counted."""

    def __init__(self, processor_id: str) -> None:
        self.processor_id = processor_id
        self._reset()

    def _reset(self) -> None:
        self.count = self.changed = self.dropped = 0
        self.first = 0.0
        self._timed = self._awaited = 0.0
        self._timed_calls = 0
        self._texts: dict[tuple[str, str], list[str]] = {}
        self._kind: str = ""
        self._id: str = ""
        self._add: Callable[[str], None]
        """Adds to the lane of the last piece, which is mostly that of the next one."""

    def taken(self) -> LaneTrack:
        """What was noted so far; it begins anew."""
        taken = LaneTrack(self.processor_id)
        taken.__dict__.update(self.__dict__)
        self._reset()
        return taken

    @property
    def seconds(self) -> float:
        """The time spent in the hook, estimated from the calls that were timed."""
        mean = self._timed / self._timed_calls if self._timed_calls else 0.0
        return mean * self.count + self._awaited

    def lanes(self) -> dict[tuple[str, str], str]:
        """The texts it was handed, by the type of their chunks and the id of their block."""
        return {lane: "".join(texts) for lane, texts in self._texts.items()}

    def watch(self, hook: Callable[[Any], Any], is_async: bool) -> Callable[[Any], Any]:
        """The hook, with every call noted."""

        def plain(args: Any) -> Any:
            part = args.part
            payload = part.payload
            before = self._take(part)
            number, self.count = self.count, self.count + 1
            if number & _MOSTLY_UNTIMED:
                returned = hook(args)
            else:
                started = perf_counter()
                self.first = self.first or started
                try:
                    returned = hook(args)
                finally:
                    self._timed += perf_counter() - started
                    self._timed_calls += 1
            if returned is part and part.payload is payload and before.__class__ is str:
                if payload.text is before:
                    return returned  # nearly all of them
            self._note(part, before, returned)
            return returned

        async def awaited(args: Any) -> Any:
            part = args.part
            before = self._take(part)
            self.count += 1
            started = perf_counter()
            self.first = self.first or started
            try:
                returned = await hook(args)
            finally:
                self._awaited += perf_counter() - started
            self._note(part, before, returned)
            return returned

        return awaited if is_async else plain

    def _take(self, part: Chunk) -> Any:
        """Note the text of a chunk; returns what an edit in place would change."""
        payload = part.payload
        if payload.__class__ is DeltaPayload:
            text = payload.text
            if payload.id != self._id or part.type != self._kind:
                self._id, self._kind = payload.id, part.type
                self._add = self._texts.setdefault((part.type, payload.id), []).append
            self._add(text)
            return text
        if part.type == _CALL:
            self._texts[_CALL, payload.tool_call_id] = [call_text(payload)]
        return content_of(part)

    def _note(self, part: Chunk, before: Any, returned: Any) -> None:
        if returned is None:
            self.dropped += 1
            return
        now = content_of(returned)
        if part.payload.__class__ is DeltaPayload:
            if now[0] != part.type or now[1] != before:
                self.changed += 1
        elif now != before:
            self.changed += 1


def changed_lanes(
    before: Mapping[tuple[str, str], str], after: Mapping[tuple[str, str], str]
) -> list[Changed]:
    """The blocks whose text has become another one.

    Who looks for something in the arguments of tools is handed their leaves, and not the call.
    """
    found: list[Changed] = []
    for lane in dict.fromkeys((*before, *after)):
        if lane[0] == _CALL and not (lane in before and lane in after):
            continue
        one, other = before.get(lane, ""), after.get(lane, "")
        if one != other:
            kind = lane[0].removesuffix("-delta")
            found.append(Changed("assistant", kind, one or None, other or None))
    return found


def call_text(payload: Any) -> str:
    """What a `tool-call` chunk asks for."""
    return f"{payload.tool_name}({as_json(None if payload.args is UNSET else payload.args)})"
