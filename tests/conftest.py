"""What holds for every test: nothing leaves this machine, and no key of its user is seen."""

import os
import signal
import socket
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import settings

# No test fails for the time it takes: that is the business of the measurements.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


class NetworkBlocked(RuntimeError):
    """A test tried to reach an address that is not on this machine."""


# What no test may inherit. A proxy on loopback would be a way out of the guard below.
PRIVATE = ("_API_KEY", "_BASE_URL", "_PROXY")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with the embedded model run in one process: there is one server for all of them."""
    for item in items:
        if "weights" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("embedded model"))


@pytest.fixture(scope="session", autouse=True)
def clean_environment() -> Iterator[None]:
    """The suite runs without provider keys and without proxies."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.upper().endswith(PRIVATE):
                patch.delenv(name)
        yield


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> None:
    """A shell that runs the suite in the background has Ctrl-C ignored, in all children too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def loopback_only() -> Iterator[None]:
    """Only loopback addresses and Unix sockets can be connected to or looked up.

    Child processes are not covered.
    """
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex
    getaddrinfo = socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        check_address(self, address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        check_address(self, address)
        return connect_ex(self, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        check_host(host)
        return getaddrinfo(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
        yield


def check_address(sock: socket.socket, address: Any) -> None:
    """Raise `NetworkBlocked` unless the address is a Unix socket or on loopback."""
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        check_host(address[0])


def check_host(host: Any) -> None:
    """Raise `NetworkBlocked` unless the host is loopback; none means this machine."""
    name = host.decode() if isinstance(host, bytes) else host
    if name is not None and not is_loopback(name):
        raise NetworkBlocked(f"a test tried to reach {name!r}: only loopback is open")


def is_loopback(name: str) -> bool:
    """Whether the name or address belongs to this machine's loopback."""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name in ("localhost", "")
