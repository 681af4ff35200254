"""The one asyncio function that is too slow for the chunk path on Python 3.11.

`asyncio.current_task` is written in C from 3.12 on. Before, its table of tasks is looked into.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["current_task"]

current_task: Callable[[Any], asyncio.Task[Any] | None]
"""The task that is running in a loop, which must be the running one."""

if sys.version_info >= (3, 12):
    current_task = asyncio.current_task
else:
    from asyncio import tasks

    table: dict[Any, asyncio.Task[Any]] = getattr(tasks, "_current_tasks")  # noqa: B009
    current_task = table.get
