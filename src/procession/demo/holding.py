"""Holding back: a text that comes in pieces, and a phrase that must be recognised in it whole.

What may still become the phrase waits for the next piece; everything else passes at once. So the
result is the same however the text was cut, and no part of the phrase is ever let out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ..chunks import Chunk, DeltaPayload
from ..processor import Processor

if TYPE_CHECKING:
    from ..processor import ProcessOutputStreamArgs

__all__ = ["Blocker", "Redactor", "Turn", "may_become"]


def may_become(text: str, phrase: str) -> int:
    """How many characters at the end of `text` may be the beginning of `phrase`."""
    text = text.lower()
    for length in range(min(len(text), len(phrase) - 1), 0, -1):
        if phrase.startswith(text[-length:]):
            return length
    return 0


class Turn(Struct, frozen=True):
    """What one piece led to: the piece as it came, what is held back after it, what passed."""

    came: str
    held: str
    passed: str


class Redactor(Processor):
    """Puts a label in place of a phrase, which is compared without regard to case."""

    def __init__(self, id: str, phrase: str, label: str) -> None:
        self.id = id
        self.phrase = phrase.lower()
        self.label = label
        self.turns: list[Turn] = []
        """What happened, piece by piece; the demo shows it, and runs one thing at a time."""

    def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk | None:
        """Text deltas pass as far as they are harmless; a block's end lets its rest go."""
        part = args.part
        if part.type == "step-start":
            args.state.clear()  # what a rejected attempt left behind is no part of the next
        if part.type == "text-delta":
            return self._take(args, part)
        if part.type == "text-end" and args.state.get(part.payload.id):
            # A hook gives one chunk for one chunk: the rest takes the place of the block's end.
            rest = args.state.pop(part.payload.id)
            self.turns.append(Turn("", "", rest))
            return Chunk(type="text-delta", payload=DeltaPayload(id=part.payload.id, text=rest))
        return part

    def _take(self, args: ProcessOutputStreamArgs, part: Chunk) -> Chunk | None:
        payload: DeltaPayload = part.payload
        came = payload.text
        text, sure = args.state.pop(payload.id, "") + came, ""
        while (found := text.lower().find(self.phrase)) >= 0:
            self.recognised(args, came, text)
            sure += text[:found] + self.label
            text = text[found + len(self.phrase) :]
        cut = len(text) - may_become(text, self.phrase)
        sure, held = sure + text[:cut], text[cut:]
        if held:
            args.state[payload.id] = held
        self.turns.append(Turn(came, held, sure))
        payload.text = sure
        return part if sure else None

    def recognised(self, args: ProcessOutputStreamArgs, came: str, text: str) -> None:
        """Called when the phrase is complete: `came` completed it, nothing of `text` is out."""


class Blocker(Redactor):
    """Stops the run as soon as the model has said a phrase."""

    def __init__(self, id: str, phrase: str, reason: str) -> None:
        super().__init__(id, phrase, "")
        self.reason = reason

    def recognised(self, args: ProcessOutputStreamArgs, came: str, text: str) -> None:
        """Raises `TripWire`; the phrase itself is no part of the reason."""
        self.turns.append(Turn(came, text, ""))
        args.abort(self.reason)
