"""A run that is recorded: who writes it down is told beside whoever else listens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..agent import Agent
    from ..spans import RunObserver
    from .run_state import RunState

__all__ = ["Together", "begin_recording"]


def begin_recording(agent: Agent, run: RunState, options: Mapping[str, Any]) -> Sequence[Any]:
    """Begin the recording of a run, or of what follows when it goes on, if it is to be recorded.

    Returns what extends the run for that.
    """
    recorder: Any = options.get("record", run.options.get("record", agent.record))
    if recorder is None:
        return ()
    recording = recorder.begin(run)
    run.observer = recording if run.observer is None else Together(run.observer, recording)
    return (recording,)


class Track:
    """Two tracks of one hook."""

    __slots__ = ("_first", "_second")

    sees_all = True

    def __init__(self, first: Any, second: Any) -> None:
        self._first, self._second = first, second

    def watch(self, hook: Callable[[Any], Any], is_async: bool) -> Callable[[Any], Any]:
        """The hook, watched by both; the first one is next to it, and its times are the hook's."""
        return self._second.watch(self._first.watch(hook, is_async), is_async)

    def taken(self) -> Any:
        """What the first one has counted."""
        return self._first.taken()


class Together:
    """Two observers of one run. Marks are pairs."""

    def __init__(self, first: RunObserver, second: RunObserver) -> None:
        self._first, self._second = first, second
        self.tracing_context = first.tracing_context

    def span(self, span: Any) -> None:
        """Both are told."""
        self._first.span(span)
        self._second.span(span)

    def hook_begins(self, run: Any, link: Any, args: Any) -> Any:
        """Both are told; what it costs the second one is not the first one's time."""
        second = self._second.hook_begins(run, link, args)
        return self._first.hook_begins(run, link, args), second

    def hook_ended(
        self, run: Any, link: Any, args: Any, mark: Any, error: BaseException | None, changed: bool
    ) -> None:
        """Both are told."""
        self._first.hook_ended(run, link, args, mark[0], error, changed)
        self._second.hook_ended(run, link, args, mark[1], error, changed)

    def watch_chunks(self, run: Any, link: Any, args: Any) -> Any:
        """Both watch."""
        first = self._first.watch_chunks(run, link, args)
        second = self._second.watch_chunks(run, link, args)
        return second if first is None else Track(first, second)

    def step_begins(self, run: Any, step: Any) -> None:
        """Both are told."""
        self._first.step_begins(run, step)
        self._second.step_begins(run, step)

    def call_ended(self, run: Any, step: Any, seconds: float, error: BaseException | None) -> None:
        """Both are told."""
        self._first.call_ended(run, step, seconds, error)
        self._second.call_ended(run, step, seconds, error)

    def tool_begins(self, run: Any, call: Any, tools: Any) -> Any:
        """Both are told."""
        second = self._second.tool_begins(run, call, tools)
        return self._first.tool_begins(run, call, tools), second

    def tool_ended(
        self, run: Any, call: Any, mark: Any, kind: str | None, error: BaseException | None
    ) -> None:
        """Both are told."""
        self._first.tool_ended(run, call, mark[0], kind, error)
        self._second.tool_ended(run, call, mark[1], kind, error)

    def tool_shown(self, run: Any, call: Any, passed: Sequence[Any]) -> None:
        """Both are told."""
        self._first.tool_shown(run, call, passed)
        self._second.tool_shown(run, call, passed)

    def loop_ended(self, run: Any) -> None:
        """Both are told."""
        self._first.loop_ended(run)
        self._second.loop_ended(run)

    def ending_begins(self, run: Any, run_ended: Any) -> Any:
        """Both are told."""
        second = self._second.ending_begins(run, run_ended)
        return self._first.ending_begins(run, run_ended), second

    def ending_ended(self, run: Any, mark: Any, error: BaseException | None) -> None:
        """Both are told."""
        self._first.ending_ended(run, mark[0], error)
        self._second.ending_ended(run, mark[1], error)

    def run_ended(self, run: Any) -> None:
        """Both are told."""
        self._first.run_ended(run)
        self._second.run_ended(run)

    def continued(self, run: Any) -> Any:
        """The first one goes on; whether the rest is recorded is asked anew."""
        return self._first.continued(run)
