"""When a failed call of a provider is made again, and after which pause."""

from __future__ import annotations

from .errors import APICallError
from .retry_after import asked_pause

__all__ = ["Retries"]

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 8.0
LONGEST_ASKED_PAUSE = 60.0
"""Seconds: our own pauses double between the first two; a provider may ask for up to the last."""


class Retries:
    """The transport retries of one call: for errors marked retryable, before anything came (R-216).

    They are the model's own, and happen before any processor is asked.
    """

    __slots__ = ("_left", "_pause")

    def __init__(self, count: int) -> None:
        self._left = count
        self._pause = FIRST_PAUSE

    def pause_after(self, error: Exception) -> float | None:
        """Seconds to wait before another try, or `None` when the error is to stand."""
        if self._left <= 0 or not (isinstance(error, APICallError) and error.is_retryable):
            return None
        asked = asked_pause(error.response_headers)
        pause = self._pause if asked is None else min(asked, LONGEST_ASKED_PAUSE)
        self._left -= 1
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        return pause
