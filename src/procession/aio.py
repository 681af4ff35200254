"""The one asyncio function that is too slow for the chunk path on Python 3.11.

`asyncio.current_task` is written in C from 3.12 on. Before, the C module offers the table that the
Python version looks into; reading it there costs a fifth.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

__all__ = ["current_task"]

if sys.version_info >= (3, 12):
    current_task = asyncio.current_task
else:
    from asyncio import get_running_loop, tasks

    _table: dict[Any, asyncio.Task[Any]] = tasks._current_tasks  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]

    def current_task() -> asyncio.Task[Any] | None:
        """The task that is running, as `asyncio.current_task` gives it."""
        return _table.get(get_running_loop())
