"""`Tracing`: what is recorded of runs, which of it is kept, and where it goes (O-050)."""

from __future__ import annotations

import asyncio
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

from ..errors import OptionError
from ..host import hand_over
from ..keywords import TakesOptions
from ..stores.option_checks import count, seconds
from ..trace_store import ExportedSpan
from ..tracing_context import NO_SPAN
from .exporter import Lane
from .harmless import log
from .ids import new_trace_id
from .live import LiveSpan, Trace
from .masking import Cut, Mask, SensitiveDataFilter
from .option_checks import checked, function, is_bool, is_texts
from .preparing import Preparation, SpanProcessor, processors_of
from .run_trace import RunTrace
from .sampling import RootSpan, Sampling, sampler_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Future
    from types import TracebackType

    from ..host import Host
    from ..spans import Span
    from ..tracing_context import AnySpan
    from .exporter import ExportCounts, Exporter

__all__ = ["Tracing"]

Content = Literal["none", "processed", "raw"]


class Tracing(TakesOptions):
    """An observer that makes a tree of spans of each run: `Agent(observer=Tracing([exporter]))`.

    The spans of a trace leave when its root is over: only then is it known whether what they hold
    may be shown. `content` says what they show of texts: `"none"` of them, `"processed"` (the
    default) what may be stored, as processors have left it, and nothing of a run that was blocked,
    `"raw"` also what hooks were given and gave, which is what guards take out.

    On the way to every exporter: `span_filter` and `span_output_processors`, the
    `SensitiveDataFilter` unless `sensitive_data_filter` is false, then `mask`, a function of a
    text. What fails there takes the content, or the span, with it. Values are cut as
    `serialization_options` say.

    `sampling` decides at the root; a run that is not sampled costs next to nothing. Up to
    `queue_size` spans wait for an exporter, the others are counted in `counts`.

    `await flush()` where spans must have left; `await shutdown()`, or the end of an `async with`,
    leaves no thread behind. Raises `OptionError` for options that cannot be used.
    """

    def __init__(
        self,
        exporters: Iterable[Exporter] = (),
        *,
        sampling: Sampling = "always",
        content: Content = "processed",
        mask: Mask | None = None,
        sensitive_data_filter: bool | SensitiveDataFilter = True,
        span_output_processors: Sequence[SpanProcessor] = (),
        span_filter: Callable[[ExportedSpan], bool] | None = None,
        exclude_span_types: Sequence[str] = (),
        include_internal_spans: bool = False,
        request_context_keys: Sequence[str] = (),
        serialization_options: Mapping[str, Any] | None = None,
        queue_size: int = 20_000,
        export_timeout: float = 30.0,
    ) -> None:
        self.exporters = [_checked(exporter) for exporter in exporters]
        self._sampled = sampler_of(sampling)
        kinds = ("none", "processed", "raw")
        words = "'none', 'processed' or 'raw'"
        self.content: str = _checked_option("content", content, words, kinds.__contains__)
        texts = "a list of texts"
        prepare = Preparation(
            frozenset(_checked_option("exclude_span_types", exclude_span_types, texts, is_texts)),
            function("Tracing", "span_filter", span_filter),
            processors_of(span_output_processors, sensitive_data_filter),
            function("Tracing", "mask", mask),
        )
        self._shows_internal: bool = _checked_option(
            "include_internal_spans", include_internal_spans, "True or False", is_bool
        )
        self._context_keys: list[str] = [
            *_checked_option("request_context_keys", request_context_keys, texts, is_texts)
        ]
        self._cut = Cut.of(serialization_options)
        most = count("Tracing", "queue_size", queue_size, least=1)
        timeout = seconds("Tracing", "export_timeout", export_timeout)
        self._lanes = [
            Lane(exporter, prepare, most=most, timeout=timeout) for exporter in self.exporters
        ]
        self._forget = weakref.finalize(self, _at_exit, self._lanes)
        self._forget.atexit = True

    # ── what is told ───────────────────────────────────────────────────────────────────────────

    def span(self, _span: Span, /) -> None:
        """Nothing: what is told of a run goes to what `begin_run` gives."""

    def begin_run(self, run: Any, parent: Any, options: Mapping[str, Any]) -> RunTrace | None:
        """What is told of one run; `None` if it is not sampled."""
        if parent is NO_SPAN:
            return None
        try:
            parent = getattr(parent, "live", parent)
            if self._context_keys:
                asked = options.get("request_context_keys") or ()
                options = {**options, "request_context_keys": [*self._context_keys, *asked]}
            if isinstance(parent, LiveSpan):
                return RunTrace(run, parent.trace, parent, options)
            trace_id = options.get("trace_id") or new_trace_id()
            root = RootSpan(
                name=options.get("root_span_name") or f"agent run: '{run.agent_id}'",
                trace_id=trace_id,
                entity_id=run.agent_id,
                run_id=run.run_id,
                request_context=run.request_context,
            )
            return (
                RunTrace(run, Trace(self, trace_id), None, options) if self._sampled(root) else None
            )
        except Exception as error:
            log.warning("a run is not traced: %s", type(error).__name__)
            return None

    def start_span(
        self,
        name: str,
        *,
        type: str = "generic",
        input: Any = None,
        attributes: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        trace_id: str | None = None,
    ) -> AnySpan:
        """A root span of your own, to be ended. As a context manager it makes runs within part of
        its trace: `with tracing.start_span("request"): await agent.generate(…)`.
        """
        trace = Trace(self, trace_id or new_trace_id())
        root = RootSpan(
            name=name, trace_id=trace.id, entity_id=None, run_id=None, request_context=None
        )
        if not self._sampled(root):
            return NO_SPAN
        span = trace.begin(None, type, name)
        span.update(input=input, attributes=attributes, metadata=metadata)
        return span

    # ── what leaves ────────────────────────────────────────────────────────────────────────────

    def deliver(self, spans: list[LiveSpan], dropped: int = 0) -> None:
        """Bring spans on their way to all exporters."""
        if dropped and spans:
            spans[0].attributes["dropped_spans"] = dropped
        found: list[ExportedSpan] = []
        for span in self._visible(spans):
            try:
                found.append(self._exported(span))
            except Exception as error:  # a value that changes meanwhile, or cannot be read
                log.warning("a span is lost: %s", type(error).__name__)
        if found:
            for lane in self._lanes:
                lane.put(found)

    def _visible(self, spans: list[LiveSpan]) -> list[LiveSpan]:
        """Without internal spans; what stands below one moves up (O-031)."""
        if self._shows_internal or not any(span.is_internal for span in spans):
            return spans
        for span in spans:
            while span.parent is not None and span.parent.is_internal:
                span.parent = span.parent.parent
                span.parent_id = None if span.parent is None else span.parent.id
        return [span for span in spans if not span.is_internal]

    def _exported(self, span: LiveSpan) -> ExportedSpan:
        shown, moment = self.content != "none", span.trace.moment
        cut = self._cut.value
        return ExportedSpan(
            id=span.id,
            trace_id=span.trace.id,
            name=cut(span.name),
            type=span.type,
            start_time=moment(span.started),
            end_time=moment(span.started if span.ended is None else max(span.ended, span.started)),
            status=span.status,
            parent_span_id=span.parent_id,
            is_event=span.is_event,
            is_internal=span.is_internal,
            entity_type=span.entity[0],
            entity_id=span.entity[1],
            entity_name=span.entity[2],
            run_id=span.run_id,
            input=cut(span.input) if shown else None,
            output=cut(span.output) if shown else None,
            attributes=cut(span.attributes),
            metadata=cut(span.metadata),
            tags=cut(span.tags),
            request_context=cut(span.request_context),
            error_info=span.error_info,
        )

    # ── with an app ────────────────────────────────────────────────────────────────────────────

    def register_app(self, app: Host) -> None:
        """What exporters write to is closed with the app."""
        for exporter in self.exporters:
            hand_over(app, exporter)

    # ── the end ────────────────────────────────────────────────────────────────────────────────

    @property
    def counts(self) -> dict[str, ExportCounts]:
        """What has become of spans so far, by the exporters' names."""
        return {lane.exporter.name: lane.counts for lane in self._lanes}

    async def flush(self, within: float = 30.0) -> bool:
        """Wait until what has ended is with the exporters; whether that was so `within` so many
        seconds.
        """
        return await self._asked("flush", within)

    async def shutdown(self, within: float = 30.0) -> bool:
        """As `flush`, and the exporters let go of what they hold. What comes then is dropped."""
        self._forget.detach()
        done = await self._asked("shutdown", within)
        for lane in self._lanes if done else ():
            lane.join()
        return done

    async def _asked(self, what: str, within: float) -> bool:
        asked: list[Future[None]] = [lane.ask(what) for lane in self._lanes]
        waiting = [asyncio.wrap_future(future) for future in asked if not future.done()]
        if not waiting:
            return True
        _, late = await asyncio.wait(waiting, timeout=within)
        if late:
            log.warning("%d exporters were not done with %s in time", len(late), what)
        return not late

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.shutdown()


def _at_exit(lanes: list[Lane]) -> None:
    """The program ends, or nobody holds the tracing any more: what is on its way has a moment."""
    asked = [lane.ask("shutdown") for lane in lanes if lane.has_begun]
    for future in asked:
        try:
            future.result(timeout=5)
        except Exception:
            return


_checked_option = partial(checked, "Tracing")


def _checked(exporter: Any) -> Any:
    if callable(getattr(exporter, "export", None)):
        missing = [name for name in ("flush", "shutdown") if not hasattr(exporter, name)]
        if not missing and isinstance(getattr(exporter, "name", None), str):
            return exporter
    raise OptionError(
        f"Tracing: each of exporters must have a name, and the methods export, flush and shutdown; "
        f"{type(exporter).__name__} has not"
    )
