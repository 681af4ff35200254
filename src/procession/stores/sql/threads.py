"""Scripts for threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from ...store import Thread
from ..encoding import (
    facts_of,
    from_json,
    moment,
    now,
    optional_json,
    optional_object,
    stamp,
    to_json,
)
from ..turns import foreign_thread, missing_owner, missing_thread
from .columns import full, key_of, long_ids, optional_plain, optional_safe
from .script import Ask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...store import ThreadPage
    from ..queries import Order, Paging
    from .script import Dialect, Row, Script

__all__ = ["delete_thread", "get_thread", "hold_thread", "list_threads", "put_thread"]

_COLUMNS = "key, owner, long, title, metadata, extra, created_at, updated_at"


def _thread_of(row: Row) -> Thread:
    key, owner, long, title, metadata, extra, created_at, updated_at = row
    return Thread(
        id=full("id", key, long),
        resource_id=full("owner", owner, long),
        title=optional_plain(title),
        metadata=optional_object(metadata),
        extra=optional_object(extra),
        created_at=moment(created_at),
        updated_at=moment(updated_at),
    )


def get_thread(thread_id: str, resource_id: str | None) -> Script[Thread | None]:
    """The thread, if it is of that resource."""
    sql = f"SELECT {_COLUMNS} FROM procession_threads WHERE key = ?"
    rows = yield Ask(sql, (key_of(thread_id),))
    thread = _thread_of(rows[0]) if rows else None
    return None if thread and resource_id not in (None, thread.resource_id) else thread


def list_threads(
    dialect: Dialect, owner: str | None, facts: tuple[str, ...], paging: Paging, order: Order
) -> Script[ThreadPage]:
    """A page of threads."""
    tests = ["owner = ?"] if owner else []
    values: list[Any] = [key_of(owner)] if owner else []
    for fact in facts:
        tests.append(f"{dialect.find}(facts, ?) > 0")
        values.append(f"\n{fact}\n")
    where = " WHERE " + " AND ".join(tests) if tests else ""
    counted = yield Ask(f"SELECT count(*) FROM procession_threads{where}", values)
    way = "DESC" if order.latest_first else "ASC"
    sql = (
        f"SELECT {_COLUMNS} FROM procession_threads{where} ORDER BY {order.field} {way}, seq {way}"
    )
    rows = yield part(sql, values, paging)
    return paging.threads([_thread_of(row) for row in rows], counted[0][0])


def part(sql: str, values: list[Any], paging: Paging) -> Ask:
    """The statement for a page."""
    if paging.limit is None:
        return Ask(sql, values)
    return Ask(f"{sql} LIMIT ? OFFSET ?", [*values, paging.limit, paging.offset])


_PUT = """
    INSERT INTO procession_threads
        (key, owner, long, title, metadata, facts, extra, created_at, updated_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET
        title = excluded.title, metadata = excluded.metadata, facts = excluded.facts,
        extra = excluded.extra, created_at = excluded.created_at, updated_at = excluded.updated_at
    WHERE procession_threads.owner = excluded.owner
"""


def put_thread(thread: Thread) -> Script[Thread]:
    """Write a thread over an earlier one of the same resource."""
    yield Ask(
        _PUT,
        (
            *_identity(thread.id, thread.resource_id),
            optional_safe(thread.title),
            optional_json(thread.metadata),
            facts_of(thread.metadata),
            optional_json(thread.extra),
            stamp(thread.created_at),
            stamp(thread.updated_at),
        ),
    )
    there = yield from _own(thread.id, thread.resource_id)
    return _thread_of(there)


def _identity(thread_id: str, owner: str) -> tuple[str, str, str | None]:
    return key_of(thread_id), key_of(owner), long_ids(id=thread_id, owner=owner)


def _own(thread_id: str, owner: str) -> Script[Row]:
    """The row of a thread that is there. Raises `OwnerError` if it is somebody else's."""
    sql = f"SELECT {_COLUMNS} FROM procession_threads WHERE key = ?"
    rows = yield Ask(sql, (key_of(thread_id),))
    if rows[0][1] != key_of(owner):
        raise foreign_thread(thread_id, full("owner", rows[0][1], rows[0][2]), owner)
    return rows[0]


# The update changes nothing: it makes the row this transaction's own, there or not.
_HOLD = """
    INSERT INTO procession_threads
        (key, owner, long, title, metadata, facts, created_at, updated_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET updated_at = procession_threads.updated_at
"""


def hold_thread(
    dialect: Dialect,
    thread_id: str,
    owner: str | None,
    at: int,
    title: str | None = None,
    metadata: str | None = None,
    facts: str | None = None,
    *,
    must_exist: bool = False,
) -> Script[Thread | None]:
    """The thread, which nobody else changes now; it is made if it is missing and has an owner.

    `None` for one that is missing and must exist.
    """
    sql = f"SELECT {_COLUMNS} FROM procession_threads WHERE key = ?{dialect.locked}"
    rows = yield Ask(sql, (key_of(thread_id),))
    if not rows:
        if must_exist:
            return None
        if owner is None:
            raise missing_owner(thread_id)
        identity = _identity(thread_id, owner)
        yield Ask(_HOLD, (*identity, optional_safe(title), metadata, facts, at, at))
        rows = yield Ask(sql, (key_of(thread_id),))
    thread = _thread_of(rows[0])
    if owner not in (None, thread.resource_id):
        raise foreign_thread(thread_id, thread.resource_id, str(owner))
    return thread


def raise_update_time(thread_id: str, at: int) -> Ask:
    """The statement that makes a thread as new as this."""
    sql = "UPDATE procession_threads SET updated_at = ? WHERE key = ? AND updated_at < ?"
    return Ask(sql, (at, key_of(thread_id), at))


def update_thread(
    dialect: Dialect,
    thread_id: str,
    title: str | UnsetType | None,
    metadata: Mapping[str, Any] | UnsetType,
) -> Script[Thread]:
    """Change title or metadata of a thread that is there."""
    sql = f"SELECT {_COLUMNS} FROM procession_threads WHERE key = ?{dialect.locked}"
    rows = yield Ask(sql, (key_of(thread_id),))
    if not rows:
        raise missing_thread(thread_id)
    thread = _thread_of(rows[0])
    if title is not UNSET:
        thread.title = title
    if metadata is not UNSET:
        thread.metadata = {**(thread.metadata or {}), **from_json(to_json(metadata))}
    thread.updated_at = max(thread.updated_at, moment(now()))
    return (yield from put_thread(thread))


def delete_thread(thread_id: str) -> Script[None]:
    """Delete a thread, then its messages: whoever adds some holds the thread."""
    key = (key_of(thread_id),)
    yield Ask("DELETE FROM procession_threads WHERE key = ?", key)
    yield Ask("DELETE FROM procession_messages WHERE thread = ?", key)
