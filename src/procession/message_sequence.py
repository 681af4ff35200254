"""Where the messages of a list stand: order, ids, sources, what is saved, marks.

The order is that of time, ties in the order of insertion, found anew whenever a time was edited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import is_
from typing import Any

from msgspec import Struct

from .errors import InputError
from .ids import new_id
from .messages import Message, MessageContent, Part
from .prompt_run import SHORTEST, run_of

__all__ = ["MessageSequence", "ResponseMark"]

_TICK = timedelta(milliseconds=1)
_BULK_SOURCES = frozenset({"memory", "input", "context"})


class _Marked(Struct, frozen=True):
    """One response message as it was."""

    message: Message
    content: MessageContent
    parts: list[Part]
    held: list[Part]
    text: str | None
    metadata: dict[str, Any] | None
    provider_metadata: dict[str, Any] | None
    memo: Any


ResponseMark = list[_Marked]


class _Bulk(Struct, frozen=True):
    """The first `count` messages, of one source, whose ids are in `ids`; not indexed yet.

    Most runs never look up a message of a long history, and an index of it would cost more than
    all the rest of adding it.
    """

    count: int
    source: str
    ids: Mapping[str, Any]


class MessageSequence:
    """The messages of a `MessageList` but for system messages."""

    def __init__(self, generate_id: Callable[[], str] | None) -> None:
        self._generate_id = generate_id
        self._all: list[Message] = []
        self._index: dict[str, Message] = {}
        self._sources: dict[str, str] = {}
        self._responses: dict[str, Message] = {}
        self._bulk: _Bulk | None = None
        self._saved: set[str] = set()
        self._moved: dict[str, str] = {}
        self.latest: list[Message] | None = None
        self._times: list[datetime] = []
        self._ordered_times: list[datetime] = []

    # -- order ------------------------------------------------------------------------------

    def view(self) -> list[Message]:
        """All messages by time, in a list that is never changed once handed out."""
        times = [message.created_at for message in self._all]
        if self.latest is not None and times == self._times:
            return self.latest
        try:
            in_order = self._known_order(times) or sorted(times) == times
            found = self._all.copy() if in_order else sorted(self._all, key=_created_at)
        except TypeError:
            raise InputError(
                "a message's created_at must be a datetime with a time zone, such as "
                "datetime.now(UTC)"
            ) from None
        self._times, self.latest = times, found
        return found

    def _known_order(self, times: list[datetime]) -> bool:
        """Whether the times begin with those that are known to be in order, and go on so."""
        known = self._ordered_times
        count = len(known)
        if not count or len(times) - count > 1 or times[:count] != known:
            return False
        return len(times) == count or times[count] >= times[count - 1]

    def held(self) -> list[Message]:
        """A copy of the list as it stands, not ordered."""
        return self._all.copy()

    def newest_time(self) -> datetime | None:
        """When the newest message was created."""
        view = self.view()
        return view[-1].created_at if view else None

    def now(self) -> datetime:
        """Now, to the millisecond, as times are stored."""
        moment = datetime.now(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    def next_time(self) -> datetime:
        """Now, but at least 1 ms after the newest message."""
        newest, now = self.newest_time(), self.now()
        return now if newest is None else max(now, newest + _TICK)

    # -- looking up ---------------------------------------------------------------------------

    def new_id(self) -> str:
        """An id for a message that has none."""
        return self._generate_id() if self._generate_id is not None else new_id()

    def find(self, id: str) -> Message | None:
        """The live message with this id."""
        if self._bulk is not None and id in self._bulk.ids:
            self._index_all()
        return self._index.get(id)

    def source_of(self, id: str) -> str | None:
        """The source of a message."""
        if self._bulk is not None and id in self._bulk.ids:
            self._index_all()
        return self._sources.get(id)

    def _index_all(self) -> None:
        bulk = self._bulk
        if bulk is None:
            return
        self._bulk = None
        head = self._all[: bulk.count]
        self._index = {**{message.id: message for message in head}, **self._index}
        self._sources = {**dict.fromkeys((m.id for m in head), bulk.source), **self._sources}

    def messages_from(self, source: str) -> list[Message]:
        """A fresh list of the messages of one source, by time."""
        if source == "response":  # asked at every step, and few: no pass over a long history
            return sorted(self._responses.values(), key=_created_at)
        if self._bulk is not None and source == self._bulk.source:
            self._index_all()
        sources = self._sources
        return [message for message in self.view() if sources.get(message.id) == source]

    def last_response(self) -> Message | None:
        """The newest message, if it is an assistant message of source response (R-334)."""
        view = self.view()
        if view and view[-1].role == "assistant" and self.source_of(view[-1].id) == "response":
            return view[-1]
        return None

    # -- changing -----------------------------------------------------------------------------

    def adopt_known(
        self, messages: list[Any], source: str, thread_id: str | None, resource_id: str | None
    ) -> int:
        """Take over the messages at the beginning of a long list that were in a prompt before.

        Such messages have ids that differ, times, stamps and clean texts. Returns how many they
        are; 0 unless this list is empty, for then every one must be looked at.
        """
        if self._all or len(messages) < SHORTEST or source not in _BULK_SOURCES:
            return 0
        run = run_of(messages[0])
        if run is None:
            return 0
        start = run.position.get(messages[0].id)
        if start is None:
            return 0
        count = min(len(messages), len(run.ids) - start)
        head = messages[:count]
        known = run.ids if not start and count == len(run.ids) else run.ids[start : start + count]
        try:
            if [message.id for message in head] != known:
                return 0
            if thread_id is not None and {m.thread_id for m in head} != {thread_id}:
                return 0
            if resource_id is not None and {m.resource_id for m in head} != {resource_id}:
                return 0
        except AttributeError:
            return 0
        self._all, self.latest = head, None
        self._ordered_times = run.times if known is run.ids else run.times[start : start + count]
        self._bulk = _Bulk(count, source, run.position)
        return count

    def place(self, message: Message, source: str) -> None:
        """Append a message whose id is new."""
        self._all.append(message)
        self._index[message.id] = message
        self._put_source(message, source)
        self._saved.discard(message.id)
        self.latest = None

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
        self._index_all()
        for key, message in list(self._index.items()):
            if message.id != key and message.id not in self._index:
                self._index[message.id] = self._index.pop(key)
                self._put_source(message, self._sources.pop(key))
                self._responses.pop(key, None)
                self._moved.pop(key, None)
                self._saved.discard(key)

    def swap(self, known: Message, message: Message) -> None:
        """Put a message in the place of another; the source stays."""
        self._index_all()
        source = self._sources.pop(known.id)
        self._index.pop(known.id, None)
        self._responses.pop(known.id, None)
        position = next(i for i, held in enumerate(self._all) if held is known)
        self._all[position] = message
        self._index[message.id] = message
        self._put_source(message, source)
        self._saved.discard(message.id)
        self.latest = None

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
        self._index_all()
        index = self._index
        removed = {key: index.pop(key) for key in gone}
        found = [m for m in self.view() if removed.get(m.id) is m]
        objects = {id(message) for message in removed.values()}
        self._all = [m for m in self._all if id(m) not in objects]
        for key in gone:
            self._sources.pop(key, None)
            self._responses.pop(key, None)
            self._moved.pop(key, None)
            self._saved.discard(key)
        self.latest = None
        return found

    def drain(self) -> list[Message]:
        """Input and response messages that were not drained before."""
        if self._bulk is not None and self._bulk.source == "input":
            self._index_all()
        index, saved = self._index, self._saved
        found = [
            index[id]
            for id, source in self._sources.items()
            if id not in saved and source in ("input", "response")
        ]
        found.sort(key=_created_at)
        saved.update(message.id for message in found)
        return found

    # -- marks --------------------------------------------------------------------------------

    def mark_response(self) -> ResponseMark:
        """Remember the response messages and, shallowly, what they hold."""
        return [
            _Marked(
                message,
                message.content,
                message.content.parts,
                message.content.parts.copy(),
                message.content.content,
                dict(message.content.metadata) if message.content.metadata else None,
                message.content.provider_metadata,
                message.prompt_memo,
            )
            for message in self.messages_from("response")
        ]

    def restore_response(self, mark: ResponseMark) -> None:
        """Put the response back: messages added since go, remembered ones come back."""
        kept = {marked.message.id for marked in mark}
        since = [m.id for m in self.messages_from("response") if m.id not in kept]
        for id in since:
            if id in self._moved:
                self._put_source(self._index[id], self._moved.pop(id))
        self.remove([id for id in since if self._sources.get(id) == "response"])
        for marked in mark:
            message, content = marked.message, marked.content
            known = self.find(message.id)
            if known is None:
                self.place(message, "response")
            elif known is not message:
                self.swap(known, message)
            marked.parts[:] = marked.held
            message.content = content
            content.parts = marked.parts
            content.content = marked.text
            content.metadata = dict(marked.metadata) if marked.metadata else None
            content.provider_metadata = marked.provider_metadata
            message.prompt_memo = marked.memo

    # -- JSON ---------------------------------------------------------------------------------

    def serialize(self) -> dict[str, Any]:
        """Messages in order of insertion, their sources, and which are saved."""
        self._index_all()
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
        self._bulk, self.latest, self._moved = None, None, {}


def _created_at(message: Message) -> datetime:
    return message.created_at
