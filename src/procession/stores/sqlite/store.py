"""The store in a SQLite file."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from ...errors import OptionError
from ...keywords import TakesOptions
from ..domains import ByDomain
from ..option_checks import seconds
from ..sql.conversations import SqlConversations
from ..sql.snapshots import SqlSnapshots
from ..sql.traces import SqlTraces
from .driving import DIALECT, drive
from .lanes import Lanes

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from ..sql.script import Script

__all__ = ["SQLiteStore"]

T = TypeVar("T")


class SQLiteStore(ByDomain, TakesOptions):
    """Keeps everything in the SQLite file at `path`, which several processes may use at once.

    The file is made if it is missing, readable for its owner only; its folder has to be there.
    `":memory:"` keeps everything in this process until `close()`. One thread writes, up to four
    read beside it: the event loop never waits for the disk.

    What has been reported as saved outlives the process, however that ends. With
    `synchronous="full"`, the default, it also outlives a power failure; `"normal"` does not wait
    for the disk, and a power failure may take the last writes back, each of them whole.

    `busy_timeout` says how many seconds a write waits for another process that writes. Raises
    `OptionError` for options that cannot be used, and at the first use `StoreError` for such a
    file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["full", "normal"] = "full",
        busy_timeout: float = 30.0,
    ) -> None:
        self.path = _checked_path(path)
        if synchronous not in ("full", "normal"):
            raise OptionError("SQLiteStore: synchronous must be 'full' or 'normal'")
        self._settings = (synchronous, seconds("SQLiteStore", "busy_timeout", busy_timeout))
        self._lanes: Lanes | None = None
        scripts = _Scripts(self)
        self._domains = {
            "memory": SqlConversations(scripts),
            "workflows": SqlSnapshots(scripts),
            "observability": SqlTraces(scripts),
        }

    def __repr__(self) -> str:
        return f"SQLiteStore({self.path!r})"

    async def start(self) -> None:
        """Open the file and bring its tables up to date. Twice is once."""
        await self._open_lanes().start()

    async def close(self) -> None:
        """Finish what has begun, and let go of the file. The next use opens it again."""
        lanes, self._lanes = self._lanes, None
        if lanes is not None:
            await lanes.close()

    async def run(self, work: Callable[[sqlite3.Connection], T], *, write: bool = True) -> T:
        """What `work` makes of a connection, in one transaction.

        For tables of your own, beside those of the store, whose names begin with `procession_`.
        `work` is called on a thread of the store. With `write` nobody else writes meanwhile, in no
        process: if it raises, everything is as before, else it has been written when this returns.
        Without, it only reads, one state of the file, beside whoever writes. If the awaiting task
        is cancelled, work that has begun is finished, and work that has not never begins.
        """
        lanes = self._open_lanes()
        return await (lanes.write(work) if write else lanes.read(work))

    def _open_lanes(self) -> Lanes:
        lanes = self._lanes
        # A process that was forked off has no threads, and must leave the connections alone.
        if lanes is None or lanes.process != os.getpid():
            lanes = self._lanes = Lanes(self.path, *self._settings)
        return lanes


class _Scripts:
    """Runs the scripts of the domains."""

    dialect = DIALECT

    def __init__(self, store: SQLiteStore) -> None:
        self._store = store

    async def write(self, script: Callable[[], Script[T]]) -> T:
        """Run it in a transaction."""
        return await self._store.run(partial(drive, script))

    async def read(self, script: Callable[[], Script[T]], *, single: bool = False) -> T:
        """Run it on one state of the file."""
        return await self._store.run(partial(drive, script), write=False)


def _checked_path(path: str | os.PathLike[str]) -> str:
    try:
        found = os.fspath(path)
    except TypeError:
        found = None
    if not isinstance(found, str) or not found or "\0" in found:
        raise OptionError("SQLiteStore: path must be the path of a file, or ':memory:'")
    return found
