"""Where spans go, and the thread that brings them there: no run ever waits for it (O-052)."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

from .harmless import log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..trace_store import ExportedSpan

    Prepare = Callable[[Sequence[ExportedSpan], "ExportCounts"], list[ExportedSpan]]

__all__ = ["ExportCounts", "Exporter", "Lane"]


class Exporter(Protocol):
    """Takes spans that are over, in batches: those of a trace that has ended, mostly.

    The methods are plain or async; they are called on a thread of their own, one at a time, those
    that are async on that thread's event loop. What they raise is logged and counted. With a true
    attribute `inline` the exporter is called in the run's own task instead: for tests.
    """

    @property
    def name(self) -> str:
        """What logs and counts call it."""
        ...

    def export(self, spans: Sequence[ExportedSpan], /) -> Any:
        """Take a batch."""
        ...

    def flush(self) -> Any:
        """Bring on its way what has been taken."""
        ...

    def shutdown(self) -> Any:
        """Let go of files and connections; nothing follows."""
        ...


class ExportCounts(Struct):
    """What has become of the spans, for one exporter.

    `masked` are texts that the mask has changed, `filtered` spans that a processor or a filter has
    dropped, `dropped` spans for which there was no room, `failed` those that the exporter has
    failed with.
    """

    exported: int = 0
    masked: int = 0
    filtered: int = 0
    dropped: int = 0
    failed: int = 0


class _Asked(NamedTuple):
    """`flush` or `shutdown`, to be called in turn."""

    what: str
    done: Future[None]


class Lane:
    """The way to one exporter: a queue that has an end, and a thread that begins with the first
    span.
    """

    def __init__(self, exporter: Any, prepare: Prepare, *, most: int, timeout: float) -> None:
        self.exporter = exporter
        self.counts = ExportCounts()
        self.is_inline = bool(getattr(exporter, "inline", False))
        self._prepare = prepare
        self._most, self._timeout = most, timeout
        self._queue: deque[_Asked | Sequence[ExportedSpan]] = deque()
        self._waiting = 0
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._closed = False
        self._told = False

    def put(self, spans: Sequence[ExportedSpan]) -> None:
        """Bring spans on their way, unless there is no room: then they are only counted."""
        if self.is_inline:
            if not self._closed:
                self._export(spans, None)
            return
        with self._lock:
            if self._closed or (self._waiting and self._waiting + len(spans) > self._most):
                self.counts.dropped += len(spans)
                return
            self._waiting += len(spans)
            self._queue.append(spans)
            self._begin()
            self._lock.notify()

    def _begin(self) -> None:
        """A thread, if there is none in this process."""
        if self._thread is None or self._pid != os.getpid() or not self._thread.is_alive():
            self._pid = os.getpid()
            name = f"procession-traces-{self.exporter.name}"
            self._thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._thread.start()

    @property
    def has_begun(self) -> bool:
        """Whether there is a thread of this process at work."""
        return self._thread is not None and self._pid == os.getpid() and not self._closed

    def ask(self, what: str) -> Future[None]:
        """Have `flush` or `shutdown` called behind what is on its way; done when it has been."""
        done: Future[None] = Future()
        with self._lock:
            ends = what == "shutdown"
            if self._closed and ends:
                done.set_result(None)
                return done
            self._closed = self._closed or ends
            if self.is_inline or (self._thread is None and not ends):
                pass
            else:
                self._queue.append(_Asked(what, done))
                self._begin()
                self._lock.notify()
                return done
        if self.is_inline:
            self._call(what, None)
        done.set_result(None)
        return done

    def join(self) -> None:
        """Wait for the thread, which has come to its end."""
        if self._thread is not None and self._pid == os.getpid():
            self._thread.join(timeout=5)

    # ── on the thread ──────────────────────────────────────────────────────────────────────────

    def _work(self) -> None:
        with asyncio.Runner() as runner:
            done = self._loop(runner)
        done.set_result(None)

    def _loop(self, runner: asyncio.Runner) -> Future[None]:
        """Until it is to shut down; gives what is done then."""
        while True:
            with self._lock:
                while not self._queue:
                    self._lock.wait()
                taken = self._queue.popleft()
            if not isinstance(taken, _Asked):
                self._export(taken, runner)
                with self._lock:
                    self._waiting -= len(taken)
                continue
            self._call(taken.what, runner)
            if taken.what == "shutdown":
                return taken.done
            taken.done.set_result(None)

    def _export(self, spans: Sequence[ExportedSpan], runner: asyncio.Runner | None) -> None:
        try:
            ready = self._prepare(spans, self.counts)
            if ready:
                self._wait(self.exporter.export(ready), runner)
            self.counts.exported += len(ready)
        except Exception as error:
            self.counts.failed += len(spans)
            self._tell("export", error)

    def _call(self, what: str, runner: asyncio.Runner | None) -> None:
        try:
            self._wait(getattr(self.exporter, what)(), runner)
        except Exception as error:
            self._tell(what, error)

    def _wait(self, returned: Any, runner: asyncio.Runner | None) -> None:
        if not inspect.isawaitable(returned):
            return
        if runner is None:
            if inspect.iscoroutine(returned):
                returned.close()
            raise TypeError("an inline exporter cannot be async")

        async def bounded() -> None:
            async with asyncio.timeout(self._timeout):
                await returned

        runner.run(bounded())

    def _tell(self, what: str, error: Exception) -> None:
        """Once: an exporter that fails will fail with every batch."""
        if not self._told:
            self._told = True
            log.warning(
                "exporter %r failed in %s: %s; spans are lost, and counted in Tracing.counts",
                self.exporter.name,
                what,
                type(error).__name__,
            )
