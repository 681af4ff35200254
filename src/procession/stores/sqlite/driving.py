"""Scripts on a connection of SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from ..sql.script import Ask, Dialect

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from ..sql.script import AskMany, Row, Script

__all__ = ["DIALECT", "drive"]

T = TypeVar("T")

DIALECT = Dialect(serial="INTEGER PRIMARY KEY", locked="", find="instr")


def drive(script: Callable[[], Script[T]], connection: sqlite3.Connection) -> T:
    """The outcome of a script."""
    steps = script()
    try:
        asked = next(steps)
        while True:
            asked = steps.send(_rows(asked, connection))
    except StopIteration as done:
        return cast("T", done.value)


def _rows(asked: Ask | AskMany, connection: sqlite3.Connection) -> list[Row]:
    if isinstance(asked, Ask):
        return connection.execute(asked.sql, asked.values).fetchall()
    connection.executemany(asked.sql, asked.values)
    return []
