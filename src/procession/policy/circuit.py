"""The breaker of one processor: how often it has failed in a row, and whether it is to rest.

Shared by all runs, in whatever threads their loops run.
"""

from __future__ import annotations

from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["REFUSED", "Circuit"]

REFUSED = -1
"""The pass of a call that is not to be made."""


class Circuit:
    """Gives each call a pass, and is told what became of it.

    Closed: all calls are made. Open, after `failures` failures in a row: none is, for `seconds`.
    Then one call at a time is a probe; its success closes the circuit, its failure opens it anew.
    A probe that never comes back counts for nothing after as many seconds: another one is made. The
    outcome of a call that was made before the circuit last changed counts for nothing.
    """

    __slots__ = (
        "_clock",
        "_failed",
        "_failures",
        "_lock",
        "_pass",
        "_probing",
        "_seconds",
        "_since",
    )

    def __init__(
        self, failures: int, seconds: float, clock: Callable[[], float] = monotonic
    ) -> None:
        self._failures = failures
        self._seconds = seconds
        self._clock = clock
        self._lock = Lock()
        self._failed = 0
        self._pass = 0
        self._since: float | None = None
        """When it was opened, or probed last; `None` while it is closed."""
        self._probing = False

    @property
    def is_open(self) -> bool:
        """Whether calls are refused, but for a probe."""
        return self._since is not None

    def enter(self) -> int:
        """The pass of a call that is about to be made, or `REFUSED`."""
        given = self._pass  # read first: the circuit may be opened by another thread
        if not self.is_open:  # the usual case, without the lock
            return given
        with self._lock:
            since: float | None = self._since  # another thread may have closed it
            if since is None:
                return self._pass
            now = self._clock()
            if now - since < self._seconds:
                return REFUSED
            self._since = now  # nobody else probes meanwhile
            self._probing = True
            self._pass += 1
            return self._pass

    def succeeded(self, given: int) -> None:
        """A call came to an end, with a verdict or without."""
        if not self._failed and self._since is None:  # the usual case, without the lock
            return
        with self._lock:
            if given != self._pass:
                return
            self._failed = 0
            if self._since is not None:
                self._since = None
                self._probing = False
                self._pass += 1

    def failed(self, given: int) -> None:
        """A call failed."""
        with self._lock:
            if given != self._pass:
                return
            self._failed += 1
            if self._probing or self._failed >= self._failures:
                self._since = self._clock()
                self._probing = False
                self._pass += 1

    def left(self, given: int) -> None:
        """A call was given up by somebody else: nothing is known of the processor by it."""
        with self._lock:
            if given == self._pass and self._probing and self._since is not None:
                self._probing = False
                self._since -= self._seconds  # the next call is the probe
                self._pass += 1
