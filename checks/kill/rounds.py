"""Rounds: a process talks, is killed at a random moment, and another judges what it has left."""

from __future__ import annotations

import json
import multiprocessing
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from .talk import THREADS, talk
from .verdict import Report, judge

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from .places import Place

__all__ = ["Round", "play"]

# Each process is a fresh one, forked off one that has done nothing but import.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["checks.kill.rounds", "procession.stores.postgres"])
_PATIENCE = 60.0
_MOST_REPORTS = 40
_LONGEST_WAIT = 0.03


class Round(NamedTuple):
    """What came of a process: the turns it reported, those that are stored, what is wrong."""

    reported: int
    stored: int
    problems: list[str]


def play(place: Place, name: str, dice: random.Random, fault: str | None = None) -> Round:
    """One round. Raises `RuntimeError` if a process ends otherwise than it should."""
    reported = _killed(place, name, dice, fault)
    threads = [f"{name}.{thread}" for thread in range(len(THREADS))]
    process, out = _started(judge, place, reported, threads)
    answer = _next(out)
    process.join(_PATIENCE)
    if answer is None or process.exitcode != 0:
        raise RuntimeError(f"{name}: the process that judges ended with {process.exitcode}")
    stored, problems = answer
    return Round(len(reported), stored, problems)


def _killed(place: Place, name: str, dice: random.Random, fault: str | None) -> list[Report]:
    """What a process has reported until it was killed, which it may have been before it began."""
    process, reports = _started(talk, place, name, fault)
    count = dice.choice((0, dice.randint(1, _MOST_REPORTS)))
    told = [_next(reports) for _ in range(1 + count)]
    _idle(dice.uniform(0, _LONGEST_WAIT))
    if process.exitcode is not None:
        raise RuntimeError(f"{name}: the process that talks ended with {process.exitcode}")
    process.kill()
    process.join()
    while (last := _next(reports)) is not None:
        told.append(last)
    reports.close()
    return [Report(*report) for report in told if report]


def _started(target: Callable[..., None], *given: Any) -> tuple[Any, Connection]:
    """A process, and the pipe on which it tells."""
    ours, theirs = _CONTEXT.Pipe(duplex=False)
    process: Any = _CONTEXT.Process(target=target, args=(*given, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _next(pipe: Connection) -> Any:
    """What the process says next; `None` when it will say no more."""
    if not pipe.poll(_PATIENCE):
        raise RuntimeError("a process says nothing")
    try:
        return json.loads(pipe.recv_bytes())
    except EOFError:
        return None


def _idle(seconds: float) -> None:
    """Wait, to the point: a sleep would last longer than what is to be hit."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        time.sleep(0)
