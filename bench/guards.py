"""What the local guards add to a chunk, beside presidio-analyzer's pattern recognisers.

python -m bench.detection --setup    make the environment of presidio-analyzer
python -m bench.guards               measure, and print the tables
python -m bench.guards --write       also into docs/builtin/detection.md

Ours run in this interpreter, which needs procession[guards].
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

from . import venvs
from .catalogue import ROOT
from .detection import PAGE, SIZES, THEIRS, machine, theirs

BEGIN, END = "<!-- guards: begin -->", "<!-- guards: end -->"
ROWS = ("RegexFilterProcessor, all presets", "PIIDetector, all local types", "both")


def ours(rounds: int) -> Any:
    """What our worker answers."""
    command = [sys.executable, "-m", "bench.guards_cost", "--rounds", str(rounds)]
    done = subprocess.run(
        [*command, "--sizes", *map(str, SIZES)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        check=True,
    )
    return json.loads(done.stdout)


def report(mine: Any, peer: Any) -> list[str]:
    """The tables as markdown."""
    sizes = [str(size) for size in SIZES]
    lines = [
        f"CPU microseconds that a chunk costs more, {datetime.now(UTC):%Y-%m-%d}, {machine()}; the "
        "run itself without guards comes to "
        f"{mine['sizes'][sizes[1]]['none']:.1f}. Chunks of four characters of English prose, with "
        "a mail address every 700 characters, by the length of the answer:",
        "",
        f"| | {' | '.join(f'{size:,}' for size in SIZES)} |",
        f"| --- |{' ---: |' * len(SIZES)}",
    ]
    lines += [row(name, [mine["sizes"][size][name] for size in sizes]) for name in ROWS]
    again = [mine["sizes"][size]["all again"] for size in sizes]
    lines.append(row("their rules over all the text so far, as gateways do", again))
    lines += [row(name, [peer[size][name] for size in sizes]) for name in peer[sizes[0]]]
    lines += [
        "",
        "Both together, by what is written, in 4,000 characters:",
        "",
        "| | chunks of four characters | word by word |",
        "| --- | ---: | ---: |",
    ]
    for name, found in mine["texts"].items():
        in_words = found["words"]
        shown = "-" if in_words is None else f"{in_words['both']:.1f}"
        lines.append(f"| {name} | {found['four']['both']:.1f} | {shown} |")
    return lines


def row(name: str, costs: list[float]) -> str:
    """One line of a table."""
    return f"| {name} | {' | '.join(f'{cost:,.1f}' for cost in costs)} |"


def write(page: str) -> None:
    """Replace what is between the two markers of the page."""
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} lacks the markers {BEGIN} and {END}")
    PAGE.write_text(f"{before}{begin}\n\n{page}\n\n{end}{after}")


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.guards",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    options = parser.parse_args()
    if why := venvs.missing(THEIRS):
        raise SystemExit(f"{THEIRS.name}: {why}; run python -m bench.detection --setup")
    page = "\n".join(report(ours(options.rounds), theirs({"sizes": list(SIZES)})))
    print(page)
    if options.write:
        write(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
