"""Storage that is the app's: what has none of its own takes that of the app it is registered on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..host import Host

__all__ = ["StoresSomething"]


class StoresSomething:
    """Keeps things in the storage it was given, or in that of the app (M-021)."""

    storage: Any
    """A `Store`, or its domain `"memory"`; `None` for none at all."""
    _is_lent = False

    def register_app(self, app: Host) -> None:
        """Take the app's store, unless there is a storage; it is closed with the app."""
        if self.storage is None or self._is_lent:
            self.storage, self._is_lent = app.store, app.store is not None
        app.attach(self.storage)
