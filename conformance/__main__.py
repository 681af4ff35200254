"""Run every scenario of a directory: `python -m conformance SCENARIOS_DIR OUT_DIR`.

Writes OUT_DIR/NAME.json for each scenario that could run and says of every other one why it could
not. Exits with 0 when everything that could run was written.
"""

import sys
from pathlib import Path

from .run import run_directory, summary


def main(arguments: list[str]) -> int:
    """Run the program; its exit status."""
    if len(arguments) != 2 or not Path(arguments[0]).is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    outcomes = run_directory(Path(arguments[0]), Path(arguments[1]))
    width = max((len(outcome.name) for outcome in outcomes), default=0)
    for outcome in outcomes:
        detail = f": {outcome.detail}" if outcome.detail else ""
        print(f"{outcome.name:<{width}}  {outcome.verdict}{detail}")
    print(summary(outcomes))
    return 1 if any(outcome.verdict == "failed" for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
