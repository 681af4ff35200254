"""Telling a run to stop from outside: a controller that fires, a signal that is listened to.

The pair mirrors what web clients know as AbortController and AbortSignal (R-234). A signal may be
fired from any thread; callbacks run in the thread that fires.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AbortController", "AbortSignal"]


class AbortSignal:
    """Says whether a stop was asked for. Handed to hooks, tools and model calls."""

    __slots__ = ("_callbacks", "_lock", "aborted", "reason")

    def __init__(self) -> None:
        self.aborted = False
        """True from the moment the controller fired; never goes back."""
        self.reason: Any = None
        """What was given to `AbortController.abort`."""
        self._callbacks: dict[object, Callable[[], object]] = {}
        self._lock = threading.Lock()

    def add_callback(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once when the signal fires, at once if it has; returns what undoes it."""
        key = object()
        with self._lock:
            if not self.aborted:
                self._callbacks[key] = callback
                return lambda: self._forget(key)
        callback()
        return lambda: None

    def _forget(self, key: object) -> None:
        with self._lock:
            self._callbacks.pop(key, None)

    async def wait(self) -> Any:
        """Wait until the signal fires; returns its reason."""
        loop = asyncio.get_running_loop()
        fired = loop.create_future()

        def wake() -> None:
            if not fired.done():
                fired.set_result(None)

        def from_any_thread() -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
                loop.call_soon_threadsafe(wake)

        undo = self.add_callback(from_any_thread)
        try:
            await fired
        finally:
            undo()
        return self.reason

    def _fire(self, reason: Any) -> None:
        with self._lock:
            if self.aborted:
                return
            self.reason = reason
            self.aborted = True
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()


class AbortController:
    """Owns a signal and fires it: `agent.stream(..., abort_signal=controller.signal)`."""

    __slots__ = ("signal",)

    def __init__(self) -> None:
        self.signal = AbortSignal()

    def abort(self, reason: Any = None) -> None:
        """Fire the signal, from any thread. A second call changes nothing."""
        self.signal._fire(reason)  # pyright: ignore[reportPrivateUsage]  # the pair is one thing
