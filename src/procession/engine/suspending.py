"""Calls that wait: how they are noted in the message, and told of at the end of the stream."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..chunks import Chunk, ToolApprovalPayload, ToolDeniedPayload, ToolSuspendedPayload
from ..conversation.prompt_parts import denial
from ..messages import OPEN_CALLS
from ..records import own
from ..waiting import APPROVAL_SCHEMA, Waiting, fingerprint, frozen
from .response import find_call

if TYPE_CHECKING:
    from ..messages import ToolInvocation
    from .answer import Call
    from .run_state import RunState
    from .step import Step
    from .toolcalls import Outcome

__all__ = ["deny", "mark_allowed", "put_off", "tell"]


def put_off(step: Step, call: Call, invocation: ToolInvocation, outcome: Outcome) -> None:
    """Note that a call waits, and make the chunk that tells of it."""
    names: dict[str, Any] = {"tool_call_id": call.id, "tool_name": call.name}
    if outcome.kind == "approval":
        invocation.state = "approval-requested"
        invocation.approval = {"id": call.id}
        schema = APPROVAL_SCHEMA
        payload: Any = ToolApprovalPayload(**names, resume_schema=own(schema))
        chunk = Chunk("tool-call-approval", payload, from_="AGENT")
    else:
        schema = step.tools[call.name].resume_schema
        payload = ToolSuspendedPayload(**names, suspend_payload=outcome.value)
        payload.resume_schema = UNSET if schema is None else own(schema)
        chunk = Chunk("tool-call-suspended", payload, from_="AGENT")
    step.waiting[call.id] = Waiting(chunk=chunk, tool_name=call.name, schema=schema)


def deny(call: Call, invocation: ToolInvocation, reason: str | None) -> Chunk:
    """Note that a call was not allowed, and make the chunk that says so (R-571)."""
    invocation.state = "output-denied"
    invocation.approval = {"id": call.id, "approved": False}
    if reason is not None:
        invocation.approval["reason"] = reason
    payload = ToolDeniedPayload(
        tool_call_id=call.id,
        tool_name=call.name,
        args=invocation.args,
        reason=denial(invocation),
    )
    return Chunk("tool-output-denied", payload, from_="AGENT")


def mark_allowed(invocation: ToolInvocation) -> None:
    """Note that a call may run, which it has not done yet."""
    if invocation.state == "approval-requested":
        invocation.state = "approval-responded"
        invocation.approval = {**(invocation.approval or {}), "approved": True}


async def tell(run: RunState, step: Step) -> None:
    """Offer the chunks of the calls that wait; they are delivered once the run is kept (R-570).

    The arguments in them, as hooks leave them, are those that the call will run with. A call that
    hooks have taken away or answered meanwhile no longer waits.
    """
    waiting, step.waiting = step.waiting, {}
    for call in step.answer.calls.values():
        held = waiting.get(call.id)
        part = find_call(run, call.id)
        if held is None or part is None:
            continue
        if part.tool_invocation.state not in OPEN_CALLS:
            step.had_outcome = True
            continue
        step.waiting[call.id] = held
        await _offer(run, step, held, own(part.tool_invocation.args))


async def _offer(run: RunState, step: Step, held: Waiting, args: Any) -> None:
    id, kind = held.chunk.payload.tool_call_id, held.chunk.type
    chunk = copy(held.chunk)
    chunk.run_id = run.run_id
    chunk.payload = copy(chunk.payload)
    chunk.payload.args = args
    passed = await run.gate.through(chunk)
    # Hooks may have kept what they were offered: what is shown and decided about are copies, made
    # now. Which call it is about is not theirs to say.
    held.chunk = told = frozen(passed if passed is not None and passed.type == kind else chunk)
    told.type, told.run_id = kind, run.run_id
    told.payload.tool_call_id, told.payload.tool_name = id, held.tool_name
    if run.gate.late:
        await run.gate.let_in()
    if passed is not None:
        step.suspension.append(frozen(told) if passed.type == kind else passed)
    shown, part = told.payload.args, find_call(run, id)
    if part is not None and shown is not UNSET:
        part.tool_invocation.args = own(shown)
        held.shown = fingerprint(part.tool_invocation.args)
