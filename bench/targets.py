"""What procession has to reach, and what the floor cost where the targets were set.

The targets are microseconds on a quiet machine of one class. A verdict in floors, the target over
the floor it was set beside, holds on any machine and under any load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .cells import CHUNKS, HISTORY, STEPS, Cell
from .results import Results

Value = Callable[[Results, str], float | None]

FEW, MANY = STEPS


class Target(NamedTuple):
    """A limit for a number; `floor` is the floor's own number at the time, where it has one.

    The number must not be larger; with `at_least`, not smaller.
    """

    name: str
    unit: str
    limit: float
    floor: float | None
    value: Value
    at_least: bool = False


def of(cell: Cell) -> Value:
    """The number of a cell."""
    return lambda results, peer: results.value(peer, cell)


def each(work: str, kind: str, size: int = 0) -> Value:
    """What each added processor costs."""
    return lambda results, peer: results.slope(peer, Cell(work, 10, kind, size))


def growth(results: Results, peer: str) -> float | None:
    """How much more a step costs in a long loop."""
    few = results.value(peer, Cell("w3", size=FEW))
    many = results.value(peer, Cell("w3", size=MANY))
    return None if few is None or many is None else many / few


def growth_without_model(results: Results, peer: str) -> float | None:
    """The same, without what the model object spends on encoding the request."""
    few = results.over(peer, Cell("w3", size=FEW))
    many = results.over(peer, Cell("w3", size=MANY))
    return None if few is None or many is None else many / few


def memory(what: str, field: str) -> Value:
    """A number of W6."""
    return lambda results, peer: results.footprint(peer, what, field)


def most(field: str) -> Value:
    """A number of the capacity in W5, the least disturbed of which is the largest."""
    return lambda results, peer: results.footprint(peer, "capacity", field, most=True)


def wired(wire: str) -> Value:
    """W5 with three processors; every peer has something async for chunks, not all have plain."""
    return of(Cell("w5", 3, "async", CHUNKS, wire))


TARGETS = (
    Target("W1 run, no processor", "us", 40, 3, of(Cell("w1"))),
    Target("W1 each processor, plain", "us", 0.5, 0.1, each("w1", "plain")),
    Target("W1 each processor, async", "us", 0.5, 0.25, each("w1", "async")),
    Target("W2 chunk, no processor", "us", 1.2, 0.35, of(Cell("w2", size=CHUNKS))),
    Target("W2 each processor, plain", "us", 0.08, 0.04, each("w2", "plain", CHUNKS)),
    Target("W2 each processor, async", "us", 0.15, 0.11, each("w2", "async", CHUNKS)),
    Target(f"W3 step, {FEW} steps", "us", 50, 4, of(Cell("w3", size=FEW))),
    Target(f"W3 step, {MANY} over {FEW} steps", "times", 1.3, None, growth),
    Target("W3 the same, model left out", "times", 1.3, None, growth_without_model),
    Target(f"W4 {HISTORY:,} kept messages", "us", 300, 90, of(Cell("w4", 0, "kept", HISTORY))),
    Target("W4 the same, 3 processors", "us", 302, 91, of(Cell("w4", 3, "kept", HISTORY))),
    Target("W5 chunk over HTTP, 3 processors, OpenAI Chat", "us", 6, 1.9, wired("chat")),
    Target("W5 the same, OpenAI Responses", "us", 6, None, wired("responses")),
    Target("W5 the same, Anthropic", "us", 6, None, wired("anthropic")),
    Target("W5 the same, Google", "us", 6, None, wired("google")),
    Target("W5 streams of 50 chunks/s", "a core", 180, None, most("streams"), at_least=True),
    Target("W6 import", "ms", 150, 87, memory("import", "wall_ms")),
    # 40 MB with connections; of those the default HTTP client takes 26 by itself.
    Target("W6 1,000 idle streams, in memory", "MB", 14, None, memory("idle", "mb")),
)
