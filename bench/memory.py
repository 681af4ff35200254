"""What memory costs a turn, beside hand-written SQL and the stores of others.

python -m bench.memory --setup          make the environments in .bench/venvs
python -m bench.memory                  all peers, a SQLite file and a PostgreSQL server: minutes
python -m bench.memory --rounds 1 --seconds 2 --sizes 100
python -m bench.memory --write          also into bench/README.md

A turn is a question and an answer of 200 characters, from a model that costs nothing. Timed are
turns one after the other in a thread of so many messages: what they take beyond the median of the
same run without a memory; then how many turns a second are kept while many conversations go on at
once. Nothing counts before threads, prompts and answers were checked. Everything is bounded in
number and time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from . import machine, venvs
from .catalogue import ROOT, WORK, Peer
from .table import grid, number, ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OURS = Peer("memory", "procession", "from procession.memory import Memory", ROOT / "src")
LANGGRAPH = Peer("memory_langgraph", "langgraph", "import langgraph")
AGENTS = Peer("memory_openai_agents", "openai-agents", "import agents")
PEERS = {"floor": OURS, "procession": OURS, "langgraph": LANGGRAPH, "openai_agents": AGENTS}
STORES = ("sqlite", "postgres")
SIZES = (100, 10_000)
README = ROOT / "bench" / "README.md"
BEGIN, END = "<!-- memory: begin -->", "<!-- memory: end -->"
CPU = 3
"""The column that is compared: the CPU in the shortest thread."""
GRACE = 300.0
"""Seconds that a process may take for what is not timed."""


class Column(NamedTuple):
    """A figure of each peer: where it stands, how it is called, and whether more is better."""

    key: tuple[str, str]
    title: str
    most: bool = False


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.memory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--setup", action="store_true", help="make the environments, then stop")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=[*PEERS])
    parser.add_argument("--stores", nargs="+", choices=STORES, default=STORES)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="messages of a thread")
    parser.add_argument("--turns", type=int, default=300, help="at most, one after the other")
    parser.add_argument("--talkers", type=int, default=50, help="conversations at once")
    parser.add_argument("--seconds", type=float, default=6.0, help="at most, for each figure")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best one counts")
    parser.add_argument("--write", action="store_true", help="put the tables into the README")
    return parser.parse_args()


def main() -> int:
    """Do what the command line says; 1 when a peer did not do what was to be timed."""
    options = parse()
    WORK.mkdir(exist_ok=True)
    (WORK / ".gitignore").write_text("*\n")
    if options.setup:
        return int(venvs.set_up({peer.name: peer for peer in PEERS.values()}.values()) > 0)
    for name in ("procession", *options.peers):
        if why := venvs.missing(PEERS[name]):
            raise SystemExit(f"{name}: {why}; run python -m bench.memory --setup")
    before, failed, lines = machine.load(), False, list[str]()
    for store in options.stores:
        found = rounds(store, options)
        failed = failed or any("error" in one for some in found.values() for one in some)
        lines += ["", f"### Memory in {TITLES[store]}", "", table(found, options)]
    page = "\n".join([heading(options, before), *lines])
    print(page)
    if options.write and not failed:
        write(page)
    return int(failed)


TITLES = {"sqlite": "a SQLite file", "postgres": "PostgreSQL"}


def heading(options: argparse.Namespace, before: float | None) -> str:
    """When and where."""
    known = ", ".join(str(value) for value in machine.description().values() if value is not None)
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {known}, load {before} to {machine.load()}; best of "
        f"{options.rounds} rounds, {options.talkers} conversations at once."
    )


def rounds(store: str, options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """What each peer came to in each round; they take turns."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in options.peers}
    for turn in range(options.rounds):
        for name in options.peers:
            with place(store) as where:
                found[name].append(measured(name, where, options))
            print(f"{store}, round {turn + 1}, {name}: {found[name][-1]}", file=sys.stderr)
    return found


@contextmanager
def place(store: str) -> Iterator[str]:
    """A new file, or a new server, for the length of the block."""
    if store == "sqlite":
        with TemporaryDirectory() as folder:
            yield str(Path(folder, "memory.db"))
        return
    server = started(OURS, "bench.memory_server", stdin=subprocess.PIPE)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.communicate()


def measured(name: str, where: str, options: argparse.Namespace) -> dict[str, Any]:
    """One peer in one place."""
    given = [f"--{key}={getattr(options, key)}" for key in ("turns", "talkers", "seconds")]
    sizes = [str(size) for size in options.sizes]
    command = ["--peer", name, "--place", where, *given, "--sizes", *sizes]
    process = started(PEERS[name], "bench.memory_case", *command)
    patience = GRACE + options.seconds * (2 * len(sizes) + 1)
    try:
        out, _ = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"error": f"it took more than {patience:.0f} seconds"}
    return json.loads(out) if out else {"error": f"ended with {process.returncode}"}


def started(peer: Peer, module: str, *arguments: str, **more: Any) -> subprocess.Popen[str]:
    """A module in the peer's environment."""
    command = [str(venvs.interpreter(peer)), "-m", module, *arguments]
    env = venvs.surroundings(peer)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env, **more)


def table(found: dict[str, list[dict[str, Any]]], options: argparse.Namespace) -> str:
    """A row for each peer, the best of its rounds."""
    columns = columns_of(options.sizes)
    floor = [best(found.get("floor", []), column) for column in columns]
    body: list[list[str]] = []
    for name, some in found.items():
        if wrong := [one["error"] for one in some if "error" in one]:
            body.append([name, f"error: {wrong[0]}", *[""] * len(columns)])
            continue
        values = [best(some, column) for column in columns]
        cells = [number(value) for value in values]
        body.append([name, *cells, ratio(values[CPU], floor[CPU])])
    return grid(["", *(column.title for column in columns), "CPU of memory, x floor"], body)


def columns_of(sizes: Sequence[int]) -> list[Column]:
    """The rate, the run alone, then for each length of a thread what memory adds to a turn."""
    found = [
        Column(("at once", "rate"), "turns a second", most=True),
        Column((str(min(sizes)), "bare"), "without memory: CPU us"),
    ]
    for size in sizes:
        at = f"{size:,} messages"
        found += [
            Column((str(size), "p50"), f"{at}: p50 ms"),
            Column((str(size), "cpu"), "CPU us"),
            Column((str(size), "p99"), "p99 ms"),
        ]
    return found


def best(some: list[dict[str, Any]], column: Column) -> float | None:
    """Neighbours on a machine only ever add."""
    group, key = column.key
    values = [one[group][key] for one in some if group in one]
    return (max if column.most else min)(values, default=None)


def write(page: str) -> None:
    """Replace what is between the two markers of the README."""
    before, begin, rest = README.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{README.name} lacks the markers {BEGIN} and {END}")
    README.write_text(f"{before}{begin}\n\n{page}\n\n{end}{after}")


if __name__ == "__main__":
    sys.exit(main())
