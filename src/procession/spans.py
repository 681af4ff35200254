"""What happened during a run, for whoever wants to know: spans, and the observer they go to.

The engine makes spans only when an observer listens; without one the chunk path takes no time
stamps at all. A span tells what was done and how long it took, never what a text said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Observer", "RunObserver", "Span"]


class Span(Struct, kw_only=True):
    """One thing that happened.

    `kind` is `hook`, `chunks`, `model`, `tool` or `policy`. `name` is the hook, the model id
    or the tool. `seconds` is how long it took (wall time). `outcome` is one of `ok`, `changed`,
    `dropped`, `tripped`, `retry`, `failed`; of kind `policy` the action of a `PolicyEvent`
    (`blocked`, `bypassed`, `degraded`, `late`, `observed`), told when it happens the first time in
    an attempt. A span of kind `chunks` sums up one processor's
    `process_output_stream` over one attempt: `count` calls, of which `changed` and `dropped`.
    `detail` holds a few plain values, such as the reason of a tripwire.
    """

    kind: str
    name: str
    run_id: str
    processor_id: str | None = None
    step_number: int | None = None
    attempt: int = 0
    seconds: float = 0.0
    outcome: str = "ok"
    count: int = 1
    changed: int = 0
    dropped: int = 0
    detail: dict[str, Any] | None = None


class Observer(Protocol):
    """Receives spans as they end. Called in the run's own task: return quickly, never raise.

    `procession.tracing.Tracing` is one that makes trees of them, and sends them on.
    """

    def span(self, span: Span, /) -> None:
        """Take note of a finished span."""
        ...


class RunObserver(Protocol):
    """What the engine tells of one run: beginnings as well as ends.

    An observer that has a method `begin_run(run, parent, options)` gives one for each run, or
    `None` for a run that is not sampled. It is told of engine objects, which it only reads, in the
    run's own tasks, and must not raise. Marks are its own.
    """

    tracing_context: Any
    """What is no hook's own is given this context."""

    def span(self, span: Span, /) -> None:
        """Something that has no duration: what a policy did."""
        ...

    def hook_begins(self, run: Any, link: Any, args: Any, /) -> Any:
        """A hook is about to be called; returns a mark for its end."""
        ...

    def hook_ended(
        self,
        run: Any,
        link: Any,
        args: Any,
        mark: Any,
        error: BaseException | None,
        changed: bool,
        /,
    ) -> None:
        """It has returned, and something if `changed`; or what it raised is about to leave."""
        ...

    def watch_chunks(self, run: Any, link: Any, args: Any, /) -> Any:
        """The track of a processor's `process_output_stream` in this run."""
        ...

    def step_begins(self, run: Any, step: Any, /) -> None:
        """An attempt at a step begins; the one before is over."""
        ...

    def call_ended(
        self, run: Any, step: Any, seconds: float, error: BaseException | None, /
    ) -> None:
        """A call of the model is over; `error` is what has ended it, if anything has."""
        ...

    def tool_begins(self, run: Any, call: Any, tools: Any, /) -> Any:
        """A tool is about to be called, in a context of its own; returns a mark for its end."""
        ...

    def tool_ended(
        self, run: Any, call: Any, mark: Any, kind: str | None, error: BaseException | None, /
    ) -> None:
        """It has come to an outcome of this kind, or what it raised is about to leave."""
        ...

    def tool_shown(self, run: Any, call: Any, passed: Sequence[Any], /) -> None:
        """The outcome of a tool call has been offered: `passed` are the chunks that got through."""
        ...

    def loop_ended(self, run: Any, /) -> None:
        """The last step is over."""
        ...

    def ending_begins(self, run: Any, run_ended: Any, /) -> Any:
        """Somebody is about to be told of the end of the run; returns a mark."""
        ...

    def ending_ended(self, run: Any, mark: Any, error: BaseException | None, /) -> None:
        """It has been told, or has raised."""
        ...

    def run_ended(self, run: Any, /) -> None:
        """The run is over, and its outcome known. Told once, at the latest when it is dropped."""
        ...

    def continued(self, run: Any, /) -> RunObserver:
        """The observer of the run that goes on with this one, which had to wait."""
        ...
