"""psycopg, which the extra `postgres` brings."""

from ...extras import brought_by

with brought_by("postgres", "psycopg"):
    import psycopg
    from psycopg import errors
    from psycopg.conninfo import conninfo_to_dict

__all__ = ["conninfo_to_dict", "errors", "psycopg"]
