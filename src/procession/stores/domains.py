"""Stores by domain: what all of them share, and the one that spreads domains over several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, overload

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from ..store import MemoryStore, Store, WorkflowStore
    from ..trace_store import ObservabilityStore

__all__ = ["ByDomain", "CompositeStore"]


class ByDomain:
    """What the stores share: domains by name, and the life of a context manager."""

    is_per_loop = False
    _domains: Mapping[str, Any]

    @overload
    def get_store(self, domain: Literal["memory"]) -> MemoryStore: ...
    @overload
    def get_store(self, domain: Literal["workflows"]) -> WorkflowStore: ...
    @overload
    def get_store(self, domain: Literal["observability"]) -> ObservabilityStore: ...
    @overload
    def get_store(self, domain: str) -> Any: ...
    def get_store(self, domain: str) -> Any:
        """The domain. Raises `ConfigurationError` for one that this store does not have."""
        found = self._find(domain)
        if found is None:
            known = ", ".join(sorted(self._domains)) or "none"
            raise ConfigurationError(
                f"{type(self).__name__} has no domain {domain!r}; it has {known}"
            )
        return found

    def _find(self, domain: str) -> Any:
        return self._domains.get(domain)

    async def start(self) -> None:
        """Connect, and bring the stored form up to date. Twice is once."""

    async def close(self) -> None:
        """Let go of connections and threads. Twice is once."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class CompositeStore(ByDomain):
    """Domains of several stores under one roof (M-200).

    `default` keeps what `domains` does not name, which maps a domain's name to the `Store` that
    keeps it. Starting and closing goes to each store once. Raises `ConfigurationError` if a store
    that is named does not have the domain.
    """

    def __init__(
        self, default: Store | None = None, *, domains: Mapping[str, Store] | None = None
    ) -> None:
        named = dict(domains or {})
        self._default = default
        self._domains = {domain: store.get_store(domain) for domain, store in named.items()}
        every = [*([default] if default else []), *named.values()]
        self._stores = list({id(store): store for store in every}.values())

    def _find(self, domain: str) -> Any:
        found = self._domains.get(domain)
        return self._default.get_store(domain) if found is None and self._default else found

    async def start(self) -> None:
        """Start every store; if one cannot, those already started are closed again."""
        started: list[Store] = []
        try:
            for store in self._stores:
                await store.start()
                started.append(store)
        except BaseException:
            for store in reversed(started):
                await store.close()
            raise

    async def close(self) -> None:
        """Close every store, also if closing one of them fails; the first failure is raised."""
        failures: list[Exception] = []
        for store in reversed(self._stores):
            try:
                await store.close()
            except Exception as error:  # the others are closed all the same
                failures.append(error)
        if failures:
            raise failures[0]
