"""`MessageHistory`: a thread's newest messages before the input, and what is new behind the run."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..errors import ProcessionError, StoreError
from ..keywords import TakesOptions
from ..processor import Processor
from ..processors.option_checks import flag, whole
from ..store import Turn
from .conversation import memory_context
from .lent import StoresSomething
from .options import DEFAULT_LAST_MESSAGES
from .record import record_of
from .threads import memory_store

if TYPE_CHECKING:
    from ..ending import RunEnded
    from ..message_list import MessageList, StoredChanges
    from ..messages import Message
    from ..processor import ProcessInputArgs
    from ..store import MemoryStore, Store
    from .conversation import Conversation

__all__ = ["MessageHistory"]

_NAME = "MessageHistory"
_LOADED = "loaded"
"""Noted where the thread had messages: then it was there, though no `Memory` has said so."""
_TICK = timedelta(milliseconds=1)


class MessageHistory(StoresSomething, TakesOptions, Processor[Any]):
    """Loads the newest `last_messages` of the thread, and saves what the run leaves (M-080).

    Among input processors it puts stored messages before the input, in order of time, with source
    `memory`. Wherever it stands, it saves the run when it has ended, in one transaction, unless it
    is `read_only`: what stands in the message list after all processors, as far as the outcome lets
    it be stored. Of a run that was blocked that is nothing; with `save_on_abort` the user's message
    and the calls of tools that really ran (M-100 to M-108).

    `Memory` adds it by itself. Built by hand it needs the thread and the resource in the request
    context, or in the call's `memory` option (M-045). `last_messages` may be `None` for all.

    Raises `OptionError` for options that cannot be used.
    """

    id = "message-history"
    name = "Message history"
    span_type = "memory_operation"

    @staticmethod
    def span_name(phase: str) -> str:
        """What its spans are called (O-030)."""
        return "memory: save" if phase == "runEnded" else "memory: recall"

    def __init__(
        self,
        *,
        storage: Store | MemoryStore | None = None,
        last_messages: int | None = DEFAULT_LAST_MESSAGES,
        read_only: bool = False,
        save_on_abort: bool = False,
    ) -> None:
        self.storage = storage
        self._last = last_messages and whole(_NAME, "last_messages", last_messages)
        self._reads = not flag(_NAME, "read_only", read_only)
        self._saves_aborted = flag(_NAME, "save_on_abort", save_on_abort)

    # ── what comes before the input ────────────────────────────────────────────────────────────

    async def process_input(self, args: ProcessInputArgs) -> None:
        """Load the history (M-080 to M-082)."""
        conversation = memory_context(args.request_context)
        if conversation is None or self._last == 0:
            return
        found = await self._load(memory_store(self.storage), conversation)
        if found:
            args.state[_LOADED] = True
        messages = args.message_list
        new = messages.get.all.db()
        here = {message.id for message in new}
        messages.add([m for m in found if m.role != "system" and m.id not in here], "memory")
        put_behind(messages)

    async def _load(self, store: MemoryStore, conversation: Conversation) -> list[Message]:
        thread, resource = conversation.thread_id, conversation.resource_id
        if self._last is None:
            page = await store.list_messages(thread, resource_id=resource, per_page=False)
            return page.messages
        return await store.newest_messages(thread, self._last, resource_id=resource)

    # ── what stays behind the run ──────────────────────────────────────────────────────────────

    async def run_ended(self, ending: RunEnded) -> None:
        """Save what the outcome lets be stored.

        Raises `StoreError` when that fails, which the consumer is told; the answer stands (M-106).
        """
        conversation = memory_context(ending.request_context)
        if conversation is None or not self._reads:
            return
        turn = self._turn(ending, conversation)
        if turn is None:
            return
        store = memory_store(self.storage)
        try:
            await store.save_turn(turn)
            await self._saved(store, conversation, ending)
        except ProcessionError:
            raise
        except Exception as error:
            raise StoreError(
                f"the turn was not saved in thread {conversation.thread_id!r}: the store raised "
                f"{type(error).__name__}"
            ) from error

    async def _saved(
        self, store: MemoryStore, conversation: Conversation, ending: RunEnded
    ) -> None:
        """What else there is to note in the thread when the turn has been saved."""

    def _turn(self, ending: RunEnded, conversation: Conversation) -> Turn | None:
        blocked = ending.status == "tripwire"
        if blocked and not self._saves_aborted:
            return None
        messages = ending.executed if blocked else ending.messages
        changes = ending.message_list.stored_changes
        # Where nothing may be stored, nothing that is stored may be changed.
        changed = bool(changes) and not blocked and (ending.status != "failed" or bool(messages))
        deleted = sorted(changes.deleted) if changed else []
        replaced = _replaced(ending, changes) if changed else []
        kept = [m for m in map(record_of, messages) if m is not None and m.id not in deleted]
        if not (kept or replaced or deleted):
            return None
        return Turn(
            thread_id=conversation.thread_id,
            resource_id=conversation.resource_id,
            messages=kept,
            replaced=replaced,
            deleted=deleted,
            title=conversation.title,
            metadata=conversation.metadata,
            existed=conversation.existed or ending.state.get(_LOADED, False),
        )


def _replaced(ending: RunEnded, changes: StoredChanges) -> list[Message]:
    """What takes the place of stored messages, as the processors have left it in the list."""
    find = ending.message_list.find
    live = [find(id) or message for id, message in changes.replaced.items()]
    return [record for record in map(record_of, live) if record is not None]


def put_behind(messages: MessageList) -> None:
    """Let what is new stand behind what is remembered, whatever the clocks of clients say.

    The caller's context comes before the input (M-067).
    """
    remembered = messages.get.remembered.db()
    if not remembered:
        return
    known = {message.id for message in remembered}
    new = [message for message in messages.get.all.db() if message.id not in known]
    new.sort(key=lambda message: messages.source_of(message.id) != "context")
    latest = remembered[-1].created_at
    for message in new:
        if message.created_at <= latest:
            message.created_at = latest + _TICK
        latest = message.created_at
