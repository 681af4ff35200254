"""How much the local detector finds, how much it finds wrongly, and what a chunk costs.

python -m bench.detection --setup             make the environments in .bench/venvs
python -m bench.detection --seed 7            precision and recall by type and language
python -m bench.detection --seed 7 --compare  beside presidio-analyzer's pattern recognisers
python -m bench.detection --seed 7 --compare --write  also into docs/builtin/detection.md

Seeds 1 to 20 are for tuning; a reported table comes from another one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

from . import venvs
from .catalogue import ROOT, WORK, Peer
from .detection_counts import Tally, counts, languages_table, tallies, types_table
from .detection_texts import Labelled
from .machine import description

OURS = Peer("detection", "faker", "import faker", ROOT / "src")
THEIRS = Peer("presidio", "presidio-analyzer", "import presidio_analyzer")
SIZES = (1_000, 4_000, 16_000)
LEAST = 0.5
"""What presidio-analyzer scores less is not counted: without a model of a language it has no
words around a value to raise the score by."""
PAGE = ROOT / "docs" / "builtin" / "detection.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.detection",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--setup", action="store_true", help="make the environments, then stop")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--texts", type=int, default=500, help="for each language; default 500")
    parser.add_argument(
        "--compare", action="store_true", help="beside presidio-analyzer, and speed"
    )
    parser.add_argument("--misses", type=int, default=0, metavar="N", help="show N mistakes")
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    return parser.parse_args()


def main() -> int:
    """Do what the command line says."""
    options = parse()
    WORK.mkdir(exist_ok=True)
    (WORK / ".gitignore").write_text("*\n")
    if options.setup:
        return int(venvs.set_up([OURS, THEIRS]) > 0)
    wanted = [OURS, THEIRS] if options.compare else [OURS]
    for peer in wanted:
        if why := venvs.missing(peer):
            raise SystemExit(f"{peer.name}: {why}; run python -m bench.detection --setup")
    page = "\n".join(report(options))
    print(page)
    if options.write:
        write(page)
    return 0


def report(options: argparse.Namespace) -> list[str]:
    """The tables as markdown."""
    asked = ["--seed", str(options.seed), "--texts", str(options.texts)]
    rows = ours(*asked, "--misses", str(options.misses))
    lines = [
        f"Seed {options.seed}, {options.texts} texts for each of ten languages, "
        f"{datetime.now(UTC):%Y-%m-%d}, {machine()}. A find counts as right if its type and both "
        "its ends are right.",
        "",
        *types_table(rows),
        "",
        "By language, precision / recall:",
        "",
        *languages_table(rows),
    ]
    if options.compare:
        lines += ["", *compared(rows, asked), "", *costs()]
    return lines


def machine() -> str:
    """Python and cores."""
    known = description()
    return ", ".join(str(value) for value in known.values() if value is not None)


def ours(*arguments: str) -> Any:
    """What our worker answers."""
    command = [str(venvs.interpreter(OURS)), "-m", "bench.detection_score", *arguments]
    return answer(command, OURS, "")


def theirs(request: dict[str, Any]) -> Any:
    """What presidio's worker answers."""
    command = [str(venvs.interpreter(THEIRS)), "-m", "bench.detection_presidio"]
    return answer(command, THEIRS, json.dumps({"least": LEAST, **request}))


def answer(command: list[str], peer: Peer, request: str) -> Any:
    """The JSON that a worker prints; what it says on stderr passes through."""
    done = subprocess.run(
        command,
        input=request,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=venvs.surroundings(peer),
        check=True,
    )
    return json.loads(done.stdout)


def compared(rows: list[Any], asked: list[str]) -> list[str]:
    """Both on the same texts, for the types that both have."""
    texts = [Labelled(*text) for text in ours(*asked, "--texts-only")]
    found = theirs({"texts": [text.text for text in texts]})
    peers = tallies(counts(texts, found, {span[0] for spans in found for span in spans}), 1)
    mine = tallies(rows, 1)
    lines = [
        f"Beside the pattern recognisers of presidio-analyzer (score {LEAST} and more), "
        "precision / recall on the same texts:",
        "",
        "| type | procession | presidio-analyzer |",
        "| --- | ---: | ---: |",
    ]
    for name, tally in peers.items():
        us = mine.get(name, Tally())
        lines.append(
            f"| {name} | {us.precision} / {us.recall} | {tally.precision} / {tally.recall} |"
        )
    return lines


def costs() -> list[str]:
    """CPU time of a chunk of four characters of English prose, by the length of the text."""
    sizes = [str(size) for size in SIZES]
    mine, peer = ours("--sizes", *sizes), theirs({"sizes": list(SIZES)})
    lines = [
        "CPU microseconds for a chunk of four characters of English prose, all types, by the "
        "length of the text. *All again*: the whole text so far is looked at with each chunk, as "
        "gateways do.",
        "",
        f"| | {' | '.join(f'{size:,}' for size in SIZES)} |",
        f"| --- |{' ---: |' * len(SIZES)}",
    ]
    for found in (mine, peer):
        for name in found[sizes[0]]:
            shown = " | ".join(f"{found[size][name]:,.2f}" for size in sizes)
            lines.append(f"| {name} | {shown} |")
    return lines


def write(page: str) -> None:
    """Replace what is between the two markers of the page."""
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} lacks the markers {BEGIN} and {END}")
    PAGE.write_text(f"{before}{begin}\n\n{page}\n\n{end}{after}")


if __name__ == "__main__":
    sys.exit(main())
