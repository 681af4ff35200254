"""The tables, and how those of an earlier version become the ones of today."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import StoreError
from .script import Ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .script import Dialect, Script

__all__ = ["MIGRATIONS", "migrate"]

# Never change one that has been released: add another. The n-th leads to version n.
MIGRATIONS: list[tuple[str, ...]] = [
    (
        """CREATE TABLE procession_threads (
            seq {serial}, key TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, long TEXT,
            title TEXT, metadata TEXT, facts TEXT, extra TEXT,
            created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL)""",
        """CREATE INDEX procession_threads_created
            ON procession_threads (owner, created_at, seq)""",
        """CREATE INDEX procession_threads_updated
            ON procession_threads (owner, updated_at, seq)""",
        """CREATE TABLE procession_messages (
            seq {serial}, key TEXT NOT NULL UNIQUE, thread TEXT NOT NULL, owner TEXT NOT NULL,
            long TEXT, role TEXT NOT NULL, type TEXT, created_at BIGINT NOT NULL,
            content TEXT NOT NULL, facts TEXT, extra TEXT)""",
        """CREATE INDEX procession_messages_thread
            ON procession_messages (thread, created_at, seq)""",
        """CREATE INDEX procession_messages_owner
            ON procession_messages (owner, created_at, seq)""",
        """CREATE TABLE procession_resources (
            key TEXT NOT NULL PRIMARY KEY, long TEXT, working_memory TEXT, metadata TEXT,
            extra TEXT, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL)""",
        """CREATE TABLE procession_snapshots (
            seq {serial}, kind TEXT NOT NULL, key TEXT NOT NULL, long TEXT,
            value TEXT NOT NULL, expires_at BIGINT, UNIQUE (kind, key))""",
        """CREATE INDEX procession_snapshots_expiry ON procession_snapshots (expires_at)""",
    ),
    (
        """CREATE TABLE procession_traces (
            seq {serial}, trace TEXT NOT NULL UNIQUE, started_at BIGINT NOT NULL,
            ended_at BIGINT NOT NULL, entity_type TEXT, entity_id TEXT, entity_name TEXT,
            status TEXT NOT NULL, run_id TEXT, facts TEXT, data TEXT NOT NULL)""",
        """CREATE INDEX procession_traces_started ON procession_traces (started_at, seq)""",
        """CREATE TABLE procession_spans (
            seq {serial}, trace TEXT NOT NULL, id TEXT NOT NULL, started_at BIGINT NOT NULL,
            data TEXT NOT NULL, UNIQUE (trace, id))""",
    ),
]


def migrate(dialect: Dialect, name: str, migrations: Sequence[Sequence[str]]) -> Script[None]:
    """Bring a set of tables up to date; `name` tells it from others in the same place.

    Raises `StoreError` if a newer version has written them. The caller sees to it that only one
    does this at a time.
    """
    yield Ask(
        "CREATE TABLE IF NOT EXISTS procession_schema "
        "(name TEXT NOT NULL PRIMARY KEY, version BIGINT NOT NULL)"
    )
    rows = yield Ask("SELECT version FROM procession_schema WHERE name = ?", (name,))
    there = int(rows[0][0]) if rows else 0
    if there > len(migrations):
        raise StoreError(
            f"the {name} was written by a newer version of procession (its form is {there}, this "
            f"version knows up to {len(migrations)}): upgrade procession"
        )
    for statements in migrations[there:]:
        for statement in statements:
            yield Ask(statement.replace("{serial}", dialect.serial))
    if not rows:
        yield Ask("INSERT INTO procession_schema VALUES (?, ?)", (name, len(migrations)))
    elif there < len(migrations):
        yield Ask(
            "UPDATE procession_schema SET version = ? WHERE name = ?", (len(migrations), name)
        )
