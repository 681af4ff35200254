"""Where conversations and waiting runs are kept: in memory, in a file, in a database (M-204)."""

from .domains import CompositeStore
from .in_memory import InMemoryStore
from .sqlite import SQLiteStore

__all__ = ["CompositeStore", "InMemoryStore", "SQLiteStore"]
