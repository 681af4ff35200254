"""The message an answer goes into: made when needed, filled by each step, read back after hooks.

All steps of a run go into one assistant message (R-315) until a signal opens a new one (R-717).
Hooks may edit or replace that message at any time, so it is looked up by id, never held on to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..messages import DataPart, Message, MessageContent, Part, StepStartPart, ToolInvocationPart

if TYPE_CHECKING:
    from ..message_list import MessageList
    from .answer import Answer
    from .run_state import RunState

__all__ = [
    "Portion",
    "find_call",
    "mark_boundary",
    "merge",
    "response_message",
    "write_flat_text",
]


def response_message(run: RunState) -> Message:
    """The running response message, live; made and added to the list when there is none yet."""
    found = run.message_list.find(run.message_id)
    if found is None:
        found = Message(
            id=run.message_id,
            role="assistant",
            content=MessageContent(),
            created_at=run.message_list.next_time(),
            thread_id=run.message_list.thread_id,
            resource_id=run.message_list.resource_id,
        )
        run.message_list.adopt_response(found)
        run.own_messages.add(found.id)
    return found


class Portion:
    """What one step put into the response message, found again after hooks edited it."""

    __slots__ = ("first", "known", "message_id", "start")

    def __init__(self, message_id: str, start: int, first: Part | None, known: set[str]) -> None:
        self.message_id = message_id
        self.start = start
        self.first = first
        self.known = known

    def parts(self, messages: MessageList, *, until: Portion | None = None) -> list[Part]:
        """The step's parts as they are now, those of messages that hooks have added included.

        `until` is the portion of the step behind, where there is one.
        """
        found: list[Part] = []
        for message in messages.response_messages():
            if message.id == self.message_id:
                parts = message.content.parts
                end = len(parts)
                if until is not None and until.message_id == self.message_id:
                    end = until._begin(parts)
                found += parts[self._begin(parts) : end]
            elif message.id not in self.known and until is None:
                found += message.content.parts
        return found

    def text(self, messages: MessageList, *, until: Portion | None = None) -> str:
        """The text of the step's text parts."""
        parts = self.parts(messages, until=until)
        return "".join(part.text for part in parts if part.type == "text")

    def _begin(self, parts: list[Part]) -> int:
        if self.start < len(parts) and parts[self.start] is self.first:
            return self.start
        # Hooks may have cut parts before the step's own: its first part, if still there, tells.
        for position, part in enumerate(parts):
            if part is self.first:
                return position
        return min(self.start, len(parts))


def merge(run: RunState, answer: Answer, portion: Portion | None = None) -> Portion:
    """Bring what has come of an answer into the response message (R-051).

    May be called more than once for one answer: parts that were merged before are live in the
    message and are brought up to date in place.
    """
    parts = answer.flush()
    if portion is None:
        portion = Portion(run.message_id, 0, parts[0] if parts else None, _known(run))
        existing = run.message_list.find(run.message_id)
        portion.start = len(existing.content.parts) if existing else 0
    if not parts:
        return portion
    content = response_message(run).content
    for part in parts:
        _put(content.parts, part)
    answer.parts = []
    if portion.first is None:
        portion.first = parts[0]
    return portion


def write_flat_text(run: RunState) -> None:
    """What old readers look for (R-303): the last text of an answer, as hooks have left it."""
    for id in run.own_messages:
        message = run.message_list.find(id)
        texts = [p.text for p in message.content.parts if p.type == "text"] if message else None
        if message is not None and texts:
            message.content.content = texts[-1]


def _known(run: RunState) -> set[str]:
    """Ids of the response messages so far, when a hook could add one that is not known then."""
    if run.pipeline.changes_messages:
        return {message.id for message in run.message_list.response_messages()}
    return run.own_messages


def _put(parts: list[Part], part: Part) -> None:
    if isinstance(part, DataPart) and part.id is not None:
        for position, other in enumerate(parts):
            if isinstance(other, DataPart) and (other.type, other.id) == (part.type, part.id):
                parts[position] = part
                return
    parts.append(part)


def mark_boundary(run: RunState) -> None:
    """Mark that another step follows (R-055, R-314)."""
    message = run.message_list.find(run.message_id)
    if message is not None and message.content.parts:
        if message.content.parts[-1].type != "step-start":
            message.content.parts.append(StepStartPart())


def find_call(run: RunState, tool_call_id: str) -> ToolInvocationPart | None:
    """The live part of a tool call of this run, as hooks have left it."""
    message = run.message_list.find(run.message_id)
    for part in reversed(message.content.parts if message else ()):
        if isinstance(part, ToolInvocationPart):
            if part.tool_invocation.tool_call_id == tool_call_id:
                return part
    return None
