"""Scripts for resources, and for working memory wherever it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import UNSET, UnsetType

from ...store import WORKING_MEMORY_KEY, Resource
from ..encoding import (
    from_json,
    moment,
    now,
    optional_json,
    optional_object,
    stamp,
    to_json,
)
from ..turns import noted
from .columns import full, key_of, long_ids, optional_plain, optional_safe
from .script import Ask
from .threads import get_thread, hold_thread, put_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .script import Dialect, Row, Script

__all__ = [
    "change_of_resource",
    "change_of_thread",
    "delete_resource",
    "get_resource",
    "put_resource",
    "update_resource",
]

_COLUMNS = "key, long, working_memory, metadata, extra, created_at, updated_at"


def _resource_of(row: Row) -> Resource:
    key, long, working_memory, metadata, extra, created_at, updated_at = row
    return Resource(
        id=full("id", key, long),
        working_memory=optional_plain(working_memory),
        metadata=optional_object(metadata),
        extra=optional_object(extra),
        created_at=moment(created_at),
        updated_at=moment(updated_at),
    )


def get_resource(id: str) -> Script[Resource | None]:
    """The resource, if it is there."""
    sql = f"SELECT {_COLUMNS} FROM procession_resources WHERE key = ?"
    rows = yield Ask(sql, (key_of(id),))
    return _resource_of(rows[0]) if rows else None


_PUT = f"""
    INSERT INTO procession_resources ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET
        working_memory = excluded.working_memory, metadata = excluded.metadata,
        extra = excluded.extra, created_at = excluded.created_at, updated_at = excluded.updated_at
"""


def put_resource(resource: Resource) -> Script[Resource]:
    """Write a resource over an earlier one."""
    values = (
        key_of(resource.id),
        long_ids(id=resource.id),
        optional_safe(resource.working_memory),
        optional_json(resource.metadata),
        optional_json(resource.extra),
        stamp(resource.created_at),
        stamp(resource.updated_at),
    )
    yield Ask(_PUT, values)
    return _resource_of(values)


# The update changes nothing: it makes the row this transaction's own, there or not.
_HOLD = """
    INSERT INTO procession_resources (key, long, created_at, updated_at) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET updated_at = procession_resources.updated_at
"""


def _hold_resource(dialect: Dialect, id: str) -> Script[Resource]:
    """The resource, which nobody else changes now; it is made if it is missing."""
    at = now()
    yield Ask(_HOLD, (key_of(id), long_ids(id=id), at, at))
    sql = f"SELECT {_COLUMNS} FROM procession_resources WHERE key = ?{dialect.locked}"
    rows = yield Ask(sql, (key_of(id),))
    return _resource_of(rows[0])


def update_resource(
    dialect: Dialect,
    id: str,
    working_memory: str | UnsetType | None,
    metadata: Mapping[str, Any] | UnsetType,
) -> Script[Resource]:
    """Change a resource, which is made if it is missing."""
    resource = yield from _hold_resource(dialect, id)
    if working_memory is not UNSET:
        resource.working_memory = working_memory
    if metadata is not UNSET:
        resource.metadata = {**(resource.metadata or {}), **from_json(to_json(metadata))}
    resource.updated_at = max(resource.updated_at, moment(now()))
    return (yield from put_resource(resource))


def delete_resource(id: str) -> Script[None]:
    """Delete a resource, its threads, then their messages: whoever adds some holds the thread.

    What begins at the same time keeps its messages together with its thread.
    """
    owner = (key_of(id),)
    yield Ask("DELETE FROM procession_threads WHERE owner = ?", owner)
    yield Ask(
        "DELETE FROM procession_messages WHERE owner = ? AND NOT EXISTS "
        "(SELECT 1 FROM procession_threads WHERE key = procession_messages.thread)",
        owner,
    )
    yield Ask("DELETE FROM procession_resources WHERE key = ?", owner)


Change: TypeAlias = "Callable[[str | None], str | None]"


def change_of_resource(dialect: Dialect, id: str, change: Change) -> Script[str | None]:
    """Change the working memory that a resource's threads share."""
    there = yield from get_resource(id)
    if there is None and change(None) is None:
        return None  # nothing was there, and nothing shall be
    resource = yield from _hold_resource(dialect, id)
    before = resource.working_memory
    resource.working_memory = after = change(before)
    if after != before:
        resource.updated_at = max(resource.updated_at, moment(now()))
        yield from put_resource(resource)
    return after


def change_of_thread(
    dialect: Dialect, thread_id: str, owner: str | None, change: Change
) -> Script[str | None]:
    """Change a thread's own working memory."""
    there = yield from get_thread(thread_id, None)
    if there is None and owner is not None and change(None) is None:
        return None
    thread = yield from hold_thread(dialect, thread_id, owner, now())
    assert thread is not None  # it is made
    metadata = thread.metadata or {}
    before = metadata.get(WORKING_MEMORY_KEY)
    after = change(before)
    if after != before:
        thread.metadata = noted(metadata, after)
        thread.updated_at = max(thread.updated_at, moment(now()))
        yield from put_thread(thread)
    return after
