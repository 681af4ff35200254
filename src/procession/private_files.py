"""Files that hold what users have said: for their owner's eyes only."""

from __future__ import annotations

import os
from contextlib import suppress

__all__ = ["make_private"]


def make_private(path: str | os.PathLike[str]) -> None:
    """Make the file, for its owner only, if it is missing; SQLite's other files follow it.

    What hinders it is met again by who opens the file, and told there.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
