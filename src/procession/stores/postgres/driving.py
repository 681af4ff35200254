"""Scripts on a connection of psycopg."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..sql.script import Ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..sql.script import AskMany, Row, Script
    from .driver import psycopg

__all__ = ["drive"]

T = TypeVar("T")


async def drive(
    script: Callable[[], Script[T]],
    connection: psycopg.AsyncConnection[Row],
    worded: Callable[[str], bytes],
) -> T:
    """The outcome of a script, its statements `worded` for this database."""
    steps = script()
    async with connection.cursor() as cursor:
        try:
            asked = next(steps)
            while True:
                asked = steps.send(await _rows(asked, cursor, worded))
        except StopIteration as done:
            return cast("T", done.value)


async def _rows(
    asked: Ask | AskMany, cursor: psycopg.AsyncCursor[Row], worded: Callable[[str], bytes]
) -> list[Row]:
    values: Any = asked.values
    if isinstance(asked, Ask):
        await cursor.execute(worded(asked.sql), values)
        return await cursor.fetchall() if cursor.description else []
    await cursor.executemany(worded(asked.sql), values)
    return []
