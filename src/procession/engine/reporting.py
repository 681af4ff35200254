"""Who is told of a run while it goes on, and how an observer of ended spans hears of it."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..spans import Span
from ..tracing_context import NOT_SAMPLED, current_span
from ..verdicts import verdict_in
from .tracks import ChunkTrack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..spans import Observer
    from .run_state import RunState
    from .step import Step

__all__ = ["Ends", "begin_reporting"]


def begin_reporting(run: RunState, options: Mapping[str, Any]) -> None:
    """Find out who is told of a run that begins, or goes on: `run.observer` becomes what the engine
    tells, and `run.tracing_context` what hooks are given.

    A run within a hook or a tool of another one is part of its trace (O-007).
    """
    observer: Any = run.observer
    context: Any = options.get("tracing_context")
    parent: Any = current_span.get() if context is None else context.current_span
    if observer is None and (parent is None or "observer" in options):
        return
    if observer is None:
        observer = parent  # which begins runs as well
    if hasattr(observer, "continued"):
        run.observer = observer.continued(run)
    elif not hasattr(observer, "begin_run"):
        run.observer = None if observer is parent else Ends(observer)
    else:
        run.observer = observer.begin_run(run, parent, options.get("tracing_options") or {})
        if run.observer is None:
            run.tracing_context = NOT_SAMPLED
            return
    run.tracing_context = None if run.observer is None else run.observer.tracing_context


class Ends:
    """Tells an observer of what has ended, in spans without beginnings."""

    __slots__ = ("_observer", "span")

    tracing_context = None

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.span = observer.span

    def hook_begins(self, _run: RunState, _link: Any, _args: Any) -> float:
        """When it began."""
        return perf_counter()

    def hook_ended(
        self,
        run: RunState,
        link: Any,
        args: Any,
        mark: float,
        error: BaseException | None,
        changed: bool,
    ) -> None:
        """A hook is told of, with the reason of its verdict."""
        wire = verdict_in(error) if error else None
        outcome = "changed" if changed else "ok"
        if error is not None:
            outcome = "failed" if wire is None else "retry" if wire.retry else "tripped"
        detail = {"reason": wire.reason} if wire else None
        self._tell(
            run, "hook", link.name, mark, outcome, processor_id=link.processor_id, detail=detail
        )

    def watch_chunks(self, _run: RunState, link: Any, _args: Any) -> ChunkTrack:
        """Counts calls, changes and drops."""
        return ChunkTrack(link.processor_id)

    def step_begins(self, run: RunState, step: Step) -> None:
        """Steps are not told of."""

    def call_ended(
        self, run: RunState, step: Step, seconds: float, _error: BaseException | None
    ) -> None:
        """The call is told of, and what processors did with the answer so far."""
        self.span(
            Span(
                kind="model",
                name=step.model_id,
                run_id=run.run_id,
                step_number=step.number,
                attempt=run.retry_count,
                seconds=seconds,
                outcome="ok" if step.answer.finish_reason else "failed",
                detail={"fromCache": step.from_cache, "usage": step.answer.usage.to_json()},
            )
        )
        for track in run.gate.tracks():
            self.span(track.told(run.run_id, step.number, run.retry_count))

    def tool_begins(self, _run: RunState, _call: Any, _tools: Any) -> float:
        """When it began."""
        return perf_counter()

    def tool_ended(
        self, run: RunState, call: Any, mark: float, kind: str | None, error: BaseException | None
    ) -> None:
        """A tool call is told of, unless the run ends with it."""
        if error is None:
            outcome = "failed" if kind in ("error", "refused") else "ok"
            self._tell(run, "tool", call.name, mark, outcome, detail={"toolCallId": call.id})

    def tool_shown(self, _run: RunState, _call: Any, _passed: Any) -> None:
        """Nothing of what a tool has returned is told."""

    def _tell(
        self, run: RunState, kind: str, name: str, started: float, outcome: str, **more: Any
    ) -> None:
        self.span(
            Span(
                kind=kind,
                name=name,
                run_id=run.run_id,
                step_number=run.step_number,
                attempt=run.retry_count,
                seconds=perf_counter() - started,
                outcome=outcome,
                **more,
            )
        )

    def loop_ended(self, run: RunState) -> None:
        """Steps are not told of."""

    def ending_begins(self, run: RunState, run_ended: Any) -> None:
        """Who hears of the end is not told of."""

    def ending_ended(self, run: RunState, mark: None, error: BaseException | None) -> None:
        """Who hears of the end is not told of."""

    def run_ended(self, run: RunState) -> None:
        """Runs are not told of."""

    def continued(self, _run: RunState) -> Ends:
        """The same observer hears of what follows."""
        return self
