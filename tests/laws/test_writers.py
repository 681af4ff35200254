"""What hooks and tools write is in the reader's hands before they go on (R-197, R-517)."""

from __future__ import annotations

import asyncio
import types
from typing import Any

import pytest

from procession import Tool
from tests.laws.checks import REFUSED, TWO_STEPS
from tests.laws.kit import METADATA, Hook, PlayedModel, Tap, agent_with, call, end, said

WRITING = (
    "process_input_step",
    "process_llm_request",
    "process_llm_response",
    "process_api_error",
    "process_output_step",
    "process_tool_result",
    "process_output_result",
)


class Waiter:
    """Writes a chunk and goes on only when the reader says it has it."""

    def __init__(self) -> None:
        self.got = asyncio.Event()
        self.waits = 0

    async def wait(self, writer: Any) -> None:
        self.got.clear()
        self.waits += 1
        await writer.custom({"type": "data-note", "data": self.waits, "transient": True})
        await self.got.wait()

    async def read(self, run: Any) -> list[str]:
        """Read the run; fails in the end, for then writer and reader wait for each other."""
        kinds: list[str] = []
        try:
            async with asyncio.timeout(30):
                async for chunk in run:
                    kinds.append(chunk.type)
                    if chunk.type == "data-note":
                        self.got.set()
        except TimeoutError:
            raise AssertionError(
                f"what was written did not come before its writer went on; read: {kinds}"
            ) from None
        return kinds


@pytest.mark.parametrize("hook", WRITING)
async def test_each_hook(hook: str) -> None:
    """R-517: the hook waits for the reader, the reader for the hook's chunk."""
    waiter = Waiter()

    async def writes(args: Any) -> None:
        await waiter.wait(args.writer)

    answers = REFUSED if hook == "process_api_error" else TWO_STEPS
    run = await agent_with(PlayedModel(answers), Tap(), Hook(hook, writes)).stream("go")
    kinds = await waiter.read(run)
    assert kinds.count("data-note") == waiter.waits > 0


async def test_plain_hooks_that_return_awaitables() -> None:
    """R-007: a plain function that returns what is to be awaited writes like an async one."""
    waiter = Waiter()
    hook = Hook("process_input_step", lambda args: waiter.wait(args.writer))
    run = await agent_with(PlayedModel(TWO_STEPS), hook).stream("go")
    assert (await waiter.read(run)).count("data-note") == 2


async def test_prepare_step() -> None:
    """R-210: the same for the call's own function."""
    waiter = Waiter()
    run = await agent_with(PlayedModel(TWO_STEPS)).stream(
        "go", prepare_step=lambda args: waiter.wait(args.writer)
    )
    assert (await waiter.read(run)).count("data-note") == 2


STREAMED = [
    "step-start",
    "response-metadata",
    "reasoning-delta",
    "text-delta",
    "text-end",
    "tool-call",
    "tool-result",
    "tool-error",
    "finish",
    "step-finish",
    "error",
]


@pytest.mark.parametrize("kind", STREAMED)
async def test_stream_hooks_at_each_chunk(kind: str) -> None:
    """R-517, R-197: between the surrounding chunks, whatever chunk the hook is looking at."""
    waiter = Waiter()

    async def writes(args: Any) -> Any:
        if args.part.type == kind:
            await waiter.wait(args.writer)
        return args.part

    calls = [call("echo", id="c1"), call("fail", id="c2"), end("tool-calls")]
    answers: list[Any] = [
        [METADATA, *said("a", kind="reasoning", id="r"), *said("b"), *calls],
        [METADATA, *said("c"), end()],
    ]
    if kind == "error":
        answers = [[*said("half"), ConnectionError("lost")]]
    run = await agent_with(
        PlayedModel(answers, (2,)), Hook("process_output_stream", writes)
    ).stream("go")
    kinds = await waiter.read(run)
    assert kinds.count("data-note") == waiter.waits > 0
    if kind not in ("response-metadata", "finish"):
        assert kinds.index(kind) == kinds.index("data-note") + 1


async def test_stream_hooks_at_written_chunks() -> None:
    """R-517, R-198: a hook that looks at what another hook wrote may write itself."""
    waiter = Waiter()

    async def first(args: Any) -> None:
        await args.writer.custom({"type": "data-first", "data": 1})

    async def second(args: Any) -> Any:
        if args.part.type == "data-first":
            await waiter.wait(args.writer)
        return args.part

    run = await agent_with(
        PlayedModel(TWO_STEPS),
        Hook("process_input_step", first, "first"),
        Hook("process_output_stream", second, "second"),
    ).stream("go")
    kinds = await waiter.read(run)
    assert kinds.count("data-note") == 2


async def test_provider_executed_results() -> None:
    """R-239, R-517: `process_tool_result` of a result in the model's stream."""
    waiter = Waiter()

    async def writes(args: Any) -> None:
        await waiter.wait(args.writer)

    result = {"type": "tool-result", "toolCallId": "p", "toolName": "search", "result": 1}
    parts = [
        call("search", id="p", providerExecuted=True),
        {**result, "providerExecuted": True},
        *said("x"),
        end(),
    ]
    run = await agent_with(PlayedModel([parts]), Hook("process_tool_result", writes)).stream("go")
    kinds = await waiter.read(run)
    assert kinds.index("data-note") < kinds.index("tool-result")


@pytest.mark.parametrize("way", ["custom", "write"])
async def test_tools(way: str) -> None:
    """R-533, R-197: the tool goes on when its chunk was read."""
    got = asyncio.Event()

    async def writing(arguments: Any, context: Any) -> str:
        if way == "custom":
            await context.writer.custom({"type": "data-note", "data": 1})
        else:
            await context.writer.write("working")
        await got.wait()
        return "done"

    model = PlayedModel([[call("writing"), end("tool-calls")], [*said("x"), end()]])
    run = await agent_with(model, tools=[Tool(name="writing", execute=writing)]).stream("go")
    kinds: list[str] = []
    async with asyncio.timeout(30):
        async for chunk in run:
            kinds.append(chunk.type)
            if chunk.type in ("data-note", "tool-output"):
                got.set()
    assert "tool-result" in kinds


async def test_generate_needs_no_reader() -> None:
    """R-204: what is written is stored or forgotten, and nobody waits."""

    async def writes(args: Any) -> None:
        await args.writer.custom({"type": "data-kept", "data": 1})

    agent = agent_with(PlayedModel(TWO_STEPS), *(Hook(name, writes, name) for name in WRITING))
    output = await agent.generate("go")
    kept = [p for m in output.messages for p in m.parts if p.type == "data-kept"]
    assert len(kept) == 10


async def test_parallel_tools_in_call_order_each_as_soon_as_possible() -> None:
    """R-053, R-514, G-J5: the second and third tools wait until the one before was read."""
    read = {id: asyncio.Event() for id in ("c1", "c2", "c3")}
    waits_for = {"c1": None, "c2": "c1", "c3": "c2"}
    log: list[str] = []

    async def work(arguments: Any, context: Any) -> str:
        earlier = waits_for[context.tool_call_id]
        if earlier is not None:
            await read[earlier].wait()
        return context.tool_call_id

    def judged(args: Any) -> None:
        log.append(f"hook {args.tool_call_id}")

    calls = [call("work", id=id) for id in read]
    model = PlayedModel([[*calls, end("tool-calls")], [*said("x"), end()]])
    agent = agent_with(
        model, Hook("process_tool_result", judged), tools=[Tool(name="work", execute=work)]
    )
    async with asyncio.timeout(30):
        async for chunk in await agent.stream("go"):
            if chunk.type == "tool-result":
                log.append(f"read {chunk.payload.result}")
                read[chunk.payload.tool_call_id].set()
    assert log == [f"{what} {id}" for id in read for what in ("hook", "read")]
    results = [p for entry in model.prompts[1] if entry["role"] == "tool" for p in entry["content"]]
    assert [part["toolCallId"] for part in results] == list(read)


async def test_parallel_tools_that_end_backwards() -> None:
    """R-053, R-514: the last call's tool ends first; order stays, what they write comes through."""
    done = {id: asyncio.Event() for id in ("c1", "c2", "c3")}
    waits_for = {"c1": "c2", "c2": "c3", "c3": None}

    async def work(arguments: Any, context: Any) -> str:
        id = context.tool_call_id
        later = waits_for[id]
        if later is not None:
            await done[later].wait()
        await context.writer.custom({"type": "data-done", "data": id})
        done[id].set()
        if id == "c2":
            raise ValueError("no")
        return id

    calls = [call("work", id=id) for id in done]
    model = PlayedModel([[*calls, end("tool-calls")], [*said("x"), end()]])
    agent = agent_with(model, Tap(), tools=[Tool(name="work", execute=work)])
    seen: list[str] = []
    async with asyncio.timeout(30):
        async for chunk in await agent.stream("go"):
            if chunk.type == "data-done":
                seen.append(f"done {chunk.data}")
            elif chunk.type in ("tool-result", "tool-error"):
                seen.append(f"{chunk.type} {chunk.payload.tool_call_id}")
    assert seen[:3] == ["done c3", "done c2", "done c1"]
    assert seen[3:] == ["tool-result c1", "tool-error c2", "tool-result c3"]


async def _by_locals(args: Any, waiter: Waiter) -> None:
    await waiter.wait(getattr(locals()["args"], "wri" + "ter"))


async def _by_vars(args: Any, waiter: Waiter) -> None:
    await waiter.wait(getattr(vars()["args"], "wri" + "ter"))


async def _by_eval(args: Any, waiter: Waiter) -> None:
    await waiter.wait(eval("args.writer"))


async def _by_exec(args: Any, waiter: Waiter) -> None:
    found: dict[str, Any] = {}
    exec("found['it'] = args.writer")
    await waiter.wait(found["it"])


@pytest.mark.parametrize("way", [_by_locals, _by_vars, _by_eval, _by_exec])
async def test_writers_found_without_their_name(way: Any) -> None:
    """R-517: code that reaches its argument by another way is taken to write."""
    waiter = Waiter()
    hook = types.FunctionType(way.__code__, {**globals(), "waiter": waiter}, "hook")
    hook.__defaults__ = (waiter,)
    run = await agent_with(PlayedModel(TWO_STEPS), Hook("process_output_step", hook)).stream("go")
    assert "data-note" in await waiter.read(run)
    assert waiter.waits


def _by_dict(args: Any, seen: list[int]) -> Any:
    seen.append(len(args.__dict__["stream_" + "parts"]))
    return args.part


def _by_bound_method(args: Any, seen: list[int]) -> Any:
    stop = args.abort
    seen.append(len(getattr(stop, "__" + "self__").stream_parts))
    return args.part


def _by_name(args: Any, seen: list[int]) -> Any:
    seen.append(len(args.stream_parts))
    return args.part


@pytest.mark.parametrize("way", [_by_dict, _by_bound_method, _by_name])
async def test_earlier_chunks_are_there_however_they_are_read(way: Any) -> None:
    """R-121: chunks are kept for every hook that could look at them."""
    seen: list[int] = []
    hook = types.FunctionType(way.__code__, {**globals()}, "hook", (seen,))
    agent = agent_with(PlayedModel([[*said("a", "b"), end()]]), Hook("process_output_stream", hook))
    await agent.generate("go")
    assert seen == list(range(1, len(seen) + 1)) and len(seen) > 4


async def test_a_plain_abort_keeps_no_chunks() -> None:
    """Law 7: a hook that only aborts does not make the run keep what it has delivered."""
    from procession.writing import may_look_back

    def guard(args: Any) -> Any:
        if args.part.type == "error":
            args.abort("no")
        return args.part

    assert not may_look_back(guard)
    assert may_look_back(_by_bound_method) and may_look_back(_by_dict)


async def test_messages_are_those_of_the_moment() -> None:
    """R-033: a stream hook of the second step sees the answer of the first."""
    counts: list[int] = []

    def hook(args: Any) -> Any:
        if args.part.type == "step-start":
            counts.append(len(args.messages))
        return args.part

    await agent_with(PlayedModel(TWO_STEPS), Hook("process_output_stream", hook)).generate("go")
    assert counts == [1, 2]
