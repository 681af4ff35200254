"""What a judged guard adds to a stream beside the judge itself: `python -m bench.judging`.

A scripted answer is streamed past a `ModerationProcessor` whose judge takes a fixed time. From the
time of a run are taken away that of the same run without the guard, and that of the same calls made
to the judge directly, one after the other: what is left is our own, for each unit that was judged.
Each granularity is run with one call at a time and with several (`--concurrency`), whose own time
cannot be told from that of the judge: of them the CPU is told, and how long all of it takes.
Nothing is timed before text and calls were checked.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from procession import Agent
from procession.model import ModelRequest
from procession.processors import ModerationProcessor
from procession.testing import ScriptedModel, answer

from . import machine
from .verify import CheckFailed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from procession.chunks import Chunk

BLOCKS, SENTENCES, WORDS = 5, 6, 10
GRANULARITIES = ("delta", "sentence", "part", "step")
REQUEST = ModelRequest(prompt=[], settings={})
VERDICT = '{"category_scores": null, "reason": null}'


class Spent(NamedTuple):
    """Microseconds of one run, and when its first text was there."""

    cpu: float
    wall: float
    first: float


class Judge:
    """Says that all is well, after `delay` seconds; counts how often it was asked."""

    provider, model_id = "example", "judge-1"

    def __init__(self, delay: float, reads: Sequence[Sequence[Chunk]]) -> None:
        self.delay = delay
        self.calls = self.open = self.most = 0
        self._reads = reads

    async def stream(self, request: Any) -> AsyncGenerator[Sequence[Chunk], None]:
        self.calls += 1
        self.open += 1
        self.most = max(self.most, self.open)
        if self.delay:
            await asyncio.sleep(self.delay)
        for read in self._reads:
            yield read
        self.open -= 1


async def verdict() -> list[Sequence[Chunk]]:
    """What the judge says, made once: a double that records would cost more than what it plays."""
    return [read async for read in ScriptedModel([VERDICT]).stream(REQUEST)]


def blocks() -> list[list[str]]:
    """The deltas of each block: a word each."""
    sentence = ["The ", *[f"word{n} " for n in range(WORDS - 2)], "end. "]
    return [sentence * SENTENCES for _ in range(BLOCKS)]


def played() -> list[Any]:
    """The parts of the answer, with ids of their own for the blocks."""
    last = answer("x").parts[-1]
    parts: list[Any] = []
    for number, deltas in enumerate(blocks()):
        block = {"id": f"t{number}"}
        parts.append({"type": "text-start", **block})
        parts += [{"type": "text-delta", **block, "delta": delta} for delta in deltas]
        parts.append({"type": "text-end", **block})
    return [*parts, last]


async def once(guards: list[Any]) -> Spent:
    """One run; the clock stops when it has ended."""
    agent = Agent(id="a", model=ScriptedModel([played()]), output_processors=guards)
    gc.collect()
    first, texts = 0.0, []
    cpu, wall = time.process_time(), time.perf_counter()
    run = await agent.stream("go")
    async for chunk in run:
        if chunk.type == "text-delta":
            first = first or time.perf_counter()
            texts.append(chunk.payload.text)
    ended = time.perf_counter()
    spent = Spent((time.process_time() - cpu) * 1e6, (ended - wall) * 1e6, (first - wall) * 1e6)
    if "".join(texts) != "".join(delta for block in blocks() for delta in block):
        raise CheckFailed("the text is not what the model has said")
    return spent


async def directly(delay: float, reads: Sequence[Sequence[Chunk]], calls: int) -> Spent:
    """As many calls of the judge, with nobody in between."""
    judge = Judge(delay, reads)
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        async for _read in judge.stream(REQUEST):
            pass
    return Spent((time.process_time() - cpu) * 1e6, (time.perf_counter() - wall) * 1e6, 0.0)


def expected(granularity: str) -> int:
    """How often the judge is asked; the complete answer once more, unless it was judged whole."""
    units = {
        "delta": BLOCKS * SENTENCES * WORDS,
        "sentence": BLOCKS * SENTENCES,
        "part": BLOCKS,
        "step": BLOCKS,
    }
    return units[granularity] + 1


async def guarded(
    granularity: str, concurrency: int, delay: float, reads: Sequence[Sequence[Chunk]]
) -> Spent:
    """One run with the guard, and its calls counted."""
    judge = Judge(delay, reads)
    options: Any = {"granularity": granularity, "concurrency": concurrency}
    guard = ModerationProcessor(model=judge, **options)
    spent = await once([guard])
    if judge.calls != expected(granularity):
        raise CheckFailed(f"{granularity}: {judge.calls} calls instead of {expected(granularity)}")
    if judge.most > concurrency:
        raise CheckFailed(f"{granularity}: {judge.most} calls at a time")
    return spent


async def least(run: Callable[[], Awaitable[Spent]], repeats: int) -> Spent:
    """The least of each figure: neighbours on a machine only ever add. The first run warms up."""
    await run()
    spent = [await run() for _ in range(repeats)]
    return Spent(*map(min, zip(*spent, strict=True)))


async def table(granularities: Sequence[str], delay: float, repeats: int, concurrency: int) -> None:
    """Print a row for each granularity and number of calls at a time."""
    reads = await verdict()
    bare = await least(partial(once, []), repeats)
    print(
        "| `granularity` | at a time | calls | our own CPU µs a call | our own time µs a call "
        "| first text, ms | all of it, ms |\n|---|---:|---:|---:|---:|---:|---:|"
    )
    print(f"| no guard | | 0 | | | {bare.first / 1e3:.1f} | {bare.wall / 1e3:.1f} |")
    for granularity in granularities:
        calls = expected(granularity)
        judged = await least(partial(directly, delay, reads, calls), repeats)
        for many in (1, concurrency):
            spent = await least(partial(guarded, granularity, many, delay, reads), repeats)
            cpu = (spent.cpu - bare.cpu - judged.cpu) / calls
            wall = (spent.wall - bare.wall - judged.wall) / calls
            own = f"{wall:.0f}" if many == 1 else ""
            print(
                f"| `{granularity}` | {many} | {calls} | {cpu:.0f} | {own} "
                f"| {spent.first / 1e3:.1f} | {spent.wall / 1e3:.1f} |"
            )


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.judging",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--delay", type=float, default=5.0, help="of the judge, milliseconds")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--granularity", nargs="+", choices=GRANULARITIES, default=GRANULARITIES)
    parser.add_argument("--concurrency", type=int, default=4, help="so many calls at a time")
    options = parser.parse_args()
    machine.pin()
    print(f"{machine.description()}, load {machine.load()}")
    delay, wanted = options.delay / 1000, options.granularity
    asyncio.run(table(wanted, delay, options.repeats, options.concurrency))


if __name__ == "__main__":
    main()
