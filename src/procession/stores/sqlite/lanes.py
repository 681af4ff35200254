"""The threads of a SQLite file: one that writes, a few that read beside it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ...errors import StoreError
from ...private_files import make_private
from ..sql.schema import MIGRATIONS, migrate
from .driving import DIALECT, drive
from .failures import explained, is_busy

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["Lanes"]

T = TypeVar("T")

_READERS = 4
_MEMORY = ":memory:"
_PAUSE = 0.02


class Lanes:
    """An open file.

    A transaction begins and ends within one call on one thread, whatever happens to the task that
    waits for it: a cancelled one cannot leave it open.
    """

    def __init__(self, path: str, synchronous: str, timeout: float) -> None:
        self.process = os.getpid()
        self._path = path
        self._synchronous = synchronous
        self._timeout = timeout
        self._writer = ThreadPoolExecutor(1, "procession-sqlite-writer")
        # A database in memory belongs to one connection.
        self._shared = path == _MEMORY
        self._readers = (
            self._writer
            if self._shared
            else ThreadPoolExecutor(_READERS, "procession-sqlite-reader")
        )
        self._writing: sqlite3.Connection | None = None
        self._idle: list[sqlite3.Connection] = []

    async def start(self) -> None:
        """Open the file, unless it is."""
        if self._writing is None:
            await self._on(self._writer, self._opened)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do it in a transaction that writes."""
        return await self._on(self._writer, partial(self._transaction, work))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do it in a transaction that reads."""
        await self.start()
        return await self._on(self._readers, partial(self._reading, work))

    async def close(self) -> None:
        """Close the connections, when what has begun is done."""
        closed = self._writer.submit(self._shut)
        self._writer.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(closed))  # who is cancelled closes all the same

    async def _on(self, threads: ThreadPoolExecutor, call: Callable[[], T]) -> T:
        try:
            waiting = asyncio.get_running_loop().run_in_executor(threads, call)
        except RuntimeError:
            raise StoreError(f"the store {self._path!r} has been closed meanwhile") from None
        return await waiting

    # What follows runs on the threads.

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._opened()
        with self._within(connection, "BEGIN IMMEDIATE"):
            made = work(connection)
            if connection.in_transaction:
                connection.execute("COMMIT")
            return made

    def _reading(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._reader()
        try:
            with self._within(connection, "BEGIN"):
                return work(connection)
        finally:
            if self._shared:
                connection.execute("PRAGMA query_only = 0")
            else:
                self._idle.append(connection)

    def _reader(self) -> sqlite3.Connection:
        with self._explaining():
            if self._shared:
                connection = self._opened()
            else:
                connection = self._idle.pop() if self._idle else self._connect("SELECT 1")
            connection.execute("PRAGMA query_only = 1")
            return connection

    @contextmanager
    def _within(self, connection: sqlite3.Connection, begin: str) -> Generator[None]:
        """A transaction; whatever has not been committed at its end is taken back."""
        with self._explaining():
            try:
                connection.execute(begin)
                yield
            finally:
                # SQLite may have taken everything back by itself.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _explaining(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise explained(error, self._path) from error

    def _opened(self) -> sqlite3.Connection:
        if self._writing is None:
            with self._explaining():
                self._writing = self._open()
        return self._writing

    def _open(self) -> sqlite3.Connection:
        if not self._shared:
            make_private(self._path)
        connection = self._connect(f"PRAGMA synchronous = {self._synchronous}")
        try:
            self._use_wal(connection)
            with self._within(connection, "BEGIN IMMEDIATE"):
                drive(partial(migrate, DIALECT, "store", MIGRATIONS), connection)
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self, pragma: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute(pragma)
        except BaseException:
            connection.close()
            raise
        return connection

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Let readers go on beside the writer; it stays so for the file.

        For this change SQLite does not wait for others by itself.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE)

    def _shut(self) -> None:
        if self._readers is not self._writer:
            self._readers.shutdown(wait=True)
        for connection in (*self._idle, self._writing):
            if connection is not None:
                connection.close()
        self._idle.clear()
        self._writing = None
