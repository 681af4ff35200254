"""Every test of the shared suite runs against every store of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from procession.stores import PostgresStore, SQLiteStore
from procession.vectors.in_memory import InMemoryVectors
from procession.vectors.postgres import PostgresVectors
from procession.vectors.sqlite import SQLiteVectors
from tests.postgres import postgres

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from procession.vector_store import VectorStore

__all__ = ["postgres"]

KINDS = ["in memory", "SQLite", "SQLite in memory", "PostgreSQL", "PostgreSQL with HNSW"]


def make_vectors(kind: str, request: pytest.FixtureRequest, folder: Path) -> tuple[Any, Any]:
    """An empty store of a kind, and what is to be closed afterwards."""
    if kind == "in memory":
        return InMemoryVectors(), None
    if kind.startswith("SQLite"):
        path = ":memory:" if kind.endswith("memory") else folder / "store.db"
        store = SQLiteStore(path, synchronous="normal")
        return SQLiteVectors(store), store
    url = request.getfixturevalue("postgres")
    server = PostgresStore(url, schema="vectors", max_size=5)
    return PostgresVectors(server, hnsw=kind.endswith("HNSW")), server


@pytest.fixture(params=KINDS)
async def vectors(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[VectorStore]:
    """An empty store, of every kind in turn."""
    made, below = make_vectors(request.param, request, tmp_path)
    yield made
    for name in await made.list_indexes():
        await made.delete_index(name)
    if below is not None:
        await below.close()
