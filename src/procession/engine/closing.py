"""How attempts and runs end: one function for each outcome, and one that settles every run.

What is stored for an outcome is decided here and nowhere else (the table of outcomes): each
function leaves the message list in the state that `settle` hands to the extensions.
"""

from __future__ import annotations

import logging
from contextlib import aclosing, suppress
from copy import copy
from typing import TYPE_CHECKING

from ..errors import InputError, ProcessionError, TripWire
from ..extension import tell_the_end
from ..ids import new_id
from ..messages import OPEN_CALLS, ErrorPart
from ..output import FullOutput
from ..records import clean_kept, clean_text, error_form
from ..waiting import Kept
from .delivery import deliver
from .frames import abort_chunk, error_chunk, finish_chunk, step_finish_chunk, tripwire_chunk
from .leaving import note_executed
from .pipeline import sign, verdict_in
from .reminders import keep_unheard
from .response import merge, response_message, write_flat_text
from .step import Step, tripwire_of
from .waiting_form import kept_form

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..chunks import Chunk
    from ..results import StepResult
    from .run_state import RunState

__all__ = [
    "block",
    "block_result",
    "blocked_in_input",
    "broken",
    "close_attempt",
    "cut_off",
    "end_well",
    "may_retry",
    "parting",
    "record_failure",
    "settle",
    "stopped_by_caller",
    "take_back",
    "uphold",
]

_log = logging.getLogger("procession.engine")


def may_retry(run: RunState, wire: TripWire) -> bool:
    """Whether a verdict leads to another attempt: it asks for one while a step is under way, and
    there is budget (R-173, R-174).
    """
    step = run.step
    if step is None or step.recorded or step.taken_back or step.failure or run.concluded:
        return False
    return wire.retry and not run.final and run.retry_count < run.retry_budget


def uphold(run: RunState, error: BaseException) -> TripWire | None:
    """A verdict counts from the moment it was given, though something else came before its effect.

    `error` is what ended the run. Returns the verdict that blocks it, if there is one; an attempt
    that was to be made again is only taken back.
    """
    wire = verdict_in(error) or run.given or verdict_in(run.halt)
    if wire is None or run.status == "tripwire" or run.settled:
        return wire if run.status == "tripwire" else None
    step = run.step
    if step is None or run.concluded:
        block_result(run, wire)
    elif may_retry(run, wire):
        take_back(run, step, wire)
        return None
    else:
        block(run, step, wire)
    return wire


def take_back(run: RunState, step: Step, wire: TripWire | None) -> StepResult:
    """An attempt does not count: its parts go, its usage stays (R-175, R-179, R-183)."""
    step.wire = wire
    if wire is not None:
        _put_right(run, wire)
    run.message_list.restore_response(step.mark)
    run.answer = run.halt = run.given = None
    result = step.rejected("retry", wire)
    step.taken_back = True
    if step.asked:
        step.recorded = True
        run.all_steps.append(result)
        run.add_usage(result.usage)
    return result


async def close_attempt(
    run: RunState, step: Step, result: StepResult
) -> AsyncGenerator[list[Chunk], None]:
    """An attempt that was taken back is closed, and another may follow (R-173 to R-178).

    An abort gives feedback to the model, an API error does not.
    """
    if step.started:
        async with aclosing(deliver(run, step_finish_chunk(run, step, result))) as delivered:
            async for batch in delivered:
                yield batch
    run.retry_count += 1
    if step.reminded:
        run.message_id = new_id()
    if step.wire is None:
        run.api_retry_count += 1
    else:
        run.message_list.add_feedback(f"[Processor Feedback] {step.wire.reason}")


def block(run: RunState, step: Step, wire: TripWire) -> None:
    """A verdict ends the run in a step: the step's parts go, its usage stays (R-170)."""
    _put_right(run, wire)
    note_executed(run, step)
    run.message_list.restore_response(step.mark)
    result = step.rejected("other", wire)
    if step.recorded:  # as accepted, rejected or failed: it is blocked now
        known = run.all_steps[-1]
        if run.steps and run.steps[-1] is known:
            del run.steps[-1], run.portions[-1:]
        run.all_steps[-1] = result
    elif step.asked and (step.failure is None or step.answer.has_begun):
        # (A refused call leaves no entry.)
        run.all_steps.append(result)
        run.add_usage(result.usage)
    _trip(run, wire)
    run.text = "".join(result.text for result in run.steps)


def blocked_in_input(run: RunState, wire: TripWire) -> None:
    """A verdict before the loop: the stream's only chunk will be the tripwire (R-069)."""
    run.blocked = wire
    _trip(run, wire)


def block_result(run: RunState, wire: TripWire) -> None:
    """A verdict on the whole answer: no text of it is shown or kept (R-156)."""
    note_executed(run, None)
    run.message_list.clear.response.db()
    for result in list(run.all_steps):
        run.replace_step(result, text="", content=[], reasoning=[])
    _trip(run, wire)
    run.text = ""


def _trip(run: RunState, wire: TripWire) -> None:
    """The run is blocked, whatever it was before (R-168)."""
    _put_right(run, wire)
    run.answer = run.error = None
    run.raises = False
    run.given = wire
    run.tripwire = tripwire_of(wire)
    _end(run, "tripwire", "other")


def record_failure(run: RunState, step: Step, error: Exception) -> StepResult:
    """The model failed for good: what it said so far stays, with an error part (R-209, R-552)."""
    step.answer.finish_reason = "error"
    step.portion = merge(run, step.answer, step.portion)
    for call in step.answer.calls.values():
        if call.part.tool_invocation.state in OPEN_CALLS:
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


def broken(run: RunState, error: BaseException) -> None:
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


async def stopped_by_caller(run: RunState) -> None:
    """The abort signal fired: `abort`, then `finish` with reason `aborted` (R-555 to R-559)."""
    step = run.step
    cut_off(run)
    partial = run.all_steps[-1].text if step is not None and step.interrupted else ""
    try:
        await run.call_back("on_abort", {"steps": list(run.steps), "text": partial})
    except TripWire as wire:
        uphold(run, wire)
    except Exception as error:
        broken(run, error)


def cut_off(run: RunState) -> None:
    """The caller stopped the run: what was delivered stays, marked interrupted, calls closed."""
    step = run.step
    if run.settled or run.status in ("tripwire", "canceled"):
        return
    if step is not None and _is_under_way(step):
        step.portion = merge(run, step.answer, step.portion)
        for part in step.portion.parts(run.message_list):
            if part.type == "tool-invocation" and part.tool_invocation.state in OPEN_CALLS:
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


def _is_under_way(step: Step) -> bool:
    """Whether something of a step has come that stands nowhere yet."""
    if step.recorded or step.taken_back:
        return False
    return step.asked or bool(step.answer.parts)


def _put_right(run: RunState, wire: TripWire) -> None:
    """A verdict's texts as every client takes them; metadata without a JSON form stays as it is.

    One that nobody has signed, from a model or a function of the request, is the agent's.
    """
    sign(wire, run.agent_id, "agent")
    wire.reason = clean_text(str(wire.reason))
    with suppress(InputError):
        wire.metadata = clean_kept(wire.metadata)


async def end_well(run: RunState) -> None:
    """The regular end: everything is settled before `finish` is delivered (R-056, R-057)."""
    if run.step is not None and run.step.waiting:
        await _end_waiting(run, run.step)
        return
    if run.error is None:
        _end(run, "success", run.finish_reason)
        if "on_finish" in run.callbacks:
            await run.call_back("on_finish", FullOutput(run))
    else:
        _end(run, "failed", "error")
    await settle(run)


async def _end_waiting(run: RunState, step: Step) -> None:
    """Calls wait: the stream ends here, and the run is kept until they are decided (R-570).

    What has come of the step is shown, but it counts when it has come to its end.
    """
    try:
        await run.waiting_calls.check_free(run.run_id)
    except ProcessionError as error:
        broken(run, error)
        await settle(run)
        return
    kept = Kept(
        run_id=run.run_id,
        owner=run.owner,
        step=copy(step),
        seen=run.gate.seen,
        carried=run.in_hand(),
    )
    assert step.portion is not None
    if run.waiting_calls.outlives_process:
        kept.form = kept_form(run, kept)
    result = step.result(run, step.portion.text(run.message_list))
    result.finish_reason = "suspended"
    step.recorded = True
    run.all_steps.append(result)
    run.add_usage(result.usage)
    run.text = "".join(r.text for r in run.all_steps if r.accepted)
    _end(run, "suspended", "suspended")
    try:
        await settle(run)
        if run.status == "suspended":
            await _keep(run, kept)
    finally:
        if run.observer is not None:
            run.observer.run_ended(run)


async def _keep(run: RunState, kept: Kept) -> None:
    try:
        await run.waiting_calls.keep(kept)
    except ProcessionError as error:  # taken since, while others were told; a store that fails
        broken(run, error)


def parting(run: RunState) -> list[Chunk]:
    """What a run that is settled has yet to deliver, once: what has passed the gate, and the one
    chunk that says how it has ended, or two (R-516).
    """
    if run.parted:
        return []
    run.parted = True
    if run.status == "tripwire":
        assert run.given is not None
        closing = [tripwire_chunk(run, run.given)]
    elif run.raises:
        assert run.error is not None
        closing = [error_chunk(run, run.error)]
    elif run.status == "canceled":
        closing = [abort_chunk(run), finish_chunk(run)]
    elif run.status == "suspended":
        assert run.step is not None
        closing = run.step.suspension
    else:
        closing = [finish_chunk(run)]
    return [*run.take_out(), *closing]


def _end(run: RunState, status: str, reason: str | None) -> None:
    run.status = status
    run.finish_reason = reason


async def settle(run: RunState) -> None:
    """Once per run, whatever its end: who asks for it is told, what is no longer needed goes."""
    if run.settled:
        return
    run.settled = True
    write_flat_text(run)
    keep_unheard(run)
    problems: list[tuple[str, BaseException]] = []
    try:
        if run.extensions or run.pipeline.closers:
            await tell_the_end(run, problems)
    finally:
        for teller, problem in problems:
            _take_in(run, teller, problem)
        if run.observer is not None and run.status != "suspended":
            run.observer.run_ended(run)
        run.release()


def _take_in(run: RunState, teller: str, problem: BaseException) -> None:
    """What was raised when it was told of the end: no success is left, any other outcome stands."""
    note = f"{teller} raised {type(problem).__name__} in run_ended"
    if run.status in ("success", "suspended"):
        error = problem
        if not isinstance(error, Exception):
            error = ProcessionError(f"{note}: a run that is over can be failed, but not stopped")
            error.__cause__ = problem
        error.add_note(note)
        broken(run, error)
        return
    _log.error("%s, when the run had ended already (%s)", note, run.status)
    if run.error is not None:
        run.error.add_note(note)
    else:
        run.warnings = [*run.warnings, {"type": "other", "message": note}]
