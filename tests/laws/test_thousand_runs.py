"""A thousand runs with every kind of end leave no memory, task or open stream behind (G-Q6)."""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

from procession import AbortController
from tests.laws.checks import REFUSED, TWO_STEPS
from tests.laws.kit import Hook, PlayedModel, Tap, agent_with, generated, others_done

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

RUNS = 1000
WARM_UP = 100
TRACED = 200
PER_RUN = 60
"""Bytes a run may leave: nothing, but caches and pools fill up slowly."""


def _boom(args: Any) -> None:
    raise ValueError("boom")


class Ends:
    """One agent for each kind of end, used again and again."""

    def __init__(self) -> None:
        self.models: list[PlayedModel] = []
        self.fine = self._agent(TWO_STEPS, _NoLog())
        self.blocked = self._agent(TWO_STEPS, Hook("process_output_step", lambda a: a.abort("no")))
        self.raising = self._agent(TWO_STEPS, Hook("process_output_step", _boom))
        self.refused = self._agent((REFUSED[0],))
        self.controller = AbortController()
        kinds = [self.ok, self.tripwire, self.hook_error, self.model_error]
        self.kinds: list[Callable[[], Awaitable[None]]]
        self.kinds = [*kinds, self.closed, self.cancelled, self.aborted, self.dropped, self.input]

    def _agent(self, answers: Any, *processors: Any) -> Any:
        model = _Replayed(answers)
        self.models.append(model)
        return agent_with(model, *processors)

    async def ok(self) -> None:
        output = await self.fine.generate("go", abort_signal=self.controller.signal)
        assert output.text == "lookingdone"

    async def tripwire(self) -> None:
        run = await self.blocked.stream("go", abort_signal=self.controller.signal)
        await run.consume_stream()
        assert run.status == "tripwire"

    async def hook_error(self) -> None:
        assert isinstance(await generated(self.raising, "go"), ValueError)

    async def model_error(self) -> None:
        assert isinstance(await generated(self.refused, "go"), ConnectionError)

    async def closed(self) -> None:
        run = await self.fine.stream("go")
        stream = run.full_stream
        for _ in range(5):
            await anext(stream)
        await run.aclose()

    async def cancelled(self) -> None:
        run = await self.fine.stream("go", abort_signal=self.controller.signal)
        task = asyncio.create_task(run.consume_stream())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    async def aborted(self) -> None:
        controller = AbortController()
        run = await self.fine.stream("go", abort_signal=controller.signal)
        async for chunk in run:
            if chunk.type == "text-delta":
                controller.abort()
        assert run.status == "canceled"

    async def dropped(self) -> None:
        async for chunk in await self.fine.stream("go"):
            if chunk.type == "text-delta":
                break

    async def input(self) -> None:
        output = await self.fine.generate(
            "go", input_processors=[Hook("process_input", lambda args: args.abort("no"))]
        )
        assert output.status == "tripwire"

    async def run(self, count: int) -> None:
        for number in range(count):
            await self.kinds[number % len(self.kinds)]()


class _NoLog(Tap):
    """A tap that forgets."""

    def __init__(self) -> None:
        super().__init__("tap", _Forgetful())
        self.offered = _Forgetful()


class _Forgetful(list[Any]):
    def append(self, item: Any) -> None:
        """Keep nothing."""


class _Replayed(PlayedModel):
    """Plays its answers from the beginning for each run, and forgets the prompts."""

    async def stream(self, request: Any) -> Any:
        answered = any(entry["role"] == "tool" for entry in request.prompt)
        self.prompts = _Forgetful([None] if answered else [])
        async for read in super().stream(request):
            yield read


async def test_a_thousand_runs() -> None:
    """Law 6, G-Q6: memory, tasks, open streams and listeners are those after the first runs.

    Blocks and objects are counted over most of the runs; the last ones are traced, so that what
    grows is named.
    """
    ends = Ends()
    before = set(asyncio.all_tasks())

    async def settled(count: int) -> tuple[int, int]:
        await ends.run(count)
        await others_done(before)
        gc.collect()
        return sys.getallocatedblocks(), len(gc.get_objects())

    first = await settled(WARM_UP)
    counted = await settled(RUNS - WARM_UP - TRACED)
    assert counted[0] - first[0] < RUNS, f"{counted[0] - first[0]} blocks of memory more"
    assert counted[1] - first[1] < RUNS, f"{counted[1] - first[1]} objects more"
    tracemalloc.start()
    try:
        await settled(TRACED // 2)
        earlier = tracemalloc.take_snapshot()
        await settled(TRACED // 2)
        later = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    ours = [tracemalloc.Filter(True, "*procession*"), tracemalloc.Filter(True, "*laws*")]
    changes = later.filter_traces(ours).compare_to(earlier.filter_traces(ours), "lineno")
    growth = sum(change.size_diff for change in changes)
    assert growth < TRACED * PER_RUN, "\n".join(map(str, changes[:10]))
    assert [model.open for model in ends.models] == [0] * len(ends.models)
    assert not ends.controller.signal._callbacks
