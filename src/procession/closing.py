"""How attempts and runs end: one function for each outcome, and one that settles every run.

What is stored for an outcome is decided here and nowhere else (the table of outcomes): each
function leaves the message list in the state that `settle` hands to the extensions.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from .delivery import deliver
from .errors import InputError
from .frames import abort_chunk, error_chunk, finish_chunk, step_finish_chunk
from .messages import ErrorPart
from .output import FullOutput
from .records import clean_kept, clean_text, error_form
from .response import merge, response_message
from .step import Step, tripwire_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .chunks import Chunk
    from .errors import TripWire
    from .results import StepResult
    from .run_state import RunState

__all__ = [
    "block",
    "block_result",
    "blocked_in_input",
    "broken",
    "cut_off",
    "deliver_finish",
    "record_failure",
    "reject",
    "settle",
    "stopped_by_caller",
]


async def reject(run: RunState, step: Step) -> AsyncGenerator[list[Chunk], None]:
    """An attempt does not count: it is taken back and closed, another may follow (R-173 to R-179).

    An abort gives feedback to the model, an API error does not.
    """
    wire = step.wire
    if wire is not None:
        _put_right(wire)
    run.message_list.restore_response(step.mark)
    run.answer = None
    run.verdict = None
    result = step.rejected("retry", wire)
    if step.asked:
        step.recorded = True
        run.all_steps.append(result)
        run.add_usage(result.usage)
    if step.started:
        async with aclosing(deliver(run, step_finish_chunk(run, step, result))) as delivered:
            async for batch in delivered:
                yield batch
    run.retry_count += 1
    if wire is None:
        run.api_retry_count += 1
    else:
        run.message_list.add_feedback(f"[Processor Feedback] {wire.reason}")


def block(run: RunState, step: Step, wire: TripWire) -> None:
    """A verdict ends the run in a step: the step's parts go, its usage stays (R-170)."""
    _put_right(wire)
    run.message_list.restore_response(step.mark)
    run.answer = None
    if step.recorded:  # as failed: what failed is blocked now
        run.all_steps[-1] = step.rejected("other", wire)
        run.error = None
    elif step.asked:
        result = step.rejected("other", wire)
        run.all_steps.append(result)
        run.add_usage(result.usage)
    _end(run, "tripwire", "other")
    run.tripwire = tripwire_of(wire)
    run.text = "".join(result.text for result in run.steps)


def blocked_in_input(run: RunState, wire: TripWire) -> None:
    """A verdict before the loop: the stream's only chunk will be the tripwire (R-069)."""
    _put_right(wire)
    run.blocked = wire
    run.tripwire = tripwire_of(wire)
    _end(run, "tripwire", "other")


def block_result(run: RunState, wire: TripWire) -> None:
    """A verdict on the whole answer: no text of it is shown or kept (R-156)."""
    _put_right(wire)
    run.message_list.clear.response.db()
    for result in list(run.all_steps):
        run.replace_step(result, text="", content=[], reasoning=[])
    _end(run, "tripwire", "other")
    run.tripwire = tripwire_of(wire)
    run.text = ""


def record_failure(run: RunState, step: Step, error: Exception) -> StepResult:
    """The model failed for good: what it said so far stays, with an error part (R-209, R-552)."""
    step.answer.finish_reason = "error"
    step.portion = merge(run, step.answer, step.portion)
    for call in step.answer.calls.values():
        if call.part.tool_invocation.state == "call":
            call.part.tool_invocation.state = "output-error"
            call.part.tool_invocation.error_text = "not executed: the model's answer broke off"
    run.answer = None
    form = error_form(error)
    part = ErrorPart(error={"name": form["name"], "message": form["message"]})
    response_message(run).content.parts.append(part)
    result = step.result(run, step.answer.text())
    step.recorded = True
    run.all_steps.append(result)
    run.add_usage(result.usage)
    run.error = error
    return result


def broken(run: RunState, error: BaseException) -> list[Chunk]:
    """A hook raised: the list holds what was accepted before, awaiting a result raises (R-188)."""
    step = run.step
    if step is not None and not step.recorded:
        run.message_list.restore_response(step.mark)
        if step.asked:
            run.add_usage(step.answer.usage)
    run.answer = None
    _end(run, "failed", "error")
    run.error = error
    run.raises = True
    run.text = "".join(result.text for result in run.steps)
    return [*run.take_out(), error_chunk(run, error)]


async def stopped_by_caller(run: RunState) -> list[Chunk]:
    """The abort signal fired: `abort`, then `finish` with reason `aborted` (R-555 to R-559)."""
    step = run.step
    cut_off(run)
    partial = run.all_steps[-1].text if step is not None and step.interrupted else ""
    await run.call_back("on_abort", {"steps": list(run.steps), "text": partial})
    return [*run.take_out(), abort_chunk(run), finish_chunk(run)]


def cut_off(run: RunState) -> None:
    """The caller stopped the run: what was delivered stays, marked interrupted, calls closed."""
    step = run.step
    if run.ended:
        return
    if step is not None and not step.recorded and (step.asked or step.answer.parts):
        step.portion = merge(run, step.answer, step.portion)
        for part in step.portion.parts(run.message_list):
            if part.type == "tool-invocation" and part.tool_invocation.state == "call":
                part.tool_invocation.state = "output-error"
                part.tool_invocation.error_text = "cancelled"
        result = step.result(run, step.portion.text(run.message_list))
        result.finish_reason = "aborted"
        step.recorded = step.interrupted = True
        run.all_steps.append(result)
        run.add_usage(result.usage)
    message = run.message_list.find(run.message_id)
    if message is not None:
        message.content.metadata = {**(message.content.metadata or {}), "interrupted": True}
    run.answer = None
    _end(run, "canceled", "aborted")
    run.text = "".join(r.text for r in run.all_steps if r.accepted)


def _put_right(wire: TripWire) -> None:
    """A verdict's texts as every client takes them; metadata without a JSON form stays as it is."""
    wire.reason = clean_text(str(wire.reason))
    with suppress(InputError):
        wire.metadata = clean_kept(wire.metadata)


async def deliver_finish(run: RunState) -> list[Chunk]:
    """The regular end: everything is settled before `finish` is delivered (R-056, R-057)."""
    if run.error is None:
        _end(run, "success", run.finish_reason)
        if "on_finish" in run.callbacks:
            await run.call_back("on_finish", FullOutput(run))
    else:
        _end(run, "failed", "error")
    await settle(run)
    return [*run.take_out(), finish_chunk(run)]


def _end(run: RunState, status: str, reason: str | None) -> None:
    run.status = status
    run.finish_reason = reason


async def settle(run: RunState) -> None:
    """Once per run, whatever its end: extensions are told, what is no longer needed is let go."""
    if run.settled:
        return
    run.settled = True
    for extension in run.extensions:
        await extension.run_ended(run)
    run.release()
