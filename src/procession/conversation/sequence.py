"""Where the messages of a list stand: order, ids, sources, what is saved, marks.

The order is that of time, ties in the order of insertion, found anew whenever a time was edited.
"""

from __future__ import annotations

from copy import copy
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING, Any

from ..ids import new_id
from ..messages import Message
from .head import Head, Held, Unread
from .marks import Marked, ResponseMark
from .order import TimeOrder, after, created_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

__all__ = ["MessageSequence", "SavedSequence"]

SavedSequence = dict[str, Any]


class MessageSequence:
    """The messages of a `MessageList` but for system messages."""

    def __init__(self, generate_id: Callable[[], str] | None) -> None:
        self._generate_id = generate_id
        self._all: list[Message] = []
        self._index: dict[str, Message] = {}
        self._sources: dict[str, str] = {}
        self._responses: dict[str, Message] = {}
        self._head: Head | None = None
        self._saved: set[str] = set()
        self._moved: dict[str, str] = {}
        self.order = TimeOrder()

    # -- order ------------------------------------------------------------------------------

    def view(self) -> list[Message]:
        """All messages by time, in a list that is never changed once handed out."""
        if self.sleeping:
            self.wake()
        return self.order.of(self._all)

    def awake(self) -> list[Message]:
        """As `view`, but without the messages of a head that is asleep, which stand before."""
        found = self.order.of(self._all)
        head = self.sleeping
        if head and found and found[0].created_at < head.newest.created_at:
            return self.view()
        return found

    def peek(self) -> Iterable[Message]:
        """All messages, newest first, to read and never to hand out."""
        found = self.awake()
        head = self.sleeping
        return chain(reversed(found), reversed(head.frozen())) if head else reversed(found)

    @property
    def is_empty(self) -> bool:
        """Whether the list holds no message."""
        return self._head is None and not self._all

    def held(self) -> Sequence[Message]:
        """The messages of this moment, not ordered, to read and never to hand out."""
        head, messages = self.sleeping, self._all.copy()
        return Held(head, messages) if head else messages

    def newest_time(self) -> datetime | None:
        """When the newest message was created."""
        newest = next(iter(self.peek()), None)
        return newest.created_at if newest is not None else None

    def next_time(self) -> datetime:
        """Now, but at least 1 ms after the newest message."""
        return after(self.newest_time())

    # -- looking up ---------------------------------------------------------------------------

    def new_id(self) -> str:
        """An id for a message that has none."""
        return self._generate_id() if self._generate_id is not None else new_id()

    @property
    def sleeping(self) -> Head | None:
        """The head, while its messages are not the list's own yet."""
        head = self._head
        return head if head is not None and head.asleep else None

    def wake(self) -> None:
        """Make the messages of the head the list's own, and find them by id."""
        head = self._head
        if head is None:
            return
        self._head = None
        if head.asleep:
            self._all = [*head.copies(), *self._all]
            self.order = TimeOrder()
        messages = self._all[: head.count]
        self._index = {**{message.id: message for message in messages}, **self._index}
        self._sources = {**dict.fromkeys((m.id for m in messages), head.source), **self._sources}

    def unread(self) -> Sequence[Message]:
        """The view, for somebody who may not read it."""
        found = self.awake()
        head = self.sleeping
        return Unread(self.wake, head, found) if head else found

    def find(self, id: str) -> Message | None:
        """The live message with this id."""
        if self._head is not None and id in self._head.run.position:
            self.wake()
        return self._index.get(id)

    def source_of(self, id: str) -> str | None:
        """The source of a message."""
        if self._head is not None and id in self._head.run.position:
            self.wake()
        return self._sources.get(id)

    def messages_from(self, source: str) -> list[Message]:
        """A fresh list of the messages of one source, by time."""
        if source == "response":  # asked at every step, and few: no pass over a long history
            return sorted(self._responses.values(), key=created_at)
        if self._head is not None and source == self._head.source:
            self.wake()
        sources = self._sources
        return [message for message in self.view() if sources.get(message.id) == source]

    def last_response(self) -> Message | None:
        """The newest message, if it is an assistant message of source response (R-334)."""
        newest = next(iter(self.peek()), None)
        if newest is not None and newest.role == "assistant" and newest.id in self._responses:
            return newest
        return None

    # -- changing -----------------------------------------------------------------------------

    def adopt(self, head: Head, messages: list[Any]) -> None:
        """Take over the messages of `head`, the first of `messages`; the list must be empty."""
        self._head = head
        self._all = [] if head.asleep else messages[: head.count]
        self.order = TimeOrder()

    def place(self, message: Message, source: str) -> None:
        """Append a message whose id is new."""
        self._all.append(message)
        id = message.id
        self._index[id] = message
        self._sources[id] = source
        if source == "response":
            self._responses[id] = message
        self._saved.discard(id)
        self.order.latest = None

    def holds(self, before: Sequence[Message], returned: Sequence[Any]) -> bool:
        """Whether a hook returned just what it was shown, and all of that is still here."""
        if len(before) != len(returned) or not all(map(is_, before, returned)):
            return False
        view = self.view()
        if len(view) == len(before) and all(map(is_, before, view)):
            return True
        here = set(map(id, view))
        return all(id(message) in here for message in before)

    def _put_source(self, message: Message, source: str) -> None:
        self._sources[message.id] = source
        if source == "response":
            self._responses[message.id] = message
        else:
            self._responses.pop(message.id, None)

    def follow_ids(self) -> None:
        """Find messages under their present ids: a hook may have edited an id in place."""
        self.wake()
        for key, message in list(self._index.items()):
            if message.id != key and message.id not in self._index:
                self._index[message.id] = self._index.pop(key)
                self._put_source(message, self._sources.pop(key))
                self._responses.pop(key, None)
                self._moved.pop(key, None)
                self._saved.discard(key)

    def swap(self, known: Message, message: Message) -> None:
        """Put a message in the place of another; the source stays."""
        if known.id not in self._index:
            self.wake()
        source = self._sources.pop(known.id)
        self._index.pop(known.id, None)
        self._responses.pop(known.id, None)
        position = next(i for i, held in enumerate(self._all) if held is known)
        self._all[position] = message
        self._index[message.id] = message
        self._put_source(message, source)
        self._saved.discard(message.id)
        self.order.latest = None

    def move(self, id: str, source: str) -> None:
        """A message was added again: it gets the new source, unless that is memory (R-332)."""
        message, old = self.find(id), self._sources[id]
        if source == "memory" or message is None:
            return
        if source == "response" and old != "response":
            self._moved[id] = old
        self._put_source(message, source)
        self._saved.discard(id)

    def touch(self, id: str) -> None:
        """A message was changed: it is to be saved, as response if memory brought it (R-338)."""
        if self.source_of(id) == "memory":
            self.move(id, "response")
        self._saved.discard(id)

    def remove(self, ids: Iterable[str]) -> list[Message]:
        """Delete messages; returns those that were there, by time."""
        gone = {key for key in ids if self.find(key) is not None}
        if not gone:
            return []
        index = self._index
        removed = {key: index.pop(key) for key in gone}
        found = [m for m in self.awake() if removed.get(m.id) is m]
        objects = {id(message) for message in removed.values()}
        self._all = [m for m in self._all if id(m) not in objects]
        for key in gone:
            self._sources.pop(key, None)
            self._responses.pop(key, None)
            self._moved.pop(key, None)
            self._saved.discard(key)
        self.order.latest = None
        return found

    def drain(self) -> list[Message]:
        """Input and response messages that were not drained before."""
        if self._head is not None and self._head.source == "input":
            self.wake()
        index, saved = self._index, self._saved
        found = [
            index[id]
            for id, source in self._sources.items()
            if id not in saved and source in ("input", "response")
        ]
        found.sort(key=created_at)
        saved.update(message.id for message in found)
        return found

    # -- marks --------------------------------------------------------------------------------

    def mark_response(self) -> ResponseMark:
        """Remember the response messages and, shallowly, what they hold."""
        return [Marked.of(message) for message in self.messages_from("response")]

    def restore_response(self, mark: ResponseMark) -> None:
        """Put the response back: messages added since go, remembered ones come back."""
        kept = {marked.message.id for marked in mark}
        since = [m.id for m in self.messages_from("response") if m.id not in kept]
        for id in since:
            if id in self._moved:
                self._put_source(self._index[id], self._moved.pop(id))
        self.remove([id for id in since if self._sources.get(id) == "response"])
        for marked in mark:
            message = marked.message
            known = self.find(message.id)
            if known is None:
                self.place(message, "response")
            elif known is not message:
                self.swap(known, message)
            marked.restore()

    def save(self) -> SavedSequence:
        """Where everything stands; what the messages say is no part of it."""
        found: dict[str, Any] = vars(self)
        own = frozenset({dict, list, set})
        return {name: copy(v) if v.__class__ in own else v for name, v in found.items()}

    def put_back(self, saved: SavedSequence) -> None:
        """Stand as `saved` says, once; a head that was asleep then is asleep again."""
        vars(self).update(saved)
        self.order = TimeOrder()
        if self._head is not None:
            self._head = self._head.anew()

    def twin(self, copies: Callable[[Message], Message]) -> MessageSequence:
        """A sequence of the same, with `copies` of all messages; a sleeping head stays asleep."""
        made = MessageSequence(self._generate_id)
        made.put_back(self.save())
        own = {id(message): copies(message) for message in self._all}
        made._all = [own[id(message)] for message in self._all]
        for name in ("_index", "_responses"):
            held: dict[str, Message] = getattr(self, name)
            setattr(made, name, {key: own[id(message)] for key, message in held.items()})
        return made

    # -- JSON ---------------------------------------------------------------------------------

    def serialize(self) -> dict[str, Any]:
        """Messages in order of insertion, their sources, and which are saved."""
        self.wake()
        return {
            "messages": [message.to_json() for message in self._all],
            "sources": dict(self._sources),
            "saved": sorted(self._saved),
        }

    def deserialize(self, state: Mapping[str, Any]) -> None:
        """Take over what `serialize` gave."""
        self._all = [Message.from_json(dict(form)) for form in state["messages"]]
        self._index = {message.id: message for message in self._all}
        self._sources = dict(state["sources"])
        self._responses = {
            id: message for id, message in self._index.items() if self._sources[id] == "response"
        }
        self._saved = set(state.get("saved", ()))
        self._head, self.order, self._moved = None, TimeOrder(), {}
