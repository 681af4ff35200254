"""Scripts for messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..encoding import MessageRow, message_of
from ..turns import changed_row, foreign_message
from .columns import full, key_of, long_ids, optional_plain, optional_safe, plain_text, safe_text
from .script import Ask, AskMany, marks
from .threads import hold_thread, part, raise_update_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...messages import Message
    from ...store import MessagePage
    from ..queries import Around, Order, Paging, Range
    from ..turns import Write
    from .script import Dialect, Row, Script

__all__ = [
    "AT_A_TIME",
    "delete_messages",
    "list_by_id",
    "list_by_resource",
    "list_messages",
    "newest_messages",
    "update_messages",
    "write_all",
]

_COLUMNS = "key, thread, owner, long, role, type, created_at, content, extra, seq"
AT_A_TIME = 500
"""So many ids are asked for in one statement."""


def _row_of(row: Row) -> MessageRow:
    key, thread, owner, long, role, kind, created_at, content, extra, _ = row
    return MessageRow(
        id=full("id", key, long),
        thread_id=full("thread", thread, long),
        resource_id=full("owner", owner, long),
        role=plain_text(role),
        type=optional_plain(kind),
        created_at=created_at,
        content=content,
        extra=extra,
    )


def _columns_of(row: MessageRow) -> tuple[Any, ...]:
    """The values of `_WRITE`."""
    return (
        key_of(row.id),
        key_of(row.thread_id),
        key_of(row.resource_id),
        long_ids(id=row.id, thread=row.thread_id, owner=row.resource_id),
        *_changing(row),
    )


def _changing(row: MessageRow) -> tuple[Any, ...]:
    """The values that another version of the message may change."""
    return (
        safe_text(row.role),
        optional_safe(row.type),
        row.created_at,
        row.content,
        row.facts,
        row.extra,
    )


def _messages(rows: list[Row]) -> list[Message]:
    return [message_of(_row_of(row)) for row in rows]


def _in_time(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row[6], row[9]))


# writing

_WRITE = """
    INSERT INTO procession_messages
        (key, thread, owner, long, role, type, created_at, content, facts, extra)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET
        role = excluded.role, type = excluded.type, created_at = excluded.created_at,
        content = excluded.content, facts = excluded.facts, extra = excluded.extra
"""

_REPLACE = """
    UPDATE procession_messages
    SET role = ?, type = ?, created_at = ?, content = ?, facts = ?, extra = ?
    WHERE key = ? AND thread = ?
"""


def write_all(dialect: Dialect, writes: Sequence[Write]) -> Script[None]:
    """Save turns; in the order of threads, so that no two writers wait for each other."""
    for write in sorted(writes, key=lambda write: key_of(write.thread_id)):
        yield from _write(dialect, write)


def _write(dialect: Dialect, write: Write) -> Script[None]:
    held = yield from hold_thread(
        dialect,
        write.thread_id,
        write.resource_id,
        write.at,
        write.title,
        write.metadata,
        write.facts,
        must_exist=write.existed,
    )
    if held is None:
        return
    yield raise_update_time(write.thread_id, write.at)
    thread, owner = key_of(write.thread_id), held.resource_id
    if write.deleted:
        sql = "DELETE FROM procession_messages WHERE key = ? AND thread = ?"
        yield AskMany(sql, [(key_of(id), thread) for id in write.deleted])
    if write.replaced:
        yield AskMany(
            _REPLACE, [(*_changing(row), key_of(row.id), thread) for row in write.replaced]
        )
    rows = [row._replace(resource_id=owner) for row in write.rows]
    if rows:
        yield AskMany(_WRITE, [_columns_of(row) for row in rows])
        yield from _check_written(write.thread_id, [row.id for row in rows])


def _check_written(thread_id: str, ids: list[str]) -> Script[None]:
    """A message stays in its thread: one that is in another undoes everything."""
    for some in _batches(ids):
        sql = (
            "SELECT key, thread, long FROM procession_messages "
            f"WHERE key IN ({marks(some)}) AND thread <> ?"
        )
        rows = yield Ask(sql, [*map(key_of, some), key_of(thread_id)])
        for key, thread, long in rows:
            raise foreign_message(full("id", key, long), full("thread", thread, long), thread_id)


def update_messages(
    dialect: Dialect, partials: Mapping[str, Mapping[str, Any]]
) -> Script[list[Message]]:
    """Change those messages that are there."""
    rows = yield from _by_id(list(partials), dialect.locked)
    there = {row.id: row for row in map(_row_of, rows)}
    changed = [changed_row(there[id], partial) for id, partial in partials.items() if id in there]
    if changed:
        yield AskMany(
            _REPLACE,
            [(*_changing(row), key_of(row.id), key_of(row.thread_id)) for row in changed],
        )
    return [message_of(row) for row in changed]


def delete_messages(ids: list[str]) -> Script[None]:
    """Delete those messages that are there."""
    if ids:
        sql = "DELETE FROM procession_messages WHERE key = ?"
        yield AskMany(sql, [(key_of(id),) for id in sorted(ids)])


# reading


def _by_id(ids: list[str], locked: str = "") -> Script[list[Row]]:
    found: list[Row] = []
    for some in _batches(sorted(ids)):
        sql = f"SELECT {_COLUMNS} FROM procession_messages WHERE key IN ({marks(some)})"
        found += yield Ask(f"{sql} ORDER BY key{locked}", [key_of(id) for id in some])
    return found


def _batches(ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(ids), AT_A_TIME):
        yield ids[start : start + AT_A_TIME]


def list_by_id(ids: list[str], resource_id: str | None) -> Script[list[Message]]:
    """The messages with these ids, in order of time."""
    rows = yield from _by_id(ids)
    owner = None if resource_id is None else key_of(resource_id)
    return _messages(_in_time([row for row in rows if owner in (None, row[2])]))


def newest_messages(
    thread_id: str, limit: int, resource_id: str | None, before: str | None
) -> Script[list[Message]]:
    """The last messages of a thread, or the last before one, in order of time."""
    thread = key_of(thread_id)
    sql = f"SELECT {_COLUMNS} FROM procession_messages WHERE thread = ?"
    values: list[Any] = [thread]
    if resource_id is not None:
        sql += " AND (SELECT owner FROM procession_threads WHERE key = ?) = ?"
        values += [thread, key_of(resource_id)]
    if before is not None:
        sql += (
            " AND (created_at, seq) < (SELECT created_at, seq FROM procession_messages"
            " WHERE key = ? AND thread = ?)"
        )
        values += [key_of(before), thread]
    rows = yield Ask(f"{sql} ORDER BY created_at DESC, seq DESC LIMIT ?", [*values, limit])
    return _messages(rows[::-1])


def list_messages(
    dialect: Dialect,
    thread_ids: list[str],
    resource_id: str | None,
    asked: Range,
    around: list[Around],
    paging: Paging,
    order: Order,
) -> Script[MessagePage]:
    """A page of the messages of some threads, with others that shall come along."""
    threads = [key_of(id) for id in thread_ids]
    if resource_id is not None:
        # The owner of a thread is the owner of its messages, which need not be looked at for it.
        sql = f"SELECT key FROM procession_threads WHERE key IN ({marks(threads)}) AND owner = ?"
        rows = yield Ask(sql, [*threads, key_of(resource_id)])
        threads = [row[0] for row in rows]
    here = (f"thread IN ({marks(threads)})", threads)
    near: list[Row] = []
    for each in around:
        # Messages of other threads of the same owner may come along, those of others may not.
        within = ("owner = ?", [key_of(resource_id)]) if resource_id is not None else here
        near += yield from _neighbours(each, *within)
    return (yield from _page(dialect, here, asked, near, paging, order))


def list_by_resource(
    dialect: Dialect, resource_id: str, asked: Range, paging: Paging, order: Order
) -> Script[MessagePage]:
    """A page of the messages of all threads of a resource."""
    here = ("owner = ?", [key_of(resource_id)])
    return (yield from _page(dialect, here, asked, [], paging, order))


def _page(
    dialect: Dialect,
    here: tuple[str, Sequence[Any]],
    asked: Range,
    near: list[Row],
    paging: Paging,
    order: Order,
) -> Script[MessagePage]:
    where, values = _where(dialect, here, asked)
    counted = yield Ask(f"SELECT count(*) FROM procession_messages WHERE {where}", values)
    way = "DESC" if order.latest_first else "ASC"
    sql = (
        f"SELECT {_COLUMNS} FROM procession_messages WHERE {where} "
        f"ORDER BY created_at {way}, seq {way}"
    )
    own = yield part(sql, values, paging)
    shown = own
    if near:
        shown = _in_time(list({row[9]: row for row in (*own, *near)}.values()))
        shown = shown[::-1] if order.latest_first else shown
    return paging.messages(_messages(shown), counted[0][0], len(own))


def _where(
    dialect: Dialect, here: tuple[str, Sequence[Any]], asked: Range
) -> tuple[str, list[Any]]:
    tests, values = [here[0]], list(here[1])
    for test, bound in (("created_at >= ?", asked.first), ("created_at <= ?", asked.last)):
        if bound is not None:
            tests.append(test)
            values.append(bound)
    for fact in asked.facts:
        tests.append(f"{dialect.find}(facts, ?) > 0")
        values.append(f"\n{fact}\n")
    return " AND ".join(tests), values


def _neighbours(around: Around, where: str, values: Sequence[Any]) -> Script[list[Row]]:
    """A message, and those beside it in its own thread."""
    sql = f"SELECT {_COLUMNS} FROM procession_messages WHERE key = ? AND {where}"
    found = yield Ask(sql, [key_of(around.id), *values])
    for sign, way, limit in (("<", "DESC", around.before), (">", "ASC", around.after)):
        if found and limit:
            thread, created_at, seq = found[0][1], found[0][6], found[0][9]
            sql = (
                f"SELECT {_COLUMNS} FROM procession_messages "
                f"WHERE thread = ? AND (created_at, seq) {sign} (?, ?) "
                f"ORDER BY created_at {way}, seq {way} LIMIT ?"
            )
            found += yield Ask(sql, (thread, created_at, seq, limit))
    return found
