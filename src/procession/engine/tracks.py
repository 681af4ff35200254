"""How one processor fared with the chunks of an attempt; kept only when an observer listens."""

from __future__ import annotations

from copy import copy
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..chunks import DeltaPayload
from ..spans import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .run_state import RunState
    from .step import Step

__all__ = ["ChunkTrack", "content_of", "report_call"]


class ChunkTrack:
    """Counts calls, changes and drops, and sums up the time spent in a hook."""

    __slots__ = ("changed", "count", "dropped", "processor_id", "seconds")

    sees_all = True
    """Whether the hook is to be called also for what it has nothing to do with: to be counted."""

    def __init__(self, processor_id: str) -> None:
        self.processor_id = processor_id
        self.count = self.changed = self.dropped = 0
        self.seconds = 0.0

    def watch(self, hook: Callable[[Any], Any], is_async: bool) -> Callable[[Any], Any]:
        """The hook, with every call counted and timed."""

        def plain(args: Any) -> Any:
            before = content_of(args.part)
            started = perf_counter()
            returned: Any = before
            try:
                returned = hook(args)
            finally:
                self.seconds += perf_counter() - started
                self._note(before, returned)
            return returned

        async def awaited(args: Any) -> Any:
            before = content_of(args.part)
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
        elif returned is not before and content_of(returned) != before:
            self.changed += 1

    def taken(self) -> ChunkTrack:
        """What was counted so far; counting starts anew."""
        taken = copy(self)
        self.count = self.changed = self.dropped = 0
        self.seconds = 0.0
        return taken

    def told(self, run_id: str, step_number: int, attempt: int) -> Span:
        """What was counted, as a span."""
        return Span(
            kind="chunks",
            name="process_output_stream",
            run_id=run_id,
            processor_id=self.processor_id,
            step_number=step_number,
            attempt=attempt,
            seconds=self.seconds,
            outcome="changed" if self.changed or self.dropped else "ok",
            count=self.count,
            changed=self.changed,
            dropped=self.dropped,
        )


def content_of(chunk: Any) -> tuple[Any, ...]:
    """What makes a chunk what it is; an awaitable or a stranger has none."""
    payload: Any = getattr(chunk, "payload", None)
    if payload.__class__ is DeltaPayload:
        return (chunk.type, payload.text, payload.id)
    return (getattr(chunk, "type", None), copy(payload))


def report_call(
    run: RunState,
    step: Step,
    seconds: float,
    unread: Sequence[Any],
    error: BaseException | None,
) -> None:
    """Tell of a model call that is over: whoever has asked for it, and the observer, if any.

    `unread` is the last read, where a hook would not let all of it be taken in; `error` what has
    ended the call.
    """
    if step.listeners:
        step.tell_listeners(run, unread)
    if run.observer is not None:
        run.observer.call_ended(run, step, seconds, error)
