"""The span that is current, and what hooks get of it: spans of one's own below it.

Nothing here records anything: that is `procession.tracing`. Without it there is no context, and in
a run that is not sampled a span that takes every call and does nothing (O-001 to O-006).
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

__all__ = ["NOT_SAMPLED", "NO_SPAN", "AnySpan", "NoSpan", "TracingContext", "current_span"]


class AnySpan(Protocol):
    """A span under way (O-003), or one that does nothing.

    It is a context manager, plain and async:
    leaving the block ends it, with an error if one leaves the block (O-005).
    """

    @property
    def id(self) -> str:
        """16 hexadecimal digits."""
        ...

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""
        ...

    @property
    def is_valid(self) -> bool:
        """Whether it is recorded."""
        ...

    @property
    def is_root_span(self) -> bool:
        """Whether it is the first of its trace."""
        ...

    def create_child_span(
        self,
        type: str = "generic",
        name: str = "",
        input: Any = None,
        attributes: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AnySpan:
        """A span below this one, under way from now on."""
        ...

    def create_event_span(
        self,
        type: str = "generic",
        name: str = "",
        output: Any = None,
        attributes: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AnySpan:
        """Something that happened at this moment; it has no end."""
        ...

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
        ...

    def end(
        self,
        output: Any = None,
        attributes: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """It is over; a second end changes nothing."""
        ...

    def error(self, error: BaseException, end_span: bool = True) -> None:
        """It has failed. Kept is the kind of the error; its text only where it is our own."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


class NoSpan:
    """The span of a run that is not sampled: it takes every call, as its children do (O-004)."""

    __slots__ = ()

    id = "no-op"
    trace_id = "no-op-trace"
    is_valid = False
    is_root_span = False

    def create_child_span(self, *_given: Any, **_named: Any) -> NoSpan:
        """Itself."""
        return self

    def create_event_span(self, *_given: Any, **_named: Any) -> NoSpan:
        """Itself."""
        return self

    def update(self, **_named: Any) -> None:
        """Nothing."""

    def end(self, *_given: Any, **_named: Any) -> None:
        """Nothing."""

    def error(self, *_given: Any, **_named: Any) -> None:
        """Nothing."""

    def begin_run(self, *_given: Any) -> None:
        """Runs below are not sampled either (O-051)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...


class TracingContext:
    """What hooks are given as `tracing_context`: the span of this processor in this phase (O-002).

    Hand it on to an agent, as the option `tracing_context`, and its run stands below that span.
    """

    __slots__ = ("current_span",)

    def __init__(self, current_span: AnySpan) -> None:
        self.current_span = current_span


NO_SPAN = NoSpan()
NOT_SAMPLED = TracingContext(NO_SPAN)
"""The context of every run that is not sampled."""

current_span: ContextVar[AnySpan | None] = ContextVar("procession_span", default=None)
"""The span that whatever is called now works for: that of a hook or of a tool call (O-006)."""
