"""Every test of the shared suite runs against every store (M-204)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from procession.ids import new_id
from procession.stores import InMemoryStore, PostgresStore, SQLiteStore
from tests.postgres import postgres

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from procession.store import MemoryStore, WorkflowStore

__all__ = ["postgres"]

KINDS = ["in memory", "SQLite", "SQLite in memory", "PostgreSQL"]


def make_store(kind: str, request: pytest.FixtureRequest, folder: Path) -> Any:
    """An empty store of a kind."""
    if kind == "in memory":
        return InMemoryStore()
    if kind == "SQLite":
        # Waiting for the disk is what makes a file slow, and what no test can see.
        return SQLiteStore(folder / "store.db", synchronous="normal")
    if kind == "SQLite in memory":
        return SQLiteStore(":memory:")
    return PostgresStore(request.getfixturevalue("postgres"), schema=f"s{new_id()}", max_size=5)


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """An empty store, of every kind in turn."""
    async with make_store(request.param, request, tmp_path) as made:
        yield made


@pytest.fixture
def memory(store: Any) -> MemoryStore:
    """Its conversations."""
    return store.get_store("memory")


@pytest.fixture
def workflows(store: Any) -> WorkflowStore:
    """Its waiting runs."""
    return store.get_store("workflows")
