"""The life of the local server's child process: it ends with its parent, however that ends.

The native package is a stand-in that listens and answers nothing: what is tested here is ours, and
the real one is in test_local.py.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from procession.models import local_server
from procession.models.local_server import LocalServer, default_threads

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

NATIVE = """
import socket
from types import SimpleNamespace


def CommonParams():
    return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace())


class Server:
    def __init__(self, params):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listening_address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
"""

PARENT = """
import asyncio, os, subprocess, sys, time
from pathlib import Path
from procession.models.local_server import LocalServer, shared_server
from procession.models import local_server

server = shared_server()
server._weights = Path("example.gguf")
asyncio.run(server.start())
"""

TELLS = f"{PARENT}print(server.url, flush=True)"

WAITS = f"""{PARENT}
try:
    print(server.url, flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    try:
        server._child.wait(1.5)  # an interrupted Python takes a second to end
        print("gone", flush=True)
    except subprocess.TimeoutExpired:
        print("running", flush=True)
"""

FORKS = f"""{TELLS}
if os.fork() == 0:
    sys.exit()  # runs what the parent has registered for its own end
os.wait()
print("running" if server.running else "gone", flush=True)
"""

HOLDS_THE_PIPE = f"""{TELLS}
if os.fork() == 0:
    time.sleep(60)
print(os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A native package that loads no model."""
    (tmp_path / "xllamacpp.py").write_text(NATIVE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@contextmanager
def parent_of(code: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A process, in a group of its own, that has started a server; and where that listens."""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        url = said(parent)
        try:
            yield parent, url
        finally:
            ended(parent.pid)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ended(group: int) -> None:
    """End what is left of a group of ours."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def listens(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port), 1).close()
    except OSError:
        return False
    return True


def gone(url: str) -> bool:
    """Whether the server ends within some seconds."""
    until = time.monotonic() + 10
    while listens(url):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.usefixtures("native")
def test_ends_with_a_parent_that_ends() -> None:
    with parent_of(TELLS) as (parent, url):
        assert parent.wait(10) == 0
        assert gone(url)


@pytest.mark.usefixtures("native")
def test_ends_with_a_parent_that_is_killed() -> None:
    with parent_of(WAITS) as (parent, url):
        assert listens(url)
        parent.kill()
        assert gone(url)


@pytest.mark.usefixtures("native")
def test_ends_with_a_parent_that_is_killed_though_a_fork_holds_the_pipe() -> None:
    with parent_of(HOLDS_THE_PIPE) as (parent, url):
        said(parent)
        parent.kill()
        assert gone(url)


@pytest.mark.usefixtures("native")
def test_ctrl_c_reaches_the_whole_group_and_the_parent_decides() -> None:
    with parent_of(WAITS) as (parent, url):
        os.killpg(parent.pid, signal.SIGINT)
        assert said(parent) == "running"
        assert parent.wait(10) == 0
        assert gone(url)


@pytest.mark.usefixtures("native")
def test_the_end_of_a_fork_is_not_the_servers() -> None:
    with parent_of(FORKS) as (parent, url):
        assert said(parent) == "running"
        assert parent.wait(10) == 0
        assert gone(url)


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (3, 1), (4, 2), (16, 8)])
def test_half_of_the_cores_by_default(
    monkeypatch: pytest.MonkeyPatch, cores: int, threads: int
) -> None:
    allowed = set(range(cores))
    monkeypatch.setattr(local_server.os, "sched_getaffinity", lambda _: allowed, raising=False)
    assert default_threads() == threads


def test_threads_can_be_chosen(tmp_path: Path) -> None:
    server = LocalServer(tmp_path / "example.gguf", threads=3)
    assert b'"threads": 3' in server._settings(tmp_path / "example.gguf")
