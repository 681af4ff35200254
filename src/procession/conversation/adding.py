"""Adding to the conversation of a run: what comes in, in any form, from whomever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, cast

from ..errors import InputError
from ..messages import Message
from ..records import clean_json
from ..signals import Signal, repeats
from .admission import NO_TIME, STAMPED, admit, stamp
from .folding import find_call, fold, merged, put_outcome
from .head import head_of, learn, note
from .input import SystemEntry, ToolResults, read_messages
from .order import Clock
from .prompt_memo import isolated, isolated_form
from .prompt_run import SHORTEST
from .reading import ReadableMessages

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..messages import ToolInvocationPart

__all__ = ["GrowingMessages"]

_SOURCES = {
    "memory": "memory",
    "input": "input",
    "user": "input",
    "response": "response",
    "context": "context",
    "system": "system",
}


class GrowingMessages(ReadableMessages):
    """The part of `MessageList` that takes messages in."""

    def __init__(
        self,
        thread_id: str | None,
        resource_id: str | None,
        generate_id: Callable[[], str] | None,
        *,
        keeps_pending: bool,
    ) -> None:
        super().__init__(generate_id, keeps_pending=keeps_pending)
        self.thread_id = thread_id
        self.resource_id = resource_id
        self.unmatched: list[ToolInvocationPart] = []
        """Tool results that were left out: no call of the conversation has their ids."""

    @property
    def unmatched_results(self) -> list[str]:
        """The ids of tool results that were left out."""
        return [part.tool_invocation.tool_call_id for part in self.unmatched]

    def add(self, messages: Any, source: str) -> Self:
        """Add a text, a message in any form, or a list of these; `None` is ignored (R-325).

        `source` is `memory`, `input` (or `user`), `response`, `context`, or `system` for system
        messages. Raises `InputError` for an unknown source, a message of another thread, or one
        without content, and `NotAMessageError` for values that are no messages (R-319 to R-334).
        """
        kind = _SOURCES.get(source)
        if kind is None:
            raise InputError(f"unknown source {source!r}: use one of {', '.join(_SOURCES)}")
        if isinstance(messages, list):
            known = self._take_known(cast("list[Any]", messages), kind, asleep=False)
            if known:
                messages = cast("list[Any]", messages)[known:]
        self._take_all(messages, kind)
        return self

    def receive(self, given: Any, source: str, *, shared: bool) -> None:
        """Add what the caller of a run said, as `add` does, and leave its objects as they are.

        Only with `shared`, when nobody in the run can change a message, the caller's own objects
        are read in place, and they are stamped. A long history that came before costs next to
        nothing: it is copied when somebody asks for it.
        """
        if isinstance(given, Message | Mapping):
            given = [given]
        if not isinstance(given, list | tuple):
            self.add(given, source)
            return
        entries: list[Any] = cast("Any", list(given) if isinstance(given, tuple) else given)  # pyright: ignore[reportUnknownArgumentType]
        first = self._sequence.is_empty
        known = self._take_known(entries, source, asleep=True)
        rest = entries[known:]
        if not shared:
            rest = [_own(entry) for entry in rest]
            if first:
                note(entries, known)
        self._take_all(rest, source)

    def _take_known(self, messages: list[Any], source: str, *, asleep: bool) -> int:
        """Take over what is remembered of the beginning of a list; returns how many messages."""
        if len(messages) < SHORTEST or not self._sequence.is_empty:
            return 0
        ids, pending = (self.thread_id, self.resource_id), self.keeps_pending
        head = head_of(messages, source, *ids, pending=pending, asleep=asleep)
        if asleep and learn(messages, head.count if head else 0, pending=pending):
            head = head_of(messages, source, *ids, pending=pending, asleep=asleep)
        if head is None:
            return 0
        self._sequence.adopt(head, messages)
        return head.count

    def _take_all(self, messages: Any, source: str) -> None:
        clock = Clock(self._sequence.newest_time)
        for item in read_messages(messages):  # all are read before the first one is taken
            if isinstance(item, Message) and source != "system":
                self._enter(item, source, clock=clock)
                clock.saw(item.created_at)
            else:
                self._take(item, source)

    def _take(self, item: Message | SystemEntry | ToolResults, source: str) -> None:
        if isinstance(item, SystemEntry):
            if source != "memory":
                self._system.add(item.message)
        elif isinstance(item, ToolResults):
            for part in item.parts:
                if not self._put_outcome(part, None, source) and source != "memory":
                    self.unmatched.append(part)
        elif source == "system":
            raise InputError(f"source 'system' is for system messages, not for role {item.role!r}")
        else:
            self._enter(item, source)

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

    def _enter(
        self, message: Message, source: str, *, may_fold: bool = True, clock: Clock | None = None
    ) -> Message:
        """Bring one message in; returns the message of the list that now holds it."""
        if self.thread_id is not None or self.resource_id is not None:
            self._check_ids(message, source)
        admit(message)
        sequence = self._sequence
        if not message.id:
            message.id = sequence.new_id()
        known = sequence.find(message.id)
        if message.created_at is NO_TIME:
            message.created_at = known.created_at if known else (clock or sequence).next_time()
        if source in STAMPED:
            stamp(message)
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
            sequence.remove([m.id for m in sequence.peek() if repeats(m, made)])
        self._enter(made.to_db_message(), _SOURCES[source])
        return made

    def adopt_response(self, message: Message) -> None:
        """Append the engine's live message as a response; nothing is folded or copied."""
        if message.thread_id is None:
            message.thread_id = self.thread_id
        if message.resource_id is None:
            message.resource_id = self.resource_id
        self._sequence.place(message, "response")


def _own(entry: Any) -> Any:
    """What a caller gave, or a copy that may be changed."""
    if isinstance(entry, Message):
        return isolated(entry)
    return isolated_form(cast("Any", entry)) if isinstance(entry, Mapping) else entry
