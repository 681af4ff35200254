"""Other processes that use a store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import asyncio, os, sys
from procession import StoreError
from procession.stores import PostgresStore, SQLiteStore
from tests.stores.saying import said, turn
add = lambda before: str(int(before or 0) + 1)
async def main(place, *arguments):
{body}
asyncio.run(main(*sys.argv[1:]))
"""


def start_process(body: str, *arguments: str) -> subprocess.Popen[str]:
    """Another interpreter that runs `body` in a coroutine that has `place` and `arguments`."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body=body), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def finished(process: subprocess.Popen[str]) -> str:
    """What it printed, when it has ended well."""
    out, err = process.communicate(timeout=50)
    assert process.returncode == 0, err
    return out.strip()
