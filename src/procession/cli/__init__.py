"""The command line. `main` is the console script `procession`."""

from __future__ import annotations

import sys
from importlib.util import find_spec

__all__ = ["main"]


def main() -> None:
    """Run the command line; a missing extra is one line and exit code 2."""
    if find_spec("typer") is None or find_spec("rich") is None:
        sys.stderr.write(
            "procession: the command line needs typer and rich: pip install 'procession[cli]', or "
            "'procession[local]' for the demo with a model\n"
        )
        sys.exit(2)
    from .commands import run  # only now: it needs both

    run()
