"""A process of its own that serves one GGUF file on loopback until its parent is gone.

`LocalServer` runs this file by its path, as `python -P serve.py`: it imports nothing of ours, so
the process starts fast. The parent writes one line of JSON to its standard input (`weights`,
`name`, `api_key`, `slots`, `context`, `threads`) and keeps that pipe open; the answer is one line
of JSON on standard output (`url`). When the pipe closes, because the parent closed it or died,
this process ends at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any


def main() -> None:
    """Read the settings, serve, and wait to be ended."""
    parent = os.getppid()
    # Ctrl-C in a terminal reaches all processes of it. The parent decides what becomes of this one:
    # it may want to go on, or to close its connections first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever native code prints must not look like an answer
    settings: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    # Before the model is loaded: a parent may also die while that takes its time.
    threading.Thread(target=_end_with_pipe, daemon=True).start()
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    server = _serve(settings)
    answers.write(json.dumps({"url": server.listening_address}) + "\n")
    answers.flush()
    threading.Event().wait()


def _end_with_pipe() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def _end_with_parent(parent: int) -> None:
    # A fork of the parent may hold the pipe open after the parent's death.
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(0)


def _serve(settings: dict[str, Any]) -> Any:
    import xllamacpp  # pyright: ignore[reportMissingTypeStubs]

    native: Any = xllamacpp
    params = native.CommonParams()
    params.model.path = settings["weights"]
    params.model_alias = {settings["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # any free one
    params.api_keys = [settings["api_key"]]  # other users of this machine have no business here
    params.cors_origins = ""  # neither have pages in the user's browser
    params.ui = False
    params.verbosity = 0
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["context"]
    params.kv_unified = True  # one conversation may fill the context that several share
    params.cache_ram_mib = 0  # the default keeps up to 8 GB of old prompts
    params.cpuparams.n_threads = settings["threads"]
    return native.Server(params)


if __name__ == "__main__":
    main()
