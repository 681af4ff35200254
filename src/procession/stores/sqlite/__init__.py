"""Everything in one SQLite file, with the standard library alone (M-204)."""

from .store import SQLiteStore

__all__ = ["SQLiteStore"]
