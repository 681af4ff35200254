"""What the response cache costs a call, and what a hit saves: `python -m bench.caching`.

For conversations of so many messages: the key alone; the look-up, which is the key, the cache in
memory and, for a hit, the check of what it gave; and whole runs with a scripted model that answers
at once, without a cache, with one that never knows the answer, and with one that always does.
Nothing is timed before answers and calls were checked.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from procession import Agent
from procession.cache import InMemoryServerCache
from procession.message_list import MessageList
from procession.processor import ProcessLLMRequestArgs
from procession.processors import (
    CachedModel,
    CacheKeyInputs,
    ResponseCache,
    build_response_cache_key,
)
from procession.testing import hook_args
from procession.testing.parts import chunk_of

from . import machine
from .verify import CheckFailed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from procession.chunks import Chunk

SIZES = (10, 100, 1_000)
LENGTH = 200
WORDS = 50
"""Text deltas of an answer."""


class Model:
    """Plays one answer at once, and counts how often it was asked."""

    provider, model_id = "example", "played-1"

    def __init__(self) -> None:
        self.calls = 0

    async def stream(self, request: Any) -> AsyncGenerator[Sequence[Chunk], None]:
        """The answer, in one read."""
        self.calls += 1
        yield [chunk_of(part) for part in PARTS]


PARTS: list[dict[str, Any]] = [
    {"type": "text-start", "id": "t"},
    *({"type": "text-delta", "id": "t", "delta": f"word{n} "} for n in range(WORDS)),
    {"type": "text-end", "id": "t"},
    {"type": "finish", "finishReason": "stop", "usage": {"inputTokens": 1, "outputTokens": WORDS}},
]
TEXT = "".join(f"word{n} " for n in range(WORDS))


def talk(size: int) -> list[dict[str, Any]]:
    """A conversation of so many messages, the user's last."""
    roles = ("user", "assistant")
    return [
        {"role": roles[(size - 1 - n) % 2], "content": f"{n} ".ljust(LENGTH, "x")}
        for n in range(size)
    ]


async def run_once(agent: Agent, given: Any) -> float:
    """Microseconds of CPU of one run."""
    gc.collect()
    started = time.process_time()
    result = await agent.generate(given)
    spent = (time.process_time() - started) * 1e6
    if result.text != TEXT:
        raise CheckFailed("the answer is not what the model has said")
    return spent


async def runs(repeats: int, given: Any, *processors: Any, calls: int) -> float:
    """The median of some runs of one agent, the model's calls counted; the first two warm up."""
    model = Model()
    agent = Agent(id="a", model=model, input_processors=[*processors])
    spent = [await run_once(agent, given) for _ in range(repeats + 2)]
    if model.calls != calls:
        raise CheckFailed(f"the model was asked {model.calls} times, not {calls}")
    return median(spent[2:])


def key_alone(prompt: Any, repeats: int) -> float:
    """What making a key takes, of a prompt that is there."""
    inputs = CacheKeyInputs(
        agent_id="a",
        scope="tenant",
        model=CachedModel(provider="example", model_id="played-1"),
        prompt=prompt,
        step_number=0,
    )
    keys = {build_response_cache_key(inputs) for _ in range(2)}
    if len(keys) != 1 or build_response_cache_key(inputs, scope=None) in keys:
        raise CheckFailed("the key does not go by the inputs")
    spent: list[float] = []
    for _ in range(repeats):
        started = time.process_time()
        for _ in range(20):
            build_response_cache_key(inputs)
        spent.append((time.process_time() - started) * 1e6 / 20)
    return median(spent)


async def look_up(cache: ResponseCache, prompt: Any, repeats: int, *, hit: bool) -> float:
    """What the hook takes that looks a request up."""
    spent: list[float] = []
    model = Model()
    args = hook_args(ProcessLLMRequestArgs, prompt=prompt, model=model)
    for _ in range(repeats):
        started = time.process_time()
        for _ in range(20):
            found = await cache.process_llm_request(args)
            if (found is not None) is not hit:
                raise CheckFailed("the cache knows what it should not, or not what it should")
        spent.append((time.process_time() - started) * 1e6 / 20)
    return median(spent)


async def table(sizes: Sequence[int], repeats: int) -> None:
    """Print a row for each length of conversation."""
    print(
        "| messages | key | look-up, miss | look-up, hit | run without a cache | run, miss "
        "| run, hit |\n|---:|---:|---:|---:|---:|---:|---:|"
    )
    for size in sizes:
        given = talk(size)
        prompt = MessageList().add(given, "input").provider_prompt()
        warm = ResponseCache(cache=InMemoryServerCache())
        empty = ResponseCache(cache=InMemoryServerCache())
        often = repeats + 2
        found = [
            key_alone(prompt, repeats),
            await look_up(empty, prompt, repeats, hit=False),
            await runs(repeats, given, calls=often),
            await runs(repeats, given, ResponseCache(cache=Forgetful()), calls=often),
            await runs(repeats, given, warm, calls=1),
        ]
        found.insert(2, await look_up(warm, prompt, repeats, hit=True))
        print(f"| {size} | {' | '.join(f'{spent:.0f}' for spent in found)} |")


class Forgetful(InMemoryServerCache):
    """Keeps everything, and knows nothing."""

    async def get(self, key: str) -> Any:
        """Nothing."""
        await super().get(key)


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.caching",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repeats", type=int, default=41)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    options = parser.parse_args()
    machine.pin()
    print(f"{machine.description()}, load {machine.load()}; microseconds of CPU")
    asyncio.run(table(options.sizes, options.repeats))


if __name__ == "__main__":
    main()
