"""The breaker: closed, open, probed by one call; one for each processor, in all runs."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession import Agent, Breaker, Policy
from procession.policy.circuit import REFUSED, Circuit
from procession.testing import ScriptedModel, answer


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def circuit(failures: int = 2, seconds: float = 10) -> tuple[Circuit, Clock]:
    clock = Clock()
    return Circuit(failures, seconds, clock), clock


def opened() -> tuple[Circuit, Clock]:
    made, clock = circuit()
    for _ in range(2):
        made.failed(made.enter())
    assert made.is_open
    return made, clock


def test_failures_in_a_row() -> None:
    made, _ = circuit()
    made.failed(made.enter())
    made.succeeded(made.enter())
    made.failed(made.enter())
    assert not made.is_open
    made.failed(made.enter())
    assert made.is_open and made.enter() == REFUSED


def test_one_probe() -> None:
    made, clock = opened()
    clock.now += 9.9
    assert made.enter() == REFUSED
    clock.now += 0.2
    probe = made.enter()
    assert probe != REFUSED and made.enter() == REFUSED
    made.succeeded(probe)
    assert not made.is_open
    made.failed(made.enter())
    assert not made.is_open, "it counts from the beginning again"


def test_a_probe_that_fails() -> None:
    made, clock = opened()
    clock.now += 11
    made.failed(made.enter())
    assert made.is_open and made.enter() == REFUSED
    clock.now += 11
    assert made.enter() != REFUSED


def test_a_probe_that_is_given_up() -> None:
    """Somebody has cancelled it: the next call is the probe."""
    made, clock = opened()
    clock.now += 11
    made.left(made.enter())
    assert made.is_open
    assert made.enter() != REFUSED and made.enter() == REFUSED


def test_a_probe_that_never_comes_back() -> None:
    made, clock = opened()
    clock.now += 11
    lost = made.enter()
    clock.now += 11
    probe = made.enter()
    assert probe not in (REFUSED, lost)
    made.succeeded(lost)
    assert made.is_open, "the outcome of the lost one counts for nothing"
    made.succeeded(probe)
    assert not made.is_open


def test_stragglers() -> None:
    """Calls that were made before it was opened neither close it nor open it anew."""
    made, clock = circuit()
    passes = [made.enter() for _ in range(4)]
    made.failed(passes[0])
    made.failed(passes[1])
    clock.now += 5
    made.failed(passes[2])
    made.succeeded(passes[3])
    assert made.is_open
    clock.now += 5.1
    assert made.enter() != REFUSED


@given(st.lists(st.sampled_from(["enter", "ok", "fail", "left", "wait"]), max_size=60))
def test_never_two_probes(steps: list[str]) -> None:
    """Whatever happens in which order: while it is open, one call is under way at most."""
    made, clock = circuit(failures=2, seconds=10)
    under_way: list[int] = []
    for step in steps:
        if step == "wait":
            clock.now += 4
        elif step == "enter":
            was_open = made.is_open
            given_pass = made.enter()
            if given_pass != REFUSED:
                if was_open:
                    under_way = [p for p in under_way if p == given_pass]
                    assert not under_way
                under_way.append(given_pass)
        elif under_way:
            end = {"ok": made.succeeded, "fail": made.failed, "left": made.left}[step]
            end(under_way.pop())


def test_many_threads() -> None:
    made, clock = circuit(failures=1, seconds=1)
    made.failed(made.enter())
    clock.now += 2
    passes: list[int] = []
    together = threading.Barrier(8)

    def enter() -> None:
        together.wait()
        passes.append(made.enter())

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([p for p in passes if p != REFUSED]) == 1


class Failing:
    id = "failing"
    policy = Policy(on_error="allow", breaker=Breaker(failures=2, seconds=60))

    def __init__(self) -> None:
        self.calls = 0

    def process_input(self, args: Any) -> None:
        self.calls += 1
        raise ValueError


def agent(processor: Any) -> Agent:
    return Agent(id="a", model=ScriptedModel([answer("hi")]), input_processors=[processor])


async def test_each_processor_has_its_own() -> None:
    """A policy on a class, or in two places, counts for each instance."""
    one, other = Failing(), Failing()
    for _ in range(4):
        await agent(one).generate("go")
    await agent(other).generate("go")
    assert (one.calls, other.calls) == (2, 1)


async def test_all_hooks_and_runs_share_it() -> None:
    class Two(Failing):
        def process_input_step(self, args: Any) -> None:
            self.calls += 1
            raise ValueError

    two = Two()
    await asyncio.gather(*(agent(two).generate("go") for _ in range(5)))
    assert two.calls == 2


def test_loops_in_threads_share_it() -> None:
    failing = Failing()
    threads = [
        threading.Thread(target=lambda: asyncio.run(agent(failing).generate("go")))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 2 <= failing.calls <= 6
    assert failing.policy.circuit_of(failing) is not None
    assert failing.policy.circuit_of(failing).is_open  # type: ignore[union-attr]


async def test_it_closes_again() -> None:
    class Recovering(Failing):
        policy = Policy(on_error="allow", breaker=Breaker(failures=1, seconds=0.001))

        def process_input(self, args: Any) -> None:
            self.calls += 1
            if self.calls == 1:
                raise ValueError

    made = Recovering()
    await agent(made).generate("go")
    await asyncio.sleep(0.005)
    for _ in range(3):
        output = await agent(made).generate("go")
    assert made.calls == 4 and not output.policy_events


def test_nothing_of_a_processor_is_kept() -> None:
    policy = Policy(breaker=Breaker())
    made = Failing()
    circuit = policy.circuit_of(made)
    assert policy.circuit_of(made) is circuit
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None and not policy._circuits  # type: ignore[attr-defined]


def test_without_weak_references() -> None:
    class Slotted:
        __slots__ = ("id",)

        def process_input(self, args: Any) -> None: ...

    policy, made = Policy(breaker=Breaker()), Slotted()
    assert policy.circuit_of(made) is policy.circuit_of(made)
    assert policy.circuit_of(Slotted()) is not policy.circuit_of(made)


@pytest.mark.parametrize("verdict", [True, False])
async def test_a_verdict_is_a_success(verdict: bool) -> None:
    class Judge(Failing):
        policy = Policy(on_error="allow", breaker=Breaker(failures=2, seconds=60))

        def process_input(self, args: Any) -> None:
            self.calls += 1
            if self.calls % 2 == 0 and verdict:
                args.abort("no")
            raise ValueError

    judge = Judge()
    for _ in range(6):
        await agent(judge).generate("go")
    assert judge.calls == (6 if verdict else 2)
