"""Traces in a store, where Studio finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...host import Host
    from ...store import Store
    from ...trace_store import ExportedSpan, ObservabilityStore

__all__ = ["StoreExporter"]


class StoreExporter:
    """Saves spans in the domain `"observability"` of a store.

    The store stays its owner's: `shutdown` gives up only what it holds on the exporter's thread.
    """

    name = "store"

    def __init__(self, store: Store | ObservabilityStore) -> None:
        get = getattr(store, "get_store", None)
        domain: Any = store if get is None else get("observability")
        if not hasattr(domain, "save_spans"):
            raise OptionError(
                "StoreExporter: store must be a store with the domain 'observability'"
            )
        self._store: Any = store
        self._traces: ObservabilityStore = domain

    def register_app(self, app: Host) -> None:
        """The store is closed with the app."""
        app.attach(self._store)

    async def export(self, spans: Sequence[ExportedSpan]) -> None:
        """Save them."""
        await self._traces.save_spans(spans)

    def flush(self) -> None:
        """Everything has been saved."""

    async def shutdown(self) -> None:
        """Give up the connections of this thread, where a store has some for each."""
        if getattr(self._store, "is_per_loop", False):
            await self._store.close()
