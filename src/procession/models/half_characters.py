"""Surrogate pairs that a provider cut in two: each half came in an event of its own."""

from __future__ import annotations

from ..records import clean_text

__all__ = ["LOST", "HalfCharacters"]

LOST = "\ufffd"
"""What stands for a character whose other half never came."""


class HalfCharacters:
    """First halves that wait for the second, by lane: each lane's text grows by itself."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def whole(self, lane: str, text: str) -> str:
        """The lane's text as far as its characters are complete."""
        if not self._waiting and text.isascii():
            return text
        text = self._waiting.pop(lane, "") + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._waiting[lane] = text[-1]
            text = text[:-1]
        return clean_text(text)

    def end(self, lane: str) -> str:
        """What the end of the lane leaves: `LOST`, or nothing."""
        return LOST if self._waiting.pop(lane, "") else ""
