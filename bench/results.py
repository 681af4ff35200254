"""The file of results: a JSON line for each measurement, appended, never rewritten."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from .catalogue import WORK
from .cells import Cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Row = dict[str, Any]
FILE = WORK / "results.jsonl"


def append(row: Row) -> None:
    """Add a row."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("a") as file:
        file.write(json.dumps(row) + "\n")


def rows(run: str | None = None) -> list[Row]:
    """All rows of a run, by default of the newest one."""
    found = list(_read())
    if run is None and found:
        run = found[-1]["run"]
    return [row for row in found if row["run"] == run]


def _read() -> Iterator[Row]:
    if FILE.exists():
        with FILE.open() as file:
            yield from map(json.loads, file)


class Results:
    """The rows of one run, as numbers: of several rounds, the least disturbed one counts.

    Neighbours on a machine only ever add to a number, so that is the smallest. A row's number is
    the median of its repeats; with `least`, the smallest of them, for a machine that is never
    quiet.
    """

    def __init__(self, found: Iterable[Row], *, least: bool = False) -> None:
        self.rows = list(found)
        self.field = "cpu_us_least" if least else "cpu_us"
        self.cells: dict[tuple[str, Cell], list[Row]] = defaultdict(list)
        self.footprints: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in self.rows:
            if "what" in row:
                self.footprints[row["peer"], row["what"]].append(row)
            elif "processors" in row:
                cell = Cell(**{name: row[name] for name in Cell._fields if name in row})
                self.cells[row["peer"], cell].append(row)

    def least(self, peer: str, cell: Cell, prefix: str = "") -> float | None:
        """The smallest number of CPU microseconds in a cell's rows."""
        field = prefix + self.field
        values = [row[field] for row in self.cells.get((peer, cell), ()) if field in row]
        return min(values, default=None)

    def over(self, peer: str, cell: Cell) -> float | None:
        """What the runtime adds to its model alone."""
        whole, own = self.least(peer, cell), self.least(peer, cell, "model_")
        return None if whole is None or own is None else whole - own

    def value(self, peer: str, cell: Cell) -> float | None:
        """The number of a table: CPU microseconds, in W2 over the bare model loop."""
        return self.over(peer, cell) if cell.work == "w2" else self.least(peer, cell)

    def slope(self, peer: str, many: Cell) -> float | None:
        """What each processor adds, from none to `many`."""
        none = self.value(peer, many._replace(processors=0, kind="none"))
        all_of_them = self.value(peer, many)
        if none is None or all_of_them is None:
            return None
        return (all_of_them - none) / many.processors

    def footprint(self, peer: str, what: str, field: str, *, most: bool = False) -> float | None:
        """The smallest value of a field of W6 or of the capacity in W5, or the largest."""
        values = [row[field] for row in self.footprints.get((peer, what), ()) if field in row]
        return (max if most else min)(values, default=None)

    def notes(self, field: str) -> dict[str, str]:
        """By peer, the first message of a kind: `missing`, `error`."""
        found: dict[str, str] = {}
        for row in self.rows:
            if field in row:
                found.setdefault(row["peer"], row[field])
        return found
