"""Being stopped from outside, while the run waits: by the caller's signal, or by being closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..abort_signal import AbortSignal

__all__ = ["Interrupted", "Interruption"]


class Interrupted(Exception):
    """Inside the loop only: the caller's signal fired, or the run was closed from elsewhere."""


class Interruption:
    """Wakes a wait by cancelling the task that pulls, and tells that cancellation from others.

    Only the wait for the model is cut short by a signal: hooks and tools hear it themselves and
    come to their own end (R-558).
    """

    __slots__ = ("_fired", "_puller", "_signal", "is_armed", "puller", "reader", "waiting")

    def __init__(self, signal: AbortSignal | None) -> None:
        self._signal = signal
        self.is_armed = signal is not None
        """Whether there is anything to check."""
        self.puller: asyncio.Task[Any] | None = None
        """The task that pulls at the moment."""
        self.reader: asyncio.Task[Any] | None = None
        """The task that pulled last: it reads what was delivered, or is pulling again."""
        self.waiting = False
        """Whether the run waits for the model."""
        self._fired = False
        self._puller: asyncio.Task[Any] | None = None

    def interrupt(self, *, anywhere: bool = False) -> None:
        """End the wait for the model (`anywhere`: whatever is waited for) as a stop."""
        if (self.waiting or anywhere) and self.puller is not None and not self._fired:
            self._fired = self.is_armed = True
            self._puller = self.puller
            self.puller.cancel()

    def check(self) -> None:
        """Raise `Interrupted` if a stop was asked for."""
        if self._fired or (self._signal is not None and self._signal.aborted):
            raise Interrupted

    def is_behind(self, error: BaseException) -> bool:
        """Whether `error` is how a stop shows; a caller's own cancellation is not."""
        if not self._fired:
            return isinstance(error, Interrupted)
        others = self.take_back()
        if isinstance(error, asyncio.CancelledError):
            return others == 0
        return isinstance(error, Exception)

    def take_back(self) -> int | None:
        """Undo our cancellation, however it showed: the task that read goes on, and is not to look
        like one that was asked to end. Returns how many others have asked for that.
        """
        puller, self._puller = self._puller, None
        return None if puller is None else puller.uncancel()
