"""Many runs at once, and many readers of one run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from procession import AbortController, RequestContext, tool
from tests.laws.checks import TWO_STEPS
from tests.laws.kit import (
    METADATA,
    Hook,
    PlayedModel,
    Tap,
    agent_with,
    call,
    end,
    others_done,
    said,
)


class Mirror:
    """A model that answers with the user's text, a chunk for each word, at its own pace."""

    provider = "example"
    model_id = "mirror-1"

    def __init__(self) -> None:
        self.open = 0
        self.most_open = 0

    async def stream(self, request: Any) -> Any:
        from procession.testing.parts import chunk_of

        words = request.prompt[-1]["content"][0]["text"].split(" ")
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            for part in [METADATA, *said(*(f"{word} " for word in words)), end()]:
                for _ in range(len(words[-1]) % 3):
                    await asyncio.sleep(0)
                yield [chunk_of(part)]
        finally:
            self.open -= 1


class Counting:
    """Counts in its state, in every hook, and checks whose state and context it was given."""

    id = "counting"
    process_data_parts = True

    def _note(self, args: Any, hook: str) -> None:
        name = args.request_context.get("name")
        assert args.state.setdefault("name", name) == name, "another run's state"
        args.state.setdefault("hooks", []).append(hook)

    def process_input(self, args: Any) -> None:
        assert args.state == {}, "state is new for each run"
        self._note(args, "input")

    async def process_input_step(self, args: Any) -> None:
        await asyncio.sleep(0)
        self._note(args, "step")

    async def process_output_stream(self, args: Any) -> Any:
        await asyncio.sleep(0)
        self._note(args, "stream")
        args.state["text"] = args.state.get("text", "") + (
            args.part.payload.text if args.part.type == "text-delta" else ""
        )
        return args.part

    async def process_output_step(self, args: Any) -> None:
        await args.writer.custom({"type": "data-run", "data": args.state["name"]})
        self._note(args, "output step")

    def process_output_result(self, args: Any) -> None:
        self._note(args, "result")
        assert args.result.text == args.state["text"]
        if args.state["name"].endswith("0"):
            args.abort(args.state["name"])


async def test_a_hundred_runs_of_one_agent() -> None:
    """R-193, G-Q: each has its own state, context, messages, retries and verdict."""
    before = set(asyncio.all_tasks())
    model = Mirror()
    agent = agent_with(model, Counting())

    async def one(number: int) -> None:
        name = f"run {number}"
        text = f"words of {name} " + "x" * (number % 4)
        run = await agent.stream(text, request_context=RequestContext({"name": name}))
        chunks = [chunk async for chunk in run]
        assert {c.run_id for c in chunks if c.type != "data-run"} == {run.run_id}
        assert [c.data for c in chunks if c.type == "data-run"] == [name]
        if name.endswith("0"):
            assert run.tripwire is not None and run.tripwire.reason == name
        else:
            assert await run.text == f"{text} "
        assert [m.text for m in run.message_list.messages() if m.role == "user"] == [text]

    await asyncio.gather(*(one(number) for number in range(100)))
    assert model.open == 0 and model.most_open > 50
    await others_done(before)


async def test_retries_are_counted_per_run() -> None:
    """R-182: runs at the same time have budgets of their own."""

    def again(args: Any) -> None:
        if args.retry_count < args.request_context.get("rejections"):
            args.abort("again", retry=True)

    agent = agent_with(Mirror(), Hook("process_output_step", again), max_processor_retries=3)

    async def one(rejections: int) -> None:
        output = await agent.generate("a b c", request_context={"rejections": rejections})
        kinds = [step.finish_reason for step in output.steps]
        assert kinds == ["retry"] * rejections + ["stop"]

    await asyncio.gather(*(one(number % 4) for number in range(40)))


async def test_two_readers_of_one_run() -> None:
    """R-537: each gets every chunk in order, whoever pulls."""
    model = PlayedModel(TWO_STEPS)
    run = await agent_with(model, Tap()).stream("go")

    async def read(pauses: int) -> list[Any]:
        found: list[Any] = []
        async for chunk in run.full_stream:
            found.append(chunk)
            for _ in range(pauses):
                await asyncio.sleep(0)
        return found

    one, two, three = await asyncio.gather(read(0), read(3), read(1))
    assert one == two == three == [chunk async for chunk in run]
    assert len(model.prompts) == 2 and one[-1].type == "finish"


async def test_values_while_another_task_reads() -> None:
    """R-539: awaiting values and reading at the same time drive one engine."""
    model = PlayedModel(TWO_STEPS)
    run = await agent_with(model, Tap()).stream("go")

    async def read() -> int:
        return len([chunk async for chunk in run])

    async def value(name: str) -> Any:
        return await getattr(run, name)

    count, text, steps, again, output = await asyncio.gather(
        read(), value("text"), value("steps"), value("text"), run.get_full_output()
    )
    assert text == again == output.text == "lookingdone" and len(steps) == 2
    assert count == len([chunk async for chunk in run]) and len(model.prompts) == 2


async def test_text_stream_beside_full_stream() -> None:
    """R-538: two kinds of streams of one run."""
    run = await agent_with(PlayedModel(TWO_STEPS)).stream("go")

    async def texts() -> str:
        return "".join([text async for text in run.text_stream])

    async def chunks() -> str:
        return "".join([c.payload.text async for c in run if c.type == "text-delta"])

    assert await asyncio.gather(texts(), chunks()) == ["lookingdone"] * 2


@pytest.mark.parametrize("hang_at", [0, 2, 5])
async def test_closing_from_another_task(hang_at: int) -> None:
    """T: one task waits for the next chunk, another closes: both are done, nothing is left."""
    before = set(asyncio.all_tasks())
    model = PlayedModel([[*said(*"abc"), end()]], hang_at=hang_at)
    run = await agent_with(model).stream("go")

    async def read() -> list[str]:
        return [chunk.type async for chunk in run]

    reader, waiter = asyncio.create_task(read()), asyncio.create_task(_text(run))
    await model.hanging.wait()
    async with asyncio.timeout(30):
        await run.aclose()
        kinds = await reader
        await waiter
    assert run.status == "canceled" and kinds[0] == "start"
    assert model.open == 0
    await run.aclose()
    await others_done(before)


async def _text(run: Any) -> str:
    return await run.text


async def test_closing_twice_at_once() -> None:
    """Two tasks close a run that a third reads."""
    before = set(asyncio.all_tasks())
    model = PlayedModel([[*said(*"abc"), end()]], hang_at=2)
    run = await agent_with(model).stream("go")
    reader = asyncio.create_task(run.consume_stream())
    await model.hanging.wait()
    async with asyncio.timeout(30):
        await asyncio.gather(run.aclose(), run.aclose())
        await reader
    assert run.status == "canceled" and model.open == 0
    await others_done(before)


async def test_the_pulling_reader_is_cancelled() -> None:
    """Law 4: the reader's cancellation ends the run; another reader learns of it, and ends."""
    before = set(asyncio.all_tasks())
    model = PlayedModel([[*said(*"abc"), end()]], hang_at=2)
    run = await agent_with(model).stream("go")
    reader = asyncio.create_task(run.consume_stream())
    await model.hanging.wait()
    other = asyncio.create_task(run.consume_stream())
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    async with asyncio.timeout(30):
        await other
    assert run.status == "canceled" and model.open == 0
    await others_done(before)


async def test_a_waiting_reader_is_cancelled() -> None:
    """A reader that only waits may go; the one that pulls reads on."""
    model = PlayedModel([[*said(*"abcdef"), end()]])
    run = await agent_with(model).stream("go")
    reader = asyncio.create_task(run.get_full_output())
    await asyncio.sleep(0)
    other = asyncio.create_task(run.consume_stream())
    await asyncio.sleep(0)
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other
    assert (await reader).text == "abcdef"


async def test_a_run_used_inside_its_own_hook() -> None:
    """Law 6: runs within runs; a sub-agent in a tool with the caller's signal (G-H6)."""
    before = set(asyncio.all_tasks())
    inner_model = PlayedModel([[*said(*"abc"), end()]], hang_at=2)
    inner = agent_with(inner_model)
    controller = AbortController()

    from procession import Tool

    async def delegate(arguments: Any, context: Any) -> str:
        return (await inner.generate("sub", abort_signal=context.abort_signal)).text

    model = PlayedModel([[call("delegate"), end("tool-calls")], [*said("x"), end()]])
    agent = agent_with(model, tools=[Tool(name="delegate", execute=delegate)])
    task = asyncio.create_task(agent.generate("go", abort_signal=controller.signal))
    await inner_model.hanging.wait()
    controller.abort()
    async with asyncio.timeout(30):
        output = await task
    assert output.status == "canceled" and len(model.prompts) == 1
    assert inner_model.open == model.open == 0
    await others_done(before)


async def test_tools_see_their_own_run() -> None:
    """G-Q5: context, ids and writer of parallel runs do not mix."""

    @tool
    async def nothing() -> str:
        return ""

    from procession import Tool

    async def whoami(arguments: Any, context: Any) -> str:
        await asyncio.sleep(0)
        await context.writer.custom({"type": "data-who", "data": context.run_id})
        return f"{context.request_context.get('name')} {context.run_id}"

    async def one(number: int) -> None:
        model = PlayedModel([[call("whoami"), end("tool-calls")], [*said("x"), end()]])
        agent = agent_with(model, tools=[Tool(name="whoami", execute=whoami), nothing])
        run = await agent.stream("go", request_context={"name": str(number)})
        seen = [c.data async for c in run if c.type == "data-who"]
        results = await run.tool_results
        assert seen == [run.run_id]
        assert results[0].payload.result == f"{number} {run.run_id}"

    await asyncio.gather(*(one(number) for number in range(30)))
