"""One call of the model while it goes on: what was sent, what came in, and what left the run."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..chunks import DeltaPayload
from ..records import plain
from .recorded_run import RecordedModelCall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..chunks import Chunk

__all__ = ["Asked", "usage_form"]


_FRAMES = frozenset({"step-start", "step-finish", "response-metadata", "finish"})
"""What leaves on the engine's word alone, or not at all."""
_NOT_THE_MODELS = frozenset({"step-start", "step-finish", "tool-error", "tool-output", "tripwire"})


class Asked:
    """A call under way, or over. Pieces are taken as they are: they have their form when asked."""

    __slots__ = ("_came", "_left", "call", "entries", "is_cut", "most", "same")

    def __init__(self, number: int, step_number: int, most: int) -> None:
        self.call = RecordedModelCall(number=number, step_number=step_number)
        self.entries: list[dict[str, Any]] = []
        """The prompt, in JSON form."""
        self.same = 0
        """How many of its entries the call before had, at the beginning."""
        self.most = most
        """So many pieces are kept."""
        self.is_cut = False
        self._came: list[tuple[float, Any]] = []
        self._left: dict[tuple[str, str], list[tuple[float, int]]] = {}

    def take_prompt(
        self,
        prompt: Sequence[Any],
        before: Asked | None,
        sent: Sequence[Any],
        limit: Callable[[Any], Any],
    ) -> None:
        """What was sent; `sent` is what was sent with the call `before`, whose forms are kept."""
        for mine, theirs in zip(sent, prompt, strict=False):
            if mine is not theirs and mine != theirs:
                break
            self.same += 1
        kept = [] if before is None else before.entries[: self.same]
        self.entries = [*kept, *(limit(plain(entry)) for entry in prompt[self.same :])]

    def came(self, part: Chunk) -> None:
        """A chunk of the model enters the run; it may be edited in place later."""
        payload = part.payload
        if len(self._came) >= self.most:
            self.is_cut = True
        elif payload.__class__ is DeltaPayload and payload.provider_metadata is UNSET:
            self._came.append((perf_counter(), (part.type, payload.id, payload.text)))
        elif part.type not in _NOT_THE_MODELS:
            self._came.append((perf_counter(), part.to_json()))

    def left(self, part: Chunk) -> None:
        """A chunk leaves the run."""
        payload = part.payload
        if payload.__class__ is DeltaPayload:
            lane, size = (part.type, payload.id), len(payload.text)
        elif part.type in _FRAMES:
            return
        else:
            id = getattr(payload, "id", None) or getattr(payload, "tool_call_id", None)
            lane, size = (part.type, str(id or "")), len(getattr(payload, "args_text_delta", ""))
        cuts = self._left.get(lane)
        if cuts is None:
            cuts = self._left[lane] = []
        if len(cuts) < self.most:
            cuts.append((perf_counter(), size))
        else:
            self.is_cut = True

    def close(self, reason: str) -> None:
        """The end that a model gives to calls of tools is not offered to processors (R-049)."""
        if self._came and _form(self._came[-1][1])["type"] == "finish":
            return
        at = self._came[-1][0] if self._came else perf_counter()
        payload = {"stepResult": {"reason": reason}, "output": {"usage": self.call.usage}}
        self._came.append((at, {"type": "finish", "payload": payload}))

    def chunks(self, began: float) -> list[list[Any]]:
        """The model's chunks, each with the milliseconds since `began`."""
        return [[_milliseconds(at, began), _form(came)] for at, came in self._came]

    def delivered(self, began: float) -> list[dict[str, Any]]:
        """The pieces that left, lane by lane."""
        return [
            {
                "type": kind,
                "id": id,
                "cuts": [[_milliseconds(at, began), size] for at, size in cuts],
            }
            for (kind, id), cuts in self._left.items()
        ]


def _milliseconds(at: float, began: float) -> float:
    return round((at - began) * 1000, 3)


def _form(came: Any) -> dict[str, Any]:
    if came.__class__ is dict:
        return came
    kind, id, text = came
    return {"type": kind, "payload": {"id": id, "text": text}}


def usage_form(usage: Any) -> dict[str, Any]:
    """Token counts without what the provider sent."""
    return {key: value for key, value in usage.to_json().items() if key != "raw"}
