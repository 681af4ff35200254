"""One virtual environment for each peer, so that none decides what another is measured with."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from typing import TYPE_CHECKING

from .catalogue import ROOT, WORK

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .catalogue import Peer

STAMP = "installed-from"


def folder(peer: Peer) -> Path:
    """Where the peer's environment lives."""
    return WORK / "venvs" / peer.name


def interpreter(peer: Peer) -> Path:
    """The Python of the peer's environment."""
    parts = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return folder(peer).joinpath(*parts)


def missing(peer: Peer) -> str | None:
    """Why the peer cannot be measured, or `None` when it can."""
    stamp = folder(peer) / STAMP
    if not stamp.exists() or not interpreter(peer).exists():
        return "not installed"
    if stamp.read_text() != fingerprint(peer):
        return "not installed: its pins or this Python changed, run --setup again"
    return None


def fingerprint(peer: Peer) -> str:
    """Changes when the environment has to be made anew."""
    digest = hashlib.sha256(peer.requirements.read_bytes())
    digest.update(sys.version.encode())
    return digest.hexdigest()


def set_up(peers: Iterable[Peer]) -> int:
    """Make what is missing; the number of peers that could not be installed."""
    failed = 0
    for peer in peers:
        if missing(peer) is None:
            print(f"{peer.name}: ready")
            continue
        print(f"{peer.name}: installing from {peer.requirements.relative_to(ROOT)}", flush=True)
        failed += not make(peer)
    return failed


def make(peer: Peer) -> bool:
    """Make one environment; the stamp is written last, so a broken one never counts as there."""
    shutil.rmtree(folder(peer), ignore_errors=True)
    venv.create(folder(peer), with_pip=True)
    command = [str(interpreter(peer)), "-m", "pip", "install", "--quiet", "--require-hashes"]
    done = subprocess.run([*command, "--requirement", str(peer.requirements)], check=False)
    if done.returncode:
        print(f"{peer.name}: pip failed with exit code {done.returncode}", flush=True)
        return False
    (folder(peer) / STAMP).write_text(fingerprint(peer))
    return True


def surroundings(peer: Peer) -> dict[str, str]:
    """The environment variables of the peer's processes: this one's, but for Python's own.

    Those would change what is measured: a Python that may not write byte code, for one, compiles
    a source tree again at each import.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    if peer.source is not None:
        env["PYTHONPATH"] = str(peer.source)
    env["PYTHONHASHSEED"] = "0"  # the same dict and set layout in every process
    return env
