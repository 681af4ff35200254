"""Among the conformance scenarios an observed processor is not there, whatever it tries."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from conformance import calls, processors
from conformance.compare import compare
from conformance.run import run_scenario
from procession import Policy
from procession.processor import HOOKS
from tests.conformance.test_scenarios import MANIFEST, load, runnable
from tests.policy.kit import spoil, without_events


class Worst:
    """In every hook it tries one thing after the other, async and plain by turns."""

    id = "worst"
    policy = Policy(observe=True, timeout=5)
    process_data_parts = True

    def __init__(self) -> None:
        self.calls = 0
        self.added = False
        self.turns = itertools.cycle(("abort", "raise", "write", "wrong", "drop", "signal"))

    def turn(self, args: Any) -> Any:
        self.calls += 1
        kind = next(self.turns)
        spoil(args)
        args.request_context.set("worst", kind)
        if kind == "abort":
            args.abort("no", retry=True)
        if kind == "raise":
            raise ValueError
        if kind in ("write", "signal") and args.writer is not None:
            return self.reach_out(args, kind)
        return 4711 if kind == "wrong" else None

    async def reach_out(self, args: Any, kind: str) -> Any:
        if kind == "write":
            await args.writer.custom({"type": "data-worst", "data": 1})
        else:
            await args.send_signal({"type": "reactive", "contents": "worst"})


def _async(self: Worst, args: Any) -> Any:
    return self.turn(args)


for _name in HOOKS:
    setattr(Worst, _name, _async)


@pytest.mark.parametrize("name", [name for name in MANIFEST if runnable(name)])
async def test_trace(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an observed processor does changes no event of the trace but those of policies."""
    built = processors.build_list
    worst = Worst()

    def with_the_worst(world: Any, described: Any) -> Any:
        found = built(world, described)  # a function chooses among lists that are made here, too
        if callable(found) or not found:
            return found
        worst.added = True
        return [worst, *found]

    monkeypatch.setattr(processors, "build_list", with_the_worst)
    monkeypatch.setattr(calls, "build_list", with_the_worst)
    trace = await run_scenario(load("scenarios", name))
    assert bool(worst.calls) == worst.added
    mismatches = compare(load("expected", name), without_events(json.loads(json.dumps(trace))))
    assert not mismatches, "\n".join(map(str, mismatches[:20]))
