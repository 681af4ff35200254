"""W6: the memory of 1,000 streams that wait for their second chunk: `python -m bench.idle`.

In memory, without connections. Prints a JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import machine
from .case import IDLE_TEXTS
from .catalogue import BY_NAME
from .timing import version
from .verify import CheckFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from .catalogue import Peer

PATIENCE = 60.0


async def read(texts: AsyncIterator[str], got: list[str], arrived: asyncio.Semaphore) -> None:
    """A reader that keeps what it reads, and tells of each text."""
    async for text in texts:
        got.append(text)
        arrived.release()


async def opened(
    texts: Callable[[], AsyncIterator[str]], count: int
) -> tuple[list[asyncio.Task[None]], list[list[str]]]:
    """`count` streams with a reader each, all of which have their first chunk and wait."""
    arrived = asyncio.Semaphore(0)
    got: list[list[str]] = [[] for _ in range(count)]
    tasks = [asyncio.create_task(read(texts(), one, arrived)) for one in got]
    async with asyncio.timeout(PATIENCE):
        for _ in range(count):
            await arrived.acquire()
    await asyncio.sleep(0.1)  # every reader asks for its next chunk, which does not come
    if any(len(one) != 1 for one in got):
        raise CheckFailed("a stream went on though its model waits")
    return tasks, got


async def closed(
    gate: asyncio.Event, opened: tuple[list[asyncio.Task[None]], list[list[str]]]
) -> None:
    """Let the streams end, and see that each one carried its texts."""
    tasks, got = opened
    gate.set()
    await asyncio.gather(*tasks)
    if any(one != list(IDLE_TEXTS) for one in got):
        raise CheckFailed(f"expected {IDLE_TEXTS} from every stream, got {got[0]} and the like")


async def measure(peer: Peer, count: int) -> float:
    """What `count` idle streams add to the resident memory, in MB."""
    make = import_module(peer.module).idle
    first = asyncio.Event()
    await closed(first, await opened(make(first), 3))  # what is made once, is made now
    gate = asyncio.Event()
    texts = make(gate)
    gc.collect()
    before = machine.resident_mb()
    streams = await opened(texts, count)
    gc.collect()
    after = machine.resident_mb()
    await closed(gate, streams)
    return after - before


def main() -> int:
    """Measure what the command line says; 1 when a check failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.idle", description=__doc__)
    parser.add_argument("--peer", required=True, choices=BY_NAME)
    parser.add_argument("--streams", type=int, default=1000)
    options = parser.parse_args()
    machine.pin()
    peer = BY_NAME[options.peer]
    row: dict[str, Any] = {
        "work": "w6",
        "what": "idle",
        "peer": peer.name,
        "version": version(peer),
    }
    row["size"] = options.streams
    try:
        row["mb"] = round(asyncio.run(measure(peer, options.streams)), 2)
    except CheckFailed as wrong:
        row["error"] = f"check failed: {wrong}"
    print(json.dumps(row))
    return 1 if "error" in row else 0


if __name__ == "__main__":
    sys.exit(main())
