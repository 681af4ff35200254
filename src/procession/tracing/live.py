"""Spans under way, and the trace that they belong to."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, Self

from ..errors import MissingKeyError, ProcessorError
from ..tracing_context import current_span
from ..verdicts import verdict_in
from .ids import new_span_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token
    from types import TracebackType

    from ..trace_store import SpanStatus
    from ..tracing_context import AnySpan

__all__ = ["LiveSpan", "Trace", "error_info", "leave_span"]

MOST_SPANS = 10_000
"""So many spans are kept of one trace; of those behind only the number."""


class Receiver(Protocol):
    """Where spans go: a `Tracing`."""

    content: str

    def deliver(self, spans: list[LiveSpan], dropped: int = 0) -> None:
        """Take over spans that are over."""
        ...

    def begin_run(self, run: Any, parent: Any, options: Mapping[str, Any]) -> Any:
        """What is told of a run."""
        ...


class Trace:
    """All spans below one root. They leave together, once the root is over: only then is it known
    whether what they hold may be shown.
    """

    __slots__ = ("_anchor", "dropped", "id", "left", "receiver", "root", "spans")

    def __init__(self, receiver: Receiver, id: str) -> None:
        self.receiver = receiver
        self.id = id
        self.spans: list[LiveSpan] = []
        self.root: LiveSpan | None = None
        self.dropped = 0
        self.left = False
        # One clock for all spans, so that the wall clock's jumps turn nothing round.
        self._anchor = time.time() - time.perf_counter()

    def moment(self, at: float) -> datetime:
        """The time of a `perf_counter`."""
        return datetime.fromtimestamp(self._anchor + at, UTC)

    def begin(self, parent: LiveSpan | None, type: str, name: str) -> LiveSpan:
        """A span that begins now."""
        span = LiveSpan(self, parent, type, name)
        if self.root is None:
            self.root = span
        if len(self.spans) < MOST_SPANS or span is self.root:
            self.spans.append(span)
        else:
            self.dropped += 1
        return span

    def ended(self, span: LiveSpan) -> None:
        """A span is over; with the root everything leaves, and what ends later follows it."""
        if self.left:
            self.receiver.deliver([span])
        elif span is self.root:
            self.leave()

    def leave(self) -> None:
        """Hand on what is over. What is still under way follows when it ends."""
        self.left = True
        over = [span for span in self.spans if span.ended is not None]
        self.spans = []
        self.receiver.deliver(over, self.dropped)
        self.dropped = 0


class LiveSpan:
    """A span under way; see `procession.tracing_context.AnySpan`."""

    __slots__ = (
        "_token",
        "attributes",
        "ended",
        "entity",
        "error_info",
        "id",
        "input",
        "is_event",
        "is_internal",
        "metadata",
        "name",
        "output",
        "parent",
        "parent_id",
        "request_context",
        "run",
        "run_id",
        "started",
        "status",
        "tags",
        "trace",
        "type",
    )

    is_valid = True

    def __init__(self, trace: Trace, parent: LiveSpan | None, type: str, name: str) -> None:
        self.trace = trace
        self.parent = parent
        self.parent_id: str | None = None if parent is None else parent.id
        self.id = new_span_id()
        self.type, self.name = type, name
        self.started = time.perf_counter()
        self.ended: float | None = None
        self.status: SpanStatus = "ok"
        self.entity: tuple[str | None, str | None, str | None] = (None, None, None)
        self.run: Any = None if parent is None else parent.run
        """What is told of the run that it belongs to."""
        self.run_id: str | None = None if parent is None else parent.run_id
        self.input: Any = None
        self.output: Any = None
        self.attributes: dict[str, Any] = {}
        self.metadata: dict[str, Any] | None = None
        self.tags: list[str] | None = None
        self.request_context: dict[str, Any] | None = None
        self.error_info: dict[str, Any] | None = None
        self.is_event = self.is_internal = False
        self._token: Token[AnySpan | None] | None = None

    @property
    def trace_id(self) -> str:
        """The id of its trace."""
        return self.trace.id

    @property
    def is_root_span(self) -> bool:
        """Whether it is the first of its trace."""
        return self.trace.root is self

    def create_child_span(
        self,
        type: str = "generic",
        name: str = "",
        input: Any = None,
        attributes: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> LiveSpan:
        """A span below this one, under way from now on (O-003)."""
        span = self.trace.begin(self, type, name or type)
        span.update(input=input, attributes=attributes, metadata=metadata)
        return span

    def create_event_span(
        self,
        type: str = "generic",
        name: str = "",
        output: Any = None,
        attributes: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> LiveSpan:
        """Something that happened at this moment."""
        span = self.create_child_span(type, name, attributes=attributes, metadata=metadata)
        span.is_event = True
        span.end(output)
        return span

    def update(
        self,
        *,
        name: str | None = None,
        input: Any = None,
        output: Any = None,
        attributes: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Set what is given; attributes and metadata are merged."""
        if self.ended is not None:
            return
        if name:
            self.name = name
        if input is not None:
            self.input = input
        if output is not None:
            self.output = output
        if attributes:
            self.attributes.update(attributes)
        if metadata:
            self.metadata = {**(self.metadata or {}), **metadata}

    def end(
        self,
        output: Any = None,
        attributes: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """It is over; a second end changes nothing."""
        if self.ended is None:
            self.update(output=output, attributes=attributes, metadata=metadata)
            self.close()

    def error(self, error: BaseException, end_span: bool = True) -> None:
        """It has failed (G-W2)."""
        if self.ended is None:
            self.failed(error)
            if end_span:
                self.close()

    def failed(self, error: BaseException) -> None:
        """Note what it has failed with: a verdict and a cancellation are no errors of it."""
        if verdict_in(error) is not None:
            self.status = "tripwire"
        elif isinstance(error, Exception):
            self.status = "error"
        else:
            self.status = "canceled"
        self.error_info = error_info(error)

    def close(self, at: float | None = None) -> None:
        """It is over, now or since `at`, a `perf_counter`."""
        now = self.started if self.is_event else time.perf_counter()
        self.ended = now if at is None else at
        self.trace.ended(self)

    def begin_run(self, run: Any, _parent: Any, options: Mapping[str, Any]) -> Any:
        """What is told of a run that begins below this span."""
        return self.trace.receiver.begin_run(run, self, options)

    def __enter__(self) -> Self:
        self._token = current_span.set(self)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
        /,
    ) -> None:
        leave_span(self._token)
        if error is None:
            self.end()
        else:
            self.error(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        self.__exit__(kind, error, trace)


def leave_span(token: Token[AnySpan | None] | None) -> None:
    """What was current before is current again; not in another context, where it never was."""
    if token is not None:
        with suppress(ValueError):
            current_span.reset(token)


def error_info(error: BaseException) -> dict[str, Any]:
    """What is told of an error: its kind. Its words may be anybody's; ours are told (G-W2)."""
    name = type(error).__name__
    if type(error) in _OWN_WORDS:
        return {"name": name, "message": str(error)}
    return {"name": name}


_OWN_WORDS = frozenset({MissingKeyError, ProcessorError})
"""Errors whose texts are written here, and quote nobody: neither a provider nor a hook."""
