"""Where conversations and waiting runs are kept: in memory, in a file, in a database (M-204)."""

from typing import TYPE_CHECKING, Any

from .domains import CompositeStore
from .in_memory import InMemoryStore
from .sqlite import SQLiteStore

if TYPE_CHECKING:
    from .postgres import PostgresStore

__all__ = ["CompositeStore", "InMemoryStore", "PostgresStore", "SQLiteStore"]


def __getattr__(name: str) -> Any:
    if name == "PostgresStore":  # not before it is asked for: it needs the extra `postgres`
        from .postgres import PostgresStore

        return PostgresStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
