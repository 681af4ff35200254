"""What may be asked of a store: paging, order, filters; the same for all (M-183, M-202)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from ..errors import InputError
from ..keywords import check_keywords
from ..store import MessagePage, ThreadPage
from .encoding import KEY, fact_of, stamp, text

if TYPE_CHECKING:
    from ..messages import Message
    from ..store import Thread

__all__ = [
    "Around",
    "Order",
    "Paging",
    "Range",
    "checked_mapping",
    "ids_of",
    "includes_of",
    "order_of",
    "range_of",
]

_FIELDS = {
    "created_at": "created_at",
    "createdAt": "created_at",
    "updated_at": "updated_at",
    "updatedAt": "updated_at",
}
_MOST_AT_A_TIME = 10_000_000


class Paging(NamedTuple):
    """Which part of what matches: `limit` is `None` for all of it."""

    page: int
    per_page: int | Literal[False]

    @classmethod
    def of(cls, page: Any, per_page: Any) -> Paging:
        """Checked (M-202)."""
        if isinstance(page, bool) or not isinstance(page, int) or page < 0:
            raise InputError("page must be a whole number of at least 0")
        if per_page is False:
            if page:
                raise InputError("per_page=False gives everything at once: page must be 0")
        elif isinstance(per_page, bool) or not isinstance(per_page, int) or per_page < 0:
            raise InputError("per_page must be a whole number of at least 0, or False for all")
        elif page * per_page > _MOST_AT_A_TIME**2:
            raise InputError("page is too large")
        return cls(page, per_page)

    @property
    def limit(self) -> int | None:
        """How many, at most."""
        return None if self.per_page is False else self.per_page

    @property
    def offset(self) -> int:
        """How many come before."""
        return self.page * (self.per_page or 0)

    def more(self, total: int, found: int) -> bool:
        """Whether there is something behind this page. Of an empty page size, never."""
        return bool(self.per_page) and self.offset + found < total

    def threads(self, threads: list[Thread], total: int) -> ThreadPage:
        """The page of threads."""
        return ThreadPage(
            threads=threads,
            total=total,
            page=self.page,
            per_page=self.per_page,
            has_more=self.more(total, len(threads)),
        )

    def messages(self, messages: list[Message], total: int, found: int) -> MessagePage:
        """The page of messages, `found` of which are the page's own."""
        return MessagePage(
            messages=messages,
            total=total,
            page=self.page,
            per_page=self.per_page,
            has_more=self.more(total, found),
        )


class Order(NamedTuple):
    """By which time, and whether the latest is first."""

    field: Literal["created_at", "updated_at"]
    latest_first: bool


def order_of(given: Any, fields: tuple[str, ...], *, latest_first: bool = False) -> Order:
    """The order asked for; `fields` are those there are."""
    asked = checked_mapping(given, "order_by", ("field", "direction"))
    field = _FIELDS.get(asked.get("field", "created_at"), "")
    if field not in fields:
        raise InputError(f"order_by: field must be {' or '.join(map(repr, fields))}")
    direction = asked.get("direction", "DESC" if latest_first else "ASC")
    if direction not in ("ASC", "DESC"):
        raise InputError("order_by: direction must be 'ASC' or 'DESC'")
    return Order(cast("Any", field), direction == "DESC")


class Range(NamedTuple):
    """First and last microsecond of a range, both included, and the facts that must hold."""

    first: int | None
    last: int | None
    facts: tuple[str, ...]


def range_of(given: Any) -> Range:
    """A message filter, checked."""
    asked = checked_mapping(given, "filter", ("date_range", "dateRange", "metadata"))
    dates = checked_mapping(
        asked.get("date_range", asked.get("dateRange")),
        "date_range",
        ("start", "end", "start_exclusive", "end_exclusive", "startExclusive", "endExclusive"),
    )
    first, last = _end(dates, "start"), _end(dates, "end")
    return Range(
        first if first is None else first + _exclusive(dates, "start"),
        last if last is None else last - _exclusive(dates, "end"),
        wanted_facts(asked.get("metadata")),
    )


def thread_filter(given: Any) -> tuple[str | None, tuple[str, ...]]:
    """A thread filter, checked: the resource's id and the facts that must hold."""
    asked = checked_mapping(given, "filter", ("resource_id", "resourceId", "metadata"))
    named = [asked[key] for key in ("resource_id", "resourceId") if key in asked]
    # An id that is not known must not be taken for none at all: that would be everybody's threads.
    resource_id = text(named[0], "filter: resource_id") if named else None
    return resource_id, wanted_facts(asked.get("metadata"))


class Around(NamedTuple):
    """A message, and how many before and behind it."""

    id: str
    before: int
    after: int


def includes_of(given: Iterable[Any] | None) -> list[Around]:
    """What shall come along, checked."""
    found: list[Around] = []
    for entry in given or ():
        names = ("id", "thread_id", "with_previous_messages", "with_next_messages")
        known = (*names, "withPreviousMessages", "withNextMessages")
        asked = checked_mapping(entry, "include", known)
        before = asked.get("with_previous_messages", asked.get("withPreviousMessages", 0))
        after = asked.get("with_next_messages", asked.get("withNextMessages", 0))
        for number in (before, after):
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise InputError("include: numbers of neighbours are whole and at least 0")
        found.append(Around(text(asked.get("id"), "include: id"), before, after))
    return found


def ids_of(given: Any, what: str) -> list[str]:
    """Ids, each once, in the order given; a single text is one id."""
    if isinstance(given, str):
        given = (given,)
    if not isinstance(given, Iterable):
        raise InputError(f"{what} must be a list of ids, not {type(given).__name__}")
    return list(dict.fromkeys(text(each, f"each of {what}") for each in cast("Any", given)))


def wanted_facts(metadata: Any) -> tuple[str, ...]:
    """The facts that a metadata filter asks for (M-183)."""
    if metadata is None:
        return ()
    if not isinstance(metadata, Mapping):
        raise InputError(f"filter: metadata must be a mapping, not {type(metadata).__name__}")
    found: list[str] = []
    for key, value in cast("Mapping[Any, Any]", metadata).items():
        if not isinstance(key, str) or not KEY.fullmatch(key):
            raise InputError(
                "filter: keys of metadata are identifiers: a letter or underscore, then letters, "
                "digits or underscores"
            )
        fact = fact_of(key, value)
        if fact is None:
            raise InputError(f"filter: metadata {key!r} must be a text, number, bool or None")
        found.append(fact)
    return tuple(found)


def checked_mapping(given: Any, what: str, known: tuple[str, ...]) -> dict[str, Any]:
    """A mapping with keys of `known` only; `None` is an empty one."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(f"{what} must be a mapping, not {type(given).__name__}")
    found = dict(cast("Mapping[str, Any]", given))
    check_keywords(what, found, known)
    return found


def _end(dates: dict[str, Any], name: str) -> int | None:
    time = dates.get(name)
    if time is not None and not isinstance(time, datetime):
        raise InputError(f"date_range: {name} must be a datetime, not {type(time).__name__}")
    return None if time is None else stamp(time)


def _exclusive(dates: dict[str, Any], name: str) -> int:
    return bool(dates.get(f"{name}_exclusive", dates.get(f"{name}Exclusive", False)))
