"""Measure procession beside a floor and other frameworks: CPU time, one process a cell.

python -m bench --setup      make the environments in .bench/venvs (needs a package index)
python -m bench              measure, then print the table
python -m bench --table      the table of the newest run, from .bench/results.jsonl
"""

from __future__ import annotations

import argparse
import sys

from . import rounds, table, venvs
from .catalogue import BY_NAME, ROOT, WORK, Peer, chosen
from .cells import WORKS, chosen_works
from .results import Results, rows

README = ROOT / "bench" / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--setup", action="store_true", help="make the environments, then stop")
    parser.add_argument("--table", action="store_true", help="print the table, measure nothing")
    parser.add_argument("--write", action="store_true", help="put the table into bench/README.md")
    parser.add_argument("--peers", metavar="NAMES", help=f"some of {','.join(BY_NAME)}")
    parser.add_argument("--only", metavar="WORKS", help=f"some of {','.join(WORKS)}")
    parser.add_argument("--rounds", type=int, default=3, help="default 3; 1 with --quick")
    parser.add_argument(
        "--least", action="store_true", help="show the least disturbed repeat, not the median"
    )
    parser.add_argument("--quick", action="store_true", help="fewer cells, shorter, one round")
    parser.add_argument(
        "--run", metavar="NAME", help="the run to show, or to add rounds to (default: the newest)"
    )
    return parser.parse_args()


def main() -> int:
    """Do what the command line says; 1 when anything failed."""
    options = parse()
    WORK.mkdir(exist_ok=True)
    (WORK / ".gitignore").write_text("*\n")  # nothing in it is ever committed, by anybody
    peers = chosen(options.peers)
    if options.setup:
        return int(venvs.set_up(peers) > 0)
    failed = 0
    run = options.run
    if not (options.table or options.write):
        run = options.run or rounds.new_run()
        failed = measure(run, peers, options)
    page = table.page(Results(rows(run), least=options.least))
    print(page)
    if options.write:
        write(page)
    return int(failed > 0)


def measure(run: str, peers: list[Peer], options: argparse.Namespace) -> int:
    """Measure who is installed; the number of failed measurements."""
    absent = {peer.name: why for peer in peers if (why := venvs.missing(peer))}
    plan = rounds.Plan(
        run=run,
        peers=[peer for peer in peers if peer.name not in absent],
        works=chosen_works(options.only),
        rounds=1 if options.quick else options.rounds,
        quick=options.quick,
    )
    rounds.announce_missing(plan, absent)
    return rounds.carry_out(plan)


def write(page: str) -> None:
    """Replace what is between the two markers of the README."""
    before, begin, rest = README.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{README.name} lacks the markers {BEGIN} and {END}")
    README.write_text(f"{before}{begin}\n\n{page}\n\n{end}{after}")


if __name__ == "__main__":
    sys.exit(main())
