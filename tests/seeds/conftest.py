"""What holds for every case: nothing outlives its run."""

import asyncio
from collections.abc import AsyncIterator

import pytest


@pytest.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    """No task of a run is there after the test."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left
