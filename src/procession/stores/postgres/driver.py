"""psycopg, which the extra `postgres` brings."""

from ...extras import brought_by

with brought_by("postgres", "psycopg", "psycopg_pool"):
    import psycopg
    from psycopg import errors
    from psycopg.conninfo import conninfo_to_dict
    from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

__all__ = [
    "AsyncConnectionPool",
    "PoolClosed",
    "PoolTimeout",
    "conninfo_to_dict",
    "errors",
    "psycopg",
]
