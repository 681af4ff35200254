"""One run as it is told by the engine, made into spans (O-020 to O-035)."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..tracing_context import TracingContext, current_span
from ..verdicts import verdict_in
from .content import Shape, differences, messages_form
from .harmless import unharmed
from .live import LiveSpan, Trace, leave_span
from .naming import HOOK_PHASES, HookPhase, described, name_of_hook, of_processor
from .outcome import fill_run, fill_step
from .stream_track import StreamTrack

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token

    from ..spans import Span
    from ..tracing_context import AnySpan

__all__ = ["RunTrace"]


class RunTrace:
    """What the engine tells of one run; see `procession.spans.RunObserver`."""

    __slots__ = (
        "content",
        "over",
        "root",
        "shown",
        "step_span",
        "steps",
        "tool_spans",
        "trace",
        "tracing_context",
        "tracks",
    )

    def __init__(
        self, run: Any, trace: Trace, parent: LiveSpan | None, options: Mapping[str, Any]
    ) -> None:
        self.trace = trace
        self.content = trace.receiver.content
        self.root = _begun(run, trace, parent, options)
        self.root.run = self
        self.tracing_context = TracingContext(self.root)
        self.step_span: LiveSpan | None = None
        self.steps: list[tuple[LiveSpan, Any]] = []
        self.tracks: list[StreamTrack] = []
        self.tool_spans: dict[str, LiveSpan] = {}
        self.shown: dict[str, tuple[Any, Any]] = {}
        """What was delivered of the result of each call, and what was stored at that moment."""
        self.over = False

    def continued(self, run: Any) -> RunTrace:
        """The run that goes on: in the same trace, behind the one that had to wait (F5)."""
        trace = Trace(self.trace.receiver, self.trace.id)
        made = RunTrace(run, trace, None, {})
        made.root.parent_id = self.root.id
        made.root.attributes["continues"] = self.root.id
        return made

    # ── hooks ──────────────────────────────────────────────────────────────────────────────────

    @unharmed
    def hook_begins(
        self, run: Any, link: Any, args: Any
    ) -> tuple[LiveSpan, Shape | None, Token[AnySpan | None]]:
        """A span for the call of a hook."""
        span = self._hook_span(link)
        args.tracing_context = TracingContext(span)
        shape = None if args.message_list is None else Shape.of(args.shown)
        if self.content == "raw":
            span.input = _raw(link, args)
        return span, shape, current_span.set(span)

    def _hook_span(self, link: Any) -> LiveSpan:
        hook, processor = HOOK_PHASES[link.name], link.processor
        outer = current_span.get()
        if isinstance(outer, LiveSpan) and outer.run is self and outer.ended is None:
            parent = outer  # what stands for several processors is at work
        else:
            parent = (self.step_span if hook.in_step else None) or self.root
        return self._processor_span(parent, processor, link.processor_id, hook, link.is_within)

    def _processor_span(
        self, parent: LiveSpan, processor: Any, name: str, hook: HookPhase, is_within: bool
    ) -> LiveSpan:
        kind = getattr(processor, "span_type", None)
        span = self.trace.begin(
            parent,
            kind if isinstance(kind, str) else "processor_run",
            name_of_hook(processor, name, hook),
        )
        span.entity = (hook.entity_type, name, described(processor, name))
        span.attributes = of_processor(processor, hook, is_within=is_within)
        return span

    @unharmed
    def hook_ended(
        self,
        run: Any,
        link: Any,
        args: Any,
        mark: Any,
        error: BaseException | None,
        changed: bool,
    ) -> None:
        """What the hook has come to."""
        if mark is None:
            return
        span, before, token = mark
        leave_span(token)
        attributes = span.attributes
        if before is not None:
            found = differences(before, Shape.of(args.show()))
            if found:
                attributes["message_list_mutations"] = found
            changed = changed or bool(found)
        attributes["outcome"] = "changed" if changed else "ok"
        if error is not None:
            self._failed(span, error)
        elif self.content == "raw":
            span.output = _raw(link, args)
        if span.ended is None:
            span.close()

    def _failed(self, span: LiveSpan, error: BaseException) -> None:
        wire = verdict_in(error)
        span.failed(error)
        span.attributes["outcome"] = (
            "failed" if wire is None else "retry" if wire.retry else "tripped"
        )
        if wire is not None:
            span.attributes["tripwire_abort"] = self.verdict(wire)

    def verdict(self, wire: Any) -> dict[str, Any]:
        """A verdict as spans show it (O-028); its words are those of a processor."""
        found: dict[str, Any] = {"processor_id": wire.processor_id, "retry": wire.retry}
        if self.content != "none":
            found |= {"reason": wire.reason, "metadata": wire.metadata}
        return {name: value for name, value in found.items() if value is not None}

    @unharmed
    def span(self, told: Span) -> None:
        """What a policy did instead of a processor, or an observed one would have done (X3)."""
        parent = self.step_span if told.step_number is not None else None
        event = self.trace.begin(parent or self.root, "generic", f"policy: {told.outcome}")
        event.is_event = True
        event.entity = ("processor", told.processor_id, told.processor_id)
        event.attributes = {"hook": told.name, "action": told.outcome, **(told.detail or {})}
        event.close()

    # ── the stream ─────────────────────────────────────────────────────────────────────────────

    def watch_chunks(self, run: Any, link: Any, args: Any) -> StreamTrack:
        """The track of a processor in the stream."""

        def make() -> LiveSpan:
            return self._hook_span(link)

        track = StreamTrack(link, args, make)
        args.tracing_context = TracingContext(track.span)
        self.tracks.append(track)
        return track

    def _end_tracks(self) -> None:
        for track in self.tracks:
            if track.count:
                self._end_track(track)
            track.reset()

    def _end_track(self, track: StreamTrack) -> None:
        span = track.span.live
        span.started = min(span.started, track.first or span.started)
        seen = {"chunks": track.count, "changed": track.changed, "dropped": track.dropped}
        touched = track.changed or track.dropped
        span.attributes |= {
            **seen,
            "hook_duration_ms": round(track.seconds * 1000, 3),
            "outcome": "changed" if touched else "ok",
        }
        error = track.args.verdict or track.error
        if error is not None:
            self._failed(span, error)
        if span.ended is None:
            span.close()

    # ── steps, calls, tools ────────────────────────────────────────────────────────────────────

    @unharmed
    def step_begins(self, run: Any, step: Any) -> None:
        """A span for an attempt at a step; the one before is over."""
        self._end_step()
        span = self.step_span = self.trace.begin(self.root, "model_step", f"step: {step.number}")
        span.attributes = {"step_index": step.number, "attempt": run.retry_count}
        self.steps.append((span, step))

    def _end_step(self) -> None:
        self._end_tracks()
        span = self.step_span
        if span is not None:
            self.step_span = None
            fill_step(self, span, self.steps[-1][1])
            if span.ended is None:
                span.close()

    @unharmed
    def loop_ended(self, run: Any) -> None:
        """The last step is over."""
        self._end_step()

    @unharmed
    def call_ended(self, run: Any, step: Any, seconds: float, error: BaseException | None) -> None:
        """A span for a call of the model: the tokens of these are to be summed up (G-P4)."""
        span = self.trace.begin(
            self.step_span or self.root, "model_generation", f"llm: '{step.model_id}'"
        )
        span.started = perf_counter() - seconds
        span.attributes = _of_call(run, step)
        if self.content == "raw":
            span.input = step.prompt
        error = getattr(error, "error", error)  # the engine wraps what a model raises
        if isinstance(error, Exception) and error is not run.hook_error:
            span.failed(error)
        elif error is not None:
            span.status = "canceled"
        span.close()

    @unharmed
    def tool_begins(self, run: Any, call: Any, tools: Any) -> LiveSpan:
        """A span for a call of a tool, current in its context."""
        span = self.trace.begin(self.step_span or self.root, "tool_call", f"tool: '{call.name}'")
        tool = tools.get(call.name)
        span.entity = ("tool", call.name, call.name)
        span.attributes = {"tool_id": call.name, "tool_call_id": call.id, "tool_type": "function"}
        if tool is not None and tool.description:
            span.attributes["tool_description"] = tool.description
        if self.content == "raw":
            span.input = call.to_run_with
        self.tool_spans[call.id] = span
        current_span.set(span)
        return span

    @unharmed
    def tool_ended(
        self,
        run: Any,
        call: Any,
        mark: LiveSpan | None,
        kind: str | None,
        error: BaseException | None,
    ) -> None:
        """What the call has come to."""
        if mark is None:
            return
        if error is not None:
            mark.failed(error)
        mark.attributes["success"] = kind == "result"
        if kind is not None:
            mark.attributes["outcome"] = kind
        if mark.ended is None:
            mark.close()

    @unharmed
    def tool_shown(self, run: Any, call: Any, passed: Any) -> None:
        """What was delivered of a result: it is shown, once the run is over (G-W2)."""
        for chunk in passed:
            if chunk.type == "tool-result":
                self.shown[call.id] = (chunk.payload.result, call.part.tool_invocation.result)

    # ── the end ────────────────────────────────────────────────────────────────────────────────

    @unharmed
    def ending_begins(self, run: Any, run_ended: Any) -> Any:
        """A span for a processor that hears of the end; extensions have none."""
        processor: Any = getattr(run_ended, "__self__", None)
        name = getattr(processor, "id", None)
        if not isinstance(name, str):
            return None
        span = self._processor_span(self.root, processor, name, HOOK_PHASES["run_ended"], False)
        return span, current_span.set(span)

    @unharmed
    def ending_ended(self, run: Any, mark: Any, error: BaseException | None) -> None:
        """It has been told."""
        if mark is not None:
            span, token = mark
            leave_span(token)
            if error is not None:
                span.failed(error)
            span.close()

    @unharmed
    def run_ended(self, run: Any) -> None:
        """Everything is over, whatever has come of it (O-035)."""
        if self.over:
            return
        self.over = True
        self._end_step()
        fill_run(self, run)
        own = [
            s for s in self.trace.spans if s.run is self and s.ended is None and s is not self.root
        ]
        for span in reversed(own):
            span.status = "canceled" if span.status == "ok" else span.status
            span.close()
        self.steps, self.tracks = [], []
        self.tool_spans, self.shown = {}, {}
        self.root.close()


def _begun(run: Any, trace: Trace, parent: LiveSpan | None, options: Mapping[str, Any]) -> LiveSpan:
    owner = run.owner
    span = trace.begin(parent, "agent_run", f"agent run: '{run.agent_id}'")
    span.entity = ("agent", run.agent_id, described(owner, run.agent_id))
    span.run_id = run.run_id
    messages = run.message_list
    places = {"thread_id": messages.thread_id, "resource_id": messages.resource_id}
    span.attributes = {name: value for name, value in places.items() if value}
    if parent is None:
        span.name = options.get("root_span_name") or span.name
        span.parent_id = options.get("parent_span_id")
        span.tags = list(options.get("tags") or ()) or None
    span.metadata = dict(options.get("metadata") or {}) or None
    keys = options.get("request_context_keys") or ()
    kept = {key: run.request_context.get(key) for key in keys}
    span.request_context = {key: value for key, value in kept.items() if value is not None} or None
    return span


_PARAMETERS = (
    "temperature",
    "max_output_tokens",
    "top_p",
    "top_k",
    "seed",
    "presence_penalty",
    "frequency_penalty",
)


def _of_call(run: Any, step: Any) -> dict[str, Any]:
    settings, answer = step.model_settings, step.answer
    found: dict[str, Any] = {
        "model": step.model_id,
        "provider": step.provider,
        "response_model": answer.model_id,
        "response_id": answer.response_id,
        "streaming": run.streaming,
        "finish_reason": answer.finish_reason,
        "from_cache": step.from_cache,
        "prompt_messages": len(step.prompt),
        "tools": list(step.usable_tools()) or None,
        "parameters": {name: settings[name] for name in _PARAMETERS if name in settings} or None,
        "usage": usage_form(answer.usage),
    }
    return {name: value for name, value in found.items() if value is not None}


def usage_form(usage: Any) -> dict[str, Any] | None:
    """Tokens, without what the provider sent of them."""
    form: dict[str, Any] = usage.to_json()
    form.pop("raw", None)
    return form or None


def _raw(link: Any, args: Any) -> Any:
    if link.name == "process_llm_request":
        return args.prompt
    if link.name == "process_tool_result":
        return {"tool": args.tool_name, "result": args.result}
    return None if args.message_list is None else messages_form(args.message_list.messages())
