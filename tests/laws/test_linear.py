"""Law 7: the cost of a chunk or a step does not grow with those before it. Counted, not timed."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.laws.checks import check_linear, many_chunks, many_steps
from tests.laws.kit import Hook, PlayedModel, Tap, agent_with, end, said


async def test_chunks_without_processors() -> None:
    """A chunk costs what the first cost."""

    async def bare(count: int) -> None:
        model = PlayedModel([[*said(*["word "] * count), end()]], (8,))
        await agent_with(model, input_processors=[], output_processors=[]).generate("go")

    await check_linear(bare, (200, 400, 800), 1.02)


async def test_chunks_with_processors() -> None:
    """Also with processors of both kinds, and one that looks at `stream_parts`."""

    async def looks(args: Any) -> Any:
        assert args.stream_parts[-1].type == args.part.type
        assert len(args.stream_parts) > 0
        return args.part

    hook = Hook("process_output_stream", looks)
    await check_linear(lambda n: many_chunks(n, Tap(), hook), (200, 400, 800), 1.02)


async def test_written_chunks() -> None:
    """What hooks write costs the same too."""

    async def writes(args: Any) -> Any:
        if args.part.type == "text-delta":
            await args.writer.custom({"type": "data-note", "data": 1, "transient": True})
        return args.part

    hook = Hook("process_output_stream", writes)
    await check_linear(lambda n: many_chunks(n, hook), (100, 200, 400), 1.05)


async def test_steps() -> None:
    """A step costs what the first cost, beyond what is sent to the provider."""
    await check_linear(partial(many_steps), (20, 40, 80), 1.35)


async def test_steps_with_processors() -> None:
    """The same with every hook in use."""
    await check_linear(lambda n: many_steps(n, Tap()), (20, 40, 80), 1.5)


async def test_history() -> None:
    """A long history is converted once, not at each step (R-033)."""
    history = [
        {"role": ("user", "assistant")[i % 2], "content": f"message {i}"} for i in range(300)
    ]

    async def steps(count: int) -> None:
        from tests.laws.kit import call

        answers = [[call("echo", id=f"c{i}"), end("tool-calls")] for i in range(count)]
        model = PlayedModel([*answers, [*said("done"), end()]])
        from tests.laws.checks import _without_copies

        model.stream = _without_copies(model)  # type: ignore[method-assign]
        agent = agent_with(model, input_processors=[], output_processors=[])
        await agent.generate([*history, {"role": "user", "content": "go"}], max_steps=count + 1)

    from tests.laws.checks import operations

    await steps(2)
    one, nine = await operations(steps(1)), await operations(steps(9))
    per_step = (nine - one) / 8
    assert per_step < one / 3, f"{per_step} calls a step, {one} for the first with its history"
