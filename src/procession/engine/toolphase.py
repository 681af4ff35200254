"""The tools of a step: started together, each outcome judged, stored and offered in call order."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..chunks import Chunk, ToolErrorPayload, ToolResultPayload
from ..messages import OPEN_CALLS
from ..processor import ProcessToolResultArgs
from ..records import clean_json
from .delivery import pass_on
from .pipeline import fold, sign, verdict_in
from .response import find_call
from .returns import apply_messages
from .suspending import deny, put_off
from .toolcalls import Outcome, ToolRunner, error_text

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..messages import ToolInvocationPart
    from .answer import Call
    from .run_state import RunState
    from .step import Step

__all__ = ["judge_result", "use_tools"]


async def use_tools(run: RunState, step: Step) -> AsyncGenerator[list[Chunk], None]:
    """Run the calls that hooks have left standing; yields outcomes and what tools write (R-053).

    Those that cannot run yet stand in `step.waiting` then.
    """
    calls = [call for call in step.answer.calls.values() if _stands(run, step, call)]
    if not calls:
        return
    writes = run.gate.writes or run.pipeline.process_tool_result.writes
    async with ToolRunner(run, step) as tools:
        tools.start(calls)
        for call in calls:
            if (task := tools.task_of(call)) is not None:
                async with aclosing(run.outbox.until_done(task)) as written:
                    async for batch in written:
                        yield batch
            outcome = await tools.outcome(call)
            work = _hand_on(run, step, call, outcome)
            if writes:
                async with aclosing(run.outbox.attend(work)) as written:
                    async for batch in written:
                        yield batch
            else:
                await work
            if run.out:
                yield run.take_out()


def _stands(run: RunState, step: Step, call: Call) -> bool:
    """Whether a call is ours to run: hooks may have removed it, or answered it themselves."""
    part = find_call(run, call.id)
    if part is None:
        return False
    call.part = part
    if part.tool_invocation.state not in OPEN_CALLS:
        step.had_outcome = step.had_outcome or not call.executed
        return False
    return not call.executed and call.id not in step.waiting


async def _hand_on(run: RunState, step: Step, call: Call, outcome: Outcome) -> None:
    """Judge an outcome, store it in the message, and offer it as a chunk."""
    if outcome.kind == "client":
        step.waits_for_client = True
        return
    part = find_call(run, call.id) or call.part
    if outcome.kind in ("approval", "suspended"):
        put_off(step, call, part.tool_invocation, outcome)
        return
    step.had_outcome = True
    if outcome.kind == "denied":
        chunk = deny(call, part.tool_invocation, outcome.value)
    elif outcome.kind == "error":
        assert outcome.error is not None
        part.tool_invocation.state = "output-error"
        part.tool_invocation.error_text = error_text(outcome.error)
        chunk = _error_chunk(call, outcome.error)
    else:
        value = outcome.value
        if outcome.kind == "result":
            if step.result_listeners:
                step.tell_result(call.id, value)
            value = await judge_result(run, step, call.part, value, None)
        part = find_call(run, call.id) or call.part
        part.tool_invocation.state = "result"
        part.tool_invocation.result = value
        if outcome.kind == "result":
            _keep_model_output(step, call, part, value)
        chunk = _result_chunk(call, value)
    chunk.run_id = run.run_id
    passed: list[Chunk] = []
    await pass_on(run, chunk, passed)
    if run.observer is not None:
        run.observer.tool_shown(run, call, passed)
    if chunk.type == "tool-result":
        kept = [through for through in passed if through.type == chunk.type]
        step.outcomes.append(kept[0] if kept else chunk)


async def judge_result(
    run: RunState,
    step: Step,
    part: ToolInvocationPart,
    result: Any,
    provider_executed: bool | None,
) -> Any:
    """`process_tool_result` for one result; the value as the chain left it (R-142, R-148)."""
    chain = run.pipeline.process_tool_result
    if not chain:
        return result
    call = part.tool_invocation
    args = run.args(ProcessToolResultArgs)
    args.step_number = step.number
    args.steps = [*run.steps, step.result(run, step.answer.text())]
    args.tool_name, args.tool_call_id, args.args = call.tool_name, call.tool_call_id, call.args
    args.result, args.provider_executed = result, provider_executed
    await fold(run, chain, args, apply_messages)
    live = find_call(run, call.tool_call_id)
    if live is not None and live.tool_invocation.state == "result":
        return live.tool_invocation.result
    return result


def _keep_model_output(step: Step, call: Call, part: ToolInvocationPart, value: Any) -> None:
    """What the model sees instead of the result (R-374, R-535).

    It is made of the result as `process_tool_result` left it: what was masked there stays masked.
    A function that raises costs the model the result, not the caller the run.
    """
    tool = step.tools.get(call.name)
    if tool is None or tool.to_model_output is None:
        return
    try:
        shown = clean_json(tool.to_model_output(value))
    except Exception as error:
        shown = {"type": "error-text", "value": error_text(error)}
    except BaseException as error:
        if (wire := verdict_in(error)) is not None:
            sign(wire, call.name, "tool")
        raise
    metadata = dict(part.provider_metadata or {})
    metadata["mastra"] = {**metadata.get("mastra", {}), "modelOutput": shown}
    part.provider_metadata = metadata


def _result_chunk(call: Call, value: Any) -> Chunk:
    payload = ToolResultPayload(
        tool_call_id=call.id,
        tool_name=call.name,
        args=call.part.tool_invocation.args,
        result=value,
    )
    return Chunk("tool-result", payload, from_="AGENT")


def _error_chunk(call: Call, error: BaseException) -> Chunk:
    broken = call.arguments is UNSET
    payload = ToolErrorPayload(
        tool_call_id=call.id,
        tool_name=call.name,
        args=UNSET if broken else call.part.tool_invocation.args,
        error=error,
    )
    return Chunk("tool-error", payload, from_="AGENT")
