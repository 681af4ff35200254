"""The gate looks at one chunk at a time, whoever writes meanwhile, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from procession import Agent, Chunk, ProcessionError, Tool
from procession.testing import ScriptedModel, answer
from tests.laws.checks import TWO_STEPS
from tests.laws.kit import METADATA, Hook, PlayedModel, agent_with, call, end, said

NOTE = {"type": "data-note", "data": 1, "transient": True}


async def texts(run: Any) -> str:
    """The delivered text; fails in the end, for then somebody waits for ever."""
    found: list[str] = []
    async with asyncio.timeout(30):
        async for chunk in run:
            if chunk.type == "text-delta":
                found.append(chunk.payload.text)
    return "".join(found)


class Slow:
    """A guard that thinks before it judges, and must be asked about one chunk at a time."""

    id = "slow"
    process_data_parts = True

    def __init__(self) -> None:
        self.inside = 0
        self.kinds: list[str] = []

    async def process_output_stream(self, args: Any) -> Chunk:
        assert not self.inside, "asked while it was judging"
        self.inside += 1
        part = args.part
        for _ in range(3):
            await asyncio.sleep(0)
        assert args.part is part, "the arguments were given to another chunk"
        self.inside -= 1
        self.kinds.append(part.type)
        if part.type == "text-delta" and "secret" in part.payload.text:
            args.abort("secret")
        return part


class Background:
    """Starts a task that writes while others are being asked."""

    id = "background"

    def __init__(self, times: int) -> None:
        self.times = times
        self.tasks: list[asyncio.Task[None]] = []

    async def process_input_step(self, args: Any) -> None:
        self.tasks.append(asyncio.create_task(self.write(args.writer)))

    async def write(self, writer: Any) -> None:
        for _ in range(self.times):
            await writer.custom(NOTE)
            await asyncio.sleep(0)


@pytest.mark.parametrize("size", [1, 3])
async def test_background_writes_pass_no_blocked_text(size: int) -> None:
    """G-B: a data chunk that comes while a guard judges takes the place of no other chunk."""
    guard, writing = Slow(), Background(30)
    model = PlayedModel([[METADATA, *said("one ", "two ", "secret", " three"), end()]], (size,))
    run = await agent_with(model, writing, guard).stream("go")
    assert await texts(run) == "one two "
    assert run.status == "tripwire"
    assert guard.kinds.count("data-note") > 1
    assert "secret" not in str(run.message_list.messages())
    await asyncio.gather(*writing.tasks, return_exceptions=True)


async def test_background_writes_lose_no_text() -> None:
    """R-124: all of the text is there, whatever was written between."""
    guard, writing = Slow(), Background(50)
    words = [f"word{i} " for i in range(20)]
    run = await agent_with(PlayedModel([[*said(*words), end()]]), writing, guard).stream("go")
    assert await texts(run) == "".join(words)
    await asyncio.gather(*writing.tasks, return_exceptions=True)


@pytest.mark.parametrize("kind", ["text-delta", "tool-result", "tool-error", "step-finish"])
@pytest.mark.parametrize("is_async", [True, False])
async def test_signals_at_any_chunk(kind: str, is_async: bool) -> None:
    """R-713, R-517: a stream hook may send a signal, the chunk's maker does not matter."""
    sent: list[Any] = []

    async def remind(args: Any) -> Any:
        if args.part.type == kind:
            sent.append(await args.send_signal({"type": "reactive", "contents": "careful"}))
        return args.part

    hook = remind if is_async else lambda args: remind(args)
    calls = [call("echo", id="c1"), call("fail", id="c2"), end("tool-calls")]
    model = PlayedModel([calls, [*said("x"), end()]])
    await texts(await agent_with(model, Hook("process_output_stream", hook)).stream("go"))
    assert sent


@pytest.mark.parametrize("kind", ["text-delta", "tool-result", "step-finish"])
@pytest.mark.parametrize("child", [True, False])
async def test_a_writer_kept_from_another_hook(kind: str, child: bool) -> None:
    """R-198: it would have to pass the post that waits for it; it follows when that is free."""
    kept: list[Any] = []

    async def write(args: Any) -> Any:
        if args.part.type == kind:
            written = kept[0].custom(NOTE)
            await (asyncio.create_task(written) if child else written)
        return args.part

    agent = agent_with(
        PlayedModel(TWO_STEPS),
        Hook("process_input_step", lambda args: kept.append(args.writer), "keeps"),
        Hook("process_output_stream", write, "writes"),
    )
    kinds: list[str] = []
    async with asyncio.timeout(30):
        async for chunk in await agent.stream("go"):
            kinds.append(chunk.type)
    assert kinds.count("data-note") == kinds.count(kind) > 0


async def test_awaitables_of_plain_hooks_while_tools_run() -> None:
    """R-007: what such a hook waits for may write, in a task of its own."""

    async def child(writer: Any) -> None:
        await writer.custom(NOTE)

    async def passing(args: Any, part: Any) -> Any:
        await asyncio.create_task(child(args.writer))
        return part

    def hook(args: Any) -> Any:
        return passing(args, args.part) if args.part.type == "tool-result" else args.part

    run = await agent_with(PlayedModel(TWO_STEPS), Hook("process_output_stream", hook)).stream("go")
    kinds: list[str] = []
    async with asyncio.timeout(30):
        async for chunk in run:
            kinds.append(chunk.type)
    assert kinds.index("data-note") == kinds.index("tool-result") - 1


async def test_two_writes_at_once() -> None:
    """R-517: a hook that writes twice at the same time gets both through a slow guard."""

    async def both(args: Any) -> Any:
        if args.part.type == "text-delta":
            await asyncio.gather(args.writer.custom(NOTE), args.writer.custom(NOTE))
        return args.part

    guard = Slow()
    agent = agent_with(
        PlayedModel([[*said("a", "b"), end()]]), Hook("process_output_stream", both), guard
    )
    assert await texts(await agent.stream("go")) == "ab"
    assert guard.kinds.count("data-note") == 4


async def test_a_failing_guard_fails_the_run_not_the_tool() -> None:
    """R-133, R-188: what a tool writes is guarded too; the tool cannot make light of it."""

    def failing(args: Any) -> Any:
        if args.part.type == "data-note":
            raise ValueError("guard broken")
        return args.part

    async def work(arguments: Any, context: Any) -> str:
        try:
            await context.writer.custom(NOTE)
        except ValueError:
            return "never mind"
        return "done"

    model = PlayedModel([[call("work"), end("tool-calls")], [*said("x"), end()]])
    hook = Hook("process_output_stream", failing)
    run = await agent_with(model, hook, tools=[Tool(name="work", execute=work)]).stream("go")
    await texts(run)
    assert run.status == "failed" and "guard broken" in str(run.error)


async def test_tools_do_not_write_faster_than_is_read() -> None:
    """R-533: a paused reader pauses the tool."""
    written = 0

    async def work(arguments: Any, context: Any) -> str:
        nonlocal written
        for _ in range(100):
            await context.writer.custom(NOTE)
            written += 1
        return "done"

    model = PlayedModel([[call("work"), end("tool-calls")], [*said("x"), end()]])
    agent = agent_with(model, Slow(), tools=[Tool(name="work", execute=work)])
    async with agent.stream("go") as run:
        async for chunk in run:
            if chunk.type == "data-note":
                break
        for _ in range(50):
            await asyncio.sleep(0)
        assert written <= 1


async def test_nothing_is_written_after_the_end() -> None:
    """R-516: who kept a writer or `send_signal` is told that the run is over."""
    kept: list[Any] = []
    hook = Hook("process_output_step", lambda args: kept.append(args))
    run = await agent_with(PlayedModel([[*said("hi"), end()]]), hook).stream("go")
    await run.consume_stream()
    before = str(run.message_list.messages())
    with pytest.raises(ProcessionError, match="has ended"):
        await kept[0].writer.custom({"type": "data-late", "data": 1})
    with pytest.raises(ProcessionError, match="has ended"):
        await kept[0].send_signal({"type": "reactive", "contents": "late"})
    assert str(run.message_list.messages()) == before


async def test_closing_twice_leaves_no_task() -> None:
    """Law 6: a hook that takes its time to end is waited for, though the wait is cancelled."""
    tasks: list[Any] = []

    async def stubborn(args: Any) -> None:
        tasks.append(asyncio.current_task())
        for _ in range(3):
            try:
                await args.writer.custom(NOTE)
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                for _ in range(20):
                    await asyncio.sleep(0)

    agent = agent_with(PlayedModel(TWO_STEPS), Hook("process_output_step", stubborn))
    run = await agent.stream("go")
    async for chunk in run:
        if chunk.type == "data-note":
            break
    closing = asyncio.create_task(run.aclose())
    for _ in range(5):
        await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(closing, 30)
    assert tasks[0].done()
    assert run.status == "canceled"


# ── several chunks for one ─────────────────────────────────────────────────────────────────────


class Holding:
    """Holds all text back, and lets it go before the block's end."""

    def __init__(self, id: str) -> None:
        self.id = id

    def process_output_stream(self, args: Any) -> Any:
        part = args.part
        if part.type == "text-delta":
            args.state["held"] = args.state.get("held", "") + part.payload.text
            return None
        if part.type == "text-end":
            delta = Chunk.from_json(
                {
                    "type": "text-delta",
                    "payload": {"id": part.payload.id, "text": args.state["held"]},
                }
            )
            return [delta, part]
        return part


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_several_chunks_for_one(count: int) -> None:
    """R-122: all go to the next processors, in order; the last one in the place of the first."""
    agent = Agent(
        id="a",
        model=ScriptedModel([answer("one ", "two")]),
        output_processors=[Holding(f"h{i}") for i in range(count)],
    )
    run = await agent.stream("go")
    chunks = [chunk async for chunk in run if chunk.type.startswith("text")]
    assert [c.type for c in chunks] == ["text-start", "text-delta", "text-end"]
    assert chunks[1].payload.text == "one two" == await run.text
    assert all(chunk.run_id == run.run_id for chunk in chunks)


@pytest.mark.parametrize("bad", [[], ["text"], [None], [Chunk("text-delta", payload=None)]])
async def test_lists_of_something_else(bad: list[Any]) -> None:
    """R-130: an empty list is a mistake, and so is one of other things."""
    agent = agent_with(ScriptedModel(["one"]), Hook("process_output_stream", lambda args: bad))
    run = await agent.stream("go")
    await run.consume_stream()
    assert run.status == "failed"
    assert "process_output_stream" in str(run.error)


async def test_an_empty_list_is_named() -> None:
    """R-130: the error does not ask for what was given."""
    agent = agent_with(ScriptedModel(["one"]), Hook("process_output_stream", lambda args: []))
    run = await agent.stream("go")
    await run.consume_stream()
    assert "not an empty list" in str(run.error)


def replacing(kind: str, *made: Any) -> Hook:
    """Puts `made` in the place of a chunk of a type; "part" stands for the chunk itself."""

    def hook(args: Any) -> Any:
        if args.part.type != kind:
            return args.part
        found = [args.part if chunk == "part" else chunk for chunk in made]
        return found[0] if len(found) == 1 else found

    return Hook("process_output_stream", hook)


def delta(text: str = "Z") -> Chunk:
    return Chunk.from_json({"type": "text-delta", "payload": {"id": "z", "text": text}})


MASKED = Chunk.from_json(
    {"type": "tool-result", "payload": {"toolCallId": "c1", "toolName": "echo", "result": "*"}}
)
AUDIT = Chunk("data-audit", data=1)


@pytest.mark.parametrize(
    "hook",
    [
        replacing("finish", "part", delta()),
        replacing("response-metadata", "part", delta()),
        replacing("text-delta", Chunk("tripwire", None)),
        replacing("text-delta", Chunk("start", None)),
        replacing("text-delta", Chunk("finish", None)),
        replacing("tool-result", MASKED, AUDIT),
        replacing("tool-call", "part", AUDIT),
        replacing("step-finish", delta(), "part"),
        replacing("tool-result", delta(), "part"),
        replacing("tool-result", delta()),
        replacing("step-finish", delta()),
    ],
)
async def test_chunks_that_cannot_stand_there(hook: Hook) -> None:
    """R-126, R-516, law 2: the engine's own, outcomes that would be two, text that comes late."""
    run = await agent_with(PlayedModel(TWO_STEPS), hook).stream("go")
    chunks = [chunk async for chunk in run]
    assert run.status == "failed" and "hooked" in str(run.error)
    assert [chunk.type for chunk in chunks].count("error") == 1 and chunks[-1].type == "error"


@pytest.mark.parametrize("kind", ["finish", "response-metadata", "step-start", "text-end"])
@pytest.mark.parametrize("listed", [True, False])
async def test_text_wherever_the_answer_comes(kind: str, listed: bool) -> None:
    """R-129, law 2: delivered text is in the results and in the message."""
    hook = replacing(kind, delta(), "part") if listed else replacing(kind, delta())
    run = await agent_with(PlayedModel([[METADATA, *said("ab"), end()]]), hook).stream("go")
    delivered = await texts(run)
    stored = "".join(
        p.text for m in run.message_list.get.response.db() for p in m.parts if p.type == "text"
    )
    assert delivered == await run.text == stored
    assert sorted(delivered) == ["Z", "a", "b"], run.error


async def test_a_masked_result_at_the_end_of_a_list() -> None:
    """R-125: it is what `tool_results` shows."""
    run = await agent_with(PlayedModel(TWO_STEPS), replacing("tool-result", AUDIT, MASKED)).stream(
        "go"
    )
    await run.consume_stream()
    assert [chunk.payload.result for chunk in await run.tool_results] == ["*"]


class LeavesBehind:
    """Writes in a task that it does not wait for."""

    id = "leaves"

    def __init__(self, pause: float = 0.0) -> None:
        self.pause = pause

    async def process_output_stream(self, args: Any) -> Chunk:
        if args.part.type == "text-delta":
            self.task = asyncio.create_task(args.writer.custom({"type": "data-x", "data": 1}))
            await asyncio.sleep(self.pause)
        return args.part


class Judge:
    """Drops what is secret, after a time that depends on the chunk."""

    id = "judge"
    process_data_parts = True

    def __init__(self, text: int, data: int) -> None:
        self.turns = {False: text, True: data}

    async def process_output_stream(self, args: Any) -> Chunk | None:
        part = args.part
        secret = part.type == "text-delta" and "SECRET" in part.payload.text
        for _ in range(self.turns[part.type == "data-x"]):
            await asyncio.sleep(0)
        return None if secret else part


@pytest.mark.parametrize("text", [0, 1, 5])
@pytest.mark.parametrize("data", [0, 1, 5, 20])
@pytest.mark.parametrize("pause", [0.0, 0.002])
async def test_writes_that_a_hook_leaves_behind(text: int, data: int, pause: float) -> None:
    """Law 2, R-198: they go on from its post; the chunk follows, judged as itself, and once."""
    model = PlayedModel([[*said("SECRET", "b", "c"), end()]])
    run = await agent_with(model, LeavesBehind(pause), Judge(text, data)).stream("go")
    kinds: list[str] = []
    found: list[str] = []
    async with asyncio.timeout(30):
        async for chunk in run:
            kinds.append(chunk.type)
            if chunk.type == "text-delta":
                found.append(chunk.payload.text)
                await asyncio.sleep(0.001)
    assert found == ["b", "c"] and await run.text == "bc"
    assert kinds.count("data-x") >= (3 if pause else 0)


@pytest.mark.parametrize("wire", [True, False])
@pytest.mark.parametrize("guard_is_async", [True, False])
async def test_guards_of_background_writes_do_not_fail_open(
    wire: bool, guard_is_async: bool
) -> None:
    """R-133, R-188, law 4: what they raise ends the run, though nobody waits for the writer."""

    class Later:
        id = "later"

        async def process_input_step(self, args: Any) -> None:
            self.task = asyncio.create_task(self.write(args.writer))

        async def write(self, writer: Any) -> None:
            await asyncio.sleep(0.001)
            await writer.custom({"type": "data-x", "data": "S"})

    def judge(args: Any) -> Any:
        if args.part.type == "data-x":
            if wire:
                args.abort("no")
            raise ValueError("broken")
        return args.part

    async def judged(args: Any) -> Any:
        return judge(args)

    parts = answer("a", "b").parts
    later = Later()
    slow = [*parts[:2], {"type": "$delay", "ms": 20}, *parts[2:]]
    hook = Hook("process_output_stream", judged if guard_is_async else judge)
    run = await agent_with(ScriptedModel([slow]), later, hook).stream("go")
    await run.consume_stream()
    assert run.status == ("tripwire" if wire else "failed")
    await asyncio.gather(later.task, return_exceptions=True)


@pytest.mark.parametrize("way", ["data", "result"])
async def test_values_are_the_writers_own(way: str) -> None:
    """R-511: what was delivered does not change with the dict it was made of."""
    given: dict[str, Any] = {"n": [0]}

    async def work(arguments: Any, context: Any) -> Any:
        for number in range(3):
            given["n"][0] = number
            if way == "data":
                await context.writer.custom({"type": "data-p", "data": given, "id": str(number)})
        return given

    model = PlayedModel([[call("work"), end("tool-calls")], [*said("x"), end()]])
    run = await agent_with(model, tools=[Tool(name="work", execute=work)]).stream("go")
    await run.consume_stream()
    given["n"][0] = 99
    chunks = [chunk async for chunk in run]
    if way == "data":
        assert [c.data["n"] for c in chunks if c.type == "data-p"] == [[0], [1], [2]]
    else:
        assert [c.payload.result["n"] for c in chunks if c.type == "tool-result"] == [[2]]


async def test_the_reader_may_write() -> None:
    """R-517: who reads the run does not wait for its own reading."""
    kept: list[Any] = []

    async def work(arguments: Any, context: Any) -> str:
        await context.writer.custom(NOTE)
        await asyncio.sleep(0)
        return "done"

    model = PlayedModel([[call("work"), end("tool-calls")], [*said("x"), end()]])
    agent = agent_with(
        model,
        Hook("process_input_step", lambda args: kept.append(args.writer)),
        tools=[Tool(name="work", execute=work)],
    )
    seen = 0
    async with asyncio.timeout(30):
        async for chunk in await agent.stream("go"):
            if chunk.type == "data-note" and seen == 0:
                seen += 1
                await kept[0].custom({"type": "data-read", "data": 1})
            seen += chunk.type == "data-read"
    assert seen == 2


async def test_violations_are_told_once_and_may_write() -> None:
    """R-184, R-186: what `on_violation` writes is delivered before the tripwire."""

    class Guard:
        id = "guard"
        process_data_parts = True
        told = 0

        def process_input_step(self, args: Any) -> None:
            self.writer = args.writer

        async def on_violation(self, violation: Any) -> None:
            self.told += 1
            await self.writer.custom({"type": "data-v", "data": 1, "transient": True})

        async def process_output_stream(self, args: Any) -> Chunk:
            if args.part.type == "text-delta":
                args.abort("no")
            return args.part

    class PlainGuard(Guard):
        def process_output_stream(self, args: Any) -> Chunk:  # type: ignore[override]
            if args.part.type == "text-delta":
                args.abort("no")
            return args.part

    for guard in (Guard(), PlainGuard()):
        run = await agent_with(PlayedModel([[*said("a"), end()]]), guard).stream("go")
        kinds = [chunk.type async for chunk in run]
        assert guard.told == 1 and kinds[-2:] == ["data-v", "tripwire"]


@pytest.mark.parametrize("retry", [True, False])
async def test_parts_of_a_void_answer_are_not_kept(retry: bool) -> None:
    """R-170, R-175: whenever they are written."""
    kept: list[Any] = []

    async def judge(args: Any) -> Any:
        if args.part.type == "text-delta" and args.part.payload.text == "bad":
            task = asyncio.create_task(kept[0].custom({"type": "data-x", "data": 1}))
            for _ in range(3):
                await asyncio.sleep(0)
            kept.append(task)
            args.abort("no", retry=retry)
        return args.part

    model = PlayedModel([[*said("good", "bad"), end()], [*said("fine"), end()]], (10,))
    agent = agent_with(
        model,
        Hook("process_input_step", lambda args: kept.insert(0, args.writer), "keeps"),
        Hook("process_output_stream", judge),
    )
    run = await agent.stream("go", max_processor_retries=1)
    async for chunk in run:
        if chunk.type == "text-delta" and chunk.payload.text == "good":
            await kept[0].custom({"type": "data-x", "data": 2})
    stored = [p for m in run.message_list.get.response.db() for p in m.parts]
    assert [p.type for p in stored if p.type == "data-x"] == []
    assert run.status == ("success" if retry else "tripwire")


async def test_five_writes_stay_in_order() -> None:
    """R-197: in the order of the calls."""

    async def five(args: Any) -> Any:
        if args.part.type == "text-delta":
            await asyncio.gather(
                *(args.writer.custom({"type": "data-n", "data": n}) for n in range(5))
            )
        return args.part

    run = await agent_with(
        PlayedModel([[*said("a"), end()]]), Hook("process_output_stream", five), Slow()
    ).stream("go")
    async with asyncio.timeout(30):
        assert [c.data async for c in run if c.type == "data-n"] == [0, 1, 2, 3, 4]


def _usage(args: Any) -> None:
    if args.part.type == "finish":
        args.part.payload.output.usage.input_tokens = 999


async def test_usage_is_what_the_model_said() -> None:
    """R-128: a hook that edits the closing chunk in place changes no record."""
    run = await agent_with(
        PlayedModel([[*said("a"), end()]]), Hook("process_output_stream", _usage)
    ).stream("go")
    await run.consume_stream()
    assert (await run.usage).input_tokens != 999


@pytest.mark.parametrize(
    ("hook", "told"), [(lambda args: None, True), (lambda args: args.part, False)]
)
async def test_a_forgotten_return_is_told(
    hook: Any, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """R-122: `None` drops a chunk; a hook that drops all of them was hardly meant to."""
    agent = agent_with(PlayedModel([[*said("a"), end()]]), Hook("process_output_stream", hook))
    await agent.generate("go")
    assert ("lets a chunk pass" in caplog.text) is told
