"""The table of outcomes, as storage has it: every outcome, however the run is driven."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from procession import AbortController, Agent, ProcessionError, StoreError, processor, tool
from procession.memory import Memory, MessageHistory
from procession.stores import InMemoryStore
from tests.laws.kit import Hook, PlayedModel, call, echo, end
from tests.laws.kit import said as block
from tests.memory.kit import CALL, remembering, rows, said, shown

if TYPE_CHECKING:
    from procession.store import Turn

WAYS = ("generate", "stream", "generate_sync", "stream_sync")
every_way = pytest.mark.parametrize("way", WAYS)

TOOLS = [[call("echo", '{"value": "a"}'), end("tool-calls")], [*block("do", "ne"), end()]]
USER = ("user", "go")
PAIR = ("assistant", "echo:result")


async def drive(way: str, agent: Agent, given: Any = "go", **options: Any) -> BaseException | None:
    """Run to the end; what it raised. The last two stand in a thread of their own."""
    options = {"memory": CALL, **options}
    try:
        if way == "generate":
            await agent.generate(given, **options)
        elif way == "stream":
            async with agent.stream(given, **options) as run:
                async for _ in run:
                    pass
                return run.error
        elif way == "generate_sync":
            await asyncio.to_thread(agent.generate_sync, given, **options)
        else:
            await asyncio.to_thread(lambda: list(agent.stream_sync(given, **options)))
    except Exception as error:
        return error
    return None


def aborts(when: int = 0) -> Any:
    calls = iter(range(1_000))

    def hook(args: Any) -> None:
        if next(calls) >= when:
            args.abort("no")

    return hook


def breaks(args: Any) -> None:
    raise LookupError("broken")


@every_way
async def test_accepted(way: str) -> None:
    agent, memory = remembering(PlayedModel(TOOLS), tools=[echo])
    assert await drive(way, agent) is None
    assert await shown(memory) == [USER, (*PAIR, "done")]


@every_way
@pytest.mark.parametrize(
    ("hook", "when", "executed"),
    [
        ("process_input", 0, []),
        ("process_llm_request", 0, []),
        ("process_output_stream", 0, [USER]),
        ("process_output_step", 1, [USER, PAIR]),
        ("process_tool_result", 0, [USER]),
        ("process_output_result", 0, [USER, PAIR]),
    ],
)
async def test_blocked(hook: str, when: int, executed: list[Any], way: str) -> None:
    """M-100, M-101, M-108, G-C: nothing; with `save_on_abort` what really ran, and no text."""
    for wanted, expected in ((False, []), (True, executed)):
        memory = Memory(storage=InMemoryStore(), save_on_abort=wanted)
        guard = Hook(hook, aborts(when))
        lists = {"input_processors": [guard], "output_processors": [guard]}
        agent, _ = remembering(PlayedModel(TOOLS), memory, tools=[echo], **lists)
        await drive(way, agent)
        assert await shown(memory) == expected
        there = await memory.get_thread_by_id("t1")
        assert (there is not None) == bool(expected)  # M-102


@every_way
async def test_the_model_failed(way: str) -> None:
    """R-209, M-104: question and error are stored, and the error goes to no model."""
    model = PlayedModel([TOOLS[0], [*block("so"), ConnectionError("gone")], TOOLS[1]])
    agent, memory = remembering(model, tools=[echo])
    assert isinstance(await drive(way, agent), ConnectionError)
    assert await shown(memory) == [USER, (*PAIR, "so", "error")]
    await drive(way, agent, "again")
    assert "gone" not in str(model.prompts[-1])
    assert said(model.prompts[-1]) == ["go", "assistant", "tool", "so", "again"]


@every_way
@pytest.mark.parametrize("hook", ["process_input", "process_output_step", "process_output_result"])
async def test_a_hook_raised(hook: str, way: str) -> None:
    """R-190."""
    guard = Hook(hook, breaks)
    lists = {"input_processors": [guard], "output_processors": [guard]}
    agent, memory = remembering(PlayedModel(TOOLS), tools=[echo], **lists)
    assert isinstance(await drive(way, agent), LookupError)
    assert await shown(memory) == [] and await memory.get_thread_by_id("t1") is None


@every_way
async def test_stopped_by_the_caller(way: str) -> None:
    """M-105, G-C8: what was delivered, marked interrupted, as the processors let it through."""
    stop = AbortController()

    def loud(args: Any) -> Any:
        if args.part.type == "text-delta":
            args.part.payload.text = args.part.payload.text.upper()
        return args.part

    def watch(chunk: Any) -> None:
        if chunk.type == "text-delta" and chunk.payload.text == "TWO ":
            stop.abort()

    answers = [TOOLS[0], [*block("one ", "two ", "three"), end()]]
    agent, memory = remembering(
        PlayedModel(answers), tools=[echo], output_processors=[Hook("process_output_stream", loud)]
    )
    await drive(way, agent, abort_signal=stop.signal, on_chunk=watch)
    assert await shown(memory) == [USER, (*PAIR, "ONE TWO ")]
    assert ((await rows(memory))[-1].content.metadata or {})["interrupted"] is True
    await drive(way, agent, "again")
    assert len(await rows(memory)) == 4


@tool(require_approval=True)
async def pay(amount: int = 1) -> str:
    """Pay."""
    return "paid"


@every_way
async def test_a_call_that_waits(way: str) -> None:
    """It stays open in storage, goes to no model, and has its result when it was approved."""
    model = PlayedModel(
        [
            [*block("I pay."), call("pay"), end("tool-calls")],
            [*block("Later, then."), end()],
            [*block("Paid."), end()],
        ]
    )
    agent, memory = remembering(model, tools=[pay])
    await drive(way, agent, run_id="run-1")
    waits = ("assistant", "I pay.", "pay:approval-requested")
    assert await shown(memory) == [USER, waits]
    await drive(way, agent, "and now?")
    assert said(model.prompts[-1]) == ["go", "I pay.", "and now?"]
    await agent.approve_tool_call_generate("run-1")
    paid = ("assistant", "I pay.", "pay:result", "Paid.")
    assert await shown(memory) == [USER, paid, ("user", "and now?"), ("assistant", "Later, then.")]


class Failing(InMemoryStore):
    """Its turns cannot be saved."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        domain: Any = self.get_store("memory")

        async def save_turn(turn: Turn) -> None:
            raise error

        domain.save_turn = save_turn


@every_way
@pytest.mark.parametrize("error", [StoreError("the disk is full"), OSError("secret path")])
async def test_a_turn_that_cannot_be_saved(error: Exception, way: str) -> None:
    """M-106: an error of ours, told to the consumer; what was answered was delivered."""
    delivered: list[str] = []

    def watch(chunk: Any) -> None:
        if chunk.type == "text-delta":
            delivered.append(chunk.payload.text)

    agent, _ = remembering(PlayedModel(TOOLS[1:]), Memory(storage=Failing(error)))
    raised = await drive(way, agent, on_chunk=watch)
    assert isinstance(raised, ProcessionError) and isinstance(raised, StoreError)
    assert "secret" not in str(raised)
    assert "".join(delivered) == "done"


async def test_the_answer_of_a_turn_that_was_not_saved_stands() -> None:
    """M-106: it is in the run, and the last chunk is the error."""
    agent, _ = remembering(PlayedModel(TOOLS[1:]), Memory(storage=Failing(OSError("x"))))
    run = await agent.stream("go", memory=CALL)
    kinds = [chunk.type async for chunk in run]
    assert kinds[-1] == "error" and "finish" not in kinds
    assert [message.text for message in run.message_list.get.response.db()] == ["done"]


async def test_one_transaction_for_a_turn() -> None:
    """M-107: whatever there is to store goes to the store at once."""
    store, turns = InMemoryStore(), list[Any]()
    domain: Any = store.get_store("memory")
    save = domain.save_turn

    async def counted(turn: Turn) -> None:
        turns.append(turn)
        await save(turn)

    domain.save_turn = counted
    agent, memory = remembering(PlayedModel(TOOLS), Memory(storage=store), tools=[echo])
    named = {"id": "t1", "title": "Echoes", "metadata": {"topic": "sound"}}
    await agent.generate("go", memory={**CALL, "thread": named})
    (turn,) = turns
    assert (turn.thread_id, turn.resource_id, len(turn.messages)) == ("t1", "u1", 2)
    thread = await memory.get_thread_by_id("t1")
    assert thread is not None and (thread.title, thread.metadata) == ("Echoes", {"topic": "sound"})


async def test_stored_history_is_changed_by_an_explicit_call_only() -> None:
    """R-070: and not by a run that was blocked."""
    store = InMemoryStore()
    agent, memory = remembering(PlayedModel(TOOLS[1:]), Memory(storage=store))
    await agent.generate("secret", memory=CALL)

    def prompt_only(args: Any) -> None:
        for message in args.message_list.get.remembered.db():
            message.content.parts[0].text = "nothing"

    await agent.generate("two", memory=CALL, input_processors=[Hook("process_input", prompt_only)])
    assert [row.text for row in await rows(memory)] == ["secret", "done", "two", "done"]

    def forget(args: Any) -> None:
        first, second, *_ = args.message_list.get.remembered.db()
        first.content.parts[0].text = "…"
        args.message_list.replace_stored(first)
        args.message_list.delete_stored([second.id])

    def forget_and_block(args: Any) -> None:
        forget(args)
        args.abort("no")

    def forget_and_break(args: Any) -> None:
        forget(args)
        raise LookupError

    guard = Hook("process_output_result", aborts())
    kept = {**CALL, "options": {"save_on_abort": True}}
    for hook, options in (
        (forget_and_block, {}),
        (forget_and_break, {}),
        (forget, {"output_processors": [guard], "memory": kept}),
    ):
        given = {"memory": CALL, "input_processors": [Hook("process_input", hook)], **options}
        await drive("stream", agent, "x", **given)
        assert [row.text for row in await rows(memory)][:2] == ["secret", "done"]
    await agent.generate("y", memory=CALL, input_processors=[Hook("process_input", forget)])
    assert [row.text for row in await rows(memory)][:2] == ["…", "two"]


async def test_two_turns_at_once_are_both_stored() -> None:
    """Concurrent turns of one thread both complete, each message once."""
    agent, memory = remembering(PlayedModel(TOOLS), tools=[echo])
    await asyncio.gather(*(agent.generate(f"q{n}", memory=CALL) for n in range(5)))
    found = await rows(memory)
    assert len(found) == len({row.id for row in found}) == 10
    assert sorted(row.text for row in found if row.role == "user") == [f"q{n}" for n in range(5)]


async def test_ids_are_those_of_the_stream() -> None:
    """G-M2: the id of the first chunk is the id in storage."""
    agent, memory = remembering(PlayedModel(TOOLS), tools=[echo])
    run = await agent.stream("go", memory=CALL)
    ids = {c.payload.message_id async for c in run if c.type in ("start", "step-start", "finish")}
    assert ids == {(await rows(memory))[-1].id} == {run.message_id}


async def test_a_processor_built_by_hand_saves_as_well() -> None:
    """M-045: given thread and resource in the request context, without a `Memory`."""
    store = InMemoryStore()
    agent = Agent(
        id="desk",
        model=PlayedModel(TOOLS[1:]),
        input_processors=[MessageHistory(storage=store, last_messages=2)],
    )
    context = {"mastra__threadId": "t1", "mastra__resourceId": "u1"}
    for question in ("1", "2", "3"):
        await agent.generate(question, request_context=context)
    assert len(await rows(Memory(storage=store))) == 6


@pytest.mark.parametrize("left", ["no parts", "no text"])
async def test_an_answer_of_which_a_processor_has_left_nothing_is_not_stored_m_084(
    left: str,
) -> None:
    def empty(args: Any) -> None:
        for message in args.messages:
            if message.role == "assistant":
                if left == "no parts":
                    message.content.parts = []
                for part in message.content.parts:
                    part.text = ""

    guard = processor(process_output_result=empty)
    agent, memory = remembering(
        PlayedModel([[*block("a secret"), end()]]), output_processors=[guard]
    )
    await agent.generate("go", memory=CALL)
    assert await shown(memory) == [USER]
