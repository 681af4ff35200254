"""A long conversation remembered as a whole, so that one comparison does for a thousand messages.

Each message has its memo; asking a thousand of them costs a Python loop. A run keeps the same
snapshots side by side in lists, which are compared list by list, in C. It holds no message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .prompt_memo import same

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .messages import Message
    from .prompt_memo import PromptMemo

__all__ = ["SHORTEST", "PromptRun", "run_of"]

SHORTEST = 64
"""Fewer messages are asked one by one."""


class PromptRun:
    """The remembered conversion of neighbouring messages; never changed once it is made.

    `special` are the messages whose prompt depends on more than the lists: signals, and messages
    without parts. `bare` tells that no message has provider options or attachments. `times` are in
    order.
    """

    __slots__ = (
        "attachments",
        "bare",
        "entries",
        "has_urls",
        "ids",
        "offsets",
        "options",
        "parts",
        "pending",
        "position",
        "roles",
        "special",
        "times",
    )

    def __init__(self, messages: Sequence[Message], memos: Sequence[PromptMemo]) -> None:
        self.pending: bool = memos[0].facts[1]
        self.ids = [message.id for message in messages]
        self.times = [message.created_at for message in messages]
        self.position = dict(zip(self.ids, range(len(self.ids)), strict=True))
        self.roles = [memo.facts[0] for memo in memos]
        self.options = [memo.facts[2] for memo in memos]
        self.attachments = [memo.facts[3] for memo in memos]
        self.bare = not any(self.options) and not any(self.attachments)
        self.parts = [memo.parts for memo in memos]
        self.special = [
            (index, memo.facts)
            for index, memo in enumerate(memos)
            if not memo.parts or memo.facts[0] == "signal"
        ]
        self.entries: list[dict[str, Any]] = []
        self.offsets = [0]
        for memo in memos:
            self.entries += memo.entries
            self.offsets.append(len(self.entries))
        self.has_urls = any(memo.has_urls for memo in memos)

    def entries_for(
        self, view: Sequence[Message], facts: Callable[[Message, bool], tuple[Any, ...]]
    ) -> tuple[int, list[dict[str, Any]]]:
        """How many messages at the beginning of `view` are unchanged, and their entries."""
        start = self.position.get(view[0].id)
        if start is None:
            return 0, []
        count = min(len(view), len(self.ids) - start)
        count = self._unchanged(view if count == len(view) else view[:count], start)
        for index, known in self.special:
            if start <= index < start + count and not same(
                facts(view[index - start], self.pending), known
            ):
                count = index - start
                break
        if start == 0 and count == len(self.ids):
            return count, self.entries
        return count, self.entries[self.offsets[start] : self.offsets[start + count]]

    def _unchanged(self, head: Sequence[Message], start: int) -> int:
        count = len(head)
        try:
            pairs = self._compared(head)
        except AttributeError:  # something in the list is no message: it is refused further on
            return 0
        for live, known in pairs:
            if start or count != len(known):
                known = known[start : start + count]
            if count < len(live):
                live = live[:count]
            if not same(live, known):
                count = _first_difference(live, known)
        return count

    def _compared(self, head: Sequence[Message]) -> list[tuple[Sequence[Any], Sequence[Any]]]:
        """Pairs of live values and what they were."""
        pairs: list[tuple[Sequence[Any], Sequence[Any]]] = [
            ([message.role for message in head], self.roles)
        ]
        if self.bare:
            parts = [
                message.content.parts
                for message in head
                if message.content.provider_metadata is None
                and message.content.experimental_attachments is None
            ]
            if len(parts) == len(head):
                return [*pairs, (parts, self.parts)]
        contents = [message.content for message in head]
        return [
            *pairs,
            ([content.parts for content in contents], self.parts),
            ([content.provider_metadata for content in contents], self.options),
            ([content.experimental_attachments for content in contents], self.attachments),
        ]


def _first_difference(live: Sequence[Any], known: Sequence[Any]) -> int:
    for index, (a, b) in enumerate(zip(live, known, strict=True)):
        if a is not b and not same([a], [b]):
            return index
    return len(live)


def run_of(message: Message) -> PromptRun | None:
    """The remembered conversation that a message is part of."""
    memo: PromptMemo | None = getattr(message, "prompt_memo", None)
    return memo.run if memo is not None else None


def remember_run(view: Sequence[Message]) -> None:
    """Remember the messages of `view` as one run, up to the first that has no whole memo."""
    memos: list[PromptMemo] = []
    for message in view:
        memo: PromptMemo | None = message.prompt_memo
        if memo is None or not memo.whole:
            break
        memos.append(memo)
    if len(memos) < SHORTEST:
        return
    messages = view[: len(memos)]
    run = PromptRun(messages, memos)
    if len(run.position) == len(messages):  # ids that repeat cannot be told apart
        for memo in memos:
            memo.run = run
