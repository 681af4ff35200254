"""What is to be written, checked before any store is touched: turns, messages and partial ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..errors import InputError, OwnerError
from ..messages import Message
from ..records import parse_time
from ..store import WORKING_MEMORY_KEY
from .encoding import MessageRow, facts_of, from_json, optional_json, row_of, stamp, text
from .queries import ids_of

if TYPE_CHECKING:
    from ..store import Turn

__all__ = [
    "Write",
    "changed_row",
    "foreign_message",
    "foreign_thread",
    "noted",
    "write_of",
    "writes_of",
]


class Write(NamedTuple):
    """What goes into one thread; `resource_id` is `None` if the thread has to be there already.

    With `existed`, nothing is written if it is not.
    """

    thread_id: str
    resource_id: str | None
    rows: list[MessageRow]
    replaced: list[MessageRow]
    deleted: list[str]
    title: str | None
    metadata: str | None
    facts: str | None
    at: int
    existed: bool = False


def write_of(turn: Turn) -> Write:
    """A turn, checked. Raises `InputError`, or `OwnerError` for a message of somebody else."""
    thread_id = text(turn.thread_id, "a turn's thread_id")
    resource_id = text(turn.resource_id, "a turn's resource_id")
    rows = [_own_row(message, thread_id, resource_id) for message in turn.messages]
    replaced = [_own_row(message, thread_id, resource_id) for message in turn.replaced]
    deleted = ids_of(turn.deleted, "a turn's deleted")
    kept = {row.id for row in (*rows, *replaced)}
    if not kept.isdisjoint(deleted):
        raise InputError("a turn cannot both save and delete a message: its id is among deleted")
    return Write(
        thread_id,
        resource_id,
        list({row.id: row for row in rows}.values()),
        replaced,
        deleted,
        turn.title,
        optional_json(turn.metadata),
        facts_of(turn.metadata),
        stamp(turn.at),
        turn.existed,
    )


def _own_row(message: Message, thread_id: str, resource_id: str) -> MessageRow:
    if message.thread_id not in (None, thread_id):
        raise foreign_message(message.id, str(message.thread_id), thread_id)
    if message.resource_id not in (None, resource_id):
        raise OwnerError(
            f"message {shown(message.id)} belongs to resource {shown(str(message.resource_id))}, "
            f"not to {shown(resource_id)}"
        )
    return row_of(message, thread_id, resource_id)


def writes_of(messages: Iterable[Message], at: int) -> list[Write]:
    """Messages by the thread they belong to. Raises `InputError` for one without a thread."""
    writes: dict[str, Write] = {}
    for message in messages:
        if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"only a Message can be saved, not {type(message).__name__}")
        thread_id = text(message.thread_id, "thread_id of a message to save")
        owner = message.resource_id
        write = writes.get(thread_id)
        if write is None:
            write = Write(thread_id, owner, [], [], [], None, None, None, at)
        elif None not in (owner, write.resource_id) and owner != write.resource_id:
            raise foreign_thread(thread_id, str(write.resource_id), str(owner))
        write.rows.append(row_of(message, thread_id, owner or write.resource_id or ""))
        writes[thread_id] = write._replace(resource_id=write.resource_id or owner)
    return list(writes.values())


def changed_row(row: MessageRow, partial: Mapping[str, Any]) -> MessageRow:
    """A row with part of a message's JSON form written over it."""
    content = from_json(row.content)
    given: Any = partial.get("content") or {}
    if not isinstance(given, Mapping):
        raise InputError("content of a partial message must be an object")
    fresh = dict(cast("Mapping[str, Any]", given))
    if isinstance(fresh.get("metadata"), Mapping):
        fresh["metadata"] = {**(content.get("metadata") or {}), **fresh["metadata"]}
    whole = Message.from_json(
        {
            "id": row.id,
            "role": partial.get("role", row.role),
            "type": partial.get("type", row.type),
            "createdAt": parse_time(partial["createdAt"]) if "createdAt" in partial else None,
            "content": {**content, **fresh},
        }
    )
    changed = row_of(whole, row.thread_id, row.resource_id)
    created_at = changed.created_at if "createdAt" in partial else row.created_at
    return changed._replace(created_at=created_at, extra=row.extra)


def partials_of(partials: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Partial messages by id; the last one of an id counts."""
    found: dict[str, Mapping[str, Any]] = {}
    for partial in partials:
        if not isinstance(partial, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"a partial message is a mapping, not {type(partial).__name__}")
        found[text(partial.get("id"), "id of a partial message")] = partial
    return found


def noted(metadata: Mapping[str, Any], notes: str | None) -> dict[str, Any]:
    """A thread's metadata with these notes; with none, there is no entry for them."""
    found = {**metadata, WORKING_MEMORY_KEY: notes}
    if notes is None:
        del found[WORKING_MEMORY_KEY]
    return found


def foreign_thread(thread_id: str, owner: str, asked: str) -> OwnerError:
    """The error for a thread that belongs to another resource (M-004)."""
    return OwnerError(
        f"thread {shown(thread_id)} belongs to resource {shown(owner)}, not to {shown(asked)}"
    )


def foreign_message(message_id: str, owner: str, asked: str) -> OwnerError:
    """The error for a message id that another thread has."""
    return OwnerError(
        f"message {shown(message_id)} belongs to thread {shown(owner)}, not to {shown(asked)}"
    )


def missing_owner(thread_id: str) -> InputError:
    """The error for a thread that is missing, and cannot be made without an owner."""
    return InputError(f"there is no thread {shown(thread_id)}, and no resource_id to make it with")


def missing_thread(thread_id: str) -> InputError:
    """The error for a thread that is to be changed and is not there."""
    return InputError(f"there is no thread {shown(thread_id)}")


def shown(id: str) -> str:
    """An id in an error, cut if it is long."""
    return ascii(id if len(id) <= 80 else f"{id[:77]}...")
