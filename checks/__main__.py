"""Run the gate: `python -m checks [--fast] [--fix] [--cov]`."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MODULE = (sys.executable, "-m")

# Slow ones first: they share the cores with the rest.
STATIC = {
    "pyright": (*MODULE, "pyright", "--pythonpath", sys.executable),
    "mypy": (*MODULE, "mypy"),
    # A script, since it has no module to run.
    "import-linter": (str(Path(sys.executable).with_name("lint-imports")), "--no-logo"),
    "codespell": (*MODULE, "codespell_lib"),
    "ruff format": (*MODULE, "ruff", "format", "--check", "."),
    "ruff check": (*MODULE, "ruff", "check", "."),
}
FIXES = ((*MODULE, "ruff", "format", "."), (*MODULE, "ruff", "check", "--fix", "."))


class Outcome(NamedTuple):
    """How one check ended: its exit code, wall time in seconds, and what it printed."""

    name: str
    code: int
    seconds: float
    output: str


def main() -> int:
    """Run what the command line asks for; 1 when any check failed, else 0."""
    options = parse_options()
    if options.fix:
        for command in FIXES:
            subprocess.run(command, cwd=ROOT, check=False)
    failed = [outcome.name for outcome in run_static() if report(outcome)]
    if failed:
        print(f"failed: {', '.join(failed)}", flush=True)
    # Last, and straight to the terminal: its closing line is the last line of the output.
    if not options.fast and run_pytest(options.cov):
        failed.append("pytest")
    return 1 if failed else 0


def parse_options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m checks", description=__doc__)
    parser.add_argument("--fast", action="store_true", help="leave out the tests")
    parser.add_argument("--fix", action="store_true", help="format, and mend what ruff can")
    parser.add_argument("--cov", action="store_true", help="measure branch coverage")
    return parser.parse_args()


def run_static() -> Iterator[Outcome]:
    """Everything but the tests, side by side, in the order in which they finish."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [pool.submit(run_check, name, command) for name, command in STATIC.items()]
        for future in as_completed(running):
            yield future.result()


def run_check(name: str, command: tuple[str, ...]) -> Outcome:
    """Run one check to its end."""
    start = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Outcome(name, done.returncode, time.perf_counter() - start, done.stdout)


def report(outcome: Outcome) -> bool:
    """Print one line for the check, and its output when it failed; true when it failed."""
    verdict = "FAILED" if outcome.code else "ok"
    print(f"{outcome.name:<14} {verdict:<6} {outcome.seconds:6.1f} s", flush=True)
    if outcome.code:
        print(outcome.output.rstrip(), flush=True)
    return outcome.code != 0


def run_pytest(coverage: bool) -> bool:
    """Run the tests, which print for themselves; true when they failed."""
    # Half of the tests' time is waiting: more processes than cores. The marked ones stay together.
    workers = ["-n", str((os.cpu_count() or 1) + 1), "--dist", "loadgroup"]
    command = [*MODULE, "pytest", *workers, *(["--cov"] if coverage else [])]
    return subprocess.run(command, cwd=ROOT, check=False).returncode != 0


if __name__ == "__main__":
    sys.exit(main())
