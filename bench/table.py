"""Results as markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .catalogue import BY_NAME, OURS
from .cells import CHUNKS, GROWTH, HISTORY, STEPS, Cell
from .targets import TARGETS, Target, Value, each, growth, memory, most, of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .results import Results

NONE = "-"


class Column(NamedTuple):
    """A number of each peer."""

    title: str
    value: Value


class Table(NamedTuple):
    """A table of peers; its first column is the one that is compared."""

    title: str
    columns: Sequence[Column]
    most_first: bool = False


def rungs(work: str, size: int) -> list[Column]:
    """No processor, 3 and 10 of both kinds, and what each one adds."""
    found = [Column("0", of(Cell(work, size=size)))]
    for kind in ("plain", "async"):
        found += [Column(f"{n} {kind}", of(Cell(work, n, kind, size))) for n in (3, 10)]
    return found + [Column(f"each {kind}", each(work, kind, size)) for kind in ("plain", "async")]


def lengths() -> list[Column]:
    """W2 by the number of chunks."""
    sizes = sorted((CHUNKS, *GROWTH))
    found = [Column(f"0, {size:,}", of(Cell("w2", size=size))) for size in sizes]
    return found + [Column(f"3, {size:,}", of(Cell("w2", 3, "async", size))) for size in sizes]


def of_three(kind: str, wire: str) -> Cell:
    """W5 with three processors."""
    return Cell("w5", 3, kind, CHUNKS, wire)


FORMATS = {
    "chat": "OpenAI Chat",
    "responses": "OpenAI Responses",
    "anthropic": "Anthropic Messages",
    "google": "Google",
}

TABLES = (
    Table("W1: CPU us for a run with one model call, by processors", rungs("w1", 0)),
    Table("W2: CPU us for a chunk, over the bare model loop, by processors", rungs("w2", CHUNKS)),
    Table("W2: the same by processors (async) and number of chunks", lengths()),
    Table(
        "W3: CPU us for a step with a tool call, by processors (async) and number of steps",
        [
            *(Column(f"0, {size}", of(Cell("w3", size=size))) for size in STEPS),
            Column("growth, times", growth),
            *(Column(f"3, {size}", of(Cell("w3", 3, "async", size))) for size in STEPS),
        ],
    ),
    Table(
        f"W4: CPU us for a run with {HISTORY:,} earlier messages",
        [
            Column("kept", of(Cell("w4", 0, "kept", HISTORY))),
            Column("kept, 3 processors", of(Cell("w4", 3, "kept", HISTORY))),
            Column("fresh", of(Cell("w4", 0, "fresh", HISTORY))),
        ],
    ),
    *(
        Table(
            f"W5: CPU us for a chunk over HTTP, {name}, by processors",
            [
                Column("0", of(Cell("w5", size=CHUNKS, wire=wire))),
                *(Column(f"3 {kind}", of(of_three(kind, wire))) for kind in ("plain", "async")),
            ],
        )
        for wire, name in FORMATS.items()
    ),
    Table(
        "W5: streams of 50 chunks a second that a core carries, p99 lag under 100 ms, OpenAI Chat",
        [
            Column("streams", most("streams")),
            Column("a full core, by CPU", most("by_cpu")),
            Column("CPU us a read", memory("capacity", "read_us")),
        ],
        most_first=True,
    ),
    Table(
        "W6: import in a fresh process",
        [
            Column("wall ms", memory("import", "wall_ms")),
            Column("CPU ms", memory("import", "cpu_ms")),
            Column("resident MB", memory("import", "mb")),
            Column("modules", memory("import", "modules")),
        ],
    ),
    Table("W6: MB of 1,000 idle streams, in memory", [Column("MB", memory("idle", "mb"))]),
)


def number(value: float | None) -> str:
    """Three digits that mean something."""
    if value is None:
        return NONE
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def grid(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A markdown table."""
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *body))


def best_peer(results: Results, value: Value, *, most: bool = False) -> tuple[float, str] | None:
    """The smallest number of a peer (or the largest), and whose it is."""
    found = [(value(results, name), name) for name in BY_NAME if name not in OURS]
    # A difference below zero is one that drowned in the noise.
    real = [(number, name) for number, name in found if number and number > 0]
    return (max if most else min)(real, default=None)


def ratio(value: float | None, other: float | None) -> str:
    """How many times the other."""
    if value is None or other is None or other <= 0:
        return NONE
    return number(value / other)


def shown(results: Results, table: Table) -> str | None:
    """One table; `None` when nobody has a number in it."""
    compared = table.columns[0].value
    floor = compared(results, "floor")
    best = best_peer(results, compared, most=table.most_first)
    missing, errors = results.notes("missing"), results.notes("error")
    lines: list[tuple[float, list[str]]] = []
    for name in BY_NAME:
        first = compared(results, name)
        if first is None:
            why = missing.get(name) or ("error" if name in errors else NONE)
            if why == NONE:  # it has nothing of the kind
                continue
            lines.append((float("inf"), [name, why, *[NONE] * (len(table.columns) + 1)]))
            continue
        cells = [number(column.value(results, name)) for column in table.columns]
        ratios = [ratio(first, floor), ratio(first, best[0] if best else None)]
        lines.append((-first if table.most_first else first, [name, *cells, *ratios]))
    if all(key == float("inf") for key, _ in lines):
        return None
    head = ["", *(column.title for column in table.columns), "x floor", "x best peer"]
    body = [line for _, line in sorted(lines, key=lambda line: line[0])]
    return f"### {table.title}\n\n{grid(head, body)}"


def verdicts(results: Results) -> str:
    """The targets, with met or missed: in the target's unit, and in floors."""
    head = ["", "procession", "target", "", "in floors", "target in floors", "", "best peer"]
    body = [judged(results, target) for target in TARGETS]
    return f"### Targets\n\n{grid(head, body)}"


def judged(results: Results, target: Target) -> list[str]:
    """One target."""
    value = target.value(results, "procession")
    floor = target.value(results, "floor")
    best = best_peer(results, target.value, most=target.at_least)
    in_floors = ["", "", ""]
    if target.floor is not None:
        allowed = target.limit / target.floor
        times = value / floor if value is not None and floor and floor > 0 else None
        in_floors = [number(times), number(allowed), verdict(times, allowed, target)]
    return [
        f"{target.name} ({target.unit})",
        number(value),
        number(target.limit),
        verdict(value, target.limit, target),
        *in_floors,
        f"{number(best[0])} ({best[1]})" if best else NONE,
    ]


def verdict(value: float | None, limit: float, target: Target) -> str:
    """In a word."""
    if value is None:
        return "not measured"
    met = value >= limit if target.at_least else value <= limit
    return "met" if met else "**missed**"


def remarks(results: Results) -> str:
    """Where the numbers come from, and what is not there."""
    lines = [about(results)]
    versions = {row["peer"]: row["version"] for row in results.rows if row.get("version")}
    named = [f"{BY_NAME[name].package} {version}" for name, version in sorted(versions.items())]
    if named:
        lines.append(f"Versions: {', '.join(named)} (floor: msgspec).")
    for name, why in results.notes("missing").items():
        lines.append(f"`{name}`: {why}.")
    unsupported = {
        (row["peer"], row["work"].upper(), row["unsupported"])
        for row in results.rows
        if "unsupported" in row
    }
    for name, work, why in sorted(unsupported):
        lines.append(f"`{name}` has no number for plain hooks in {work}: {why}.")
    for name, why in results.notes("error").items():
        lines.append(f"**`{name}` failed**: {why}.")
    return "\n".join(f"- {line}" for line in lines)


def about(results: Results) -> str:
    """The machine, the day, the rounds, and how busy the machine was."""
    machines = [row["machine"] for row in results.rows if "machine" in row]
    rounds = len({row["round"] for row in results.rows if "round" in row})
    loads = [row["load"] for row in results.rows if row.get("load") is not None]
    busy = f", load {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    found = machines[-1]
    return (
        f"{results.rows[0]['run'][:10]}, {found['python']}, {found['cores']} cores "
        f"({found['system']}, {found['architecture']}), {rounds} round{'s' * (rounds != 1)}{busy}, "
        f"{'least disturbed repeat' if results.field.endswith('least') else 'median of repeats'}."
    )


def page(results: Results) -> str:
    """Everything."""
    if not results.rows:
        return "No results yet: `python -m bench`."
    parts = [remarks(results), verdicts(results)]
    parts += [part for table in TABLES if (part := shown(results, table))]
    return "\n\n".join(parts)
