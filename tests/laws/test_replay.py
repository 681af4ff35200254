"""A replay is the live run again, for any answer, cutting and guard; what was cut off is not kept
(C-070 to C-097, V3).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from procession import AbortController, processor
from procession.cache import InMemoryServerCache
from procession.processors import RegexFilterProcessor, RegexRule, ResponseCache
from tests.laws.kit import PlayedModel, agent_with, bare, others_done, run_async
from tests.laws.strategies import conversations, played, seeds, sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from procession import Agent
    from procession.run import Run


class Kept(InMemoryServerCache):
    """Notes what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    async def set(self, key: str, value: Any, ttl_ms: int | None = None) -> None:
        await asyncio.sleep(0)
        self.written.append(key)
        await super().set(key, value, ttl_ms)


def guards() -> list[Any]:
    """One that holds back, one that changes each piece, one that changes results."""

    def louder(args: Any) -> Any:
        kind = args.part.type
        return args.with_text(args.part.payload.text.upper()) if kind == "text-delta" else args.part

    def mark(args: Any) -> None:
        part = {"toolCallId": args.tool_call_id, "result": f"<{args.result}>"}
        args.message_list.update_tool_invocation({"toolInvocation": part})

    return [
        RegexFilterProcessor(rules=[RegexRule("a", "[ab]+c?", "*")], strategy="redact"),
        processor(process_output_stream=louder, process_tool_result=mark, id="louder"),
    ]


def caching(model: PlayedModel, cache: Any) -> Agent:
    return agent_with(
        model, input_processors=[ResponseCache(cache=cache)], output_processors=guards()
    )


async def everything(agent: Agent) -> Any:
    """All that a run delivers and comes to."""
    run = await agent.stream("go")
    chunks = bare([chunk async for chunk in run.full_stream])
    output = bare(await run.get_full_output())
    return _unmarked(chunks), _unmarked(output)


def _unmarked(value: Any) -> Any:
    """But for what says that a step came from the cache."""
    if isinstance(value, dict):
        marks = ("fromCache", "from_cache")
        return {key: _unmarked(item) for key, item in value.items() if key not in marks}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


@given(conversations(), seeds, sizes)
@settings(max_examples=40)
def test_a_replay_is_the_live_run_again(steps: Any, seed: int, cut: Sequence[int]) -> None:
    """C-070, C-072, C-137: chunk by chunk, with all that stands in steps and messages."""

    async def play() -> None:
        model = PlayedModel(played(steps, seed), cut)
        agent = caching(model, Kept())
        live = await everything(agent)
        asked = len(model.prompts)
        assert await everything(agent) == live
        assert len(model.prompts) == asked

    run_async(play())


async def cut_short(run: Run, when: int, how: str, controller: AbortController) -> None:
    """Read a run up to a chunk, or to its end if it comes first."""
    number = 0
    async for chunk in run.full_stream:
        if number == when and chunk.type != "finish":
            if how == "signal":
                controller.abort()
            elif how == "cancel":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)
            else:
                return
        number += 1


@given(
    conversations(),
    seeds,
    sizes,
    st.integers(0, 12),
    st.sampled_from(["signal", "close", "cancel", "drop"]),
)
@settings(max_examples=60)
def test_what_was_cut_off_is_not_kept(
    steps: Any, seed: int, cut: Sequence[int], when: int, how: str
) -> None:
    """C-092: at whatever chunk, and in whatever way. The next run is a live one, and is kept."""

    async def play() -> None:
        model, cache = PlayedModel(played(steps, seed), cut), Kept()
        agent, controller = caching(model, cache), AbortController()
        before = asyncio.all_tasks()
        run = await agent.stream("go", abort_signal=controller.signal)
        await asyncio.wait([asyncio.create_task(cut_short(run, when, how, controller))])
        if how != "drop":
            await run.aclose()
        whole = run.status == "success"
        del run
        await others_done(before)
        assert len(cache.written) == (len(steps) if whole else 0)
        model.prompts.clear()
        await everything(agent)
        assert len(model.prompts) == (0 if whole else len(steps))

    run_async(play())
