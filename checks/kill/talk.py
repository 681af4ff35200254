"""The process that is killed: conversations that go on for ever, each finished turn reported."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

from procession import AbortController
from procession.memory import Memory

from .script import Turn, agent_for

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from .places import Place

__all__ = ["THREADS", "talk"]

THREADS = (3, 1, 1, 1)
"""How many conversations go on at once in each thread."""


def talk(place: Place, round: str, fault: str | None, reports: Connection) -> None:
    """Never returns. Reports `[]` when it begins, then each turn that has ended."""
    asyncio.run(_talk(place, round, fault, reports))


async def _talk(place: Place, round: str, fault: str | None, reports: Connection) -> None:
    reports.send_bytes(b"[]")
    async with place.store(fault) as store:
        memory = Memory(storage=store)
        async with asyncio.TaskGroup() as group:
            for thread, many in enumerate(THREADS):
                for talker in range(many):
                    group.create_task(_converse(memory, f"{round}.{thread}", f"{talker}", reports))


async def _converse(memory: Memory, thread: str, talker: str, reports: Connection) -> None:
    for number in itertools.count():
        turn = Turn.of(thread, f"{thread}.{talker}.{number:04}")
        run_id = await _run(memory, turn, streams=number % 2 == 1)
        reports.send_bytes(json.dumps([turn.thread, turn.name, run_id]).encode())


async def _run(memory: Memory, turn: Turn, *, streams: bool) -> str:
    agent = agent_for(turn, memory)
    call: Any = {"memory": {"thread": turn.thread, "resource": "u1"}}
    if turn.outcome == "stopped":
        stop = AbortController()
        call["abort_signal"] = stop.signal
        call["on_chunk"] = lambda chunk: stop.abort() if chunk.type == "text-delta" else None
    if not streams:
        return (await agent.generate(turn.question, **call)).run_id
    async with agent.stream(turn.question, **call) as run:
        async for _ in run:
            pass
        return run.run_id
