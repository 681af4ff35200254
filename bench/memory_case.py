"""What each memory is made to do, and how that is timed and checked; runs in a peer's environment.

`python -m bench.memory_case --peer NAME --place PATH-OR-URL …` prints a JSON object. A peer's
module has an async context manager `opened(place)`, which gives an object with the methods of
`Turns`. A turn is a question and an answer of 200 characters, from a model that costs nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from importlib import import_module
from statistics import quantiles
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .machine import pin
from .verify import CheckFailed, clipped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LENGTH = 200
LAST = 10
"""How many stored messages a prompt holds, where the peer can be told that."""
WARM_UP = 5


class Turns(Protocol):
    """Conversations that are kept in one place.

    `limits` says that a prompt holds the newest `LAST` messages only; `seen` is how many texts the
    model was asked with last.
    """

    limits: bool
    seen: int

    async def turn(self, thread: str, question: str) -> str:
        """Ask in a thread; the answer."""
        ...

    async def bare(self, question: str) -> str:
        """The same without a memory."""
        ...

    async def fill(self, thread: str, texts: list[str]) -> None:
        """A new thread, in which these have been said, by user and assistant in turn."""
        ...

    async def texts(self, thread: str) -> list[str]:
        """All that a thread holds, in order."""
        ...


def question_of(number: int, talker: int = 0) -> str:
    """The user's text in a turn; no two are the same."""
    return f"{talker}.{number} ".ljust(LENGTH, "q")


def answer_to(question: str) -> str:
    """What each model says."""
    return question.rstrip("q").ljust(LENGTH, "a")


class Spent(NamedTuple):
    """Of some turns: milliseconds each, and microseconds of CPU of this process for all of them."""

    times: list[float]
    cpu: float

    def percentile(self, percent: int) -> float:
        """The time that so many of them do not exceed."""
        return quantiles(self.times, n=100, method="inclusive")[percent - 1]

    @property
    def cpu_each(self) -> float:
        """Microseconds of CPU for one."""
        return self.cpu / len(self.times)


async def timed(ask: Callable[[int], Awaitable[str]], turns: int, seconds: float) -> Spent:
    """One turn after the other, so many or for so long."""
    for number in range(WARM_UP):
        await ask(number)
    times: list[float] = []
    gc.collect()
    end, cpu = time.perf_counter() + seconds, time.process_time()
    for number in range(WARM_UP, WARM_UP + turns):
        begun = time.perf_counter()
        said = await ask(number)
        times.append((time.perf_counter() - begun) * 1e3)
        if said != answer_to(question_of(number)):
            raise CheckFailed(f"answered {clipped(said)}")
        if time.perf_counter() > end and len(times) > 1:
            break
    return Spent(times, (time.process_time() - cpu) * 1e6)


async def over_the_bare_run(memory: Turns, size: int, turns: int, seconds: float) -> dict[str, Any]:
    """What a turn takes in a thread of so many messages, beyond the run without a memory."""
    thread = f"of {size}"
    before = [f"{n:05} ".ljust(LENGTH, "x") for n in range(size)]
    await memory.fill(thread, before)
    kept = await timed(lambda n: memory.turn(thread, question_of(n)), turns, seconds)
    seen = LAST + 1 if memory.limits else size + 2 * (WARM_UP + len(kept.times)) - 1
    if memory.seen != seen:
        raise CheckFailed(f"the model saw {memory.seen} messages, not {seen}")
    asked = [question_of(number) for number in range(WARM_UP + len(kept.times))]
    said = [text for question in asked for text in (question, answer_to(question))]
    if await memory.texts(thread) != [*before, *said]:
        raise CheckFailed("the thread does not hold what was said, in order")
    bare = await timed(lambda n: memory.bare(question_of(n)), turns, seconds)
    base = bare.percentile(50)
    return {
        "p50": kept.percentile(50) - base,
        "p99": kept.percentile(99) - base,
        "cpu": kept.cpu_each - bare.cpu_each,
        "bare": bare.cpu_each,
        "turns": len(kept.times),
    }


async def at_once(memory: Turns, talkers: int, seconds: float) -> dict[str, Any]:
    """How many turns a second are kept, when so many conversations go on at once."""
    end = time.perf_counter() + seconds

    async def talk(talker: int) -> int:
        number = 0
        while time.perf_counter() < end:
            await memory.turn(f"talk {talker}", question_of(number, talker))
            number += 1
        return number

    begun = time.perf_counter()
    counts = await asyncio.gather(*map(talk, range(talkers)))
    elapsed = time.perf_counter() - begun
    for talker, count in enumerate(counts):
        asked = [question_of(number, talker) for number in range(count)]
        said = [text for question in asked for text in (question, answer_to(question))]
        if await memory.texts(f"talk {talker}") != said:
            raise CheckFailed(f"conversation {talker} does not hold what was said, in order")
    return {"rate": sum(counts) / elapsed, "turns": sum(counts)}


async def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Everything about one peer in one place."""
    peer: Any = import_module(f"bench.memory_{options.peer}")
    async with peer.opened(options.place) as memory:
        found: dict[str, Any] = {}
        for size in options.sizes:
            found[str(size)] = await over_the_bare_run(memory, size, options.turns, options.seconds)
        found["at once"] = await at_once(memory, options.talkers, options.seconds)
        return found


def main() -> int:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory_case")
    parser.add_argument("--peer", required=True)
    parser.add_argument("--place", required=True)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--talkers", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--sizes", nargs="+", type=int, required=True)
    options = parser.parse_args()
    pin()
    try:
        found = asyncio.run(measured(options))
    except CheckFailed as error:
        found = {"error": str(error)}
    print(json.dumps(found))
    return int("error" in found)


if __name__ == "__main__":
    sys.exit(main())
