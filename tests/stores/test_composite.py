"""Domains of several stores under one roof (M-200)."""

from __future__ import annotations

from typing import Any

import pytest

from procession import ConfigurationError, StoreError
from procession.store import Store
from procession.stores import CompositeStore, InMemoryStore, SQLiteStore
from procession.stores.domains import ByDomain


class Watched(ByDomain):
    """Notes when it is started and closed; may fail at either."""

    def __init__(self, name: str, told: list[str], *, fails: str = "", domain: str = "") -> None:
        self.name, self.told, self.fails = name, told, fails
        self._domains = {domain or name: self}

    async def start(self) -> None:
        self.note("start")

    async def close(self) -> None:
        self.note("close")

    def note(self, what: str) -> None:
        self.told.append(f"{what} {self.name}")
        if self.fails == what:
            raise StoreError(f"{self.name} cannot {what}")


def test_m_200_each_domain_is_where_it_was_put() -> None:
    file, here = SQLiteStore("a.db"), InMemoryStore()
    both = CompositeStore(file, domains={"workflows": here})
    assert both.get_store("memory") is file.get_store("memory")
    assert both.get_store("workflows") is here.get_store("workflows")
    assert all(isinstance(each, Store) for each in (file, here, both))


def test_a_domain_that_nobody_has_is_told() -> None:
    told: list[str] = []
    with pytest.raises(ConfigurationError, match="InMemoryStore has no domain 'vectors'; it has"):
        InMemoryStore().get_store("vectors")
    with pytest.raises(ConfigurationError, match="Watched has no domain 'memory'"):
        CompositeStore(domains={"memory": Watched("other", told)})
    with pytest.raises(ConfigurationError, match="CompositeStore has no domain 'memory'; it has a"):
        CompositeStore(domains={"a": Watched("a", told)}).get_store("memory")
    with pytest.raises(ConfigurationError, match="no domain 'x'; it has none"):
        CompositeStore().get_store("x")


async def test_each_store_is_started_and_closed_once() -> None:
    told: list[str] = []
    a, b = Watched("a", told), Watched("b", told)
    async with CompositeStore(a, domains={"a": a, "b": b}):
        assert told == ["start a", "start b"]
    assert told[2:] == ["close b", "close a"]


async def test_a_store_that_cannot_start_leaves_none_open() -> None:
    told: list[str] = []
    stores: Any = {name: Watched(name, told, fails="start" * (name == "b")) for name in "abc"}
    with pytest.raises(StoreError, match="b cannot start"):
        await CompositeStore(domains=stores).start()
    assert told == ["start a", "start b", "close a"]


async def test_all_are_closed_though_one_cannot() -> None:
    told: list[str] = []
    stores: Any = {name: Watched(name, told, fails="close" * (name == "b")) for name in "abc"}
    with pytest.raises(StoreError, match="b cannot close"):
        await CompositeStore(domains=stores).close()
    assert told == ["close c", "close b", "close a"]
