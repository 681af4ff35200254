"""How an assistant message is folded into one that is there already (R-309, R-331, R-333)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..errors import InputError
from ..messages import DataPart, Message, Part, ToolInvocation, ToolInvocationPart
from ..records import clean_json, clean_kept, clean_text
from .part_input import ui_part

__all__ = ["fold", "invocation_part", "merged", "put_outcome"]


def merged(old: dict[str, Any] | None, new: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Two metadata dicts key by key; the newer one wins."""
    if not new:
        return old
    return {**(old or {}), **new}


def fold(target: Message, incoming: Message) -> None:
    """Bring the parts of `incoming` into `target`, which stays the message of the list.

    Outcomes go to the calls they belong to, a data part replaces the one of its type and id, other
    parts that are there already are not repeated, and what is new is appended.
    """
    parts = target.content.parts
    for part in list(incoming.content.parts):
        if part.type == "step-start":
            continue  # put back below, where something new follows
        if isinstance(part, ToolInvocationPart):
            _fold_call(parts, part, incoming)
        elif isinstance(part, DataPart):
            _fold_data(parts, part)
        elif not any(_alike(part, known) for known in parts):
            _append(parts, part, incoming)
    content = target.content
    content.metadata = merged(content.metadata, incoming.content.metadata)
    content.provider_metadata = merged(
        content.provider_metadata, incoming.content.provider_metadata
    )
    if incoming.content.content:
        content.content = incoming.content.content


def _append(parts: list[Part], part: Part, incoming: Message) -> None:
    """Append, with the step boundary that stood before the part."""
    source = incoming.content.parts
    position = next(index for index, item in enumerate(source) if item is part)
    if position and source[position - 1].type == "step-start" and parts:
        if parts[-1].type != "step-start":
            parts.append(source[position - 1])
    parts.append(part)


def _fold_call(parts: list[Part], part: ToolInvocationPart, incoming: Message) -> None:
    known = find_call(parts, part.tool_invocation.tool_call_id)
    if known is None:
        _append(parts, part, incoming)
    elif part.tool_invocation.state not in ("call", "partial-call") or (
        known.tool_invocation.state == "partial-call"
    ):
        put_outcome(known, part)


def _fold_data(parts: list[Part], part: DataPart) -> None:
    if part.id is not None:
        for index, known in enumerate(parts):
            if isinstance(known, DataPart) and known.type == part.type and known.id == part.id:
                parts[index] = part
                return
    parts.append(part)


def _alike(part: Part, known: Part) -> bool:
    """Equal but for the time stamp."""
    if type(part) is not type(known) or part.type != known.type:
        return False
    return part == known or part.replace(created_at=None) == known.replace(created_at=None)


def find_call(parts: list[Part], call_id: str) -> ToolInvocationPart | None:
    """The last part that holds the call."""
    for part in reversed(parts):
        if isinstance(part, ToolInvocationPart) and part.tool_invocation.tool_call_id == call_id:
            return part
    return None


def put_outcome(known: ToolInvocationPart, new: ToolInvocationPart) -> None:
    """Write state and outcome of `new` into the part that holds the call; its args stay (R-338)."""
    call, news = known.tool_invocation, new.tool_invocation
    call.state = news.state
    call.result = clean_json(news.result)
    call.is_error = news.is_error
    call.error_text = clean_text(news.error_text) if news.error_text else news.error_text
    if news.approval is not None:
        call.approval = clean_kept(news.approval)
    known.provider_metadata = clean_kept(merged(known.provider_metadata, new.provider_metadata))
    if new.provider_executed is not None:
        known.provider_executed = new.provider_executed


def invocation_part(value: Any) -> ToolInvocationPart:
    """A tool part from a part object or a mapping of the JSON form (R-396).

    A mapping may leave out `args` and `toolName`; its state is `result` unless it says otherwise.
    """
    if isinstance(value, ToolInvocationPart):
        return value
    if not isinstance(value, Mapping):
        raise InputError(f"a tool-invocation part or mapping is needed, not {type(value).__name__}")
    data = dict(cast("Mapping[str, Any]", value))
    call = data.pop("toolInvocation", None) or data.pop("tool_invocation", None)
    if isinstance(call, ToolInvocation):
        made = call
    elif isinstance(call, Mapping):
        made = _invocation(cast("Mapping[str, Any]", call))
    else:
        raise InputError(
            'update_tool_invocation needs {"type": "tool-invocation", "toolInvocation": {…}}'
        )
    data["type"] = "tool-invocation"
    data["toolInvocation"] = {"toolCallId": made.tool_call_id, "toolName": made.tool_name}
    part = ui_part(data)
    assert isinstance(part, ToolInvocationPart)
    part.tool_invocation = made
    return part


_CALL_KEYS = {
    "tool_call_id": "toolCallId",
    "tool_name": "toolName",
    "is_error": "isError",
    "error_text": "errorText",
    "raw_input": "rawInput",
}


def _invocation(data: Mapping[str, Any]) -> ToolInvocation:
    given = {_CALL_KEYS.get(key, key): item for key, item in data.items()}
    if not given.get("toolCallId"):
        raise InputError("a tool invocation needs toolCallId, the id of the call it answers")
    return ToolInvocation.from_json({"toolName": "", "state": "result", **given})
