"""`send_signal`: a hook reminds the model of something while the run goes on (R-713 to R-718)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..chunks import Chunk
from ..errors import ProcessionError
from ..ids import new_id

if TYPE_CHECKING:
    from ..signals import Signal
    from .outbox import StreamWriter
    from .run_state import RunState

__all__ = ["send_signal"]


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


def _hidden(run: RunState, signal: Signal) -> bool:
    hidden = run.hide_signals
    return hidden if isinstance(hidden, bool) else signal.type in hidden
