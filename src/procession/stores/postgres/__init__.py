"""Everything in a PostgreSQL database; the extra `postgres` brings what it needs (M-204)."""

from .store import PostgresStore

__all__ = ["PostgresStore"]
