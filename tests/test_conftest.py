"""The network guard of the suite."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

# RFC 5737 keeps this address for documents: nobody answers on it.
OUTSIDE = "192.0.2.1"


@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_other_machines_cannot_be_connected_to(method: str) -> None:
    with socket.socket() as sock, pytest.raises(RuntimeError, match="only loopback is open"):
        getattr(sock, method)((OUTSIDE, 80))


def test_names_of_other_machines_are_not_looked_up() -> None:
    with pytest.raises(RuntimeError, match="only loopback is open"):
        socket.create_connection(("example.com", 80))


async def test_asyncio_is_guarded_too() -> None:
    with pytest.raises(RuntimeError, match="only loopback is open"):
        await asyncio.open_connection(OUTSIDE, 80)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost"])
def test_loopback_stays_open(host: str) -> None:
    with socket.create_server((host, 0)) as server, socket.socket() as client:
        client.connect((host, server.getsockname()[1]))


def test_unix_sockets_stay_open(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))


def test_no_key_is_seen() -> None:
    assert not [name for name in os.environ if name.upper().endswith("_API_KEY")]
