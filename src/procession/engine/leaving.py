"""What a run leaves behind: the messages its outcome lets be stored, and who is told of its end.

This is the table of outcomes: nobody else decides what of a run may be stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ending import RunEnded
from ..messages import Message, MessageContent, ToolInvocationPart
from ..policy import events_of
from ..signals import is_transient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .run_state import RunState
    from .step import Step

__all__ = ["note_executed", "telling_processors", "to_be_stored"]

_OVER = frozenset({"result", "output-error", "output-denied"})


def telling_processors(run: RunState) -> Iterator[tuple[str, Any, Any]]:
    """Each processor that hears of the end, as how it is named, its method and what it is given."""
    ending: RunEnded | None = None
    for processor in run.pipeline.closers:
        if ending is None:
            ending = _ending(run)
        ending.state = run.states[processor.id]
        yield f"processor {processor.id!r}", processor.run_ended, ending


def _ending(run: RunState) -> RunEnded:
    status: Any = run.status
    return RunEnded(
        run_id=run.run_id,
        agent_id=run.agent_id,
        status=status,
        finish_reason=run.finish_reason,
        error=run.error,
        tripwire=run.tripwire,
        steps=run.all_steps,
        usage=run.usage,
        message_list=run.message_list,
        request_context=run.request_context,
        messages=to_be_stored(run),
        executed=[*run.executed] if run.status == "tripwire" else [],
        options=run.options,
        current_model=run.current_model,
        count_usage=run.count_usage,
        note_failure=run.note_failure,
        policy_events=events_of(run.policy_events),
        state={},
    )


def to_be_stored(run: RunState) -> list[Message]:
    """The new messages of a run that is over, as far as its outcome lets them be kept and shown."""
    if run.status == "tripwire" or run.raises:
        return []
    if run.status == "failed" and not run.all_steps:
        return []  # it came to nothing before the model was asked
    return _new_messages(run)


def _new_messages(run: RunState) -> list[Message]:
    views = run.message_list.get
    found = [m for m in (*views.input.db(), *views.response.db()) if not is_transient(m)]
    return sorted(found, key=lambda message: message.created_at)


def note_executed(run: RunState, step: Step | None) -> None:
    """Keep, before a verdict takes the answer away, which tools have really run.

    `step` is the one that the verdict covers: of its calls those count whose outcome had passed.
    """
    if not run.pipeline.closers or (not run.all_steps and (step is None or not step.asked)):
        return
    covered: set[str] = set()
    if step is not None:
        passed = {chunk.payload.tool_call_id for chunk in step.outcomes}
        covered = {call.id for call in step.answer.calls.values()} - passed
    found = [m for m in run.message_list.get.input.db() if not is_transient(m)]
    for message in run.message_list.get.response.db():
        parts = [
            part.replace(tool_invocation=part.tool_invocation.replace())
            for part in message.content.parts
            if isinstance(part, ToolInvocationPart)
            and part.tool_invocation.state in _OVER
            and part.tool_invocation.tool_call_id not in covered
        ]
        if parts:
            found.append(message.replace(content=MessageContent(parts=[*parts])))
    run.executed = sorted(found, key=lambda message: message.created_at)
