"""The domain `"workflows"` in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..encoding import checked_object, from_json, now, stamp, text
from .columns import full, key_of, long_ids
from .script import Ask

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from .script import Backend, Script

__all__ = ["SqlSnapshots"]

_PUT = """
    INSERT INTO procession_snapshots (kind, key, long, value, expires_at)
    VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (kind, key) DO UPDATE SET
        value = excluded.value, expires_at = excluded.expires_at
"""
_ONE = "kind = ? AND key = ?"
_ALIVE = "(expires_at IS NULL OR expires_at > ?)"


class SqlSnapshots:
    """What runs need to go on later; see `WorkflowStore`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def put(
        self,
        kind: str,
        id: str,
        value: Mapping[str, Any],
        *,
        expires_at: datetime | None = None,
    ) -> None:
        """Keep `value`, in place of an earlier one of this kind and id."""
        text(kind, "kind")
        row = (
            key_of(kind),
            key_of(text(id, "id")),
            long_ids(kind=kind, id=id),
            checked_object(value, "value"),
            None if expires_at is None else stamp(expires_at),
        )

        def script() -> Script[None]:
            yield Ask("DELETE FROM procession_snapshots WHERE expires_at <= ?", (now(),))
            yield Ask(_PUT, row)

        await self._backend.write(script)

    async def get(self, kind: str, id: str) -> dict[str, Any] | None:
        """The value, or `None`."""

        def script() -> Script[dict[str, Any] | None]:
            sql = f"SELECT value FROM procession_snapshots WHERE {_ONE} AND {_ALIVE}"
            rows = yield Ask(sql, (key_of(kind), key_of(id), now()))
            return from_json(rows[0][0]) if rows else None

        return await self._backend.read(script, single=True)

    async def take(self, kind: str, id: str) -> dict[str, Any] | None:
        """The value, which is gone thereby: of several who ask, one gets it."""
        locked = self._backend.dialect.locked

        def script() -> Script[dict[str, Any] | None]:
            sql = f"SELECT value, expires_at FROM procession_snapshots WHERE {_ONE}{locked}"
            rows = yield Ask(sql, (key_of(kind), key_of(id)))
            yield Ask(f"DELETE FROM procession_snapshots WHERE {_ONE}", (key_of(kind), key_of(id)))
            alive = rows and (rows[0][1] is None or rows[0][1] > now())
            return from_json(rows[0][0]) if alive else None

        return await self._backend.write(script)

    async def list_ids(self, kind: str) -> list[str]:
        """The ids of a kind, in the order in which they were first put."""

        def script() -> Script[list[str]]:
            sql = (
                f"SELECT key, long FROM procession_snapshots WHERE kind = ? AND {_ALIVE} "
                "ORDER BY seq"
            )
            rows = yield Ask(sql, (key_of(kind), now()))
            return [full("id", key, long) for key, long in rows]

        return await self._backend.read(script, single=True)

    async def delete(self, kind: str, id: str) -> None:
        """Forget the value, if it is there."""

        def script() -> Script[None]:
            yield Ask(f"DELETE FROM procession_snapshots WHERE {_ONE}", (key_of(kind), key_of(id)))

        await self._backend.write(script)
