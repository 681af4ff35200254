"""Messages in order of time, ties in the order they came in (R-323).

Times may be edited in place (R-397), so every reading looks at them: at all, but at no more.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ..errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..messages import Message

__all__ = ["Clock", "TimeOrder", "after", "created_at", "now"]

_TICK = timedelta(milliseconds=1)


class TimeOrder:
    """The order of a list of messages that grows; `latest` is `None` when the list has changed."""

    __slots__ = ("_known", "_times", "latest")

    def __init__(self) -> None:
        self.latest: list[Message] | None = None
        self._times: list[datetime] = []
        self._known: list[datetime] = []

    def of(self, messages: list[Message]) -> list[Message]:
        """The messages by time, in a list that is never changed once handed out."""
        times = [message.created_at for message in messages]
        if self.latest is not None and times == self._times:
            return self.latest
        try:
            if self._goes_on(times) or sorted(times) == times:
                found, self._known = messages.copy(), times
            else:
                found = sorted(messages, key=created_at)
        except TypeError:
            raise InputError(
                "a message's created_at must be a datetime with a time zone, such as "
                "datetime.now(UTC)"
            ) from None
        self._times, self.latest = times, found
        return found

    def _goes_on(self, times: list[datetime]) -> bool:
        """Whether the times begin with those that are known to be in order, and go on so."""
        known = self._known
        count = len(known)
        if not count or len(times) - count > 1 or times[:count] != known:
            return False
        return len(times) == count or times[count] >= times[count - 1]


def created_at(message: Message) -> datetime:
    """What messages are sorted by."""
    return message.created_at


def now() -> datetime:
    """Now, to the millisecond, as times are stored."""
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def after(newest: datetime | None) -> datetime:
    """Now, but at least 1 ms after the newest message (R-327)."""
    return now() if newest is None else max(now(), newest + _TICK)


class Clock:
    """Times for many messages that are added at once: the newest is looked for only once."""

    __slots__ = ("_find", "_newest", "_started")

    def __init__(self, find: Callable[[], datetime | None]) -> None:
        self._find = find
        self._newest: datetime | None = None
        self._started = False

    def next_time(self) -> datetime:
        """Now, but at least 1 ms after the newest message."""
        if not self._started:
            self._newest, self._started = self._find(), True
        self._newest = time = after(self._newest)
        return time

    def saw(self, time: datetime) -> None:
        """A message of this time is in the list now."""
        if self._newest is not None:
            try:
                self._newest = max(self._newest, time)
            except TypeError:  # no time zone: it is refused where the times are compared
                self._started = False
