"""What may be told of a run when it has ended: what was let through, and nothing else.

What a run leaves to be stored (`RunEnded.messages`) decides it: that is the one table of outcomes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ..policy.facts import as_detail, facts_in
from ..records import error_form, plain
from .asked import usage_form
from .snapshots import as_json, items_of_message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..ending import RunEnded
    from ..messages import Message
    from ..results import StepResult, Tripwire

__all__ = ["Outcome", "outcome_of"]

_OPTIONS = frozenset(
    {
        "active_tools",
        "hide_signals",
        "include_raw_chunks",
        "max_processor_retries",
        "max_retries",
        "max_steps",
        "memory",
        "require_tool_approval",
        "structured_output",
        "tool_choice",
    }
)
"""Those that say how a run was made; keys and headers are in none of them."""
_SETTINGS = frozenset({"headers"})


class Outcome(Struct, kw_only=True):
    """How a run has ended, in JSON form, and the texts of its answer that were let through."""

    form: dict[str, Any]
    let_through: list[str]
    """What the answer says."""
    is_blocked: bool
    """Whether nothing of the answer may be told."""
    refused: list[tuple[int, str, bool]]
    """Verdicts on attempts: the step, who gave it, and whether it led to another one."""
    model_error: dict[str, Any] | None
    """What the last call of the model failed with."""


def outcome_of(ending: RunEnded, *, raw: bool) -> Outcome:
    """What to write down of the end of a run."""
    kept = ending.messages or ending.executed
    is_blocked = ending.status == "tripwire" or (ending.status == "failed" and not ending.messages)
    if raw:
        views = ending.message_list.get
        kept = [*views.input.db(), *views.response.db()]
    answers = [message for message in kept if message.role == "assistant"]
    failed = bool(ending.steps) and ending.steps[-1].finish_reason == "error"
    error = None if ending.error is None else _error(ending.error, raw)
    told = raw or not is_blocked
    form = {
        "status": ending.status,
        "finishReason": ending.finish_reason,
        "usage": usage_form(ending.usage),
        "options": _options(ending.options),
        "error": error,
        "tripwire": None if ending.tripwire is None else _tripwire(ending.tripwire, raw),
        "text": "".join(step.text for step in ending.steps if step.accepted) if told else "",
        "steps": [_step(step, raw, told=told) for step in ending.steps],
        "messages": [_message(each, raw, told=told) for each in (kept if raw else answers)],
        "policyEvents": [event.to_json() for event in ending.policy_events],
    }
    return Outcome(
        form={key: value for key, value in form.items() if value is not None},
        let_through=[text for each in answers if told for text in _texts(each)],
        is_blocked=is_blocked,
        refused=_refused(ending.steps),
        model_error=error if failed else None,
    )


def _texts(message: Message) -> list[str]:
    found = [item.text for item in items_of_message(message) if item.text]
    for part in message.content.parts:
        if part.type == "tool-invocation":
            held: Any = part
            call = held.tool_invocation
            found += [f"{call.tool_name}({as_json(call.args)})", as_json(call.result)]
    return found


def _refused(steps: Sequence[StepResult]) -> list[tuple[int, str, bool]]:
    return [
        (step.step_number, step.tripwire.processor_id, step.finish_reason == "retry")
        for step in steps
        if step.tripwire is not None
    ]


def _error(error: BaseException, raw: bool) -> dict[str, Any]:
    """An exception; its words may hold what a guard was to hide."""
    form = error_form(error)
    if not raw:
        form.pop("message", None)
    return form


def _tripwire(tripwire: Tripwire, raw: bool) -> dict[str, Any]:
    """A verdict; of what a processor has attached to it, names alone."""
    form: dict[str, Any] = {"processorId": tripwire.processor_id, "reason": tripwire.reason}
    if tripwire.retry:
        form["retry"] = True
    attached = plain(tripwire.metadata) if raw else as_detail(facts_in(tripwire.metadata))
    if attached is not None:
        form["metadata"] = attached
    return form


def _step(step: StepResult, raw: bool, *, told: bool) -> dict[str, Any]:
    form: dict[str, Any] = {
        "stepNumber": step.step_number,
        "finishReason": step.finish_reason,
        "usage": usage_form(step.usage),
        "toolCalls": [
            {"toolCallId": call.payload.tool_call_id, "toolName": call.payload.tool_name}
            for call in step.tool_calls
        ],
    }
    if told:
        form["text"] = step.text
    if step.tripwire is not None:
        form["tripwire"] = _tripwire(step.tripwire, raw)
    return form


def _message(message: Message, raw: bool, *, told: bool) -> dict[str, Any]:
    parts = [plain(part) if raw else _part(part, told=told) for part in message.content.parts]
    return {"id": message.id, "role": message.role, "parts": parts}


def _part(part: Any, *, told: bool) -> dict[str, Any]:
    """A part without what no processor is asked about: errors, and what providers add.

    Of a blocked run it is told which tools really ran, and nothing else.
    """
    if part.type == "text" and told:
        return {"type": "text", "text": part.text}
    if part.type == "reasoning" and told:
        return {"type": "reasoning", "reasoning": part.reasoning}
    if part.type != "tool-invocation":
        return {"type": part.type}
    call = part.tool_invocation
    said: dict[str, Any] = {
        "toolCallId": call.tool_call_id,
        "toolName": call.tool_name,
        "state": call.state,
    }
    if told:
        said["args"] = plain(call.args)
    if told and call.state == "result":
        said["result"] = plain(call.result)
    return {"type": "tool-invocation", "toolInvocation": said}


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that JSON can hold."""
    found = {key: value for key, value in options.items() if key in _OPTIONS and _is_json(value)}
    settings = options.get("model_settings")
    if isinstance(settings, dict):
        known = cast("dict[str, Any]", settings).items()
        found["model_settings"] = {
            key: value for key, value in known if key not in _SETTINGS and _is_json(value)
        }
    return found


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(
            isinstance(key, str) and _is_json(entry)
            for key, entry in cast("dict[Any, Any]", value).items()
        )
    if isinstance(value, list | tuple):
        return all(map(_is_json, cast("list[Any]", value)))
    return value is None or isinstance(value, str | int | float | bool)
