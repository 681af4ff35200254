"""`SQLiteCache`: a cache in a file, which several processes on a machine may share."""

from __future__ import annotations

import asyncio
import sqlite3
import time
import weakref
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import OptionError, StoreError
from ..keywords import TakesOptions
from ..private_files import make_private
from .interface import ServerCache
from .options import most, time_to_live
from .values import dumped, loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from typing import Self

__all__ = ["SQLiteCache"]

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    key TEXT PRIMARY KEY, kind TEXT NOT NULL, value BLOB, until REAL, written REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS entries_written ON entries (written);
CREATE TABLE IF NOT EXISTS items (
    key TEXT NOT NULL REFERENCES entries (key) ON DELETE CASCADE,
    position INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (key, position)
) WITHOUT ROWID;
"""
_PUT = "INSERT INTO entries (key, kind, value, until, written) VALUES (?, ?, ?, ?, ?)"
_PRUNE = """
DELETE FROM entries WHERE until <= ? OR written < (
    SELECT written FROM entries ORDER BY written DESC LIMIT 1 OFFSET ?
)
"""
_WAITS_SECONDS = 5.0


class SQLiteCache(TakesOptions, ServerCache):
    """Keeps values in a SQLite file, for as long as the file is there.

    Several processes may use the same file. `max_size` is how many keys are kept, about: those go
    first that were written longest ago, and reading a value writes nothing. `ttl_ms` is how long
    they are kept, in milliseconds; 0 is for ever. The file is opened when it is first needed, and
    read and written in threads; `close` closes it, and so does the end of an `async with`.

    Values stand in the file as they are, readable for whoever can read the file. Raises
    `OptionError` for options that cannot work, `StoreError` where the file cannot be used.
    """

    def __init__(self, path: str | Path, *, max_size: int = 10_000, ttl_ms: int = 300_000) -> None:
        owner = type(self).__name__
        if not isinstance(path, str | Path) or not str(path) or str(path) == ":memory:":  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(
                f"{owner}: path must be that of a file; in memory: InMemoryServerCache"
            )
        self.path = Path(path)
        self.max_size = most(owner, "max_size", max_size)
        self.ttl_ms = time_to_live(owner, "ttl_ms", ttl_ms)
        self._file: sqlite3.Connection | None = None
        self._closer: weakref.finalize[Any, Any] | None = None
        self._lock = Lock()
        self._unpruned = 0

    def __repr__(self) -> str:
        return f"SQLiteCache({self.path.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the file; it is opened again if the cache is used again."""
        await asyncio.to_thread(self._close)

    async def get(self, key: str) -> Any:
        """The value, or the list, under `key`; `None` when there is none, or no longer."""

        def read(file: sqlite3.Connection) -> Any:
            found = _find(file, key)
            if found is None:
                return None
            return _items(file, key) if found[0] == "list" else found[1]

        found = await self._at_work(read, "DEFERRED")
        if isinstance(found, list):
            return [loaded(entry) for entry in cast("list[bytes]", found)]
        return None if found is None else loaded(found)

    async def set(self, key: str, value: Any, ttl_ms: int | None = None) -> None:
        """Keep a value; raises `InputError` for one that is no JSON data, bytes or time."""
        data = dumped(value)

        await self._at_work(lambda file: self._put(file, key, "value", data, ttl_ms))

    async def delete(self, key: str) -> None:
        """Forget a key."""
        await self._at_work(lambda file: _forget(file, key))

    async def clear(self) -> None:
        """Forget everything."""
        await self._at_work(lambda file: file.execute("DELETE FROM entries"))

    async def list_length(self, key: str) -> int:
        """How long a list is; 0 when there is none. Raises `StoreError` for a value."""

        def count(file: sqlite3.Connection) -> int:
            return self._length(file, key) or 0

        return await self._at_work(count, "DEFERRED")

    async def list_push(self, key: str, value: Any) -> None:
        """Append to a list; raises `StoreError` where a value stands under the key."""
        data = dumped(value)
        await self._at_work(lambda file: self._push(file, key, data))

    async def list_from_to(self, key: str, start: int, end: int = -1) -> list[Any]:
        """The values from `start` to `end`, both included; raises `StoreError` for a value."""

        def read(file: sqlite3.Connection) -> list[bytes]:
            length = self._length(file, key) or 0
            first, last = (at if at >= 0 else at + length for at in (start, end))
            return _items(file, key, max(first, 0), last)

        return [loaded(entry) for entry in await self._at_work(read, "DEFERRED")]

    async def increment(self, key: str) -> int:
        """Count up by one; raises `StoreError` where something stands that is no whole number."""
        return await self._at_work(lambda file: self._count_up(file, key))

    async def list_push_indexed(
        self, list_key: str, counter_key: str, value: Mapping[str, Any]
    ) -> int:
        """Append a mapping with its own `index`, in one transaction."""

        def push(file: sqlite3.Connection) -> int:
            index = self._count_up(file, counter_key) - 1
            self._push(file, list_key, dumped({**value, "index": index}))
            return index

        return await self._at_work(push)

    # ── in a thread ────────────────────────────────────────────────────────────────────────────

    async def _at_work(
        self, work: Callable[[sqlite3.Connection], T], transaction: str = "IMMEDIATE"
    ) -> T:
        """Do something with the file, in a thread, as one transaction."""

        def locked() -> T:
            with self._lock, self._explained(), self._begun(transaction) as file:
                return work(file)

        return await asyncio.to_thread(locked)

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                f"{self!r} cannot be used ({type(error).__name__}: {error}): check that the file "
                f"and its folder can be written, and that it is a cache"
            ) from error

    def _opened(self) -> sqlite3.Connection:
        if self._file is not None:
            return self._file
        make_private(self.path)
        file = sqlite3.connect(
            self.path, timeout=_WAITS_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._closer = weakref.finalize(self, file.close)
        try:
            file.execute("PRAGMA journal_mode=WAL")
            file.execute("PRAGMA synchronous=NORMAL")
            file.execute("PRAGMA foreign_keys=ON")
            file.executescript(_SCHEMA)
        except sqlite3.Error:
            self._closer()
            raise
        self._file = file
        return file

    @contextmanager
    def _begun(self, transaction: str) -> Generator[sqlite3.Connection]:
        file = self._opened()
        file.execute(f"BEGIN {transaction}")
        try:
            yield file
        except BaseException:
            file.execute("ROLLBACK")
            raise
        file.execute("COMMIT")

    def _close(self) -> None:
        with self._lock:
            self._file = None
            if self._closer is not None:
                self._closer()

    def _put(
        self, file: sqlite3.Connection, key: str, kind: str, data: bytes | None, ttl_ms: int | None
    ) -> None:
        lives, now = self.ttl_ms if ttl_ms is None else ttl_ms, time.time()
        until = now + lives / 1000 if lives > 0 else None
        _forget(file, key)  # and the items of a list
        file.execute(_PUT, (key, kind, data, until, now))
        self._unpruned += 1
        if self._unpruned > self.max_size // 64:
            self._unpruned = 0
            file.execute(_PRUNE, (now, self.max_size - 1))

    def _length(self, file: sqlite3.Connection, key: str) -> int | None:
        """How long a list is; `None` when there is none."""
        found = _find(file, key)
        if found is None:
            return None
        if found[0] != "list":
            raise StoreError(f"{self!r}: a value stands under this key, not a list")
        last = file.execute("SELECT max(position) FROM items WHERE key = ?", (key,)).fetchone()[0]
        return 0 if last is None else last + 1

    def _push(self, file: sqlite3.Connection, key: str, data: bytes) -> None:
        length = self._length(file, key)
        if length is None:
            self._put(file, key, "list", None, None)
        else:
            now = time.time()
            until = now + self.ttl_ms / 1000 if self.ttl_ms > 0 else None
            row = (until, now, key)
            file.execute("UPDATE entries SET until = ?, written = ? WHERE key = ?", row)
        file.execute("INSERT INTO items VALUES (?, ?, ?)", (key, length or 0, data))

    def _count_up(self, file: sqlite3.Connection, key: str) -> int:
        found = _find(file, key)
        count = 0 if found is None else None if found[0] == "list" else loaded(found[1])
        if type(count) is not int:
            raise StoreError(f"{self!r}: what stands under this key cannot be counted up")
        self._put(file, key, "value", dumped(count + 1), None)
        return count + 1


def _find(file: sqlite3.Connection, key: str) -> tuple[str, Any] | None:
    """The kind and the value of an entry that is still good."""
    row = file.execute("SELECT kind, value, until FROM entries WHERE key = ?", (key,)).fetchone()
    if row is None or (row[2] is not None and row[2] <= time.time()):
        return None
    return row[0], row[1]


def _forget(file: sqlite3.Connection, key: str) -> None:
    file.execute("DELETE FROM entries WHERE key = ?", (key,))


def _items(
    file: sqlite3.Connection, key: str, first: int = 0, last: int | None = None
) -> list[bytes]:
    most = -1 if last is None else max(last - first + 1, 0)
    rows = file.execute(
        "SELECT value FROM items WHERE key = ? AND position >= ? ORDER BY position LIMIT ?",
        (key, first, most),
    )
    return [row[0] for row in rows]
