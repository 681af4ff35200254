"""What a failed hook had done is undone; what has left, or belongs to others, stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from procession import MessageList, Policy, Tool, tool
from procession.conversation.prompt_run import SHORTEST
from procession.hold import Literals
from procession.messages import DataPart, TextPart, text_message
from tests.laws.checks import TWO_STEPS
from tests.laws.kit import METADATA, Hook, PlayedModel, Tap, agent_with, call, end, said
from tests.policy.kit import PATIENT, Shaky, spoil, trace

ALLOW = Policy(on_error="allow", timeout=1)


def hooked(hook: str, function: Any, policy: Policy = ALLOW) -> Any:
    made: Any = Hook(hook, function)
    made.policy = policy
    return made


@pytest.mark.parametrize("hook", ["process_input_step", "process_output_step"])
async def test_written_and_sent(hook: str) -> None:
    """R-200: what was delivered is stored, whoever has written it; signals were sent."""

    async def fails(args: Any) -> None:
        spoil(args)
        await args.writer.custom({"type": "data-x", "id": "1", "data": len(args.messages)})
        await args.writer.custom({"type": "data-y", "data": 1, "transient": True})
        await args.send_signal({"type": "reactive", "contents": "listen"})
        raise ValueError

    run = await agent_with(PlayedModel([[*said("hi"), end()]]), hooked(hook, fails)).stream("go")
    kinds = [chunk.type async for chunk in run]
    assert {"data-x", "data-y", "data-signal"} <= set(kinds)
    messages = run.message_list.messages()
    data = [p for m in messages for p in m.content.parts if isinstance(p, DataPart)]
    assert [part.type for part in data] == ["data-x"]
    assert [m.role for m in messages if m.role == "signal"] == ["signal"]
    assert "SPOILT" not in repr([m.content.parts for m in messages if m.role != "signal"])
    assert await run.text == "hi"


async def test_what_a_tool_writes_meanwhile() -> None:
    """Others go on while a hook is waited for: what they do is not undone."""
    begun = asyncio.Event()

    async def writing(arguments: Any, context: Any) -> str:
        await begun.wait()
        await context.writer.custom({"type": "data-progress", "data": 1})
        return "written"

    async def fails(args: Any) -> None:
        if args.tool_name == "fast":
            spoil(args)
            begun.set()
            await asyncio.sleep(PATIENT * 4)
            raise ValueError

    @tool
    async def fast() -> str:
        return "fast"

    calls = [call("fast", id="c1"), call("writing", id="c2")]
    model = PlayedModel([[*calls, end("tool-calls")], [*said("done"), end()]])
    agent = agent_with(
        model,
        hooked("process_tool_result", fails),
        tools=[fast, Tool(name="writing", execute=writing)],
    )
    run = await agent.stream("go")
    await run.consume_stream()
    (message,) = [m for m in run.message_list.messages() if m.role == "assistant"]
    kinds = [part.type for part in message.content.parts]
    assert kinds.count("data-progress") == 1 and "SPOILT" not in repr(message.content.parts)
    assert await run.text == "done"


async def test_state_is_the_processors_own() -> None:
    states: list[int] = []

    def fails(args: Any) -> None:
        args.state["calls"] = args.state.get("calls", 0) + 1
        states.append(args.state["calls"])
        raise ValueError

    await agent_with(PlayedModel(TWO_STEPS), hooked("process_input_step", fails)).generate("go")
    assert states == [1, 2]


async def test_a_long_history_sleeps_on() -> None:
    """A hook that asks for no messages does not have them looked at, nor one that fails."""
    history = [text_message(f"m{n}") for n in range(SHORTEST + 40)]

    def agent(*processors: Any) -> Any:
        return agent_with(PlayedModel([[*said("hi"), end()]]), *processors)

    for _ in range(3):
        await agent(Tap()).generate(history)  # it is remembered now
    asleep: list[bool] = []

    def fails(args: Any) -> None:
        args.message_list.add_system("SPOILT")
        raise ValueError

    def spoils(args: Any) -> None:
        spoil(args)
        raise ValueError

    def looks(args: Any) -> None:
        asleep.append(args.message_list._sequence.sleeping is not None)

    quiet = hooked("process_input_step", fails)
    output = await agent(quiet, Hook("process_input_step", looks)).generate(history)
    assert asleep == [True]
    output = await agent(hooked("process_input_step", spoils), Tap()).generate(history)
    plain = await agent(Tap()).generate(history)
    texts = [message.text for message in plain.messages]
    assert [message.text for message in output.messages] == texts
    assert len(output.policy_events) == 1


async def test_same_objects() -> None:
    """Whoever holds on to a message or a part has the real one, before and after."""
    held: list[Any] = []

    def holds(args: Any) -> None:
        held.extend((m, m.content, m.content.parts, *m.content.parts) for m in args.messages)

    def fails(args: Any) -> None:
        for message in args.messages:
            message.content = message.content.replace(parts=[TextPart(text="SPOILT")])
        raise ValueError

    output = await agent_with(
        PlayedModel([[*said("hi"), end()]]),
        Hook("process_input_step", holds),
        hooked("process_input_step", fails),
    ).generate("go")
    message = output.messages[0]
    found = (message, message.content, message.content.parts, *message.content.parts)
    assert all(a is b for a, b in zip(held[0], found, strict=True))


@pytest.mark.parametrize("is_async", [False, True])
async def test_fallback_with_watches(is_async: bool) -> None:
    """B-133: a fallback that looks for something is handed pieces in which it is whole."""

    def redacts(args: Any) -> Any:
        if args.piece is None:
            return args.part
        return args.with_text(args.piece.text.replace("secret", "***"))

    async def awaited(args: Any) -> Any:
        return redacts(args)

    stand: Any = Hook("process_output_stream", awaited if is_async else redacts, "stand")
    stand.watches, stand.lanes = Literals("secret"), ["text", "tool-arguments"]
    policy = Policy(on_error="degrade", fallback=stand)
    parts = [METADATA, *said("a se", "cr", "et b"), end()]
    found = await trace([parts], Shaky("process_output_stream", "error", policy))
    alone: Any = Hook("process_output_stream", redacts, "stand")
    alone.watches, alone.lanes = stand.watches, ["text"]
    assert found == await trace([parts], alone)
    assert found["outcome"]["text"] == "a *** b"


@pytest.mark.parametrize("on_error", ["block", "allow"])
@pytest.mark.parametrize("is_async", [False, True])
async def test_flush(on_error: Any, is_async: bool) -> None:
    """A processor that fails when it is to let go of what it keeps."""

    def keep(args: Any) -> Any:
        return None if args.part.type == "text-delta" else args.part

    def flush(state: Any) -> Any:
        raise ValueError("SECRET")

    async def awaited(state: Any) -> Any:
        flush(state)

    batching = hooked("process_output_stream", keep, Policy(on_error=on_error))
    batching.flush = awaited if is_async else flush
    run = await agent_with(PlayedModel([[*said("hi"), end()]]), batching).stream("go")
    await run.consume_stream()
    (event,) = run.policy_events
    assert event.hook == "flush"
    assert run.status == ("tripwire" if on_error == "block" else "success")


def test_lists_that_say_the_same() -> None:
    one = MessageList().add(["a", {"role": "assistant", "content": "b"}], "input")
    other = one.twin()
    assert one.says_the_same(other)
    other.messages()[0].content.parts.append(TextPart(text="c"))
    assert not one.says_the_same(other)
    again = one.twin()
    again.add_system("s")
    assert not one.says_the_same(again)
    last = one.twin()
    last.delete_stored(["x"])
    assert not one.says_the_same(last)
