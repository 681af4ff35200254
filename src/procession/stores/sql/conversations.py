"""The domain `"memory"` in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, UnsetType

from ..encoding import now, text
from ..queries import Paging, ids_of, includes_of, order_of, range_of, thread_filter
from ..turns import partials_of, write_of, writes_of
from . import messages as _messages
from . import resources as _resources
from . import threads as _threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...messages import Message
    from ...store import (
        Include,
        MessageFilter,
        MessagePage,
        OrderBy,
        Resource,
        Thread,
        ThreadFilter,
        ThreadPage,
        Turn,
    )
    from .script import Backend, Script

__all__ = ["SqlConversations"]


class SqlConversations:
    """Threads, messages and resources; see `MemoryStore`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._dialect = backend.dialect

    async def get_thread_by_id(
        self, thread_id: str, resource_id: str | None = None
    ) -> Thread | None:
        """The thread; `None` if there is none, or none of this resource."""
        return await self._backend.read(
            lambda: _threads.get_thread(thread_id, resource_id), single=True
        )

    async def save_thread(self, thread: Thread) -> Thread:
        """Write the thread, over an earlier one of this id."""
        text(thread.id, "a thread's id")
        text(thread.resource_id, "a thread's resource_id")
        return await self._backend.write(lambda: _threads.put_thread(thread))

    async def update_thread(
        self,
        id: str,
        title: str | UnsetType | None = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
    ) -> Thread:
        """Change what is given; keys of `metadata` are merged into those there are."""
        return await self._backend.write(
            lambda: _threads.update_thread(self._dialect, id, title, metadata)
        )

    async def delete_thread(self, thread_id: str) -> None:
        """Delete the thread and its messages, if it is there."""
        await self._backend.write(lambda: _threads.delete_thread(thread_id))

    async def list_threads(
        self,
        *,
        filter: ThreadFilter | None = None,
        page: int = 0,
        per_page: int | Literal[False] = 100,
        order_by: OrderBy | None = None,
    ) -> ThreadPage:
        """A page of threads, the one created last first, unless `order_by` says otherwise."""
        paging = Paging.of(page, per_page)
        order = order_of(order_by, ("created_at", "updated_at"), latest_first=True)
        resource_id, facts = thread_filter(filter)
        return await self._backend.read(
            lambda: _threads.list_threads(self._dialect, resource_id, facts, paging, order)
        )

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
        """A page of the messages of one thread or of several: by `created_at`, then insertion."""
        threads = ids_of(thread_id, "thread_id")
        paging, asked = Paging.of(page, per_page), range_of(filter)
        order, around = order_of(order_by, ("created_at",)), includes_of(include)
        return await self._backend.read(
            lambda: _messages.list_messages(
                self._dialect, threads, resource_id, asked, around, paging, order
            )
        )

    async def newest_messages(
        self,
        thread_id: str,
        limit: int,
        *,
        resource_id: str | None = None,
        before: str | None = None,
    ) -> list[Message]:
        """The newest `limit` messages in time order, or the newest before the message `before`."""
        Paging.of(0, limit)
        return await self._backend.read(
            lambda: _messages.newest_messages(thread_id, limit, resource_id, before), single=True
        )

    async def list_messages_by_id(
        self, ids: Iterable[str], *, resource_id: str | None = None
    ) -> list[Message]:
        """The messages with these ids that there are, by `created_at`, then insertion."""
        asked = ids_of(ids, "ids")
        return await self._backend.read(
            lambda: _messages.list_by_id(asked, resource_id),
            single=len(asked) <= _messages.AT_A_TIME,
        )

    async def list_messages_by_resource_id(
        self,
        resource_id: str,
        *,
        page: int = 0,
        per_page: int | Literal[False] = 40,
        filter: MessageFilter | None = None,
        order_by: OrderBy | None = None,
    ) -> MessagePage:
        """A page of the messages of all threads of a resource."""
        text(resource_id, "resource_id")
        paging, asked = Paging.of(page, per_page), range_of(filter)
        order = order_of(order_by, ("created_at",))
        return await self._backend.read(
            lambda: _messages.list_by_resource(self._dialect, resource_id, asked, paging, order)
        )

    async def save_messages(self, messages: Iterable[Message]) -> list[Message]:
        """Write messages, each over an earlier one of its id; what was saved comes back."""
        given = list(messages)
        writes = writes_of(given, now())

        def script() -> Script[list[Message]]:
            yield from _messages.write_all(self._dialect, writes)
            saved = yield from _messages.list_by_id([message.id for message in given], None)
            by_id = {message.id: message for message in saved}
            return [by_id[message.id] for message in given]

        return await self._backend.write(script)

    async def update_messages(self, partials: Iterable[Mapping[str, Any]]) -> list[Message]:
        """Change stored messages; those that are there come back, changed."""
        asked = partials_of(partials)
        return await self._backend.write(lambda: _messages.update_messages(self._dialect, asked))

    async def delete_messages(self, ids: Iterable[str]) -> None:
        """Delete the messages with these ids that there are."""
        asked = ids_of(ids, "ids")
        await self._backend.write(lambda: _messages.delete_messages(asked))

    async def save_turn(self, turn: Turn) -> None:
        """Save what a run leaves, whole or not at all; the same turn again changes nothing."""
        write = write_of(turn)
        await self._backend.write(lambda: _messages.write_all(self._dialect, [write]))

    async def get_resource_by_id(self, id: str) -> Resource | None:
        """The resource, or `None`."""
        return await self._backend.read(lambda: _resources.get_resource(id), single=True)

    async def save_resource(self, resource: Resource) -> Resource:
        """Write the resource, over an earlier one of this id."""
        text(resource.id, "a resource's id")
        return await self._backend.write(lambda: _resources.put_resource(resource))

    async def update_resource(
        self,
        id: str,
        working_memory: str | UnsetType | None = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
    ) -> Resource:
        """Change what is given, and create the resource if it is missing; metadata are merged."""
        text(id, "id")
        return await self._backend.write(
            lambda: _resources.update_resource(self._dialect, id, working_memory, metadata)
        )

    async def delete_resource(self, id: str) -> None:
        """Delete the resource, all its threads, and their messages, as far as they are there."""
        owner = text(id, "id")
        await self._backend.write(lambda: _resources.delete_resource(owner))

    async def change_working_memory(
        self,
        *,
        change: Callable[[str | None], str | None],
        resource_id: str | None = None,
        thread_id: str | None = None,
    ) -> str | None:
        """Read, change and write the working memory with nobody in between; the new one."""
        if thread_id is not None:
            id = text(thread_id, "thread_id")
            return await self._backend.write(
                lambda: _resources.change_of_thread(self._dialect, id, resource_id, change)
            )
        owner = text(resource_id, "resource_id or thread_id")
        return await self._backend.write(
            lambda: _resources.change_of_resource(self._dialect, owner, change)
        )
