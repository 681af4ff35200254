"""Law 2: whatever is delivered, resulting, or stored went through the same chain once."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.checks import check_every_hook_runs, check_one_gate
from tests.laws.kit import (
    METADATA,
    Hook,
    PlayedModel,
    Tap,
    accepted_text,
    agent_with,
    call,
    end,
    run_async,
    said,
    stored_text,
)
from tests.laws.strategies import conversations, played, seeds, sizes


@given(conversations(), seeds, sizes, st.integers(2, 7), st.booleans())
@settings(max_examples=80, deadline=None)
def test_any_conversation(steps: Any, seed: int, sizes: list[int], every: int, plain: bool) -> None:
    """R-122 to R-126, G-B: offered once, in order; delivered, resulting and stored texts agree."""
    run_async(check_one_gate(played(steps, seed), sizes, every, plain))


async def test_every_hook_runs() -> None:
    """R-058, R-059, R-109: the order of the nine hooks."""
    await check_every_hook_runs()


@given(st.integers(1, 12), st.integers(1, 4), sizes)
@settings(max_examples=30, deadline=None)
def test_rejected_attempts(nth: int, budget: int, sizes: list[int]) -> None:
    """R-126, R-175, README 22: their texts are nowhere, their closing chunk was offered too."""
    run_async(_rejected(nth, budget, sizes))


async def _rejected(nth: int, budget: int, sizes: list[int]) -> None:
    count = 0

    def sometimes(args: Any) -> Any:
        nonlocal count
        count += 1
        if count % nth == 0 and args.part.type == "text-delta" and args.retry_count < budget:
            args.abort("again", retry=True)
        return args.part

    tap = Tap("first")
    agent = agent_with(
        PlayedModel([[METADATA, *said("on", "e ", "two"), end()]], sizes),
        tap,
        Hook("process_output_stream", sometimes),
        max_processor_retries=budget,
    )
    run = await agent.stream("go")
    delivered = [chunk async for chunk in run]
    assert run.status == "success"
    assert accepted_text(delivered) == await run.text == "one two"
    assert stored_text(run.message_list.messages()) == "one two"
    closing = [c for c in delivered if c.type == "step-finish"]
    assert closing == [c for c in tap.offered if c.type == "step-finish"]
    assert [s.finish_reason for s in await run.steps].count("stop") == 1
    assert len(closing) == len(await run.steps)


async def test_written_chunks_are_offered_once() -> None:
    """R-198: data chunks of the other hooks and of tools are offered to every processor."""

    async def writes(args: Any) -> None:
        await args.writer.custom({"type": "data-note", "data": 1})

    first, last = Tap("first"), Tap("last")
    hooks = ("process_input_step", "process_llm_request", "process_llm_response")
    later = ("process_output_step", "process_tool_result")
    agent = agent_with(
        PlayedModel([[call("echo"), end("tool-calls")], [*said("x"), end()]]),
        first,
        *(Hook(name, writes, name) for name in (*hooks, *later)),
        last,
    )
    run = await agent.stream("go")
    delivered = [chunk async for chunk in run if chunk.type == "data-note"]
    assert len(delivered) == 9
    for tap in (first, last):
        assert [c for c in tap.offered if c.type == "data-note"] == delivered


async def test_chunks_written_by_stream_hooks_go_on_from_there() -> None:
    """R-198: only to the processors behind the writer."""

    async def writes(args: Any) -> Any:
        if args.part.type == "text-delta":
            await args.writer.custom({"type": "data-note", "data": 1})
        return args.part

    before, after = Tap("before"), Tap("after")
    model = PlayedModel([[*said("a", "b"), end()]])
    agent = agent_with(model, before, Hook("process_output_stream", writes), after)
    run = await agent.stream("go")
    kinds = [c.type async for c in run]
    assert kinds.count("data-note") == 2
    assert [c.type for c in before.offered].count("data-note") == 0
    assert [c.type for c in after.offered].count("data-note") == 2


async def test_chunks_of_the_last_hook_are_not_offered() -> None:
    """R-198: what `process_output_result` writes goes straight to the client."""

    async def writes(args: Any) -> None:
        await args.writer.custom({"type": "data-note", "data": 1})

    tap = Tap()
    agent = agent_with(
        PlayedModel([[*said("a"), end()]]), tap, Hook("process_output_result", writes)
    )
    run = await agent.stream("go")
    assert [c.type async for c in run][-2:] == ["data-note", "finish"]
    assert "data-note" not in [c.type for c in tap.offered]


async def test_data_chunks_pass_by_those_who_did_not_ask() -> None:
    """R-127: they are not offered, and are delivered all the same."""
    deaf = Tap("deaf")
    deaf.process_data_parts = False

    async def writes(args: Any) -> None:
        await args.writer.custom({"type": "data-note", "data": 1})

    model = PlayedModel([[*said("a"), end()]])
    run = await agent_with(model, Hook("process_input_step", writes), deaf).stream("go")
    assert "data-note" in [c.type async for c in run]
    assert "data-note" not in [c.type for c in deaf.offered]
