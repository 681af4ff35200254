"""The rounds: one process at a time, peers in turn within a cell, cells in turn within a round."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from . import machine, results, venvs
from .catalogue import ROOT, WORK
from .cells import Cell, cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .catalogue import Peer
    from .results import Row

TIMEOUT = 300.0
BARE = "pass"
FOOTPRINTS = ("cpu_ms", "wall_ms", "mb", "streams", "by_cpu", "read_us", "p99_ms")


class Plan(NamedTuple):
    """What to do: so many rounds of the asked works with the peers that are installed."""

    run: str
    peers: Sequence[Peer]
    works: set[str]
    rounds: int
    quick: bool


def new_run() -> str:
    """The name of a run: when it began."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def carry_out(plan: Plan) -> int:
    """All rounds; the number of failed measurements."""
    results.append({"run": plan.run, "machine": machine.description(), "quick": plan.quick})
    failed = 0
    for number in range(plan.rounds):
        for cell in cells(plan.works, quick=plan.quick):
            for peer in plan.peers:
                if cell.wire in peer.wires if cell.wire else not peer.wire_only:
                    failed += not keep(plan, number, timing(peer, cell, plan.quick))
        if "w5" in plan.works:
            failed += capacities(plan, number)
        if "w6" in plan.works:
            failed += footprints(plan, number)
    return failed


def keep(plan: Plan, number: int, row: Row) -> bool:
    """Store a row and tell of it; false when it is an error."""
    results.append({"run": plan.run, "round": number, "load": machine.load(), **row})
    print(f"{plan.run} {number + 1}/{plan.rounds} {told(row)}", flush=True)
    return "error" not in row


def told(row: Row) -> str:
    """A row in one line."""
    peer = f"{row['peer']:<14}"
    for reason in ("error", "unsupported"):
        if reason in row:
            return f"{peer} {row['work']} {reason}: {row[reason]}"
    if "what" in row:
        numbers = {key: row[key] for key in FOOTPRINTS if key in row}
        return f"{peer} {row['work']} {row['what']}: {numbers}"
    cell = Cell(**{name: row[name] for name in Cell._fields if name in row})
    return f"{peer} {cell}: {row['cpu_us'] - row.get('model_cpu_us', 0.0):.2f} us over the model"


def timing(peer: Peer, cell: Cell, quick: bool) -> Row:
    """One cell of one peer, in a fresh process."""
    options = ["--processors", str(cell.processors), "--kind", cell.kind, "--size", str(cell.size)]
    options += ["--wire", cell.wire]
    if quick:
        options += ["--repeats", "5"]
    command = ["-m", "bench.timing", "--peer", peer.name, "--work", cell.work, *options]
    return {"peer": peer.name, **cell._asdict(), **asked(peer, command)}


def asked(peer: Peer, arguments: list[str]) -> Row:
    """What a process of the peer's Python prints last, as JSON; an error when it does not."""
    command = [str(venvs.interpreter(peer)), *arguments]
    env = venvs.surroundings(peer)
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no result within {TIMEOUT:.0f} s"}
    lines = done.stdout.splitlines()
    if lines and lines[-1].startswith("{"):
        row: Row = json.loads(lines[-1])
        return row
    complaint = (done.stderr.splitlines() or ["no output"])[-1]
    return {"error": f"exit code {done.returncode}: {complaint}"}


def capacities(plan: Plan, number: int) -> int:
    """How many paced streams a core carries, of each peer; the number of failures."""
    failed = 0
    for peer in plan.peers:
        row = {"work": "w5", "what": "capacity", "peer": peer.name}
        row |= asked(peer, ["-m", "bench.capacity", "--peer", peer.name])
        failed += not keep(plan, number, row)
    return failed


def footprints(plan: Plan, number: int) -> int:
    """W6 of one round: the imports, interleaved, then the idle streams; the number of failures."""
    failed = 0
    peers = [peer for peer in plan.peers if not peer.wire_only]
    probes: dict[tuple[str, str], list[Row]] = {}
    for _ in range(3 if plan.quick else 5):
        for peer in peers:
            for what, statement in (("import", peer.statement), ("bare", BARE)):
                if what == "import" or peer.name == "floor":
                    probes.setdefault((peer.name, what), []).append(imported(peer, statement))
    for (name, what), found in probes.items():
        row = {"work": "w6", "what": what, "peer": name, **middle(found)}
        failed += not keep(plan, number, row)
    for peer in peers:
        row = {"work": "w6", "what": "idle", "peer": peer.name}
        row |= asked(peer, ["-m", "bench.idle", "--peer", peer.name])
        failed += not keep(plan, number, row)
    return failed


def imported(peer: Peer, statement: str) -> Row:
    """One import in a fresh process; away from the checkout, whose folders are importable too."""
    script = ROOT / "bench" / "footprint.py"
    command = [str(venvs.interpreter(peer)), str(script), statement]
    start = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=WORK,
        env=venvs.surroundings(peer),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    process = (time.perf_counter() - start) * 1e3
    if done.returncode:
        return {"error": (done.stderr.splitlines() or ["no output"])[-1]}
    cpu, wall, mb, modules = map(float, done.stdout.split()[-4:])
    return {"cpu_ms": cpu, "import_ms": wall, "wall_ms": process, "mb": mb, "modules": int(modules)}


def middle(found: list[Row]) -> Row:
    """The medians; the first one is left out, since it may have compiled the modules."""
    for row in found:
        if "error" in row:
            return row
    later = found[1:]
    return {key: round(median(row[key] for row in later), 2) for key in later[0]}


def announce_missing(plan: Plan, absent: dict[str, str]) -> None:
    """Peers that cannot be measured are named in the results."""
    for name, why in absent.items():
        results.append({"run": plan.run, "peer": name, "missing": why})
        print(f"{name}: {why} (python -m bench --setup)", file=sys.stderr)
