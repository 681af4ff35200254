"""A llama.cpp server for the embedded model, as a child process on loopback.

A child process, not a thread: native code that crashes, or runs out of memory, takes only the
child along; ending it midway is safe; and its work never holds this interpreter's lock. It ends
with this process, however this process ends.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from ..errors import ConfigurationError, ModelError
from .weights import ensure_weights

if TYPE_CHECKING:
    from .weights import Progress

__all__ = ["LocalServer", "shared_server"]

_SCRIPT = Path(__file__).with_name("serve.py")


class LocalServer:
    """Serves one model over the OpenAI wire format; `async with` starts and stops it.

    `weights` is a GGUF file; without one the embedded model is used, and fetched first if need be.
    `slots` is how many answers are generated at a time (more wait their turn), `context` how many
    tokens all of them share, `threads` how many cores to use (if not given, half of those that this
    process may use), and `start_timeout` how many seconds loading may take.
    """

    def __init__(
        self,
        weights: Path | None = None,
        *,
        slots: int = 4,
        context: int = 8192,
        threads: int | None = None,
        start_timeout: float = 60.0,
    ) -> None:
        self.model = "smollm2"
        """What to give as `model` in requests."""
        self.api_key = secrets.token_urlsafe(24)
        """The key this server asks for; made anew for each server."""
        self._weights = weights
        self._slots, self._context = slots, context
        self._threads = threads or default_threads()
        self._start_timeout = start_timeout
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._url: str | None = None

    @property
    def running(self) -> bool:
        """Whether the child process is alive and has said where it listens."""
        child = self._child
        return self._url is not None and child is not None and child.poll() is None

    @property
    def url(self) -> str:
        """The server's root, for example for `/health` and `/slots`."""
        if self._url is None:
            raise ConfigurationError("the local model server is not running: await start() first")
        return self._url

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as its base URL."""
        return f"{self.url}/v1"

    async def start(self, progress: Progress | None = None) -> None:
        """Start the server unless it runs; it answers requests from then on.

        A server that has died is started again. `progress` hears of a fetch of the weights.
        Raises `ModelFetchError` (no weights), `ConfigurationError` (the native package is
        missing) or `ModelError` (it did not start), each with what to do.
        """
        if self.running:
            return
        if find_spec("xllamacpp") is None:
            raise ConfigurationError(
                "the embedded model needs the package xllamacpp: install procession[local]"
            )
        weights = self._weights or await ensure_weights(progress)
        await asyncio.to_thread(self._start, weights)

    def stop(self) -> None:
        """End the child process now; answers under way break off. Harmless when not running."""
        child, self._child, self._url = self._child, None, None
        if child is None:
            return
        child.kill()  # it keeps nothing that would have to be saved
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:  # cancelled while loading, for one
            self.stop()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.stop()

    def _start(self, weights: Path) -> None:
        with self._lock:
            if self.running:
                return  # somebody else was first
            self.stop()
            with tempfile.TemporaryFile() as log:
                try:
                    self._url = self._launch(weights, log)
                except BaseException:
                    self.stop()
                    raise

    def _launch(self, weights: Path, log: IO[bytes]) -> str:
        # -P: this folder must not come first on the path, its file names would hide packages.
        child = self._child = subprocess.Popen(
            [sys.executable, "-P", str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        assert child.stdin is not None and child.stdout is not None
        patience = threading.Timer(self._start_timeout, child.kill)
        patience.start()
        try:
            child.stdin.write(self._settings(weights))
            child.stdin.flush()
            answer = child.stdout.readline()
        except (OSError, ValueError):  # it died at once, or stop() closed the pipes
            answer = b""
        finally:
            patience.cancel()
        if not answer:
            raise ModelError(self._why(child, log, weights))
        url: str = json.loads(answer)["url"]
        return url

    def _settings(self, weights: Path) -> bytes:
        settings = {
            "weights": str(weights),
            "name": self.model,
            "api_key": self.api_key,
            "slots": self._slots,
            "context": self._context,
            "threads": self._threads,
        }
        return json.dumps(settings).encode() + b"\n"

    def _why(self, child: subprocess.Popen[bytes], log: IO[bytes], weights: Path) -> str:
        code = child.wait()
        log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
        words = log.read().decode("utf-8", "replace").strip()
        return (
            f"the local model server did not start with {weights.name} (exit code {code}, after "
            f"at most {self._start_timeout:g} seconds). It said: {words or '(nothing)'}"
        )


def default_threads() -> int:
    """Half of the cores that this process may use, at least one.

    The server's threads wait for each other by spinning: with as many as there are cores, any other
    work on the machine (this process, for one) slows the model down ten times.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, cores // 2)


_shared: tuple[int, LocalServer] | None = None
_shared_lock = threading.Lock()


def shared_server() -> LocalServer:
    """The one server of this process that `local/smollm2` uses; it is started when first needed.

    It ends with the process. A forked child of this process gets a server of its own.
    """
    global _shared
    with _shared_lock:
        if _shared is None or _shared[0] != os.getpid():
            server = LocalServer()
            _shared = (os.getpid(), server)
            atexit.register(server.stop)
        return _shared[1]
