"""Threads and their messages: what `Memory` offers to applications (M-180 to M-185)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from msgspec import UNSET, Struct, UnsetType, field

from ..conversation.core_messages import hidden
from ..conversation.order import after, now
from ..conversation.prompt_memo import isolated
from ..errors import ConfigurationError, InputError
from ..ids import new_id
from ..messages import Message
from ..records import format_time
from ..signals import Signal
from ..store import Thread, Turn
from .background import Background
from .lent import StoresSomething

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ..store import (
        Include,
        MemoryStore,
        MessageFilter,
        OrderBy,
        Store,
        ThreadFilter,
        ThreadPage,
    )

__all__ = ["RecallDict", "Recalled", "Threads", "memory_store"]

CLONE_KEY = "clone"
"""The entry of a thread's metadata that tells what it is a copy of (M-185)."""


class Recalled(Struct, kw_only=True):
    """Messages of a thread, in order of time; `total` counts all that are stored and match.

    A page may hold fewer messages than `per_page`, where signals are left out. `usage` are the
    tokens of a search by meaning.
    """

    messages: list[Message]
    total: int
    page: int
    per_page: int | Literal[False]
    has_more: bool
    usage: dict[str, Any] | None = field(default=None)


class RecallDict(TypedDict, total=False):
    """How `recall` chooses and shows messages."""

    page: int
    per_page: int | Literal[False] | None
    filter: MessageFilter | None
    hide_signals: bool | Collection[str] | None
    include_system_reminders: bool
    order_by: OrderBy | None


def memory_store(storage: Any) -> MemoryStore:
    """The domain `"memory"` of a store, or what is one itself.

    Raises `ConfigurationError` when there is none (M-021).
    """
    if storage is None:
        raise ConfigurationError(
            "memory has no storage: give it one, for example "
            "Memory(storage=SQLiteStore('chats.db')), or Memory(storage=InMemoryStore()) to try "
            "it; or register its agent on an app that has one: App(agents=…, store=…)"
        )
    if isinstance(storage, type):
        raise ConfigurationError(
            f"storage must be a Store, not the class {storage.__name__}: write "
            f"storage={storage.__name__}(…)"
        )
    get_store = getattr(storage, "get_store", None)
    found = storage if get_store is None else get_store("memory")
    if not callable(getattr(found, "save_turn", None)):
        raise ConfigurationError(
            f"storage must be a Store, or its domain 'memory', not {type(storage).__name__}"
        )
    return found


class Threads(StoresSomething):
    """Reads and changes threads. Whoever calls it has checked who may: nothing here does (M-184).

    All methods raise `ConfigurationError` without a storage, `StoreError` when it fails, and
    `InputError` for arguments of a wrong form.
    """

    page_size: int | Literal[False] = False
    """How many messages `recall` gives at once, unless told otherwise."""

    def __init__(self, storage: Store | MemoryStore | None) -> None:
        if storage is not None:
            memory_store(storage)
        self.storage = storage
        self.background = Background()

    @property
    def _store(self) -> MemoryStore:
        return memory_store(self.storage)

    async def settled(self) -> None:
        """Wait for the work that goes on behind runs: titles, vectors (M-148)."""
        await self.background.settled()

    # ── threads ────────────────────────────────────────────────────────────────────────────────

    async def create_thread(
        self,
        resource_id: str,
        thread_id: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Thread:
        """A new thread of a resource.

        Raises `InputError` if there is one of this id already, `OwnerError` if it is another's.
        """
        made = Thread(
            id=thread_id or new_id(),
            resource_id=resource_id,
            title=title,
            metadata=None if metadata is None else dict(metadata),
        )
        if thread_id is not None:
            known = await self._store.get_thread_by_id(thread_id)
            if known is not None and known.resource_id == resource_id:
                raise InputError(f"there is a thread {thread_id!r} already: use update_thread")
        return await self._store.save_thread(made)

    async def get_thread_by_id(
        self, thread_id: str, resource_id: str | None = None
    ) -> Thread | None:
        """The thread; `None` if there is none, or none of `resource_id`."""
        return await self._store.get_thread_by_id(thread_id, resource_id)

    async def list_threads(
        self,
        *,
        filter: ThreadFilter | None = None,
        page: int = 0,
        per_page: int | Literal[False] = 100,
        order_by: OrderBy | None = None,
    ) -> ThreadPage:
        """A page of threads, the one created last first; `filter` has `resource_id`, `metadata`."""
        return await self._store.list_threads(
            filter=filter, page=page, per_page=per_page, order_by=order_by
        )

    async def save_thread(self, thread: Thread) -> Thread:
        """Write a thread, over an earlier one of its id.

        Raises `OwnerError` if that belongs to another resource.
        """
        return await self._store.save_thread(thread)

    async def update_thread(
        self,
        id: str,
        title: str | UnsetType | None = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
    ) -> Thread:
        """Change title or metadata; what is left out stays, keys of `metadata` are merged.

        Raises `InputError` if there is no such thread.
        """
        return await self._store.update_thread(id, title, metadata)

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread and its messages."""
        await self._store.delete_thread(thread_id)

    async def clone_thread(
        self,
        source_thread_id: str,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Thread:
        """A copy of a thread with its messages, under new ids, in one transaction (M-185).

        It belongs to the same resource, with the same title and metadata, unless told otherwise;
        metadata `clone` tells where it comes from. Raises `InputError` if there is no such thread,
        or if there is one of the new id.
        """
        source = await self._store.get_thread_by_id(source_thread_id)
        if source is None:
            raise InputError(f"there is no thread {source_thread_id!r} to clone")
        id = thread_id or new_id()
        if await self._store.get_thread_by_id(id) is not None:
            raise InputError(f"there is a thread {id!r} already: clone into another one")
        owner = resource_id or source.resource_id
        page = await self._store.list_messages(source_thread_id, per_page=False)
        moment = datetime.now(UTC)
        origin = {"sourceThreadId": source.id, "clonedAt": format_time(moment)}
        turn = Turn(
            thread_id=id,
            resource_id=owner,
            messages=[_copy(message, id, owner) for message in page.messages],
            title=source.title if title is None else title,
            metadata={**(source.metadata or {}), **(metadata or {}), CLONE_KEY: origin},
            at=moment,
        )
        await self._store.save_turn(turn)
        made = await self._store.get_thread_by_id(id)
        assert made is not None
        return made

    # ── messages ───────────────────────────────────────────────────────────────────────────────

    async def save_messages(self, messages: Iterable[Message]) -> list[Message]:
        """Write messages, each over an earlier one of its id; a missing thread is created.

        Each needs a `thread_id`, and a `resource_id` where its thread is missing. Raises
        `OwnerError` for the thread of another resource, and for the id of another thread's message.
        """
        return await self._store.save_messages(messages)

    async def delete_messages(self, ids: Iterable[str]) -> None:
        """Delete the messages with these ids that there are."""
        await self._store.delete_messages(ids)

    async def recall(
        self,
        thread_id: str,
        resource_id: str | None = None,
        *,
        page: int = 0,
        per_page: int | Literal[False] | None = None,
        include: Sequence[Include] | None = None,
        filter: MessageFilter | None = None,
        hide_signals: bool | Collection[str] | None = None,
        include_system_reminders: bool = False,
        order_by: OrderBy | None = None,
    ) -> Recalled:
        """Messages of a thread: the newest page first, in order of time (M-181).

        `per_page` is `last_messages` unless given, `False` for all. `include` adds messages by id,
        with neighbours. Reminders (signals of type `reactive`) are left out; `hide_signals=True`
        leaves out all signals, `False` none, a collection those types; `include_system_reminders`
        shows reminders (M-182, R-725).
        """
        size = self.page_size if per_page is None else per_page
        order: OrderBy = {"direction": "DESC", **(order_by or {})}
        found = await self._store.list_messages(
            thread_id,
            resource_id=resource_id,
            include=include,
            page=page,
            per_page=size,
            filter=filter,
            order_by=order,
        )
        if hide_signals is None:
            hide_signals = () if include_system_reminders else ("reactive",)
        shown = [message for message in found.messages if not hidden(message, hide_signals)]
        if order["direction"] != "ASC":
            shown.reverse()
        return Recalled(
            messages=shown,
            total=found.total,
            page=found.page,
            per_page=found.per_page,
            has_more=found.has_more,
        )

    async def send_signal(
        self, thread_id: str, signal: Any, resource_id: str | None = None
    ) -> Signal:
        """Put a signal into a thread while no run is under way: the next turn's prompt has it.

        A run that is under way in the thread does not see it: tell that one by `run.send_signal`.
        The signal stands before what such a run saves, or among it, as its time has it.

        `signal` is a `Signal`, or a mapping with `type` and `contents`. A missing thread is created
        if `resource_id` is given. Raises `InputError` for a transient signal, which no later turn
        would show (R-723), and `OwnerError` for a thread of another resource.
        """
        newest = await self._store.newest_messages(thread_id, 1)
        made = Signal.of(signal, created_at=after(newest[-1].created_at) if newest else now())
        if made.transient:
            raise InputError(
                "a transient signal belongs to one run: send it from a hook of that run"
            )
        message = made.to_db_message()
        message.thread_id, message.resource_id = thread_id, resource_id
        await self._store.save_messages([message])
        return made


def _copy(message: Message, thread_id: str, resource_id: str) -> Message:
    made = isolated(message)
    made.id, made.thread_id, made.resource_id = new_id(), thread_id, resource_id
    facts: Any = (made.content.metadata or {}).get("signal") if made.role == "signal" else None
    if isinstance(facts, dict):
        facts["id"] = made.id
    return made
