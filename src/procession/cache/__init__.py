"""Where what may be forgotten is kept: in memory, in a SQLite file, in a Redis server.

`procession.cache.redis` needs the extra `redis` and is imported by itself.
"""

from .interface import MastraServerCache, ServerCache
from .memory import InMemoryServerCache
from .sqlite import SQLiteCache

__all__ = ["InMemoryServerCache", "MastraServerCache", "SQLiteCache", "ServerCache"]
