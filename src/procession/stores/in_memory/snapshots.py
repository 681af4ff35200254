"""The domain `"workflows"` in this process."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

from ..encoding import checked_object, from_json, moment, now, stamp, text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = ["Snapshots"]


class Snapshots:
    """What runs need to go on later; see `WorkflowStore`."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._values: dict[tuple[str, str], tuple[str, datetime | None]] = {}

    async def put(
        self,
        kind: str,
        id: str,
        value: Mapping[str, Any],
        *,
        expires_at: datetime | None = None,
    ) -> None:
        key = (text(kind, "kind"), text(id, "id"))
        ends = None if expires_at is None else moment(stamp(expires_at))
        made = checked_object(value, "value")
        with self._lock:
            self._forget_expired()
            self._values[key] = (made, ends)

    async def get(self, kind: str, id: str) -> dict[str, Any] | None:
        with self._lock:
            return self._read(self._values.get((kind, id)))

    async def take(self, kind: str, id: str) -> dict[str, Any] | None:
        with self._lock:
            return self._read(self._values.pop((kind, id), None))

    async def list_ids(self, kind: str) -> list[str]:
        with self._lock:
            self._forget_expired()
            return [id for each, id in self._values if each == kind]

    async def delete(self, kind: str, id: str) -> None:
        with self._lock:
            self._values.pop((kind, id), None)

    def _read(self, kept: tuple[str, datetime | None] | None) -> dict[str, Any] | None:
        if kept is None or (kept[1] is not None and kept[1] <= moment(now())):
            return None
        return from_json(kept[0])

    def _forget_expired(self) -> None:
        at = moment(now())
        for key, (_, ends) in list(self._values.items()):
            if ends is not None and ends <= at:
                del self._values[key]
