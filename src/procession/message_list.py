"""The conversation of a run: messages with their sources, system messages, views, prompt.

`MessageList` is the public surface. What comes in is in `message_adding`, what is shown in
`message_reading`, where messages stand and how they are found in `message_sequence`.
"""

from __future__ import annotations

import logging
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from .conversation.adding import GrowingMessages
from .conversation.admission import NO_TIME, STAMPED, admit, millis, stamp
from .conversation.folding import invocation_part
from .conversation.input import NotAMessageError, read_messages
from .conversation.order import now
from .conversation.prompt_memo import isolated
from .conversation.sequence import SavedSequence
from .conversation.system_messages import SavedSystem
from .conversation.views import Clearing, Views
from .messages import Message, StepStartPart
from .records import clean_kept
from .signals import is_transient

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conversation.marks import ResponseMark

__all__ = ["MessageList", "SavedList", "StoredChanges", "isolated"]

_log = logging.getLogger("procession.messages")


class StoredChanges(Struct):
    """What a processor asked to be changed in stored history; the end of the run applies it."""

    replaced: dict[str, Message] = field(default_factory=dict[str, Message])
    deleted: set[str] = field(default_factory=set[str])

    def __bool__(self) -> bool:
        return bool(self.replaced or self.deleted)


class SavedList(Struct):
    """What stood where in a list, and the messages that somebody may have had in hand."""

    sequence: SavedSequence
    system: SavedSystem
    stored: StoredChanges
    messages: list[Message]


class MessageList(GrowingMessages):
    """The messages of one run, in order of time.

    Message objects that are added stay the caller's own, live objects: what is edited in them
    later holds in every view, in the prompt and in storage (R-322). Messages without thread or
    resource id get those of the list. `generate_message_id` makes ids for messages that have none.
    With `filter_incomplete_tool_calls=False`, calls without outcome are kept in prompts (R-376).
    """

    def __init__(
        self,
        thread_id: str | None = None,
        resource_id: str | None = None,
        generate_message_id: Callable[[], str] | None = None,
        filter_incomplete_tool_calls: bool = True,
    ) -> None:
        super().__init__(
            thread_id,
            resource_id,
            generate_message_id,
            keeps_pending=not filter_incomplete_tool_calls,
        )
        self.stored_changes = StoredChanges()
        self._views: Views | None = None

    @property
    def get(self) -> Views:
        """`get.all`, `get.input`, `get.response`, `get.remembered` (R-320)."""
        if self._views is None:
            self._views = Views(self)
        return self._views

    @property
    def clear(self) -> Clearing:
        """`clear.all`, `clear.input`, `clear.response` (R-337)."""
        return Clearing(self)

    # -- changing ---------------------------------------------------------------------------

    def remove_by_ids(self, ids: Iterable[str]) -> list[Message]:
        """Delete messages and return them; unknown ids are ignored (R-336).

        Stored copies stay: see `delete_stored`.
        """
        return self._sequence.remove([ids] if isinstance(ids, str) else ids)

    def update_tool_invocation(self, part: Any, metadata: Mapping[str, Any] | None = None) -> bool:
        """Write an outcome into the newest part that holds the call; its args stay (R-338, R-396).

        `part` is a `ToolInvocationPart` or a mapping of its JSON form; `metadata` is merged into
        the message's. A remembered message becomes part of the response, so that it is saved.
        Returns False, changes nothing and logs a warning for an unknown call id.
        """
        given = invocation_part(part)
        found = self._put_outcome(given, metadata, "response")
        if not found:
            call_id = given.tool_invocation.tool_call_id
            _log.warning("update_tool_invocation: no tool call %r, nothing is changed", call_id)
        return found

    def step_start(self) -> bool:
        """Append a `step-start` to the newest assistant message, unless it ends so (R-339)."""
        for message in reversed(self._sequence.view()):
            if message.role == "assistant":
                parts = message.content.parts
                if parts and parts[-1].type == "step-start":
                    return False
                parts.append(StepStartPart(created_at=millis(now())))
                return True
        return False

    def replace_stored(self, message: Message) -> None:
        """Replace a message here and now, and its stored copy when the run is saved (R-070).

        A message that is not in the list is replaced in storage only.
        """
        admit(message)
        self.stored_changes.deleted.discard(message.id)
        self.stored_changes.replaced[message.id] = message
        known = self._sequence.find(message.id)
        if known is not None and known is not message:
            self._sequence.swap(known, message)

    def delete_stored(self, ids: Iterable[str]) -> list[Message]:
        """Delete messages here and now, and their stored copies when the run is saved (R-070)."""
        wanted = [ids] if isinstance(ids, str) else list(ids)
        self.stored_changes.deleted.update(wanted)
        for id in wanted:
            self.stored_changes.replaced.pop(id, None)
        return self._sequence.remove(wanted)

    def drain_unsaved_messages(self) -> list[Message]:
        """Input and response messages that are not saved yet; they count as saved now (R-342).

        Transient signals are never among them (R-723).
        """
        found = [m for m in self._sequence.drain() if not is_transient(m)]
        for message in found:
            stamp(message)
        return found

    # -- what the engine needs --------------------------------------------------------------

    def reconcile(
        self, before: Sequence[Message], returned: Iterable[Any], new_source: str
    ) -> None:
        """Make the list what a hook returned (R-158 to R-164, R-241).

        `before` are the messages the hook was shown. Those missing from `returned` are removed,
        known ones replaced in their place, new ones added with `new_source`, never folded; system
        messages become untagged ones.
        """
        if isinstance(returned, str | Mapping | Message):
            raise NotAMessageError(
                "a list of messages is expected, not a single one: return [message]"
            )
        if isinstance(returned, list) and self._sequence.holds(before, returned):
            return
        incoming = read_messages(returned)
        self._sequence.follow_ids()
        kept = {item.id for item in incoming if isinstance(item, Message)}
        gone = [message.id for message in before if message.id not in kept]
        if gone:
            self._sequence.remove(gone)
        for item in incoming:
            if isinstance(item, Message):
                known = self._sequence.find(item.id) if item.id else None
                if known is item:
                    continue
                if known is not None:
                    self._replace(known, item)
                    continue
                self._enter(item, new_source, may_fold=False)
            else:
                self._take(item, "input")

    def _replace(self, known: Message, message: Message) -> None:
        source = self._sequence.source_of(known.id) or "input"
        self._check_ids(message, source)
        admit(message)
        if message.created_at is NO_TIME:
            message.created_at = known.created_at
        if source in STAMPED:
            stamp(message)
        self._sequence.swap(known, message)

    def mark_response(self) -> ResponseMark:
        """Remember the response messages and their lists of parts, for `restore_response`."""
        return self._sequence.mark_response()

    def restore_response(self, mark: ResponseMark) -> None:
        """Put the response back to what it was: the same messages with the same part objects."""
        self._sequence.restore_response(mark)

    def save(self) -> SavedList:
        """What stands where, for `put_back`; what the messages say is no part of it."""
        changes = self.stored_changes
        return SavedList(
            sequence=self._sequence.save(),
            system=self._system.save(),
            stored=StoredChanges(dict(changes.replaced), set(changes.deleted)),
            messages=list(self._sequence.awake()),
        )

    def put_back(self, saved: SavedList, keeps: Callable[[Message], bool]) -> None:
        """Make the list what it was, once; messages added since stay if `keeps` says so."""
        known = {id(message) for message in saved.messages}
        added = [
            (message, self._sequence.source_of(message.id) or "input")
            for message in self._sequence.awake()
            if id(message) not in known and keeps(message)
        ]
        self._sequence.put_back(saved.sequence)
        self._system.restore(saved.system)
        self.stored_changes = saved.stored
        for message, source in added:
            if self._sequence.find(message.id) is None:
                self._sequence.place(message, source)

    def twin(self) -> MessageList:
        """A list of its own that says the same; no message of it is one of this."""
        made = MessageList(self.thread_id, self.resource_id)
        made.keeps_pending = self.keeps_pending
        made._sequence = self._sequence.twin(isolated)
        made._system.deserialize(self._system.serialize())
        changes = self.stored_changes
        made.stored_changes = StoredChanges(dict(changes.replaced), set(changes.deleted))
        return made

    def ids(self) -> Mapping[str, Any]:
        """The ids of the messages of this moment, as keys."""
        head = self._sequence.sleeping
        own = dict.fromkeys(message.id for message in self._sequence.awake())
        return own if head is None else ChainMap(own, head.run.position)

    def follow(self, twin: MessageList, known: Mapping[str, Any]) -> bool:
        """Become what a twin has become; whether that changed anything.

        `known` is what `ids` gave when the twin was made: messages that were added here since stay.
        Messages that say the same stay the objects they are.
        """
        asleep = self._sequence.sleeping and twin._sequence.sleeping
        theirs = twin._sequence.awake() if asleep else twin.view()
        kept = {message.id for message in theirs}
        mine = self._sequence.awake() if asleep else self.view()
        gone = [m.id for m in mine if m.id in known and m.id not in kept]
        changed = bool(self._sequence.remove(gone)) if gone else False
        for message in theirs:
            changed = self._follow_message(twin, message, known) or changed
        if self._system.save() != twin._system.save():
            self._system.restore(twin._system.save())
            changed = True
        if self.stored_changes != twin.stored_changes:
            self.stored_changes, changed = twin.stored_changes, True
        return changed

    def _follow_message(
        self, twin: MessageList, message: Message, known: Mapping[str, Any]
    ) -> bool:
        source = twin.source_of(message.id) or "input"
        live = self._sequence.find(message.id)
        if live is None:
            if message.id in known:
                return False  # it was removed here meanwhile
            self._sequence.place(message, source)
            return True
        moved = self._sequence.source_of(message.id) != source
        if live == message and not moved:
            return False
        if live != message:
            self._sequence.swap(live, message)
        if moved:
            self._sequence.move(message.id, source)
        return True

    def says_the_same(self, other: MessageList) -> bool:
        """Whether two lists have equal messages from equal sources, and equal system messages."""
        if (
            self._system.save() != other.save().system
            or self.stored_changes != other.stored_changes
        ):
            return False
        if self._sequence.sleeping and other._sequence.sleeping:
            return self._sequence.awake() == other._sequence.awake()
        mine, theirs = (one.twin() if one._sequence.sleeping else one for one in (self, other))
        return mine._told() == theirs._told()

    def _told(self) -> list[tuple[str | None, Message]]:
        return [(self.source_of(message.id), message) for message in self.view()]

    def serialize(self) -> dict[str, Any]:
        """The whole list as JSON data, for `deserialize` (R-344)."""
        return {
            "threadId": self.thread_id,
            "resourceId": self.resource_id,
            **self._sequence.serialize(),
            **self._system.serialize(),
        }

    def deserialize(self, state: Mapping[str, Any]) -> MessageList:
        """Take over a serialized list, in place of all that is in this one (R-344)."""
        state = clean_kept(dict(state))
        self.thread_id = state.get("threadId")
        self.resource_id = state.get("resourceId")
        self._sequence.deserialize(state)
        self._system.deserialize(state)
        return self
