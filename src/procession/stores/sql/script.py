"""Transactions as generators: what is asked of a database, written once for all of them.

A script yields statements and is sent their rows; it does no I/O itself. SQLite drives it on a
thread, PostgreSQL on the event loop. It is started anew for another attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

__all__ = ["Ask", "AskMany", "Backend", "Dialect", "Row", "Script", "marks"]

T = TypeVar("T")

Row: TypeAlias = tuple[Any, ...]


class Ask(NamedTuple):
    """A statement with `?` for each value."""

    sql: str
    values: Sequence[Any] = ()


class AskMany(NamedTuple):
    """A statement that is run for each list of values, in order; it gives no rows."""

    sql: str
    values: Sequence[Sequence[Any]]


Script: TypeAlias = Generator[Ask | AskMany, list[Row], T]


class Dialect(NamedTuple):
    """Where the databases differ.

    `serial` is the type of a number that grows with each row; `locked` is put behind a `SELECT`
    whose rows nobody else may change until the transaction ends; `find` is the function that says
    where a text stands in another, or 0.
    """

    serial: str
    locked: str
    find: str


class Backend(Protocol):
    """Runs scripts."""

    @property
    def dialect(self) -> Dialect:
        """How the scripts are to be worded."""
        ...

    async def write(self, script: Callable[[], Script[T]]) -> T:
        """Run it in a transaction: what it raises leaves everything as it was."""
        ...

    async def read(self, script: Callable[[], Script[T]], *, single: bool = False) -> T:
        """Run it on one state of the database, whatever others write meanwhile.

        `single` says that it asks only once.
        """
        ...


def marks(values: Sequence[Any]) -> str:
    """`?, ?, ?` for a list of values; of none, a list in which nothing is."""
    return ", ".join("?" * len(values)) or "NULL"
