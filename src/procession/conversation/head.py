"""The beginning of a list, taken over whole from a remembered conversation.

Most runs get a history that was in a prompt before, and nobody but the model reads it. Then one
comparison is all it costs: no message is looked at, and none is copied until somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, overload

from ..memo import REFUSED, SEEN, UNSEEN, PromptMemo
from ..messages import Message
from .prompt import Covered
from .prompt_memo import isolated
from .prompt_run import SHORTEST, PromptRun, run_of
from .remembering import remember

__all__ = ["Head", "Held", "Unread", "head_of", "learn", "note"]

_SOURCES = frozenset({"memory", "input", "context"})
_WORTH = 32
"""So many messages that no run covers are worth a new one."""


class Head:
    """The first `count` messages of a list, which are those of `run` from `start` on.

    While it is `asleep`, the list holds nothing in their place: `copies` will be its messages. Else
    it holds the live messages already. Either way they are not indexed: most runs never look up a
    message of a long history, and an index of it would cost more than all the rest of adding it.
    """

    __slots__ = ("_copies", "asleep", "count", "resource_id", "run", "source", "start", "thread_id")

    def __init__(
        self,
        run: PromptRun,
        start: int,
        count: int,
        source: str,
        *,
        asleep: bool,
        thread_id: str | None,
        resource_id: str | None,
    ) -> None:
        self.run = run
        self.start = start
        self.count = count
        self.source = source
        self.asleep = asleep
        self.thread_id = thread_id
        self.resource_id = resource_id
        self._copies: list[Message] | None = None

    @property
    def covered(self) -> Covered:
        """For the prompt: what need not be looked at."""
        return Covered(self.run, self.start, self.count)

    @property
    def newest(self) -> Message:
        """The last of the run's own copies."""
        return self.run.messages[self.start + self.count - 1]

    def frozen(self) -> list[Message]:
        """The run's own copies: to read, never to hand out."""
        messages = self.run.messages
        if not self.start and self.count == len(messages):
            return messages
        return messages[self.start : self.start + self.count]

    def anew(self) -> Head:
        """The same head, of which nobody has had the messages in hand."""
        made = copy(self)
        made._copies = None
        return made

    def copies(self) -> list[Message]:
        """The messages as this list holds them; made once."""
        if self._copies is None:
            run = self.run.in_list(self.source, self.thread_id, self.resource_id)
            memo = PromptMemo(run)
            made: list[Message] = []
            for message in run.messages[self.start : self.start + self.count]:
                mine = isolated(message)
                mine.prompt_memo = memo
                made.append(mine)
            self._copies = made
        return self._copies


def head_of(
    messages: list[Any],
    source: str,
    thread_id: str | None,
    resource_id: str | None,
    *,
    pending: bool,
    asleep: bool,
) -> Head | None:
    """What is known of the beginning of a long list of messages.

    Such messages have ids that differ, times in order and clean texts. With `asleep`, the list is
    to have copies of its own, else the live messages, which then must be as `source` wants them.
    """
    if len(messages) < SHORTEST or source not in _SOURCES or not isinstance(messages[0], Message):
        return None
    run = run_of(messages[0])
    if run is None or run.pending != pending or not run.fits(thread_id, resource_id):
        return None
    if not asleep and run.in_list(source, thread_id, resource_id) is not run:
        return None
    try:
        start, count = run.unchanged(messages, 0)
    except AttributeError:  # something in the list is no message: it is refused further on
        return None
    if not count:
        return None
    return Head(
        run, start, count, source, asleep=asleep, thread_id=thread_id, resource_id=resource_id
    )


def learn(messages: list[Any], known: int, *, pending: bool) -> bool:
    """Remember the messages of a list if they came before; tells whether that is done now.

    The first `known` are remembered already.
    """
    if not _worth(messages, known):
        return False
    memo = messages[known].prompt_memo
    if memo is UNSEEN or memo is REFUSED:
        return False
    return remember(messages[:-1], keep_pending=pending) is not None  # the last one is the new one


def note(messages: list[Any], known: int) -> None:
    """Note on the first message that is not remembered that it came once."""
    if _worth(messages, known) and messages[known].prompt_memo is UNSEEN:
        messages[known].prompt_memo = SEEN


def _worth(messages: list[Any], known: int) -> bool:
    return (
        len(messages) >= SHORTEST
        and len(messages) - known >= _WORTH
        and isinstance(messages[known], Message)
    )


class Held(Sequence[Message]):
    """What a list with a sleeping head holds, to read and never to hand out."""

    __slots__ = ("_head", "_rest")

    def __init__(self, head: Head, rest: list[Message]) -> None:
        self._head = head
        self._rest = rest

    def _read(self) -> list[Message]:
        return [*self._head.frozen(), *self._rest]

    def __len__(self) -> int:
        return self._head.count + len(self._rest)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._read()[index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._read())


class Unread(Held):
    """A view of a list whose head is asleep; reading it wakes the list."""

    __slots__ = ("_found", "_wake")

    def __init__(self, wake: Callable[[], None], head: Head, rest: list[Message]) -> None:
        super().__init__(head, rest)
        self._wake = wake
        self._found: list[Message] | None = None

    def _read(self) -> list[Message]:
        if self._found is None:
            self._wake()
            self._found = [*self._head.copies(), *self._rest]
        return self._found
