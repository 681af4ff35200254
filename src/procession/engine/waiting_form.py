"""A run that waits, as JSON data: what another process needs to go on with it (G-F5).

Written down are the conversation, the steps so far, the calls that wait, what processors have in
their `state` and the options that JSON can hold. What it cannot hold is named: without it the run
would go on unguarded or otherwise than it began, so whoever goes on must bring it, or may not.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..chunks import Chunk, Usage
from ..conversation.marks import Marked
from ..errors import InputError
from ..message_list import MessageList
from ..messages import ReasoningPart, TextPart, ToolInvocationPart, part_from_json
from ..records import MAX_DEPTH, parse_time, plain
from ..request_context import MASTRA_AUTH_TOKEN_KEY, RequestContext
from ..results import ResponseInfo, StepResult, Tripwire
from ..waiting import Kept, Waiting
from .answer import Answer, Call
from .response import Portion
from .run_state import RunState
from .step import Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..messages import Part

__all__ = ["kept_form", "kept_from_form"]

_log = logging.getLogger("procession.engine")

VERSION = 1

_OPTIONS = frozenset(
    {
        "active_tools",
        "hide_signals",
        "include_raw_chunks",
        "max_processor_retries",
        "max_retries",
        "max_steps",
        "memory",
        "model_settings",
        "provider_options",
        "require_tool_approval",
        "structured_output",
        "tool_choice",
    }
)
_GUARDS = ("stop_when", "prepare_step")
"""Options that shape the rest of the run, and are functions: they cannot be written down."""
_COUNTS = ("step_number", "retry_count", "api_retry_count", "own_retries", "forbids_retries")
_PLAIN = (*_COUNTS, "message_id", "run_id", "warnings", "saved_system")


def kept_form(run: RunState, kept: Kept) -> dict[str, Any]:
    """What it takes to go on with a run, as JSON data."""
    accepted = {id(result) for result in run.steps}
    numbers = {id(result): number for number, result in enumerate(run.all_steps)}
    step: Step = kept.step
    options = {name: _listed(value) for name, value in run.options.items() if name in _OPTIONS}
    form = {
        "version": VERSION,
        "agentId": run.agent_id,
        "run": {name: getattr(run, name) for name in _PLAIN},
        "ownMessages": sorted(run.own_messages),
        "idsBefore": sorted(run.ids_before),
        "usage": kept.carried["usage"],
        "processorUsage": run.processor_usage,
        "messages": run.message_list.serialize(),
        "requestContext": _context_form(run.request_context),
        "states": dict(_states(run)),
        "options": {name: value for name, value in options.items() if _is_json(value)},
        "missing": _missing(run.options, options),
        "steps": [
            {**result.to_json(), "accepted": id(result) in accepted}
            for result in kept.carried["all_steps"]
        ],
        "portions": [
            {"step": numbers[id(result)], **_portion_form(run, portion)}
            for result, portion in kept.carried["portions"]
            if id(result) in numbers
        ],
        "step": _step_form(run, step),
        "seen": kept.seen,
    }
    return plain(form)


def _context_form(context: RequestContext) -> dict[str, Any]:
    """The request context without what proves who asks: that is brought anew."""
    return {k: v for k, v in context.to_json().items() if k != MASTRA_AUTH_TOKEN_KEY}


def _states(run: RunState) -> Iterable[tuple[str, Any]]:
    """Each processor's state; one that is more than JSON data begins anew."""
    for processor_id, state in run.states.items():
        if _is_json(state):
            yield processor_id, state
        else:
            _log.warning(
                "the state of processor %r is more than JSON data, so it is not kept while run %r "
                "waits: in another process that processor begins anew",
                processor_id,
                run.run_id,
            )


def _listed(value: Any, levels: int = MAX_DEPTH) -> Any:
    """An option as JSON has it, which knows one kind of list and one of mapping."""
    if not levels or isinstance(value, str | bytes):
        return value
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {key: _listed(item, levels - 1) for key, item in pairs}
    if isinstance(value, Collection):
        return [_listed(item, levels - 1) for item in cast("Collection[Any]", value)]
    return value


def _is_json(value: Any, levels: int = MAX_DEPTH) -> bool:
    """Whether JSON gives a value back as it is; what contains itself has no end."""
    if isinstance(value, dict | list):
        if not levels:
            return False
        if isinstance(value, list):
            return all(_is_json(item, levels - 1) for item in cast("list[Any]", value))
        pairs = cast("dict[Any, Any]", value).items()
        return all(isinstance(key, str) and _is_json(item, levels - 1) for key, item in pairs)
    if isinstance(value, float):
        return isfinite(value)
    return value is None or isinstance(value, str | int)


def _missing(options: Mapping[str, Any], listed: Mapping[str, Any]) -> list[str]:
    """The options that cannot be written down and must not be left out."""
    lost = [name for name in _GUARDS if options.get(name) is not None]
    lost += [name for name, value in listed.items() if not _is_json(value)]
    return [*options.get("own_lists", ()), *lost]


def _portion_form(run: RunState, portion: Portion) -> dict[str, Any]:
    message = run.message_list.find(portion.message_id)
    parts = message.content.parts if message else []
    return {
        "messageId": portion.message_id,
        "start": portion.start,
        "first": next((i for i, part in enumerate(parts) if part is portion.first), None),
        "known": sorted(portion.known),
    }


def _step_form(run: RunState, step: Step) -> dict[str, Any]:
    assert step.portion is not None
    answer = step.answer
    return {
        "number": step.number,
        "portion": _portion_form(run, step.portion),
        "mark": [_marked_form(marked) for marked in step.mark],
        "calls": [
            {
                "id": call.id,
                "chunk": call.chunk,
                "executed": call.executed,
                "runsWith": call.to_run_with,
            }
            for call in answer.calls.values()
        ],
        "chunks": answer.chunks,
        "finishReason": answer.finish_reason,
        "rawReason": answer.raw_reason,
        "usage": answer.usage,
        "providerMetadata": answer.provider_metadata,
        "responseId": answer.response_id,
        "modelId": answer.model_id,
        "timestamp": answer.timestamp,
        "outcomes": step.outcomes,
        "hadOutcome": step.had_outcome,
        "waitsForClient": step.waits_for_client,
        "warnings": step.warnings,
        "request": step.request_info,
        "headers": step.headers,
        "fromCache": step.from_cache,
        "toolNames": sorted(step.tools),
        "toolChoice": step.tool_choice,
        "activeTools": step.active_tools,
        "waiting": [
            {
                "chunk": held.chunk,
                "toolName": held.tool_name,
                "schema": held.schema,
                "shown": held.shown.decode(),
            }
            for held in step.waiting.values()
        ],
    }


def _marked_form(marked: Marked) -> dict[str, Any]:
    places = {id(part): place for place, part in enumerate(marked.message.content.parts)}
    return {
        "id": marked.message.id,
        "held": [places.get(id(part), part) for part in marked.held],
        "text": marked.text,
        "metadata": marked.metadata,
        "providerMetadata": marked.provider_metadata,
    }


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def kept_from_form(form: Mapping[str, Any], owner: Any, given: Mapping[str, Any]) -> Kept:
    """The run as its agent `owner` goes on with it; `given` are the options brought along.

    Raises `InputError` for a form of a newer version, and when something is missing that the run
    must not go on without.
    """
    if form.get("version") != VERSION:
        raise InputError(
            f"this run was kept by another version of procession (form {form.get('version')!r}, "
            f"here {VERSION}): continue it with that one"
        )
    run_id = form["run"]["run_id"]
    missing = [name for name in form["missing"] if name not in given]
    if missing:
        raise InputError(
            f"run {run_id!r} was started with {', '.join(missing)} of its own call, which no store "
            f"can keep: continue it in the process that began it, or set them on the agent"
        )
    messages = MessageList().deserialize(form["messages"])
    run = RunState(messages, RequestContext(form["requestContext"]))
    run.owner, run.agent_id = owner, form["agentId"]
    for name in _PLAIN:
        setattr(run, name, form["run"][name])
    saved: Any = run.saved_system
    run.saved_system = None if saved is None else (saved[0], saved[1])
    run.own_messages = set(form["ownMessages"])
    run.ids_before = frozenset(form["idsBefore"])
    run.processor_usage = Usage.from_json(form["processorUsage"])
    run.add_usage(Usage.from_json(form["usage"]))
    run.options = form["options"]
    for processor_id, state in form["states"].items():
        run.states[processor_id] = state
    for result in form["steps"]:
        made = _result(result)
        run.all_steps.append(made)
        if result["accepted"]:
            run.steps.append(made)
    run.portions = [
        (run.all_steps[portion["step"]], _portion(run, portion)) for portion in form["portions"]
    ]
    step = _step(run, form["step"])
    return Kept(
        run_id=run_id,
        owner=owner,
        step=step,
        seen=[Chunk.from_json(chunk) for chunk in form["seen"]],
        carried=run.in_hand(),
        tool_names=frozenset(form["step"]["toolNames"]),
    )


def _chunks(forms: Iterable[dict[str, Any]]) -> list[Chunk]:
    return [Chunk.from_json(form) for form in forms]


def _result(form: Mapping[str, Any]) -> StepResult:
    """A step's record; what was made of its parts is read anew."""
    data = {k: v for k, v in form.items() if k not in ("accepted", "reasoningText")}
    for name in ("toolCalls", "toolResults", "reasoning", "sources", "files"):
        data[name] = _chunks(data.get(name, ()))
    data["content"] = [part_from_json(part) for part in data.get("content", ())]
    data["usage"] = Usage.from_json(data.get("usage", {}))
    response = dict(data.get("response", {}))
    if response.get("timestamp") is not None:
        response["timestamp"] = parse_time(response["timestamp"])
    data["response"] = ResponseInfo.from_json(response)
    if data.get("tripwire") is not None:
        data["tripwire"] = Tripwire.from_json(data["tripwire"])
    return StepResult.from_json(data)


def _portion(run: RunState, form: Mapping[str, Any]) -> Portion:
    message = run.message_list.find(form["messageId"])
    first: int | None = form.get("first")
    part = message.content.parts[first] if message is not None and first is not None else None
    return Portion(form["messageId"], form["start"], part, set(form["known"]))


def _step(run: RunState, form: Mapping[str, Any]) -> Step:
    mark = [_marked(run, marked) for marked in form["mark"]]
    run.model, run.tools = None, {}
    step = Step(run, mark)
    step.number = form["number"]
    step.portion = _portion(run, form["portion"])
    step.answer = _answer(form, step.portion.parts(run.message_list))
    step.outcomes = _chunks(form["outcomes"])
    step.had_outcome, step.waits_for_client = form["hadOutcome"], form["waitsForClient"]
    step.warnings, step.request_info = form["warnings"], form["request"]
    step.headers, step.from_cache = form["headers"], form["fromCache"]
    step.tool_choice, step.active_tools = form["toolChoice"], form.get("activeTools")
    step.asked = step.started = True
    for held in form["waiting"]:
        chunk = Chunk.from_json(held["chunk"])
        step.waiting[chunk.payload.tool_call_id] = Waiting(
            chunk=chunk,
            tool_name=held["toolName"],
            schema=held.get("schema"),
            shown=held["shown"].encode(),
        )
    return step


def _marked(run: RunState, form: Mapping[str, Any]) -> Marked:
    message = run.message_list.find(form["id"])
    if message is None:
        raise InputError(f"the kept run names message {form['id']!r}, which it does not hold")
    parts = message.content.parts
    held = [parts[p] if isinstance(p, int) else part_from_json(p) for p in form["held"]]
    was = Marked.of(message)
    return msgspec.structs.replace(
        was,
        held=held,
        text=form.get("text"),
        metadata=form.get("metadata"),
        provider_metadata=form.get("providerMetadata"),
    )


def _answer(form: Mapping[str, Any], parts: Sequence[Part]) -> Answer:
    """The step's answer, whose parts are those that stand in the message already."""
    answer = Answer()
    answer.finish_reason, answer.raw_reason = form.get("finishReason"), form.get("rawReason")
    answer.usage = Usage.from_json(form["usage"])
    answer.provider_metadata = form.get("providerMetadata")
    answer.response_id, answer.model_id = form.get("responseId"), form.get("modelId")
    moment = form.get("timestamp")
    answer.timestamp = None if moment is None else parse_time(moment)
    answer.chunks = {kind: _chunks(chunks) for kind, chunks in form["chunks"].items()}
    calls = {
        part.tool_invocation.tool_call_id: part
        for part in parts
        if isinstance(part, ToolInvocationPart)
    }
    for number, part in enumerate(parts):
        if isinstance(part, TextPart | ReasoningPart):
            answer.restore_block(f"kept-{number}", part)
    for call in form["calls"]:
        chunk = Chunk.from_json(call["chunk"])
        part = calls.get(call["id"])
        if part is not None:
            made = answer.calls[call["id"]] = Call(chunk, part)
            made.executed = call["executed"]
            if call.get("runsWith") != part.tool_invocation.args:
                made.disguise(call.get("runsWith"), part.tool_invocation.args)
    return answer
