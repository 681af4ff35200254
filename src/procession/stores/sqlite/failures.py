"""What SQLite's errors mean, and what to do about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import StoreError

if TYPE_CHECKING:
    import sqlite3

__all__ = ["explained", "is_busy"]

_MEANINGS = {
    "FULL": "the disk is full: make room, and what was to be saved can be saved again",
    "READONLY": "it cannot be written to: see who owns the file and its folder, and that both "
    "are writable",
    "CANTOPEN": "it cannot be opened: its folder has to exist and to be writable, because SQLite "
    "keeps two more files beside it",
    "PERM": "it cannot be opened: see who owns the file and its folder",
    "BUSY": "another process has been writing for longer than busy_timeout",
    "LOCKED": "another connection has been writing for longer than busy_timeout",
    "NOTADB": "it is not a SQLite file: choose another path",
    "CORRUPT": "the file is damaged: put a backup in its place",
    "IOERR": "the disk does not take or give data: see whether it is full or gone",
}


def explained(error: sqlite3.Error, path: str) -> StoreError:
    """The `StoreError` for an error of SQLite."""
    meaning = _MEANINGS.get(_kind(error)) or f"{type(error).__name__}: {error}"
    return StoreError(f"SQLite file {path!r}: {meaning}. Nothing of this was written")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else was just at it."""
    return _kind(error) in ("BUSY", "LOCKED")


def _kind(error: sqlite3.Error) -> str:
    """`BUSY` of `SQLITE_BUSY_SNAPSHOT`."""
    name: str = getattr(error, "sqlite_errorname", "")
    return name.split("_")[1] if "_" in name else ""
