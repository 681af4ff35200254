"""The conversation of a run: messages with their sources, system messages, views, prompt.

`MessageList` is the public surface; where messages stand and how they are found is in
`message_sequence`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field

from .errors import InputError
from .message_folding import find_call, fold, invocation_part, merged, put_outcome
from .message_input import (
    NotAMessageError,
    SystemEntry,
    ToolResults,
    admit,
    lacks_time,
    millis,
    read_messages,
    stamp,
)
from .message_sequence import MessageSequence, ResponseMark
from .message_views import Clearing, Views
from .messages import Message, StepStartPart, ToolInvocationPart
from .prompt import provider_prompt
from .prompt_memo import isolated
from .records import clean_json
from .signals import Signal, is_transient, repeats
from .system_messages import WithSystemMessages

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["MessageList", "StoredChanges", "isolated"]

_SOURCES = {
    "memory": "memory",
    "input": "input",
    "user": "input",
    "response": "response",
    "context": "context",
    "system": "system",
}
_STAMPED = frozenset({"input", "response"})


class StoredChanges(Struct):
    """What a processor asked to be changed in stored history; the end of the run applies it."""

    replaced: dict[str, Message] = field(default_factory=dict[str, Message])
    deleted: set[str] = field(default_factory=set[str])

    def __bool__(self) -> bool:
        return bool(self.replaced or self.deleted)


class MessageList(WithSystemMessages):
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
        super().__init__()
        self.thread_id = thread_id
        self.resource_id = resource_id
        self.keeps_pending = not filter_incomplete_tool_calls
        self.prompt_has_urls = False
        """Whether the last `provider_prompt()` names files by URL."""
        self.stored_changes = StoredChanges()
        self._views: Views | None = None
        self._sequence = MessageSequence(generate_message_id)

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

    # -- adding -----------------------------------------------------------------------------

    def add(self, messages: Any, source: str) -> MessageList:
        """Add a text, a message in any form, or a list of these; `None` is ignored (R-325).

        `source` is `memory`, `input` (or `user`), `response`, `context`, or `system` for system
        messages. Raises `InputError` for an unknown source, a message of another thread, or one
        without content, and `NotAMessageError` for values that are no messages (R-319 to R-334).
        """
        kind = _SOURCES.get(source)
        if kind is None:
            raise InputError(f"unknown source {source!r}: use one of {', '.join(_SOURCES)}")
        if isinstance(messages, list):
            known = self._sequence.adopt_known(
                cast("list[Any]", messages), kind, self.thread_id, self.resource_id
            )
            if known:
                messages = cast("list[Any]", messages)[known:]
        for item in read_messages(messages):
            self._take(item, kind)
        return self

    def _take(self, item: Message | SystemEntry | ToolResults, source: str) -> None:
        if isinstance(item, SystemEntry):
            if source != "memory":
                self._system.add(item.message)
        elif isinstance(item, ToolResults):
            for part in item.parts:
                self._put_outcome(part, None, source)
        elif source == "system":
            raise InputError(f"source 'system' is for system messages, not for role {item.role!r}")
        else:
            self._enter(item, source)

    def _enter(self, message: Message, source: str, *, may_fold: bool = True) -> Message:
        """Bring one message in; returns the message of the list that now holds it."""
        if self.thread_id is not None or self.resource_id is not None:
            self._check_ids(message, source)
        memo = admit(message)
        sequence = self._sequence
        if not message.id:
            message.id = sequence.new_id()
        known = sequence.find(message.id)
        if lacks_time(message):
            message.created_at = known.created_at if known else sequence.next_time()
        if source in _STAMPED and memo.stamped != len(message.content.parts):
            memo.stamped = stamp(message)
        target = known
        if target is None and may_fold and source == "response" and message.role == "assistant":
            target = sequence.last_response()
        if target is None:
            sequence.place(message, source)
            return message
        if target is message:
            pass
        elif may_fold and target.role == message.role == "assistant":
            fold(target, message)
        else:
            sequence.swap(target, message)
            target = message
        sequence.move(target.id, source)
        return target

    def _check_ids(self, message: Message, source: str) -> None:
        """Fill in the list's thread and resource ids; refuse others (R-327, R-328)."""
        for name in ("thread_id", "resource_id"):
            mine, given = getattr(self, name), getattr(message, name)
            if mine is None or given == mine:
                continue
            if given is None:
                setattr(message, name, mine)
            elif source != "memory":
                raise InputError(
                    f"message {message.id!r} has {name} {given!r}, the list has {mine!r}: "
                    f"remove the message's {name}, or use another list"
                )

    def add_signal(self, signal: Any, source: str = "input") -> Signal:
        """Add a signal (a `Signal`, or a mapping with `type` and `contents`) as the newest message.

        An earlier transient signal that says the same is removed (R-341, R-723).
        """
        if source not in _SOURCES or source == "system":
            raise InputError(f"unknown source {source!r}: use input, response, context or memory")
        sequence = self._sequence
        made = Signal.of(signal, id=sequence.new_id(), created_at=sequence.next_time())
        if made.transient:
            self.remove_by_ids([m.id for m in sequence.view() if repeats(m, made)])
        self._enter(made.to_db_message(), _SOURCES[source])
        return made

    def adopt_response(self, message: Message) -> None:
        """Append the engine's live message as a response; nothing is folded or copied."""
        if message.thread_id is None:
            message.thread_id = self.thread_id
        if message.resource_id is None:
            message.resource_id = self.resource_id
        self._sequence.place(message, "response")

    # -- reading ----------------------------------------------------------------------------

    def messages(self) -> list[Message]:
        """A fresh list of all messages but system messages, by time (R-323)."""
        return self._sequence.view().copy()

    def shown(self) -> tuple[list[Message], list[dict[str, Any]]]:
        """What a hook is shown: messages and system messages at this moment, as cheap as can be.

        Both lists are shared, and never changed once handed out; times that were edited in place
        since the last `view()` are not looked at, so sort before you show the messages.
        """
        sequence, system = self._sequence, self._system
        messages = sequence.latest
        if messages is None:
            messages = sequence.view()
        listed = system.latest
        return messages, system.shown() if listed is None else listed

    def view(self) -> list[Message]:
        """Like `messages()`, in a list that is shared: it is never changed once handed out."""
        return self._sequence.view()

    def held(self) -> list[Message]:
        """The messages held at this moment, in no particular order; as cheap as a list can be."""
        return self._sequence.held()

    def messages_from(self, source: str) -> list[Message]:
        """A fresh list of the messages of one source, by time."""
        return self._sequence.messages_from(source)

    def response_messages(self) -> list[Message]:
        """A fresh list of the messages of source response, by time."""
        return self._sequence.messages_from("response")

    def find(self, id: str) -> Message | None:
        """The live message with this id."""
        return self._sequence.find(id)

    def source_of(self, id: str) -> str | None:
        """`memory`, `input`, `response` or `context`; `None` for an unknown id."""
        return self._sequence.source_of(id)

    def is_new_message(self, message: Message | str) -> bool:
        """Whether the message came in with this run, as input or response (R-343)."""
        id = message if isinstance(message, str) else message.id
        return self.source_of(id) in _STAMPED

    def make_message_source_checker(self) -> Callable[[Message | str], str | None]:
        """A function that tells the source a message (or id) had at the time of this call."""
        sources = {m.id: self._sequence.source_of(m.id) for m in self._sequence.view()}
        return lambda message: sources.get(message if isinstance(message, str) else message.id)

    def get_latest_user_content(self) -> str | None:
        """The text of the newest user message (R-340)."""
        for message in reversed(self._sequence.view()):
            if message.role == "user":
                return message.text
        return None

    def newest_time(self) -> datetime | None:
        """When the newest message was created; `None` for an empty list."""
        return self._sequence.newest_time()

    def next_time(self) -> datetime:
        """Now, but at least 1 ms after the newest message (R-327)."""
        return self._sequence.next_time()

    def provider_prompt(self, untouched: Message | None = None) -> list[dict[str, Any]]:
        """The prompt for a provider as plain data; URLs stay URLs (section 7).

        The list is the caller's, its entries are remembered and shared: never change them.
        `untouched` is the engine's word that nobody else has had this message in hand since the
        last prompt, and that it only grew: then its earlier parts are not even compared.
        """
        prompt, self.prompt_has_urls = provider_prompt(
            self._system.for_prompt(),
            self._sequence.view(),
            keep_pending=self.keeps_pending,
            untouched=untouched,
        )
        return prompt

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
        Returns False, and changes nothing, for an unknown call id.
        """
        return self._put_outcome(invocation_part(part), metadata, "response")

    def _put_outcome(
        self, new: ToolInvocationPart, metadata: Mapping[str, Any] | None, source: str
    ) -> bool:
        call_id = new.tool_invocation.tool_call_id
        for message in reversed(self._sequence.view()):
            known = find_call(message.content.parts, call_id)
            if known is not None:
                put_outcome(known, new)
                if metadata:
                    content = message.content
                    content.metadata = merged(content.metadata, clean_json(dict(metadata)))
                if source != "memory":
                    self._sequence.touch(message.id)
                return True
        return False

    def step_start(self) -> bool:
        """Append a `step-start` to the newest assistant message, unless it ends so (R-339)."""
        for message in reversed(self._sequence.view()):
            if message.role == "assistant":
                parts = message.content.parts
                if parts and parts[-1].type == "step-start":
                    return False
                parts.append(StepStartPart(created_at=millis(self._sequence.now())))
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
        memo = admit(message)
        if lacks_time(message):
            message.created_at = known.created_at
        if source in _STAMPED and memo.stamped != len(message.content.parts):
            memo.stamped = stamp(message)
        self._sequence.swap(known, message)

    def mark_response(self) -> ResponseMark:
        """Remember the response messages and their lists of parts, for `restore_response`."""
        return self._sequence.mark_response()

    def restore_response(self, mark: ResponseMark) -> None:
        """Put the response back to what it was: the same messages with the same part objects."""
        self._sequence.restore_response(mark)

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
        self.thread_id = state.get("threadId")
        self.resource_id = state.get("resourceId")
        self._sequence.deserialize(state)
        self._system.deserialize(state)
        return self
