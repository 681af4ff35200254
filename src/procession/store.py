"""What is kept between runs: threads, their messages, working memory, and runs that wait (M-200).

A `Store` has domains: `"memory"` keeps conversations, `"workflows"` what a run needs to go on
later, `"observability"` traces (`procession.trace_store`). These are contracts; the stores that
come with the library are in `procession.stores`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    Self,
    TypedDict,
    overload,
    runtime_checkable,
)

from msgspec import UNSET, Struct, UnsetType, field

from .messages import Message
from .records import Record, format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from .trace_store import ObservabilityStore

__all__ = [
    "WORKING_MEMORY_KEY",
    "DateRange",
    "Include",
    "MemoryStore",
    "MessageFilter",
    "MessagePage",
    "OrderBy",
    "Resource",
    "Store",
    "Thread",
    "ThreadFilter",
    "ThreadPage",
    "Turn",
    "WorkflowStore",
]

WORKING_MEMORY_KEY = "workingMemory"
"""The key of a thread's metadata that holds its own working memory (M-121)."""


def _now() -> datetime:
    return datetime.now(UTC)


class _Row(Record, kw_only=True):
    """What a thread and a resource have in common: an id, free metadata, two times."""

    id: str
    metadata: dict[str, Any] | None = None
    created_at: datetime = field(default_factory=_now)
    updated_at: datetime = field(default_factory=_now)

    def to_json(self) -> dict[str, Any]:
        """The JSON form; times as ISO 8601 text."""
        times = {
            "createdAt": format_time(self.created_at),
            "updatedAt": format_time(self.updated_at),
        }
        return {**super().to_json(), **times}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """From the JSON form. A missing time is now."""
        times = {
            key: parse_time(data.get(key) or datetime.now(UTC))
            for key in ("createdAt", "updatedAt")
        }
        return super().from_json({**data, **times})


class Thread(_Row, kw_only=True):
    """One conversation. It belongs to one resource, for good (M-001)."""

    resource_id: str
    title: str | None = None


class Resource(_Row, kw_only=True):
    """The owner of threads - a user, a tenant - with the working memory they share (M-121)."""

    working_memory: str | None = None


class ThreadPage(Struct, kw_only=True):
    """A page of threads; `total` counts all that match, `per_page` is `False` for all (M-202)."""

    threads: list[Thread]
    total: int
    page: int
    per_page: int | Literal[False]
    has_more: bool


class MessagePage(Struct, kw_only=True):
    """A page of messages; `total` counts all that match, `per_page` is `False` for all (M-202).

    `messages` also holds what was asked for with `include`, each message once; neither `total` nor
    `has_more` counts that.
    """

    messages: list[Message]
    total: int
    page: int
    per_page: int | Literal[False]
    has_more: bool


class DateRange(TypedDict, total=False):
    """Both ends belong to the range, unless told otherwise."""

    start: datetime
    end: datetime
    start_exclusive: bool
    end_exclusive: bool


class ThreadFilter(TypedDict, total=False):
    """Threads of one resource; threads with these metadata (M-183)."""

    resource_id: str
    metadata: Mapping[str, Any]


class MessageFilter(TypedDict, total=False):
    """Messages created within a range; messages whose `content.metadata` has these entries.

    Every key must match. Values are texts, numbers, booleans or `None`, which matches an explicit
    null only; keys are identifiers (M-183).
    """

    date_range: DateRange
    metadata: Mapping[str, Any]


class OrderBy(TypedDict, total=False):
    """`field` is `created_at` (the default) or, for threads, `updated_at`."""

    field: Literal["created_at", "updated_at"]
    direction: Literal["ASC", "DESC"]


class Include(TypedDict, total=False):
    """A message, and how many of its neighbours in its own thread come with it (M-181)."""

    id: str
    with_previous_messages: int
    with_next_messages: int


class Turn(Struct, kw_only=True, frozen=True):
    """What one run leaves in a thread, saved in one transaction (M-107).

    `messages` are upserted in this order; a message of `replaced` is written only over one that is
    still in the thread; those of `deleted`, ids, are deleted from this thread. `title` and
    `metadata` are those of the thread if it has to be created. With `existed` the thread was there
    when the run began: if it is gone, somebody has deleted it, and nothing is saved. `at` becomes
    the thread's `updated_at`, unless that is later. Messages carry this thread and resource, or
    none.
    """

    thread_id: str
    resource_id: str
    messages: Sequence[Message] = ()
    replaced: Sequence[Message] = ()
    deleted: Sequence[str] = ()
    title: str | None = None
    metadata: dict[str, Any] | None = None
    existed: bool = False
    at: datetime = field(default_factory=_now)


class MemoryStore(Protocol):
    """The domain `"memory"`: threads, messages, resources (M-201).

    Values that are handed in and out are the caller's own: changing one changes nothing here. Each
    method is one transaction: it happens whole or not at all. All raise `StoreError` when the
    backend fails, and `InputError` for arguments of a wrong form.

    Nothing here checks who may see what: that is the caller's business (M-184). `resource_id`
    limits a reading method to what belongs to that resource.
    """

    async def get_thread_by_id(
        self, thread_id: str, resource_id: str | None = None
    ) -> Thread | None:
        """The thread; `None` if there is none, or none of this resource."""
        ...

    async def save_thread(self, thread: Thread) -> Thread:
        """Write the thread, over an earlier one of this id.

        Raises `OwnerError` if that belongs to another resource.
        """
        ...

    async def update_thread(
        self,
        id: str,
        title: str | UnsetType | None = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
    ) -> Thread:
        """Change what is given; keys of `metadata` are merged into those there are.

        Raises `InputError` if there is no such thread.
        """
        ...

    async def delete_thread(self, thread_id: str) -> None:
        """Delete the thread and its messages, if it is there."""
        ...

    async def list_threads(
        self,
        *,
        filter: ThreadFilter | None = None,
        page: int = 0,
        per_page: int | Literal[False] = 100,
        order_by: OrderBy | None = None,
    ) -> ThreadPage:
        """A page of threads, the one created last first, unless `order_by` says otherwise."""
        ...

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
        """A page of the messages of one thread or of several: by `created_at`, then insertion.

        `include` adds messages by id with neighbours of their own thread. They may be of any
        thread of `resource_id`, if that is given, else only of the threads named.
        """
        ...

    async def newest_messages(
        self,
        thread_id: str,
        limit: int,
        *,
        resource_id: str | None = None,
        before: str | None = None,
    ) -> list[Message]:
        """The newest `limit` messages in time order, or the newest before the message `before`.

        What it costs does not depend on how long the thread is: nothing is counted. If there is no
        message `before` in the thread, there is nothing before it.
        """
        ...

    async def list_messages_by_id(
        self, ids: Iterable[str], *, resource_id: str | None = None
    ) -> list[Message]:
        """The messages with these ids that there are, by `created_at`, then insertion."""
        ...

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
        ...

    async def save_messages(self, messages: Iterable[Message]) -> list[Message]:
        """Write messages, each over an earlier one of its id; what was saved comes back (M-087).

        Each needs a `thread_id`, and a `resource_id` if its thread has to be created. Raises
        `OwnerError` for a thread of another resource, and for an id that another thread has.
        """
        ...

    async def update_messages(self, partials: Iterable[Mapping[str, Any]]) -> list[Message]:
        """Change stored messages; those that are there come back, changed.

        Each partial is part of a message's JSON form: its `id`, and any of `role`, `type`,
        `createdAt` and `content`, of which the keys given are replaced and `metadata` is merged.
        """
        ...

    async def delete_messages(self, ids: Iterable[str]) -> None:
        """Delete the messages with these ids that there are."""
        ...

    async def save_turn(self, turn: Turn) -> None:
        """Save what a run leaves, whole or not at all; the same turn again changes nothing (M-107).

        The thread is created if it is missing (M-086), unless the turn says that it existed: then
        nothing happens. Raises `OwnerError`, and changes nothing, if the thread belongs to another
        resource or a message id to another thread.
        """
        ...

    async def get_resource_by_id(self, id: str) -> Resource | None:
        """The resource, or `None`."""
        ...

    async def save_resource(self, resource: Resource) -> Resource:
        """Write the resource, over an earlier one of this id."""
        ...

    async def update_resource(
        self,
        id: str,
        working_memory: str | UnsetType | None = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
    ) -> Resource:
        """Change what is given, and create the resource if it is missing; metadata are merged."""
        ...

    async def delete_resource(self, id: str) -> None:
        """Delete the resource, all its threads, and their messages, as far as they are there."""
        ...

    async def change_working_memory(
        self,
        *,
        change: Callable[[str | None], str | None],
        resource_id: str | None = None,
        thread_id: str | None = None,
    ) -> str | None:
        """Read, change and write the working memory with nobody in between; the new one (M-128).

        With `thread_id` it is that thread's own (M-121), else the resource's. With both, a missing
        thread is created, and one of another resource raises `OwnerError`. `change` gets what there
        is, or `None`, and gives what shall be; what it raises is raised here, and nothing changes.
        It may be called in another thread, and again if the backend asks for another attempt: it
        is quick, and does nothing else.
        """
        ...


class WorkflowStore(Protocol):
    """The domain `"workflows"`: what a run needs to go on later, by kind and id.

    Values are JSON objects. What has expired is not there any more.
    """

    async def put(
        self,
        kind: str,
        id: str,
        value: Mapping[str, Any],
        *,
        expires_at: datetime | None = None,
    ) -> None:
        """Keep `value`, in place of an earlier one of this kind and id."""
        ...

    async def get(self, kind: str, id: str) -> dict[str, Any] | None:
        """The value, or `None`."""
        ...

    async def take(self, kind: str, id: str) -> dict[str, Any] | None:
        """The value, which is gone thereby: of several who ask, in any process, one gets it."""
        ...

    async def list_ids(self, kind: str) -> list[str]:
        """The ids of a kind, in the order in which they were first put."""
        ...

    async def delete(self, kind: str, id: str) -> None:
        """Forget the value, if it is there."""
        ...


@runtime_checkable
class Store(Protocol):
    """A place where things are kept, by domain (M-200).

    It starts by itself when it is first used; `start()` does so at once, and tells of a set-up that
    cannot work. `close()` gives up its connections and threads. As an async context manager it does
    both.
    """

    @overload
    def get_store(self, domain: Literal["memory"]) -> MemoryStore: ...
    @overload
    def get_store(self, domain: Literal["workflows"]) -> WorkflowStore: ...
    @overload
    def get_store(self, domain: Literal["observability"]) -> ObservabilityStore: ...
    @overload
    def get_store(self, domain: str) -> Any: ...
    def get_store(self, domain: str) -> Any:
        """The domain. Raises `ConfigurationError` for one that this store does not have."""
        ...

    async def start(self) -> None:
        """Connect, and bring the stored form up to date. Twice is once."""
        ...

    async def close(self) -> None:
        """Let go of connections and threads. Twice is once."""
        ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
