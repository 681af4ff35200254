"""Built-in rules that repair the messages after a provider has refused them (B-443)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from .history_rule import HistoryRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...messages import Message, Part, ToolInvocationPart

__all__ = ["REPAIRS"]


# ── ids of calls ───────────────────────────────────────────────────────────────────────────────


def mend_call_ids(messages: list[Message]) -> bool:
    """Ids of calls of letters, digits, `_` and `-`: each other character becomes `_`.

    A call and its outcome are one part, so they keep one id; calls that would get the same one are
    told apart by a number.
    """
    parts = [part for message in messages for part in _calls(message)]
    ids = list(dict.fromkeys(part.tool_invocation.tool_call_id for part in parts))
    renamed = _renamed(ids)
    for part in parts:
        call = part.tool_invocation
        call.tool_call_id = renamed.get(call.tool_call_id, call.tool_call_id)
    for message in messages:
        for old in message.content.tool_invocations or ():  # of old messages
            if isinstance(old, dict) and old.get("toolCallId") in renamed:  # pyright: ignore[reportUnknownMemberType]
                old["toolCallId"] = renamed[old["toolCallId"]]
    return bool(renamed)


def _calls(message: Message) -> Iterator[ToolInvocationPart]:
    for part in message.content.parts:
        if part.type == "tool-invocation":
            yield cast("ToolInvocationPart", part)


def _renamed(ids: Sequence[str]) -> dict[str, str]:
    made = {id: re.sub("[^A-Za-z0-9_-]", "_", id) or "_" for id in ids}
    taken = {id for id, new in made.items() if id == new}
    renamed: dict[str, str] = {}
    for id, new in made.items():
        if id == new:
            continue
        unique, count = new, 1
        while unique in taken:
            count += 1
            unique = f"{new}_{count}"
        taken.add(unique)
        renamed[id] = unique
    return renamed


# ── ids of items ───────────────────────────────────────────────────────────────────────────────


def drop_orphan_ids(messages: list[Message]) -> bool:
    """Item ids go from what came after a thought that is no longer there.

    A part may say after which thought it came; otherwise there must be one in its step.
    """
    changed = False
    for message in messages:
        if message.role == "assistant":
            changed = _drop_in(message) or changed
    return changed


def _drop_in(message: Message) -> bool:
    changed = False
    known: set[Any] = set()
    for step in _steps(message.content.parts):
        in_step = {id for part in step if part.type == "reasoning" for id in _item_ids(part)}
        known |= in_step
        for part in step:
            if part.type != "reasoning":
                changed = _drop_id(part, known, thinks=bool(in_step)) or changed
    return changed


def _steps(parts: Sequence[Part]) -> list[list[Part]]:
    steps: list[list[Part]] = [[]]
    for part in parts:
        if part.type == "step-start":
            steps.append([])
        else:
            steps[-1].append(part)
    return steps


def _item_ids(part: Part) -> list[Any]:
    metadata: dict[str, Any] = part.provider_metadata or {}
    entries = (cast("dict[str, Any]", own) for own in metadata.values() if isinstance(own, dict))
    return [own["itemId"] for own in entries if own.get("itemId")]


def _drop_id(part: Part, known: set[Any], *, thinks: bool) -> bool:
    """Take the ids from a part, unless the thought before it is there."""
    metadata = part.provider_metadata
    if not metadata or not _item_ids(part):
        return False
    kept: dict[str, Any] = {}
    for provider, own in metadata.items():
        if isinstance(own, dict) and "itemId" in own:
            record = cast("dict[str, Any]", own)
            after = record.get("afterReasoning")
            if not (after in known if after else thinks):
                own = {key: record[key] for key in record if key not in _OF_AN_ITEM}
        if own:
            kept[provider] = own
    if kept == metadata:
        return False
    part.provider_metadata = kept or None
    return True


_OF_AN_ITEM = ("itemId", "afterReasoning")

REPAIRS = (
    HistoryRule(
        name="anthropic-tool-id-format",
        error_patterns=[r"tool_use(?:_id|\.id)\b[^\n]{0,200}\b(?:pattern|match)"],
        fix=mend_call_ids,
    ),
    HistoryRule(
        name="openai-orphan-item-id",
        error_patterns=[r"provided without its required\W{1,4}reasoning\W{1,4}item"],
        fix=drop_orphan_ids,
    ),
)
