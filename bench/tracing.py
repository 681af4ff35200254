"""What tracing costs a run, a chunk and a step of tools: `python -m bench.tracing`.

The works W1, W2 and W3 of the other benchmarks with tracing off, sampled (one trace of ten) and on,
with spans that go nowhere, and on with a SQLite file. Modes take turns, so that what disturbs one
disturbs all; the CPU of all threads counts. Outcomes and spans are checked before they are timed.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from procession.stores import SQLiteStore
from procession.tracing import StoreExporter, Tracing

from . import machine
from .case import Case, Setup
from .peers import procession as peer
from .timing import burst, calibrated
from .verify import CheckFailed, check_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CHUNKS, STEPS = 2000, 20
WORKS: dict[str, tuple[str, Callable[[Setup], Case], Setup, int, int]] = {
    "w1": ("a run, no processor", peer.request, Setup(0, "none", 0), 1, 3),
    "w1p": ("a run, ten processors", peer.request, Setup(10, "plain", 0), 1, 23),
    "w2": ("a chunk, no processor", peer.chunks, Setup(0, "none", CHUNKS), CHUNKS, 3),
    "w2p": ("a chunk, ten plain hooks", peer.chunks, Setup(10, "plain", CHUNKS), CHUNKS, 13),
    "w2a": ("a chunk, ten async hooks", peer.chunks, Setup(10, "async", CHUNKS), CHUNKS, 13),
    "w3": ("a step of tools, of 20", peer.steps, Setup(0, "none", STEPS), STEPS, 63),
}
"""What a row says, what it runs, how many units that is, and how many spans it makes."""


class Nowhere:
    """Takes spans, and counts them."""

    name = "nowhere"
    inline = True

    def __init__(self) -> None:
        self.count = 0

    def export(self, spans: Sequence[Any]) -> None:
        """Count them."""
        self.count += len(spans)

    def flush(self) -> None:
        """Nothing is kept."""

    def shutdown(self) -> None:
        """Nothing is open."""


def case_of(build: Callable[[Setup], Case], setup: Setup, tracing: Tracing | None) -> Case:
    """The case of the other benchmarks, with an agent that is traced."""
    plain = peer.agent_of
    peer.agent_of = partial(plain, observer=tracing)
    try:
        return build(setup)
    finally:
        peer.agent_of = plain


async def row(name: str, rounds: int, store: SQLiteStore) -> list[float]:
    """Microseconds of CPU for a unit, in each mode."""
    _, build, setup, units, spans = WORKS[name]
    nowhere = Nowhere()
    saved = Tracing([StoreExporter(store)], queue_size=10_000_000)
    modes = [None, Tracing([Nowhere()], sampling=0.1), Tracing([nowhere]), saved]
    cases = [case_of(build, setup, tracing) for tracing in modes]
    for case in cases:
        check_value(case, await case.run())
    if nowhere.count != spans:
        raise CheckFailed(f"{name}: {nowhere.count} spans, not {spans}")
    count = await calibrated(cases[0].run, 0.05)
    found: list[list[float]] = [[] for _ in modes]
    for _ in range(rounds):
        for spent, case in zip(found, cases, strict=True):
            cpu, value = await burst(case.run, count, units)
            check_value(case, value)
            spent.append(cpu.cpu)
    await saved.shutdown()
    return [median(spent) for spent in found]


async def table(rounds: int) -> None:
    """Print a row for each work."""
    print("| CPU, us | off | sampled, 10 % | on | on, into SQLite |\n|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        async with SQLiteStore(Path(folder) / "traces.db", synchronous="normal") as store:
            for name, (words, *_) in WORKS.items():
                spent = await row(name, rounds, store)
                print(f"| {words} | " + " | ".join(f"{each:.2f}" for each in spent) + " |")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.tracing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="how often each mode is timed")
    rounds = parser.parse_args().rounds
    print(f"{machine.description()}, load {machine.load()}")
    asyncio.run(table(rounds))


if __name__ == "__main__":
    main()
