"""A real PostgreSQL server for the tests. Each worker has its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from checks.postgres_server import postgres_server

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["postgres"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a database with pgvector. Tests keep apart by their schemas."""
    with postgres_server() as server:
        yield server.url
