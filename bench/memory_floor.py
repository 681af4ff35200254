"""No framework: the same rows, written and read by hand with sqlite3 and psycopg."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from .memory_case import LAST, answer_to

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TABLES = (
    "CREATE TABLE floor_threads (id TEXT PRIMARY KEY, owner TEXT, updated BIGINT)",
    "CREATE TABLE floor_messages (seq {serial}, id TEXT UNIQUE, thread TEXT, role TEXT, "
    "created BIGINT, content TEXT)",
    "CREATE INDEX floor_of_thread ON floor_messages (thread, created, seq)",
)
NEWEST = (
    "SELECT content FROM floor_messages WHERE thread = ? ORDER BY created DESC, seq DESC LIMIT ?"
)
ALL = "SELECT content FROM floor_messages WHERE thread = ? ORDER BY created, seq"
THREAD = (
    "INSERT INTO floor_threads VALUES (?, 'r', ?) "
    "ON CONFLICT (id) DO UPDATE SET updated = excluded.updated"
)
MESSAGE = (
    "INSERT INTO floor_messages (id, thread, role, created, content) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET content = excluded.content"
)


class Database(Protocol):
    """What both can do."""

    async def read(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        """The rows."""
        ...

    async def save(self, thread: tuple[Any, ...], messages: list[tuple[Any, ...]]) -> None:
        """A thread's row and its new messages, in one transaction."""
        ...


class Conversations:
    """See `bench.memory_case.Turns`."""

    limits = True
    seen = 0

    def __init__(self, database: Database) -> None:
        self._database = database

    async def turn(self, thread: str, question: str) -> str:
        """Read the newest, answer, write both."""
        rows = await self._database.read(NEWEST, (thread, LAST))
        prompt = [json.loads(row[0])["parts"][0]["text"] for row in rows[::-1]]
        self.seen = len(prompt) + 1
        said = await self.bare(question)
        await self._save(thread, [question, said])
        return said

    async def bare(self, question: str) -> str:
        """There is no runtime: the answer."""
        return answer_to(question)

    async def fill(self, thread: str, texts: list[str]) -> None:
        """In one transaction."""
        await self._save(thread, texts)

    async def texts(self, thread: str) -> list[str]:
        """All rows."""
        rows = await self._database.read(ALL, (thread,))
        return [json.loads(row[0])["parts"][0]["text"] for row in rows]

    async def _save(self, thread: str, texts: list[str]) -> None:
        now = time.time_ns()
        rows = [
            (
                str(uuid.uuid4()),
                thread,
                ("user", "assistant")[number % 2],
                now + number,
                json.dumps({"format": 2, "parts": [{"type": "text", "text": text}]}),
            )
            for number, text in enumerate(texts)
        ]
        await self._database.save((thread, now), rows)


class File:
    """A file, and one thread that uses it."""

    def __init__(self, path: str) -> None:
        self.worker = ThreadPoolExecutor(1)
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode = WAL")
        for table in TABLES:
            self.connection.execute(table.replace("{serial}", "INTEGER PRIMARY KEY"))

    async def read(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        """On the thread."""
        return await self._do(lambda: self.connection.execute(sql, values).fetchall())

    async def save(self, thread: tuple[Any, ...], messages: list[tuple[Any, ...]]) -> None:
        """On the thread."""

        def work() -> None:
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.execute(THREAD, thread)
            self.connection.executemany(MESSAGE, messages)
            self.connection.execute("COMMIT")

        await self._do(work)

    async def _do(self, work: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.worker, work)


class Server:
    """A pool of ten connections."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def read(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        """Without a transaction."""
        async with self._pool.connection() as connection:
            return await (await connection.execute(_marked(sql), values)).fetchall()

    async def save(self, thread: tuple[Any, ...], messages: list[tuple[Any, ...]]) -> None:
        """In a transaction."""
        async with (
            self._pool.connection() as connection,
            connection.transaction(),
            connection.cursor() as cursor,
        ):
            await cursor.execute(_marked(THREAD), thread)
            await cursor.executemany(_marked(MESSAGE), messages)


def _marked(sql: str) -> str:
    return sql.replace("?", "%s")


@asynccontextmanager
async def opened(place: str) -> AsyncIterator[Conversations]:
    """A file, or a PostgreSQL database."""
    if not place.startswith("postgresql"):
        file = File(place)
        yield Conversations(file)
        file.worker.shutdown()
        file.connection.close()
        return
    from psycopg_pool import AsyncConnectionPool

    options = {"autocommit": True}
    async with AsyncConnectionPool(place, min_size=1, max_size=10, kwargs=options) as pool:
        async with pool.connection() as connection:
            for table in TABLES:
                serial = "BIGINT GENERATED ALWAYS AS IDENTITY"
                await connection.execute(table.replace("{serial}", serial))
        yield Conversations(Server(pool))
