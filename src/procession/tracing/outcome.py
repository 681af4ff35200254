"""What the outcome of a run lets its spans show: nothing of a run that was blocked (law 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..records import plain
from .content import input_of, kept_of, outcomes_of
from .live import error_info

if TYPE_CHECKING:
    from ..trace_store import SpanStatus
    from .live import LiveSpan

__all__ = ["fill_run", "fill_step"]

_STATUS: dict[str, SpanStatus] = {
    "success": "ok",
    "failed": "error",
    "tripwire": "tripwire",
    "canceled": "canceled",
    "suspended": "suspended",
}


def fill_step(told: Any, span: LiveSpan, step: Any) -> None:
    """How an attempt has ended, and what it has used."""
    reason = step.answer.finish_reason
    if step.taken_back:
        reason = "retry"
    elif step.wire is not None:
        reason = "tripwire"
    elif step.waiting:
        reason = "suspended"
    if reason is not None:
        span.attributes["finish_reason"] = reason
    usage = step.answer.usage.to_json()
    usage.pop("raw", None)
    if usage:
        span.attributes["usage"] = usage
    if step.from_cache:
        span.attributes["from_cache"] = True
    if step.wire is not None:
        span.attributes["tripwire_abort"] = told.verdict(step.wire)
        span.status = "tripwire"
    elif step.failure is not None:
        span.error_info = error_info(step.failure)
        span.status = "error"


def fill_run(told: Any, run: Any) -> None:
    """How a run has ended, and its content as far as it may be stored."""
    span: LiveSpan = told.root
    span.status = _STATUS.get(run.status, "canceled")
    attributes: dict[str, Any] = {
        "status": run.status if run.ended else "canceled",
        "finish_reason": run.finish_reason,
        "steps": len(run.all_steps),
        "retries": run.retry_count or None,
        "usage": _tokens(run.usage),
        "processor_usage": _tokens(run.processor_usage),
    }
    span.attributes |= {name: value for name, value in attributes.items() if value is not None}
    if run.tripwire is not None:
        span.attributes["tripwire_abort"] = told.verdict(run.tripwire)
    if run.error is not None:
        span.error_info = error_info(run.error)
    if told.content != "none":
        _show(told, run)


def _tokens(usage: Any) -> dict[str, Any] | None:
    form = usage.to_json()
    form.pop("raw", None)
    return form or None


def _show(told: Any, run: Any) -> None:
    kept = kept_of(run) if run.ended else []
    if not kept:
        if told.content == "processed":
            _hide_below(told)
        return
    span: LiveSpan = told.root
    span.input = input_of(run, kept)
    span.output = {"text": run.text}
    if run.object_result is not None:
        span.output["object"] = run.object_result.to_json().get("object")
    results = {result.step_number: result for result in run.all_steps if result.accepted}
    for step_span, step in told.steps:
        result = results.get(step.number)
        if result is not None and not step.taken_back and step.wire is None:
            step_span.output = {"text": result.text}
    calls = outcomes_of(kept)
    for call_id, tool_span in told.tool_spans.items():
        invocation = calls.get(call_id)
        if invocation is not None:
            if told.content == "processed":
                tool_span.input = plain(invocation.args)
            tool_span.output = _result(told.shown.get(call_id), invocation)


def _result(shown: tuple[Any, Any] | None, invocation: Any) -> Any:
    """What has come of a call, as it was delivered; not if it was changed where it is kept."""
    if shown is None or invocation.state != "result":
        return None
    delivered, stored = shown
    return plain(delivered) if invocation.result is stored else {"omitted": "changed since"}


def _hide_below(told: Any) -> None:
    """Nothing is shown of what runs within have said: it is part of what was blocked."""
    within = {told}
    for span in told.trace.spans:
        if span.parent is not None and (span.parent.run in within or span.run in within):
            within.add(span.run)
            span.input = span.output = None
