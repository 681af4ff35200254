"""W5: how many streams of 50 chunks a second one core carries: `python -m bench.capacity`.

A stream is carried when nearly all of its chunks arrive, the slowest of a hundred no later than
100 ms after it was written, with some of the core left over. A few probes, of some seconds each,
come near to the limit from below: each aims by what a chunk cost in the one before. One that was
late although the core had time to spare was disturbed by neighbours, and is made again. Prints a
JSON line, with the number of streams that were carried, and the number that a whole core would
carry at the price of a chunk there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from contextlib import aclosing
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from . import machine
from .catalogue import BY_NAME, WIRES
from .timing import version
from .verify import CheckFailed
from .wire import RATE, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from .catalogue import Peer

FIRST = 20
MOST = 900  # more would need more connections than the clients open
AIMS = (0.7, 0.85, 0.95)
WINDOW = 2.0
PATIENCE = 10.0
TRIES = 3
LATEST_MS = 100.0
BUSIEST = 0.98
SPARE = 0.85


class Probe(NamedTuple):
    """What so many streams cost."""

    streams: int
    rate: float
    cpu: float
    p99_ms: float

    @property
    def carried(self) -> bool:
        """Whether they all kept pace."""
        return self.rate > 0.98 * RATE and self.cpu < BUSIEST and self.p99_ms <= LATEST_MS

    @property
    def by_cpu(self) -> float:
        """How many streams a whole core would carry at this price."""
        return self.streams / self.cpu


class Readers:
    """Reads streams side by side, and keeps how late each chunk came while `lags` is a list."""

    def __init__(self, texts: Callable[[], Any]) -> None:
        self.texts = texts
        self.lags: list[int] | None = None
        self.begun = asyncio.Semaphore(0)

    async def read(self) -> None:
        """One stream: its texts are the times when they were written."""
        last = 0
        async with aclosing(self.texts()) as texts:
            async for text in texts:
                written = int(text)
                if not last:
                    self.begun.release()
                if written <= last:
                    raise CheckFailed("chunks came twice, or in another order")
                last = written
                if self.lags is not None:
                    self.lags.append(time.monotonic_ns() - written)

    async def probe(self, streams: int) -> Probe:
        """So many streams, for a while."""
        tasks = [asyncio.create_task(self.read()) for _ in range(streams)]
        try:
            async with asyncio.timeout(PATIENCE):
                for _ in tasks:
                    await self.begun.acquire()
            await asyncio.sleep(0.5)
            self.lags = lags = []
            cpu, wall = time.process_time(), time.perf_counter()
            await asyncio.sleep(WINDOW)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            self.lags = None
        finally:
            for task in tasks:
                task.cancel()
            # Not for ever: there are peers who do not let go of a stream.
            ended, _ = await asyncio.wait(tasks, timeout=PATIENCE)
        for task in ended:
            if not task.cancelled() and (wrong := task.exception()) is not None:
                raise wrong
        lags.sort()
        rate = len(lags) / wall / streams
        return Probe(streams, rate, cpu / wall, lags[len(lags) * 99 // 100] / 1e6)


async def measure(peer: Peer, wire: str) -> dict[str, Any]:
    """Probes that come near to the limit."""
    url = f"{Wire(0).origin}/paced/v1"
    readers = Readers(import_module(peer.module).paced(url, wire))
    probes = [await undisturbed(readers, FIRST)]
    for aim in AIMS:
        streams = min(MOST, int(probes[-1].by_cpu * aim))
        if streams > probes[-1].streams:
            probes.append(await undisturbed(readers, streams))
        if not probes[-1].carried:
            break
    best = max((one for one in probes if one.carried), default=None)
    found = best or probes[0]
    return {
        "streams": best.streams if best else 0,
        "by_cpu": round(found.by_cpu),
        "read_us": round(found.cpu / (found.rate * found.streams) * 1e6, 1),
        "p99_ms": round(found.p99_ms, 1),
        "probes": probes,
    }


async def undisturbed(readers: Readers, streams: int) -> Probe:
    """A probe that had the core for itself, if there is one."""
    probe = await readers.probe(streams)
    for _ in range(TRIES - 1):
        if probe.carried or probe.cpu > SPARE:
            break
        probe = await readers.probe(streams)
    return probe


def main() -> None:
    """Measure what the command line says; the exit code is 1 when a check failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.capacity", description=__doc__)
    parser.add_argument("--peer", required=True, choices=BY_NAME)
    parser.add_argument("--wire", default="chat", choices=WIRES)
    options = parser.parse_args()
    machine.pin()
    peer = BY_NAME[options.peer]
    row: dict[str, Any] = {"work": "w5", "what": "capacity", "peer": peer.name}
    row |= {"version": version(peer)}
    try:
        row |= asyncio.new_event_loop().run_until_complete(measure(peer, options.wire))
    except CheckFailed as wrong:
        row["error"] = f"check failed: {wrong}"
    except TimeoutError:
        row["error"] = "streams did not begin"
    print(json.dumps(row), flush=True)
    os._exit(1 if "error" in row else 0)  # with whatever still holds a stream


if __name__ == "__main__":
    main()
