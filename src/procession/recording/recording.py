"""One run being recorded: what the engine tells as it goes, held until it may be told to others.

What a guard takes out of a text is known only when all of them have seen it, and a verdict at the
end covers the whole answer. So texts are held here until the run has ended, and written as they
were let through; without them, what happened is written as it happens.
"""

from __future__ import annotations

import logging
from functools import wraps
from time import perf_counter
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from msgspec import Struct, field

from ..engine.asking import ModelFailure
from ..engine.interruption import Interrupted
from ..records import error_form, plain
from ..verdicts import verdict_in
from .asked import Asked, usage_form
from .lanes import LaneTrack, changed_lanes
from .marks import Mark
from .recorded_run import RunEvent
from .snapshots import Changed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..chunks import Chunk
    from ..extension import Around, Opening
    from ..message_list import MessageList
    from ..spans import Span
    from .recorder import Recorder

__all__ = ["OWN_ID", "Recording", "Told"]

_log = logging.getLogger("procession.recording")

OWN_ID = "procession-recorder"
"""What the ids of the recorder's own processors begin with."""
MOST_EVENTS = 10_000


class Told(Struct):
    """An event, with the texts that it changed, as they were."""

    event: RunEvent
    changes: list[Changed] = field(default_factory=list[Changed])


P = ParamSpec("P")
T = TypeVar("T")


def harmless(
    told: Callable[Concatenate[Recording, P], T],
) -> Callable[Concatenate[Recording, P], T | None]:
    """The method, which gives `None` where it would raise: a recording never fails a run."""

    @wraps(told)
    def called(self: Recording, *given: P.args, **named: P.kwargs) -> T | None:
        try:
            return told(self, *given, **named)
        except Exception as error:
            self.fail(error)
            return None

    return called


class Recording:
    """What is known of one part of a run. An observer, and an extension of that run alone."""

    tracing_context = None

    def __init__(self, recorder: Recorder, run: Any) -> None:
        self.recorder = recorder
        self.run_id: str = run.run_id
        self.agent_id: str = run.agent_id
        self.message_list: MessageList = run.message_list
        self.told: list[Told] = []
        self.asked: list[Asked] = []
        """The calls of the model that are over."""
        self.cut = False
        self.began = perf_counter()
        self._open: Asked | None = None
        self._prompt: Sequence[Any] = ()
        """What was sent last."""
        self._tracks: list[LaneTrack] = []
        self._at: tuple[int | None, int] = (None, 0)
        """The step and the attempt that the chunks under way belong to."""

    def now(self) -> float:
        """Milliseconds since the part began."""
        return round((perf_counter() - self.began) * 1000, 3)

    # ── as an extension ────────────────────────────────────────────────────────────────────────

    def extend(self, _opening: Opening, /) -> Around:
        """The recorder's processors: the first, and the last of all."""
        return self.recorder.processors

    # ── as an observer ─────────────────────────────────────────────────────────────────────────

    @harmless
    def span(self, span: Span, /) -> None:
        """A policy has done something."""
        self._tell(
            RunEvent(
                type=span.kind,
                name=span.name,
                processor_id=span.processor_id,
                step_number=span.step_number,
                attempt=span.attempt,
                at_ms=self.now(),
                outcome=span.outcome,
                detail=span.detail,
            )
        )

    @harmless
    def hook_begins(self, run: Any, link: Any, args: Any, /) -> Mark | None:
        """A hook is about to be called."""
        if link.processor_id.startswith(OWN_ID):
            return None
        if self.recorder.raw and link.name == "process_tool_result":
            self._note_result(args)
        return Mark(run, link.name, args)

    @harmless
    def hook_ended(
        self,
        run: Any,
        link: Any,
        args: Any,
        mark: Mark | None,
        error: BaseException | None,
        changed: bool,
        /,
    ) -> None:
        """A hook has returned, or raised, and what it returned has been applied."""
        if mark is None:
            return
        seconds = perf_counter() - mark.started
        told = self._tell(
            RunEvent(
                type="hook",
                name=link.name,
                processor_id=link.processor_id,
                step_number=_step_of(run),
                attempt=run.retry_count,
                at_ms=self._since(mark.started),
                duration_ms=round(seconds * 1000, 3),
            )
        )
        told.changes = mark.changes(run, args)
        names = mark.chosen(run, args, returned=changed)
        if names:
            told.event.detail = {"set": names}
        told.event.outcome = "changed" if told.changes or names else "ok"
        if error is not None:
            wire = verdict_in(error)
            told.event.detail = {"error": type(error).__name__}
            told.event.outcome = "failed"
            if wire is not None:
                told.event.detail = {"reason": wire.reason}
                told.event.outcome = "retry" if wire.retry else "tripped"

    def watch_chunks(self, _run: Any, link: Any, _args: Any, /) -> LaneTrack:
        """Keeps the texts that a stream hook is handed: what it lets through, the next one is."""
        track = LaneTrack(link.processor_id)
        self._tracks.append(track)
        return track

    @harmless
    def step_begins(self, run: Any, step: Any, /) -> None:
        """An attempt at a step begins."""
        self.end_streams()
        self._at = step.number, run.retry_count
        self._open = self._next(step.number)

    @harmless
    def call_ended(
        self, run: Any, step: Any, seconds: float, error: BaseException | None, /
    ) -> None:
        """A call of the model is over."""
        asked = self._open or self._next(step.number)
        before = self.asked[-1] if self.asked else None
        asked.take_prompt(step.prompt, before, self._prompt, self.recorder.bounded)
        self._prompt = step.prompt
        made = asked.call
        made.attempt, made.provider, made.model_id = run.retry_count, step.provider, step.model_id
        made.from_cache, made.answered = step.from_cache, step.started
        made.usage, made.tools = usage_form(step.answer.usage), list(step.usable_tools())
        made.duration_ms = round(seconds * 1000, 3)
        made.at_ms = round(max(0.0, self.now() - made.duration_ms), 3)
        if isinstance(error, Exception) and error is not run.hook_error:
            if not isinstance(error, Interrupted):
                made.error = error_form(error.error if isinstance(error, ModelFailure) else error)
        elif self.recorder.raw and step.answer.finish_reason:
            asked.close(step.answer.finish_reason)
        self.asked.append(asked)
        # What was refused may be asked again.
        self._open = None if step.started else self._next(step.number)

    def _next(self, step_number: int) -> Asked:
        return Asked(len(self.asked), step_number, self.recorder.most_chunks)

    def tool_begins(self, _run: Any, _call: Any, _tools: Any, /) -> float:
        """When it began."""
        return perf_counter()

    @harmless
    def tool_ended(
        self, run: Any, call: Any, mark: float, kind: str | None, error: BaseException | None, /
    ) -> None:
        """A tool call has come to an outcome."""
        detail: dict[str, Any] = {"toolCallId": call.id}
        if kind not in ("result", "error", None):
            detail["kind"] = kind
        if error is not None:
            detail["error"] = type(error).__name__
        wire = None if error is None else verdict_in(error)
        failed = error is not None or kind == "refused"
        self._tell(
            RunEvent(
                type="tool",
                name=call.name,
                step_number=_step_of(run),
                attempt=run.retry_count,
                at_ms=self._since(mark),
                duration_ms=round((perf_counter() - mark) * 1000, 3),
                outcome="tripped" if wire is not None else "failed" if failed else "ok",
                detail=detail,
            )
        )

    def tool_shown(self, _run: Any, _call: Any, _passed: Sequence[Any], /) -> None:
        """What was shown of it stands in the messages."""

    @harmless
    def loop_ended(self, _run: Any, /) -> None:
        """No step follows."""
        self.end_streams()

    def ending_begins(self, _run: Any, _run_ended: Any, /) -> None:
        """The recording is closed by one of those who are told of the end."""

    def ending_ended(self, _run: Any, _mark: None, _error: BaseException | None, /) -> None:
        """The recording is closed by one of those who are told of the end."""

    def run_ended(self, run: Any, /) -> None:
        """Nothing follows, unless the run was dropped before anybody has read it."""
        if run.settled:
            self.recorder.forget(self)

    def continued(self, _run: Any, /) -> Any:
        """Whether the rest is recorded is asked anew."""
        return None

    def fail(self, error: Exception) -> None:
        """Something could not be noted."""
        if not self.cut:
            _log.warning(
                "the recording of run %r is incomplete: %s", self.run_id, type(error).__name__
            )
        self.cut = True

    def _tell(self, event: RunEvent) -> Told:
        told = Told(event)
        if len(self.told) < MOST_EVENTS:
            self.told.append(told)
        else:
            self.cut = True
        return told

    def _note_result(self, args: Any) -> None:
        """What a tool has returned, before any processor has seen it."""
        for told in reversed(self.told):
            detail = told.event.detail
            if detail is not None and detail.get("toolCallId") == args.tool_call_id:
                detail.setdefault("result", self.recorder.bounded(plain(args.result)))
                return

    def _since(self, started: float) -> float:
        return round((started - self.began) * 1000, 3)

    # ── the stream ─────────────────────────────────────────────────────────────────────────────

    def end_streams(self) -> None:
        """Tell what each processor has done with the chunks of the attempt that is over."""
        step_number, attempt = self._at
        taken = [track.taken() for track in self._tracks]
        for number, track in enumerate(taken):
            if track.processor_id.startswith(OWN_ID) or not track.count:
                continue
            following = taken[number + 1].lanes() if number + 1 < len(taken) else track.lanes()
            changes = changed_lanes(track.lanes(), following)
            outcome = "dropped" if track.dropped and not track.changed else "changed"
            told = self._tell(
                RunEvent(
                    type="stream",
                    name="process_output_stream",
                    processor_id=track.processor_id,
                    step_number=step_number,
                    attempt=attempt,
                    at_ms=self._since(track.first or self.began),
                    duration_ms=round(track.seconds * 1000, 3),
                    outcome=outcome if track.changed or track.dropped or changes else "ok",
                    count=track.count,
                    changed=track.changed,
                    dropped=track.dropped,
                )
            )
            told.changes = changes

    @harmless
    def came(self, part: Chunk) -> None:
        """A chunk of the model enters the run."""
        if self._open is not None:
            self._open.came(part)

    @harmless
    def left(self, part: Chunk) -> None:
        """A chunk leaves the run."""
        asked = self._open or (self.asked[-1] if self.asked else None)
        if asked is not None:
            asked.left(part)


def _step_of(run: Any) -> int | None:
    """The step under way; none before the loop and behind it."""
    return None if run.step is None or run.concluded else run.step_number
