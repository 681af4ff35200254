"""Kill processes that use a store, and look at what they leave: `python -m checks.kill`.

Each process runs turns in four threads of a store, six conversations at once, with tools; it is
killed with SIGKILL at a random moment, some before they have opened the store. Another process then
reads each thread: every turn that was reported as finished is there, every turn is whole, once and
in order, every call has its result, the next prompt is one that providers accept, and runs that
wait for an approval go on. `--fault` breaks the store on purpose: that has to be found.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from checks.kill.places import FAULTS, Place
from checks.kill.rounds import play
from checks.postgres_server import postgres_server

STORES = ("sqlite", "postgres")
ROUNDS_OF_A_PLACE = 10
SHOWN = 10


def main() -> int:
    """Kill as often as the command line says; 1 when something was wrong, else 0."""
    options = parse_options()
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    print(f"seed {seed}\n")
    print("| store | killed | turns reported | turns stored | wrong | seconds |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    problems = [
        problem
        for store in options.store
        for problem in measured(store, options.times, random.Random(seed), options.fault)
    ]
    for problem in problems[:SHOWN]:
        print(problem)
    return 1 if problems else 0


def parse_options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m checks.kill",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--times", type=int, default=20, help="kills of each store; default 20")
    parser.add_argument("--store", nargs="+", choices=STORES, default=STORES)
    parser.add_argument("--fault", choices=FAULTS, help="break the store on purpose")
    parser.add_argument("--seed", type=int)
    return parser.parse_args()


def measured(store: str, times: int, dice: random.Random, fault: str | None) -> list[str]:
    """All rounds of a store, and their line in the table; what was wrong."""
    begun, reported, stored, problems = time.perf_counter(), 0, 0, list[str]()
    with places(store) as found:
        for number in range(times):
            if number % ROUNDS_OF_A_PLACE == 0:
                place = next(found)
            outcome = play(place, f"r{number}", dice, fault)
            reported += outcome.reported
            stored += outcome.stored
            problems += outcome.problems
    seconds = time.perf_counter() - begun
    line = (store, times, reported, stored, len(problems), f"{seconds:.0f}")
    print(f"| {' | '.join(map(str, line))} |", flush=True)
    return problems


@contextmanager
def places(store: str) -> Iterator[Iterator[Place]]:
    """New places, one after the other."""
    if store == "sqlite":
        with TemporaryDirectory() as folder:
            yield (Place(str(Path(folder, f"{n}.db"))) for n in range(sys.maxsize))
    else:
        with postgres_server(durable=True) as server:
            yield (Place(server.url, f"killed {n}") for n in range(sys.maxsize))


if __name__ == "__main__":
    sys.exit(main())
