"""One cell of one peer, in a process of its own: `python -m bench.timing`. Prints a JSON line."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import time
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any, NamedTuple

from . import machine
from .case import Case, Setup, Unsupported
from .catalogue import BY_NAME, OURS, WIRES
from .cells import Cell
from .verify import CheckFailed, check_requests, check_value, watched_run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .catalogue import Peer

# Short repeats: one that nobody disturbed is among them even on a busy machine.
REPEATS, SECONDS = 15, 0.03
# Where one run takes longer than that, fewer repeats will do (seconds of CPU).
FEWEST, LONGEST = 3, 2.0

BUILDERS = {"w1": "request", "w2": "chunks", "w3": "steps", "w4": "request", "w5": "wire"}


class Spent(NamedTuple):
    """Microseconds for one unit: a run, or one of a run's chunks or steps."""

    cpu: float
    wall: float


async def burst(run: Callable[[], Awaitable[Any]], count: int, units: int = 1) -> tuple[Spent, Any]:
    """`count` runs of so many units in a row, and the last one's value."""
    gc.collect()
    value = None
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(count):
        value = await run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    share = 1e6 / (count * units)
    return Spent(cpu * share, wall * share), value


async def calibrated(run: Callable[[], Awaitable[Any]], seconds: float) -> int:
    """How many runs take about `seconds` of CPU. Finding out warms the code up, too."""
    count = 1
    while True:
        spent, _ = await burst(run, count)
        total = spent.cpu * count / 1e6
        if total >= seconds / 4:
            return max(1, round(count * seconds / total))
        count *= 4 if total < seconds / 16 else 2


async def timed(
    run: Callable[[], Awaitable[Any]], options: argparse.Namespace, case: Case | None = None
) -> dict[str, Any]:
    """The median of the repeats; with a `case`, each repeat's last value is checked as well."""
    units = options.size if options.work in ("w2", "w3", "w5") else 1
    count = await calibrated(run, options.seconds)
    spent: list[Spent] = []
    enough = time.process_time() + LONGEST
    while len(spent) < options.repeats and (len(spent) < FEWEST or time.process_time() < enough):
        one, value = await burst(run, count, units)
        if case is not None:
            check_value(case, value)
        spent.append(one)
    return {
        "cpu_us": round(statistics.median(one.cpu for one in spent), 4),
        "wall_us": round(statistics.median(one.wall for one in spent), 4),
        "repeats": len(spent),
        "cpu_us_least": round(min(one.cpu for one in spent), 4),
        "runs": count,
    }


async def measure(peer: Peer, cell: Cell, options: argparse.Namespace) -> dict[str, Any]:
    """Check, then time."""
    build = getattr(import_module(peer.module), BUILDERS[cell.work])
    case: Case = build(Setup(*cell[1:]))
    check_value(case, await case.run())  # what is lazy in the peer happens here
    requests = await watched_run(case)
    check_requests(cell, case, requests)
    row: dict[str, Any] = {}
    # A peer's model is its own business but where chunks are counted over it.
    if case.alone is not None and (cell.work == "w2" or peer.name in OURS):
        alone = case.alone
        own = await timed(lambda: alone(requests), options)
        row |= {f"model_{key}": own[key] for key in ("cpu_us", "cpu_us_least", "wall_us")}
    return row | await timed(case.run, options, case)


def outcome(peer: Peer, options: argparse.Namespace) -> dict[str, Any]:
    """The row: numbers, or why there are none."""
    cell = Cell(options.work, options.processors, options.kind, options.size, options.wire)
    row: dict[str, Any] = {"peer": peer.name, **cell._asdict(), "version": version(peer)}
    try:
        return row | asyncio.run(measure(peer, cell, options))
    except Unsupported as lacking:
        return row | {"unsupported": str(lacking)}
    except CheckFailed as wrong:
        return row | {"error": f"check failed: {wrong}"}


def version(peer: Peer) -> str | None:
    """What is installed of the peer; `None` for a source tree."""
    if peer.source is not None:
        return None
    return metadata.version(peer.package)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; only `bench.rounds` writes it."""
    parser = argparse.ArgumentParser(prog="python -m bench.timing", description=__doc__)
    parser.add_argument("--peer", required=True, choices=BY_NAME)
    parser.add_argument("--work", required=True, choices=BUILDERS)
    parser.add_argument("--processors", type=int, default=0)
    parser.add_argument(
        "--kind", default="none", choices=("none", "plain", "async", "kept", "fresh")
    )
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--wire", default="", choices=("", *WIRES))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="CPU time of one repeat")
    return parser.parse_args(arguments)


def main() -> int:
    """Measure what the command line says; 1 when a check failed."""
    options = parse()
    machine.pin()
    row = outcome(BY_NAME[options.peer], options)
    print(json.dumps(row))
    return 1 if "error" in row else 0


if __name__ == "__main__":
    sys.exit(main())
