"""A long conversation remembered as a whole, so that one comparison does for a thousand messages.

Asking a thousand messages one by one costs a Python loop. A run keeps private copies of them side
by side, which are compared with the live ones in C. It holds none of the live messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .admission import STAMPED, stamp
from .prompt_memo import isolated, same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..memo import PromptMemo
    from ..messages import Message

__all__ = ["SHORTEST", "PromptRun", "run_of"]

SHORTEST = 64
"""Fewer messages are asked one by one."""

_CHUNK = 64

_Place = tuple[bool, str | None, str | None]


class PromptRun:
    """The remembered conversion of neighbouring messages; never changed once it is made.

    `messages` are copies, private and in order of time; nobody is ever given them to change. Those
    of message `i` are the entries from `offsets[i]` on. `position` finds messages by id.
    """

    __slots__ = (
        "_resources",
        "_stamped",
        "_threads",
        "_twin",
        "entries",
        "has_urls",
        "messages",
        "offsets",
        "pending",
        "position",
    )

    def __init__(
        self,
        messages: list[Message],
        entries: list[dict[str, Any]],
        offsets: list[int],
        *,
        pending: bool,
        has_urls: bool,
    ) -> None:
        self.messages = messages
        self.entries = entries
        self.offsets = offsets
        self.pending = pending
        self.has_urls = has_urls
        self.position = {message.id: index for index, message in enumerate(messages)}
        self._threads = {message.thread_id for message in messages}
        self._resources = {message.resource_id for message in messages}
        self._stamped = not any(
            part.created_at is None for message in messages for part in message.content.parts
        )
        self._twin: tuple[_Place, PromptRun] | None = None

    def unchanged(self, view: Sequence[Message], at: int) -> tuple[int, int]:
        """Where `view[at]` stands here, and how many messages from there on are as they were."""
        start = self.position.get(view[at].id)
        if start is None:
            return 0, 0
        known = self.messages
        count = min(len(view) - at, len(known) - start)
        while view[at + count - 1].id != known[start + count - 1].id:
            count -= 1  # what stands behind differs: the new question of each run
        live = view if not at and count == len(view) else view[at : at + count]
        if start or count != len(known):
            known = known[start : start + count]
        if not same(live, known):
            count = _first_difference(live, known)
        return start, count

    def entries_of(self, start: int, count: int) -> list[dict[str, Any]]:
        """The prompt entries of some of the messages; the list is not yours to change."""
        if not start and count == len(self.messages):
            return self.entries
        return self.entries[self.offsets[start] : self.offsets[start + count]]

    def fits(self, thread_id: str | None, resource_id: str | None) -> bool:
        """Whether no message belongs to another thread or resource than a list's own."""
        return (thread_id is None or self._threads <= {None, thread_id}) and (
            resource_id is None or self._resources <= {None, resource_id}
        )

    def in_list(self, source: str, thread_id: str | None, resource_id: str | None) -> PromptRun:
        """The run of the same messages as a list holds them: stamped, with the list's ids."""
        stamps = source in STAMPED and not self._stamped
        if (
            not stamps
            and (thread_id is None or self._threads == {thread_id})
            and (resource_id is None or self._resources == {resource_id})
        ):
            return self
        place = (stamps, thread_id, resource_id)
        twin = self._twin
        if twin is None or twin[0] != place:
            self._twin = twin = (place, self._moved(place))
        return twin[1]

    def _moved(self, place: _Place) -> PromptRun:
        stamps, thread_id, resource_id = place
        made: list[Message] = []
        for message in self.messages:
            copy = isolated(message)
            if stamps:
                stamp(copy)
            if copy.thread_id is None:
                copy.thread_id = thread_id
            if copy.resource_id is None:
                copy.resource_id = resource_id
            made.append(copy)
        return PromptRun(
            made, self.entries, self.offsets, pending=self.pending, has_urls=self.has_urls
        )


def _first_difference(live: Sequence[Message], known: Sequence[Message]) -> int:
    for begin in range(0, len(live), _CHUNK):
        if not same(live[begin : begin + _CHUNK], known[begin : begin + _CHUNK]):
            for index in range(begin, min(begin + _CHUNK, len(live))):
                if not same([live[index]], [known[index]]):
                    return index
    return len(live)


def run_of(message: Message) -> PromptRun | None:
    """The remembered conversation that a message is part of."""
    memo: PromptMemo = message.prompt_memo
    return memo.run
