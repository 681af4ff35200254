"""Messages in order of time, by thread."""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from ..encoding import MessageRow, message_of

if TYPE_CHECKING:
    from ...store import MessagePage
    from ..queries import Around, Order, Paging, Range

__all__ = ["Place", "Rows", "holds", "part"]

T = TypeVar("T")

Place: TypeAlias = tuple[int, int, str]
"""Where a message stands in its thread: time, insertion, id."""


class Rows:
    """The rows of all messages. What asks for a few does not look at the others."""

    def __init__(self) -> None:
        self._rows: dict[str, MessageRow] = {}
        self._inserted: dict[str, int] = {}
        self._places: dict[str, list[Place]] = {}
        self._insertions = 0

    def get(self, id: str, thread_id: str | None = None) -> MessageRow | None:
        """The row of a message, if it is there, and in that thread."""
        row = self._rows.get(id)
        return None if row is None or thread_id not in (None, row.thread_id) else row

    def threads(self) -> list[str]:
        """The threads that have messages."""
        return list(self._places)

    def in_time(self, rows: list[MessageRow]) -> list[MessageRow]:
        """Rows that are here, in order of time, then insertion."""
        return sorted(rows, key=self._place)

    def newest(self, thread_id: str, limit: int, before: str | None) -> list[MessageRow]:
        """The last rows of a thread, or the last before a message."""
        places = self._places.get(thread_id, [])
        end = len(places)
        if before is not None:
            row = self.get(before, thread_id)
            end = bisect_left(places, self._place(row)) if row else 0
        return [self._rows[id] for _, _, id in places[max(0, end - limit) : end]]

    def drop_thread(self, thread_id: str) -> None:
        """Forget the messages of a thread."""
        for _, _, id in self._places.pop(thread_id, []):
            del self._rows[id], self._inserted[id]

    def put(self, row: MessageRow) -> None:
        """Write a row, over an earlier one of its id."""
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

    def drop(self, id: str) -> None:
        """Forget a message, if it is there."""
        row = self._rows.get(id)
        if row is not None:
            places = self._places[row.thread_id]
            del places[bisect_left(places, self._place(row))]
            del self._rows[id], self._inserted[id]

    def _place(self, row: MessageRow) -> Place:
        return (row.created_at, self._inserted[row.id], row.id)

    def matching(self, threads: list[str], owner: str | None, asked: Range) -> list[Place]:
        """The places, in order of time, of what a filter lets through; a list of its own."""
        within = [self._within(thread, owner, asked) for thread in threads]
        return within[0] if len(within) == 1 else sorted(chain.from_iterable(within))

    def _within(self, thread_id: str, owner: str | None, asked: Range) -> list[Place]:
        places = self._places.get(thread_id, [])
        # The owner of one message of a thread is the owner of all.
        if not places or owner not in (None, self._rows[places[0][2]].resource_id):
            return []
        start = 0 if asked.first is None else bisect_left(places, (asked.first, 0, ""))
        end = None if asked.last is None else bisect_left(places, (asked.last + 1, 0, ""))
        found = places[start:end]
        if not asked.facts:
            return found
        return [place for place in found if holds(self._rows[place[2]].facts, asked.facts)]

    def around(
        self, around: list[Around], threads: list[str] | None, owner: str | None
    ) -> list[Place]:
        """The places of messages and of their neighbours; some of them more than once."""
        found: list[Place] = []
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

    def page(
        self, found: list[Place], wanted: list[Place], paging: Paging, order: Order
    ) -> MessagePage:
        """A page of what was found, and what comes along."""
        if order.latest_first:
            found.reverse()
        own = part(found, paging)
        shown = sorted({*own, *wanted}, reverse=order.latest_first)
        messages = [message_of(self._rows[id]) for _, _, id in shown]
        return paging.messages(messages, len(found), len(own))


def holds(there: str | None, facts: tuple[str, ...]) -> bool:
    """Whether all entries that are asked for are there."""
    return all(f"\n{fact}\n" in (there or "") for fact in facts)


def part(found: list[T], paging: Paging) -> list[T]:
    """What is on the page."""
    if paging.limit is None:
        return list(found)
    return found[paging.offset : paging.offset + paging.limit]
