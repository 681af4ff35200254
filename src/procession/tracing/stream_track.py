"""A processor's `process_output_stream` over one step: one span, without a time stamp per chunk.

Every sixteenth call is timed, and the first; what a hook waits for is timed as a whole (O-025).
"""

from __future__ import annotations

from time import perf_counter
from types import coroutine
from typing import TYPE_CHECKING, Any, Self

from ..chunks import DeltaPayload
from ..engine.tracks import content_of
from ..tracing_context import current_span

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Mapping

    from .live import LiveSpan

__all__ = ["StreamSpan", "StreamTrack"]

_MOSTLY_UNTIMED = 0xF


class StreamSpan:
    """The span of a processor in the stream, which is made when somebody asks it for something."""

    __slots__ = ("_made", "_make")

    is_valid = True
    is_root_span = False

    def __init__(self, make: Callable[[], LiveSpan]) -> None:
        self._make = make
        self._made: LiveSpan | None = None

    @property
    def live(self) -> LiveSpan:
        """The span of the step under way."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def forget(self) -> None:
        """The step is over: another span follows."""
        self._made = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.live.id

    @property
    def trace_id(self) -> str:
        """The id of its trace."""
        return self.live.trace_id

    def create_child_span(self, *given: Any, **named: Any) -> LiveSpan:
        """A span below this one."""
        return self.live.create_child_span(*given, **named)

    def create_event_span(self, *given: Any, **named: Any) -> LiveSpan:
        """Something that happened at this moment."""
        return self.live.create_event_span(*given, **named)

    def update(self, **named: Any) -> None:
        """Set what is given."""
        self.live.update(**named)

    def end(self, output: Any = None, attributes: Any = None, metadata: Any = None) -> None:
        """Set what is given: it is over with the step."""
        self.live.update(output=output, attributes=attributes, metadata=metadata)

    def error(self, error: BaseException, end_span: bool = True) -> None:
        """It has failed; it is over with the step."""
        self.live.error(error, end_span=False)

    def begin_run(self, run: Any, _parent: Any, options: Mapping[str, Any]) -> Any:
        """What is told of a run that begins below this span."""
        return self.live.begin_run(run, None, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        if raised[1] is not None:
            self.error(raised[1])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: Any) -> None:
        self.__exit__(*raised)


class StreamTrack:
    """What a hook did with the chunks of a step."""

    __slots__ = (
        "_timed",
        "_timed_calls",
        "_waited",
        "args",
        "changed",
        "count",
        "dropped",
        "error",
        "first",
        "last",
        "link",
        "span",
    )

    sees_all = False
    """A hook that is called for matches only stays so."""

    def __init__(self, link: Any, args: Any, make: Callable[[], LiveSpan]) -> None:
        self.link, self.args = link, args
        self.span = StreamSpan(make)
        self.reset()

    def reset(self) -> None:
        """Another step begins."""
        self.count = self.changed = self.dropped = 0
        self.first = self.last = 0.0
        self.error: BaseException | None = None
        self._timed = self._waited = 0.0
        self._timed_calls = 0
        self.span.forget()

    @property
    def seconds(self) -> float:
        """The time spent in the hook: that of all calls, estimated from those that were timed."""
        mean = self._timed / self._timed_calls if self._timed_calls else 0.0
        return mean * self.count + self._waited

    def watch(self, hook: Callable[[Any], Any], is_async: bool) -> Callable[[Any], Any]:
        """The hook, with every call counted."""
        return self._awaited(hook) if is_async else self._plain(hook)

    def _plain(self, hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def plain(args: Any) -> Any:
            part = args.part
            payload = part.payload
            is_delta = payload.__class__ is DeltaPayload
            before = payload.text if is_delta else content_of(part)
            number = self.count
            self.count = number + 1
            try:
                if number & _MOSTLY_UNTIMED:
                    returned = hook(args)
                else:
                    started = perf_counter()
                    returned = hook(args)
                    self._time(started)
            except BaseException as error:
                self.error = error
                raise
            if returned is not part:
                self._note(content_of(part), returned)
            elif (payload.text if is_delta else content_of(part)) != before:
                self.changed += 1
            return returned

        return plain

    def _awaited(self, hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
        span = self.span

        async def awaited(args: Any) -> Any:
            part = args.part
            payload = part.payload
            is_delta = payload.__class__ is DeltaPayload
            before = payload.text if is_delta else content_of(part)
            number = self.count
            self.count = number + 1
            token = current_span.set(span)
            try:
                started = 0.0 if number & _MOSTLY_UNTIMED else perf_counter()
                if not number:
                    self.first = started
                work = hook(args)
                try:
                    waits = work.send(None)
                except StopIteration as end:
                    returned = end.value
                    if started:
                        self._time(started)
                else:
                    returned = await self._waited_for(work, waits, started)
            except BaseException as error:
                self.error = error
                raise
            finally:
                try:
                    current_span.reset(token)
                except ValueError:  # closed in another context, where it never was current
                    pass
            if returned is not part:
                self._note(content_of(part), returned)
            elif (payload.text if is_delta else content_of(part)) != before:
                self.changed += 1
            return returned

        return awaited

    async def _waited_for(self, work: Any, waits: Any, started: float) -> Any:
        """What comes of a hook that waits: it is timed as a whole."""
        started = started or perf_counter()
        try:
            return await _rest(work, waits)
        finally:
            self._waited += perf_counter() - started

    def _time(self, started: float) -> None:
        now = perf_counter()
        self._timed += now - started
        self._timed_calls += 1
        self.first = self.first or started
        self.last = now

    def _note(self, before: tuple[Any, ...], returned: Any) -> None:
        if returned is None:
            self.dropped += 1
        elif content_of(returned) != before:
            self.changed += 1


@coroutine
def _rest(work: Coroutine[Any, Any, Any], waits: Any) -> Generator[Any, Any, Any]:
    """What is left of a coroutine that waits for `waits`."""
    while True:
        try:
            sent = yield waits
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:
            step, given = work.throw, error
        else:
            step, given = work.send, sent
        try:
            waits = step(given)
        except StopIteration as end:
            return end.value
