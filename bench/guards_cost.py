"""What the local guards add to a run, a chunk at a time. Prints JSON; see `bench.guards`."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
from typing import Any

from procession import Agent
from procession.detection import LOCAL_TYPES, LocalDetector
from procession.processors import PIIDetector, RegexFilterProcessor
from procession.testing import ScriptedModel, answer

from .detection_prose import chunks, prose

ROUNDS = 15
SAMPLES = 100
"""Rescans that are timed of a text; they are spread evenly over its chunks."""
FRENCH = (
    "Le comité s'est réuni au printemps pour examiner la proposition, qui avait été retardée deux "
    "fois. Selon le rapport, le chiffre d'affaires a augmenté de 3,5 % au deuxième trimestre. "
    "« Nous ne sommes pas pressés », dit le directeur ; le calendrier est pourtant serré. Voir le "
    "chapitre 4 (page 17) pour plus de détails sur la méthode. "
)
CHINESE = (
    "委员会在春天召开会议,审议该提案,该提案已被推迟两次。根据报告,第二季度收入增长了不少,而成本保持不变。"
    "主任说他们并不着急,尽管如此,时间仍然很紧。请打开设置页面,选择第二个选项,等待指示灯变绿。"
)
CODE = '''class Stack:
    """Last in, first out."""

    def __init__(self, items=None):
        self._items = list(items or [])

    def push(self, item):
        self._items.append(item)
        return len(self._items)


def mean(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


'''
TEXTS = {"French": FRENCH, "Chinese": CHINESE, "Python": CODE}


def guards() -> dict[str, list[Any]]:
    """What stands in the list of output processors."""
    rules = RegexFilterProcessor(presets=["pii", "secrets", "urls"], strategy="redact")
    pii = PIIDetector(model=False, detection_types=list(LOCAL_TYPES))
    return {
        "none": [],
        "RegexFilterProcessor, all presets": [rules],
        "PIIDetector, all local types": [pii],
        "both": [rules, pii],
    }


def words(text: str) -> list[str]:
    """The text word by word, each with the space before it."""
    return re.findall(r"\s*\S+|\s+\Z", text)


async def run(made: list[Any], pieces: list[str]) -> float:
    """CPU seconds of a chunk in a whole run."""
    agent = Agent(id="a", model=ScriptedModel([answer(*pieces)]), output_processors=made)
    start = time.process_time()
    stream = await agent.stream("Go on")
    async for _ in stream.full_stream:
        pass
    return (time.process_time() - start) / len(pieces)


def added(pieces: list[str], rounds: int) -> dict[str, float]:
    """Microseconds that a chunk of a run costs more; the least of rounds in turn."""
    made = guards()
    best = dict.fromkeys(made, float("inf"))

    async def measure() -> None:
        for _ in range(rounds):
            for name, some in made.items():
                best[name] = min(best[name], await run(some, pieces))

    asyncio.run(measure())
    return {name: (cost - (name != "none") * best["none"]) * 1e6 for name, cost in best.items()}


def rescanned(pieces: list[str]) -> float:
    """Microseconds of a chunk when the same rules look at the whole text so far with each."""
    rules, local = guards()["RegexFilterProcessor, all presets"][0], LocalDetector()
    every = max(1, len(pieces) // SAMPLES)
    ends = [len("".join(pieces[: number + 1])) for number in range(0, len(pieces), every)]
    text = "".join(pieces)
    start = time.process_time()
    for end in ends:
        rules.find(text[:end])
        local.find(text[:end])
    return (time.process_time() - start) / len(ends) * 1e6


def main() -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    by_size: dict[str, dict[str, float]] = {}
    for size in options.sizes:
        pieces = chunks(prose(size))
        by_size[str(size)] = {**added(pieces, options.rounds), "all again": rescanned(pieces)}
    by_text = {"English": prose(4_000)}
    by_text |= {name: (text * 40)[:4_000] for name, text in TEXTS.items()}
    texts = {
        name: {
            "four": added(chunks(text), options.rounds),
            "words": None if name == "Chinese" else added(words(text), options.rounds),
        }
        for name, text in by_text.items()
    }
    print(json.dumps({"sizes": by_size, "texts": texts}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
