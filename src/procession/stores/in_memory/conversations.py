"""The domain `"memory"` in this process."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, UnsetType

from ...store import WORKING_MEMORY_KEY, Resource, Thread
from ..encoding import (
    facts_of,
    message_of,
    moment,
    now,
    optional_object,
    text,
)
from ..queries import (
    Paging,
    ids_of,
    includes_of,
    order_of,
    range_of,
    thread_filter,
)
from ..turns import (
    Write,
    changed_row,
    foreign_message,
    foreign_thread,
    missing_owner,
    missing_thread,
    noted,
    partials_of,
    write_of,
    writes_of,
)
from .copies import copied, merged
from .rows import Rows, holds, part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...messages import Message
    from ...store import (
        Include,
        MessageFilter,
        MessagePage,
        OrderBy,
        ThreadFilter,
        ThreadPage,
        Turn,
    )

__all__ = ["Conversations"]


class Conversations:
    """Threads, messages and resources; see `MemoryStore`."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._threads: dict[str, Thread] = {}
        self._resources: dict[str, Resource] = {}
        self._rows = Rows()

    # threads

    async def get_thread_by_id(
        self, thread_id: str, resource_id: str | None = None
    ) -> Thread | None:
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None or resource_id not in (None, thread.resource_id):
                return None
            return copied(thread)

    async def save_thread(self, thread: Thread) -> Thread:
        text(thread.id, "a thread's id")
        text(thread.resource_id, "a thread's resource_id")
        with self._lock:
            self._check_owner(thread.id, thread.resource_id)
            self._threads[thread.id] = copied(thread)
            return copied(thread)

    async def update_thread(
        self,
        id: str,
        title: str | UnsetType | None = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
    ) -> Thread:
        with self._lock:
            thread = self._threads.get(id)
            if thread is None:
                raise missing_thread(id)
            changed = merged(thread, metadata)
            if title is not UNSET:
                changed.title = title
            self._threads[id] = changed
            return copied(changed)

    async def delete_thread(self, thread_id: str) -> None:
        with self._lock:
            self._threads.pop(thread_id, None)
            self._rows.drop_thread(thread_id)

    async def list_threads(
        self,
        *,
        filter: ThreadFilter | None = None,
        page: int = 0,
        per_page: int | Literal[False] = 100,
        order_by: OrderBy | None = None,
    ) -> ThreadPage:
        paging = Paging.of(page, per_page)
        order = order_of(order_by, ("created_at", "updated_at"), latest_first=True)
        resource_id, facts = thread_filter(filter)
        with self._lock:
            found = [
                thread
                for thread in self._threads.values()
                if resource_id in (None, thread.resource_id)
                and holds(facts_of(thread.metadata), facts)
            ]
            found.sort(key=lambda thread: getattr(thread, order.field))
            if order.latest_first:
                found.reverse()
            return paging.threads([copied(each) for each in part(found, paging)], len(found))

    # messages: reading

    async def list_messages(
        self,
        thread_id: str | Sequence[str],
        *,
        resource_id: str | None = None,
        include: Sequence[Include] | None = None,
        page: int = 0,
        per_page: int | Literal[False] = 40,
        filter: MessageFilter | None = None,
        order_by: OrderBy | None = None,
    ) -> MessagePage:
        paging, asked = Paging.of(page, per_page), range_of(filter)
        order, around = order_of(order_by, ("created_at",)), includes_of(include)
        threads = ids_of(thread_id, "thread_id")
        with self._lock:
            found = self._rows.matching(threads, resource_id, asked)
            wanted = self._rows.around(around, None if resource_id else threads, resource_id)
            return self._rows.page(found, wanted, paging, order)

    async def newest_messages(
        self,
        thread_id: str,
        limit: int,
        *,
        resource_id: str | None = None,
        before: str | None = None,
    ) -> list[Message]:
        Paging.of(0, limit)
        with self._lock:
            rows = self._rows.newest(thread_id, limit, before)
            return [message_of(row) for row in rows if resource_id in (None, row.resource_id)]

    async def list_messages_by_id(
        self, ids: Iterable[str], *, resource_id: str | None = None
    ) -> list[Message]:
        asked = ids_of(ids, "ids")
        with self._lock:
            rows = [row for id in asked if (row := self._rows.get(id))]
            own = [row for row in rows if resource_id in (None, row.resource_id)]
            return [message_of(row) for row in self._rows.in_time(own)]

    async def list_messages_by_resource_id(
        self,
        resource_id: str,
        *,
        page: int = 0,
        per_page: int | Literal[False] = 40,
        filter: MessageFilter | None = None,
        order_by: OrderBy | None = None,
    ) -> MessagePage:
        paging, asked = Paging.of(page, per_page), range_of(filter)
        order, owner = order_of(order_by, ("created_at",)), text(resource_id, "resource_id")
        with self._lock:
            found = self._rows.matching(self._rows.threads(), owner, asked)
            return self._rows.page(found, [], paging, order)

    # messages: writing

    async def save_messages(self, messages: Iterable[Message]) -> list[Message]:
        given = list(messages)
        writes = writes_of(given, now())
        with self._lock:
            self._write(writes)
            rows = map(self._rows.get, [message.id for message in given])
            return [message_of(row) for row in rows if row]

    async def update_messages(self, partials: Iterable[Mapping[str, Any]]) -> list[Message]:
        asked = partials_of(partials)
        with self._lock:
            rows = [
                changed_row(row, partial)
                for id, partial in asked.items()
                if (row := self._rows.get(id))
            ]
            for row in rows:
                self._rows.put(row)
            return [message_of(row) for row in rows]

    async def delete_messages(self, ids: Iterable[str]) -> None:
        asked = ids_of(ids, "ids")
        with self._lock:
            for id in asked:
                self._rows.drop(id)

    async def save_turn(self, turn: Turn) -> None:
        write = write_of(turn)
        with self._lock:
            self._write([write])

    def _write(self, writes: list[Write]) -> None:
        for write in writes:  # all checks come first: nothing is half written
            self._check_write(write)
        for write in writes:
            self._write_one(write)

    def _check_write(self, write: Write) -> None:
        self._check_owner(write.thread_id, write.resource_id)
        if write.resource_id is None and write.thread_id not in self._threads:
            raise missing_owner(write.thread_id)
        for row in write.rows:
            there = self._rows.get(row.id)
            if there is not None and there.thread_id != write.thread_id:
                raise foreign_message(row.id, there.thread_id, write.thread_id)

    def _check_owner(self, thread_id: str, resource_id: str | None) -> None:
        thread = self._threads.get(thread_id)
        if thread is not None and resource_id not in (None, thread.resource_id):
            raise foreign_thread(thread_id, thread.resource_id, str(resource_id))

    def _write_one(self, write: Write) -> None:
        thread = self._threads.get(write.thread_id)
        if thread is None and write.existed:
            return
        if thread is None:
            thread = self._new_thread(write)
        thread.updated_at = max(thread.updated_at, moment(write.at))
        for id in write.deleted:
            if self._rows.get(id, thread.id):
                self._rows.drop(id)
        for row in write.replaced:
            if self._rows.get(row.id, thread.id):
                self._rows.put(row)
        for row in write.rows:
            self._rows.put(row._replace(resource_id=thread.resource_id))

    def _new_thread(self, write: Write) -> Thread:
        thread = self._threads[write.thread_id] = Thread(
            id=write.thread_id,
            resource_id=write.resource_id or "",
            title=write.title,
            metadata=optional_object(write.metadata),
            created_at=moment(write.at),
            updated_at=moment(write.at),
        )
        return thread

    # resources

    async def get_resource_by_id(self, id: str) -> Resource | None:
        with self._lock:
            resource = self._resources.get(id)
            return None if resource is None else copied(resource)

    async def save_resource(self, resource: Resource) -> Resource:
        text(resource.id, "a resource's id")
        with self._lock:
            self._resources[resource.id] = copied(resource)
            return copied(resource)

    async def update_resource(
        self,
        id: str,
        working_memory: str | UnsetType | None = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
    ) -> Resource:
        with self._lock:
            changed = merged(self._resources.get(id) or Resource(id=text(id, "id")), metadata)
            if working_memory is not UNSET:
                changed.working_memory = working_memory
            self._resources[id] = changed
            return copied(changed)

    async def delete_resource(self, id: str) -> None:
        owner = text(id, "id")
        with self._lock:
            for thread in [each for each in self._threads.values() if each.resource_id == owner]:
                del self._threads[thread.id]
                self._rows.drop_thread(thread.id)
            self._resources.pop(owner, None)

    async def change_working_memory(
        self,
        *,
        change: Callable[[str | None], str | None],
        resource_id: str | None = None,
        thread_id: str | None = None,
    ) -> str | None:
        with self._lock:
            if thread_id is not None:
                return self._change_thread(thread_id, resource_id, change)
            id = text(resource_id, "resource_id or thread_id")
            there = self._resources.get(id) or Resource(id=id)
            made = change(there.working_memory)
            if made != there.working_memory:
                self._resources[id] = there.replace(working_memory=made, updated_at=moment(now()))
            return made

    def _change_thread(
        self, thread_id: str, owner: str | None, change: Callable[[str | None], str | None]
    ) -> str | None:
        self._check_owner(thread_id, owner)
        thread = self._threads.get(thread_id)
        if thread is None:
            if owner is None:
                raise missing_owner(thread_id)
            thread = Thread(id=text(thread_id, "thread_id"), resource_id=text(owner, "resource_id"))
        metadata = thread.metadata or {}
        before = metadata.get(WORKING_MEMORY_KEY)
        made = change(before)
        if made != before:
            metadata = noted(metadata, made)
            self._threads[thread_id] = thread.replace(metadata=metadata, updated_at=moment(now()))
        return made
