"""A PostgreSQL server for a measurement: prints its URL, and ends with its standard input."""

from __future__ import annotations

import os
import sys

from checks.postgres_server import postgres_server

from .machine import elsewhere


def main() -> None:
    """Run it, off the core of those who are measured."""
    elsewhere(os.getpid())
    with postgres_server(durable=True) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
