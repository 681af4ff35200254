"""The store that keeps everything in this process: for tests, and for a start without a file."""

from __future__ import annotations

from bisect import bisect_left, insort
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import UNSET, UnsetType

from ..records import plain
from ..store import WORKING_MEMORY_KEY, Resource, Thread
from .domains import ByDomain
from .encoding import (
    MessageRow,
    checked_object,
    facts_of,
    from_json,
    message_of,
    moment,
    now,
    optional_json,
    optional_object,
    stamp,
    text,
)
from .queries import (
    Around,
    Order,
    Paging,
    Range,
    ids_of,
    includes_of,
    order_of,
    range_of,
    thread_filter,
)
from .turns import (
    Write,
    changed_row,
    foreign_message,
    foreign_thread,
    missing_owner,
    missing_thread,
    partials_of,
    write_of,
    writes_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from ..messages import Message
    from ..store import (
        Include,
        MessageFilter,
        MessagePage,
        OrderBy,
        ThreadFilter,
        ThreadPage,
        Turn,
    )

__all__ = ["InMemoryStore"]

_R = TypeVar("_R", Thread, Resource)
_T = TypeVar("_T")


class InMemoryStore(ByDomain):
    """Keeps everything in this process, until it ends.

    What is handed in and out is copied, so that it behaves as a database does; it may be used from
    several threads and event loops.
    """

    def __init__(self) -> None:
        self._domains = {"memory": _Conversations(), "workflows": _Snapshots()}


_Place = tuple[int, int, str]
"""Where a message stands in its thread: time, insertion, id."""


class _Conversations:
    """The domain `"memory"`."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._threads: dict[str, Thread] = {}
        self._resources: dict[str, Resource] = {}
        self._rows: dict[str, MessageRow] = {}
        self._inserted: dict[str, int] = {}
        self._places: dict[str, list[_Place]] = {}
        self._insertions = 0

    # threads

    async def get_thread_by_id(
        self, thread_id: str, resource_id: str | None = None
    ) -> Thread | None:
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None or resource_id not in (None, thread.resource_id):
                return None
            return _copied(thread)

    async def save_thread(self, thread: Thread) -> Thread:
        text(thread.id, "a thread's id")
        text(thread.resource_id, "a thread's resource_id")
        with self._lock:
            self._check_owner(thread.id, thread.resource_id)
            self._threads[thread.id] = _copied(thread)
            return _copied(thread)

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
            changed = _merged(thread, metadata)
            if title is not UNSET:
                changed.title = title
            self._threads[id] = changed
            return _copied(changed)

    async def delete_thread(self, thread_id: str) -> None:
        with self._lock:
            self._threads.pop(thread_id, None)
            for _, _, id in self._places.pop(thread_id, []):
                del self._rows[id], self._inserted[id]

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
                and _holds(facts_of(thread.metadata), facts)
            ]
            found.sort(key=lambda thread: getattr(thread, order.field))
            if order.latest_first:
                found.reverse()
            return paging.threads([_copied(each) for each in _part(found, paging)], len(found))

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
            found = self._matching(threads, resource_id, asked)
            wanted = self._around(around, None if resource_id else threads, resource_id)
            return self._page(found, wanted, paging, order)

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
            places = self._places.get(thread_id, [])
            end = len(places)
            if before is not None:
                row = self._rows.get(before)
                here = row is not None and row.thread_id == thread_id
                end = bisect_left(places, self._place(row)) if row and here else 0
            rows = (self._rows[id] for _, _, id in places[max(0, end - limit) : end])
            return [message_of(row) for row in rows if resource_id in (None, row.resource_id)]

    async def list_messages_by_id(
        self, ids: Iterable[str], *, resource_id: str | None = None
    ) -> list[Message]:
        asked = ids_of(ids, "ids")
        with self._lock:
            rows = [self._rows[id] for id in asked if id in self._rows]
            own = [row for row in rows if resource_id in (None, row.resource_id)]
            return [message_of(row) for row in sorted(own, key=self._place)]

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
        order = order_of(order_by, ("created_at",))
        with self._lock:
            found = self._matching(list(self._places), text(resource_id, "resource_id"), asked)
            return self._page(found, [], paging, order)

    def _place(self, row: MessageRow) -> _Place:
        return (row.created_at, self._inserted[row.id], row.id)

    def _matching(self, threads: list[str], owner: str | None, asked: Range) -> list[_Place]:
        places = [place for thread in threads for place in self._places.get(thread, [])]
        if len(threads) > 1:
            places.sort()
        return [
            place
            for place in places
            if (asked.first is None or place[0] >= asked.first)
            and (asked.last is None or place[0] <= asked.last)
            and (owner is None or self._rows[place[2]].resource_id == owner)
            and _holds(self._rows[place[2]].facts, asked.facts)
        ]

    def _around(
        self, around: list[Around], threads: list[str] | None, owner: str | None
    ) -> list[_Place]:
        found: list[_Place] = []
        for each in around:
            row = self._rows.get(each.id)
            if row is None or (threads is not None and row.thread_id not in threads):
                continue
            if owner is not None and row.resource_id != owner:
                continue
            places = self._places[row.thread_id]
            at = bisect_left(places, self._place(row))
            found += places[max(0, at - each.before) : at + each.after + 1]
        return found

    def _page(
        self, found: list[_Place], wanted: list[_Place], paging: Paging, order: Order
    ) -> MessagePage:
        if order.latest_first:
            found.reverse()
        own = _part(found, paging)
        shown = sorted({*own, *wanted}, reverse=order.latest_first)
        messages = [message_of(self._rows[id]) for _, _, id in shown]
        return paging.messages(messages, len(found), len(own))

    # messages: writing

    async def save_messages(self, messages: Iterable[Message]) -> list[Message]:
        given = list(messages)
        writes = writes_of(given, now())
        with self._lock:
            self._write(writes)
            return [message_of(self._rows[message.id]) for message in given]

    async def update_messages(self, partials: Iterable[Mapping[str, Any]]) -> list[Message]:
        asked = partials_of(partials)
        with self._lock:
            rows = [
                changed_row(self._rows[id], partial)
                for id, partial in asked.items()
                if id in self._rows
            ]
            for row in rows:
                self._put(row)
            return [message_of(row) for row in rows]

    async def delete_messages(self, ids: Iterable[str]) -> None:
        asked = ids_of(ids, "ids")
        with self._lock:
            for id in asked:
                self._drop(id)

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
        if thread is None:
            thread = self._new_thread(write)
        thread.updated_at = max(thread.updated_at, moment(write.at))
        for id in write.deleted:
            if id in self._rows and self._rows[id].thread_id == thread.id:
                self._drop(id)
        for row in write.replaced:
            if row.id in self._rows and self._rows[row.id].thread_id == thread.id:
                self._put(row)
        for row in write.rows:
            self._put(row._replace(resource_id=thread.resource_id))

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

    def _put(self, row: MessageRow) -> None:
        places = self._places.setdefault(row.thread_id, [])
        earlier = self._rows.get(row.id)
        if earlier is None:
            self._insertions += 1
            self._inserted[row.id] = self._insertions
        elif earlier.created_at != row.created_at:
            del places[bisect_left(places, self._place(earlier))]
        if earlier is None or earlier.created_at != row.created_at:
            insort(places, self._place(row))
        self._rows[row.id] = row

    def _drop(self, id: str) -> None:
        row = self._rows.get(id)
        if row is not None:
            places = self._places[row.thread_id]
            del places[bisect_left(places, self._place(row))]
            del self._rows[id], self._inserted[id]

    # resources

    async def get_resource_by_id(self, id: str) -> Resource | None:
        with self._lock:
            resource = self._resources.get(id)
            return None if resource is None else _copied(resource)

    async def save_resource(self, resource: Resource) -> Resource:
        text(resource.id, "a resource's id")
        with self._lock:
            self._resources[resource.id] = _copied(resource)
            return _copied(resource)

    async def update_resource(
        self,
        id: str,
        working_memory: str | UnsetType | None = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
    ) -> Resource:
        with self._lock:
            changed = _merged(self._resources.get(id) or Resource(id=text(id, "id")), metadata)
            if working_memory is not UNSET:
                changed.working_memory = working_memory
            self._resources[id] = changed
            return _copied(changed)

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
            metadata = {**metadata, WORKING_MEMORY_KEY: made}
            self._threads[thread_id] = thread.replace(metadata=metadata, updated_at=moment(now()))
        return made


class _Snapshots:
    """The domain `"workflows"`."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._values: dict[tuple[str, str], tuple[str, datetime | None]] = {}

    async def put(
        self,
        kind: str,
        id: str,
        value: Mapping[str, Any],
        *,
        expires_at: datetime | None = None,
    ) -> None:
        key = (text(kind, "kind"), text(id, "id"))
        ends = None if expires_at is None else moment(stamp(expires_at))
        made = checked_object(value, "value")
        with self._lock:
            self._forget_expired()
            self._values[key] = (made, ends)

    async def get(self, kind: str, id: str) -> dict[str, Any] | None:
        with self._lock:
            return self._read(self._values.get((kind, id)))

    async def take(self, kind: str, id: str) -> dict[str, Any] | None:
        with self._lock:
            return self._read(self._values.pop((kind, id), None))

    async def list_ids(self, kind: str) -> list[str]:
        with self._lock:
            self._forget_expired()
            return [id for each, id in self._values if each == kind]

    async def delete(self, kind: str, id: str) -> None:
        with self._lock:
            self._values.pop((kind, id), None)

    def _read(self, kept: tuple[str, datetime | None] | None) -> dict[str, Any] | None:
        if kept is None or (kept[1] is not None and kept[1] <= moment(now())):
            return None
        return from_json(kept[0])

    def _forget_expired(self) -> None:
        at = moment(now())
        for key, (_, ends) in list(self._values.items()):
            if ends is not None and ends <= at:
                del self._values[key]


def _copied(row: _R) -> _R:
    """A copy that shares nothing with `row`, and holds plain data only."""
    metadata = optional_object(optional_json(row.metadata))
    extra = optional_object(optional_json(row.extra))
    times = {
        "created_at": moment(stamp(row.created_at)),
        "updated_at": moment(stamp(row.updated_at)),
    }
    return row.replace(metadata=metadata, extra=extra, **times)


def _merged(row: _R, metadata: Mapping[str, Any] | UnsetType) -> _R:
    """A copy with keys of metadata written over the earlier ones, changed now."""
    changed = _copied(row.replace(updated_at=max(row.updated_at, moment(now()))))
    if metadata is not UNSET:
        changed.metadata = {**(changed.metadata or {}), **plain(metadata)}
    return changed


def _holds(there: str | None, facts: tuple[str, ...]) -> bool:
    """Whether all entries that are asked for are there."""
    return all(f"\n{fact}\n" in (there or "") for fact in facts)


def _part(found: list[_T], paging: Paging) -> list[_T]:
    if paging.limit is None:
        return list(found)
    return found[paging.offset : paging.offset + paging.limit]
