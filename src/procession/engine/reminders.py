"""Signals to a run that is under way: from its hooks (R-713 to R-718), and from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..chunks import Chunk
from ..conversation.order import now
from ..errors import ProcessionError
from ..ids import new_id
from ..signals import Signal

if TYPE_CHECKING:
    from .outbox import StreamWriter
    from .run_state import RunState

__all__ = ["accept_signal", "hear", "keep_unheard", "send_signal"]


async def send_signal(run: RunState, given: Any, writer: StreamWriter) -> Signal:
    """Add a signal to the conversation and show it in the stream; returns the signal.

    Raises `ProcessionError` when the run has ended.

    An equal transient signal that was sent before is taken out, so that one remains (R-723). After
    the answer has begun, what follows goes into a message of its own (R-717); so does what another
    attempt says after a failed call.
    """
    if run.settled:
        raise ProcessionError("the run has ended: no signal can be sent to it")
    signal = run.message_list.add_signal(given, "input")
    if run.between_steps and run.message_list.find(run.message_id) is not None:
        run.message_id = new_id()
    if run.step is not None and run.step.failure is not None:
        run.step.reminded = True
    if not run.in_loop or _hidden(run, signal):
        return signal
    kind = "data-user-message" if signal.type == "user" else "data-signal"
    part = signal.to_data_part()
    await writer.custom(Chunk(kind, data=part["data"], transient=True))
    return signal


def accept_signal(run: RunState, given: Any) -> Signal:
    """Take in a signal from outside of the run; the next step to begin shows it to the model.

    Raises `ProcessionError` when the run has ended.
    """
    if run.settled or run.ended:
        raise ProcessionError("the run has ended: no signal can be sent to it")
    signal = Signal.of(given).replace(accepted_at=now())
    run.inbox.append(signal)
    return signal


async def hear(run: RunState) -> None:
    """Show the model what was sent from outside, as the newest messages."""
    run.between_steps = True
    try:
        while run.inbox:
            signal = run.inbox.pop(0)
            signal.created_at = run.message_list.next_time()
            await send_signal(run, signal, run.outbox.writer())
    finally:
        run.between_steps = False


def keep_unheard(run: RunState) -> None:
    """What came too late for this run stands behind its answer, for the next one."""
    messages = run.message_list
    for signal in run.inbox:
        signal.created_at = messages.next_time()
        if not signal.transient:
            messages.add_signal(signal, "input")
    run.inbox.clear()


def _hidden(run: RunState, signal: Signal) -> bool:
    hidden = run.hide_signals
    return hidden if isinstance(hidden, bool) else signal.type in hidden
