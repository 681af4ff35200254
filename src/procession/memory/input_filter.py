"""`MemoryInputFilter`: what of the messages that a client sends is new (M-060 to M-067)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..ids import new_id
from ..keywords import TakesOptions
from ..messages import Message
from ..processor import Processor
from ..processors.option_checks import flag
from .conversation import memory_context
from .fingerprints import answers, filled, fingerprint, is_answered, twin_of
from .lent import StoresSomething
from .threads import memory_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..message_list import MessageList
    from ..processor import ProcessInputArgs
    from ..store import MemoryStore, Store

__all__ = ["MemoryInputFilter"]

_NAME = "MemoryInputFilter"
_MOST_COMPARED = 500


class MemoryInputFilter(StoresSomething, TakesOptions, Processor[Any]):
    """Keeps of the input what storage does not have: clients often send the whole conversation.

    In a thread without messages everything is new. Else new is what the user has said since the
    last answer that the client sends along, and what it says of tool calls that are pending in
    storage. What storage has already, by id or by what it says, is storage's word: the client's
    copy is put aside (M-061 to M-064). An id that another thread's message has is changed.

    With `retain_full_input` the input is taken as it is, but for what is stored under the same id
    (M-066). `Memory` adds this by itself, first of all.
    """

    id = "memory-input-filter"
    name = "Memory input filter"

    def __init__(
        self, *, storage: Store | MemoryStore | None = None, retain_full_input: bool = False
    ) -> None:
        self.storage = storage
        self._retains = flag(_NAME, "retain_full_input", retain_full_input)

    async def process_input(self, args: ProcessInputArgs) -> None:
        """Sort the input: what is new stays, what is stored becomes the stored copy."""
        conversation = memory_context(args.request_context)
        messages = args.message_list
        if conversation is None:
            return
        store, thread = memory_store(self.storage), conversation.thread_id
        if messages.unmatched:
            _take_results(messages, await store.newest_messages(thread, _MOST_COMPARED // 10))
        given = messages.get.input.db()
        if not given:
            return
        known = await store.list_messages_by_id([message.id for message in given])
        stored = {message.id: message for message in known if message.thread_id == thread}
        _rename(messages, given, {m.id for m in known if m.thread_id != thread})
        if self._retains:
            for message in given:
                if message.id in stored:
                    _put_stored(messages, message, stored[message.id], stays=True)
            return
        newest: Sequence[Message] = ()
        if len(given) > 1 or given[0].role == "assistant":
            count = min(2 * len(given) + 8, _MOST_COMPARED)
            newest = await store.newest_messages(thread, count)
            if not newest:
                _take_whole(given)
                return
        _sort(messages, given, _known(given, stored, newest), newest)


def _sort(
    messages: MessageList,
    given: Sequence[Message],
    known: Mapping[int, Message],
    newest: Sequence[Message],
) -> None:
    """Leave in the list what is new, and the stored copies of what the client refers to."""
    since, closing = _last_turn(given)
    new = _new(since, closing, known, newest)
    kept = set(map(id, new))
    asked = set(map(id, since.messages))
    for message in given:
        stored = known.get(id(message))
        if stored is not None:
            _put_stored(messages, message, stored, stays=id(message) in asked)
        elif id(message) not in kept:
            messages.remove_by_ids([message.id])
    _take_whole(new)


def _known(
    given: Sequence[Message], stored: Mapping[str, Message], newest: Sequence[Message]
) -> dict[int, Message]:
    """The stored copies of messages that were sent: of answers, also those under another id."""
    found: dict[int, Message] = {}
    for message in given:
        twin = stored.get(message.id)
        if twin is None and message.role == "assistant":
            twin = twin_of(message, newest)
        if twin is not None:
            found[id(message)] = twin
    return found


class _Since(Struct):
    """What was sent since an answer, and that answer, if there is one."""

    answer: Message | None
    messages: list[Message]


def _last_turn(given: Sequence[Message]) -> tuple[_Since, Message | None]:
    """What the user has said last, and the answer that closes what was sent."""
    closing = given[-1] if given[-1].role == "assistant" else None
    said = given if closing is None else given[:-1]
    last = max((at for at, message in enumerate(said) if message.role == "assistant"), default=-1)
    return _Since(said[last] if last >= 0 else None, list(said[last + 1 :])), closing


def _new(
    since: _Since,
    closing: Message | None,
    known: Mapping[int, Message],
    newest: Sequence[Message],
) -> list[Message]:
    """What the user has said since the last answer; an answer that nobody has stored (M-062)."""
    if closing is not None and id(closing) in known:
        return []
    new = [message for message in since.messages if id(message) not in known]
    asked = new[-1:] if closing is None else []  # whatever it says, it is asked now
    earlier = new[: len(new) - len(asked)]
    twin = None if since.answer is None else known.get(id(since.answer))
    behind = [m for m in newest if twin is None or m.created_at > twin.created_at]
    instruction = [] if closing is None or is_answered(closing) else [closing]
    return [*_unheard(earlier, behind), *asked, *instruction]


def _unheard(said: Iterable[Message], stored: Iterable[Message]) -> list[Message]:
    """What the user said, but for what is stored in the same words, in the same order (G-M3)."""
    left = [fingerprint(message) for message in stored if message.role != "assistant"]
    new: list[Message] = []
    for message in said:
        mine = fingerprint(message)
        if mine is not None and mine in left:
            del left[: left.index(mine) + 1]
        else:
            new.append(message)
    return new


def _rename(messages: MessageList, given: Iterable[Message], foreign: set[str]) -> None:
    """Ids are unique in a store: another thread's cannot be taken, nor its message changed."""
    for message in given:
        if message.id in foreign:
            messages.remove_by_ids([message.id])
            message.id = new_id()
            messages.add(message, "input")


def _put_stored(messages: MessageList, given: Message, stored: Message, *, stays: bool) -> None:
    """The stored copy takes the place of the client's, if it stays, or if it is answered by it."""
    messages.remove_by_ids([given.id])
    answered = filled(stored, given)
    if messages.find(stored.id) is None and (stays or answered):
        messages.add(stored, "memory")
        if answered:
            messages.replace_stored(stored)


def _take_results(messages: MessageList, newest: Iterable[Message]) -> None:
    """Results that came without their calls belong to calls that are pending in storage."""
    for stored in newest:
        answered = [part for part in messages.unmatched if answers(part, stored)]
        if not answered:
            continue
        messages.unmatched = [part for part in messages.unmatched if part not in answered]
        messages.add(stored, "memory")
        messages.replace_stored(stored)


def _take_whole(new: Iterable[Message]) -> None:
    """What a client says an answer came with is not taken for a provider's word (M-061)."""
    for message in new:
        if message.role != "assistant":
            continue
        message.content.provider_metadata = None
        for part in message.content.parts:
            part.provider_metadata = None
