"""Where the processes keep their threads, and stores that are broken on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from procession.ids import new_id
from procession.messages import Message
from procession.stores import CompositeStore, PostgresStore, SQLiteStore
from procession.stores.domains import ByDomain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from procession.store import Store, Turn

__all__ = ["FAULTS", "Place"]


class Place(NamedTuple):
    """A file of SQLite, or a schema of a PostgreSQL database; it can be sent to a process."""

    where: str
    schema: str | None = None

    def store(self, fault: str | None = None) -> Store:
        """A store on it."""
        if self.schema is None:
            store: Any = SQLiteStore(self.where)
        else:
            store = PostgresStore(self.where, schema=self.schema, max_size=4)
        return CompositeStore(store, domains={"memory": FAULTS[fault](store)}) if fault else store


class _Faulty(ByDomain):
    """Conversations, and the store that has them alone, which do one thing wrong."""

    def __init__(self, store: Store) -> None:
        self.good = store.get_store("memory")
        self._domains = {"memory": self}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.good, name)


class _Torn(_Faulty):
    """Saves a turn in two transactions."""

    async def save_turn(self, turn: Turn) -> None:
        """The first message, then the others."""
        for part in (turn.messages[:1], turn.messages[1:]):
            await self.good.save_turn(_with(turn, part))


class _Hasty(_Faulty):
    """Says that a turn is saved before it is."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._later: list[Turn] = []

    async def save_turn(self, turn: Turn) -> None:
        """Save the fifth turn before this one."""
        self._later.append(turn)
        if len(self._later) > 5:
            await self.good.save_turn(self._later.pop(0))


class _Twice(_Faulty):
    """Saves what it is given, and once more under other ids."""

    async def save_turn(self, turn: Turn) -> None:
        """In one transaction."""
        again = [Message.from_json({**each.to_json(), "id": new_id()}) for each in turn.messages]
        await self.good.save_turn(_with(turn, [*turn.messages, *again]))


def _with(turn: Turn, messages: Sequence[Message]) -> Turn:
    return msgspec.structs.replace(turn, messages=messages)


FAULTS: dict[str, Callable[[Any], Any]] = {"torn": _Torn, "hasty": _Hasty, "twice": _Twice}
"""What a store may do wrong; the check has to find each of them."""
