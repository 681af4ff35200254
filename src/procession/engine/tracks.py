"""How one processor fared with the chunks of an attempt; kept only when an observer listens."""

from __future__ import annotations

from copy import copy
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..spans import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..chunks import Chunk
    from .run_state import RunState
    from .step import Step

__all__ = ["ChunkTrack", "report_call"]


class ChunkTrack:
    """Counts calls, changes and drops, and sums up the time spent in a hook."""

    __slots__ = ("changed", "count", "dropped", "processor_id", "seconds")

    def __init__(self, processor_id: str) -> None:
        self.processor_id = processor_id
        self.count = self.changed = self.dropped = 0
        self.seconds = 0.0

    def watch(self, hook: Callable[[Any], Any], is_async: bool) -> Callable[[Any], Any]:
        """The hook, with every call counted and timed."""

        def plain(args: Any) -> Any:
            before = _content(args.part)
            started = perf_counter()
            returned: Any = before
            try:
                returned = hook(args)
            finally:
                self.seconds += perf_counter() - started
                self._note(before, returned)
            return returned

        async def awaited(args: Any) -> Any:
            before = _content(args.part)
            started = perf_counter()
            returned: Any = before
            try:
                returned = await hook(args)
            finally:
                self.seconds += perf_counter() - started
                self._note(before, returned)
            return returned

        return awaited if is_async else plain

    def _note(self, before: tuple[Any, ...], returned: Any) -> None:
        self.count += 1
        if returned is None:
            self.dropped += 1
        elif returned is not before and _content(returned) != before:
            self.changed += 1

    def taken(self) -> ChunkTrack:
        """What was counted so far; counting starts anew."""
        taken = copy(self)
        self.count = self.changed = self.dropped = 0
        self.seconds = 0.0
        return taken


def _content(chunk: Any) -> tuple[Any, ...]:
    """What makes a chunk what it is; an awaitable or a stranger has none."""
    return (getattr(chunk, "type", None), copy(getattr(chunk, "payload", None)))


def report_call(run: RunState, step: Step, seconds: float, unread: Sequence[Chunk]) -> None:
    """Tell of a model call that is over: whoever has asked for it, and the observer, if any, who
    hears as well what processors did with the answer.

    `unread` is the last read, where a hook would not let all of it be taken in.
    """
    if step.listeners:
        step.tell_listeners(run, unread)
    if run.observer is None:
        return
    run.observer.span(
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
        run.observer.span(
            Span(
                kind="chunks",
                name="process_output_stream",
                run_id=run.run_id,
                processor_id=track.processor_id,
                step_number=step.number,
                attempt=run.retry_count,
                seconds=track.seconds,
                outcome="changed" if track.changed or track.dropped else "ok",
                count=track.count,
                changed=track.changed,
                dropped=track.dropped,
            )
        )
