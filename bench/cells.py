"""What is measured: the cells of the tables, and which of them a run was asked for."""

from __future__ import annotations

from typing import NamedTuple

from .catalogue import WIRES

WORKS = ("w1", "w2", "w3", "w4", "w5", "w6")

CHUNKS = 2000
GROWTH = (500, 8000)
STEPS = (20, 200)
HISTORY = 1000


class Cell(NamedTuple):
    """One number of a table, for each peer."""

    work: str
    processors: int = 0
    kind: str = "none"
    size: int = 0
    wire: str = ""
    """The provider's format, in W5."""

    def __str__(self) -> str:
        kind = "" if self.kind == "none" else f" {self.kind}"
        wire = f" {self.wire}" if self.wire else ""
        return f"{self.work}{wire}, {self.processors} processors{kind}, size {self.size}"


def ladder(work: str, size: int, counts: tuple[int, ...]) -> list[Cell]:
    """No processor, then some, plain and async."""
    more = [Cell(work, count, kind, size) for count in counts for kind in ("plain", "async")]
    return [Cell(work, size=size), *more]


def cells(works: set[str], *, quick: bool) -> list[Cell]:
    """The cells of the asked works; `quick` leaves out three processors and the growth."""
    counts = (10,) if quick else (3, 10)
    found = ladder("w1", 0, counts) + ladder("w2", CHUNKS, counts)
    if not quick:
        found += [Cell("w2", size=size) for size in GROWTH]
        found += [Cell("w2", 3, "async", size) for size in GROWTH]
    found += [Cell("w3", size=size) for size in STEPS]
    if not quick:
        found += [Cell("w3", 3, "async", size) for size in STEPS]
    found += [Cell("w4", count, "kept", HISTORY) for count in (0, 3)]
    found.append(Cell("w4", 0, "fresh", HISTORY))
    for wire in WIRES:
        found += [cell._replace(wire=wire) for cell in ladder("w5", CHUNKS, (3,))]
    return [cell for cell in found if cell.work in works]


def chosen_works(names: str | None) -> set[str]:
    """The works of a comma-separated list; all of them for `None`."""
    if names is None:
        return set(WORKS)
    wanted = {name.strip().lower() for name in names.split(",") if name.strip()}
    unknown = sorted(wanted - set(WORKS))
    if unknown:
        raise SystemExit(f"unknown works {', '.join(unknown)}; known: {', '.join(WORKS)}")
    return wanted
