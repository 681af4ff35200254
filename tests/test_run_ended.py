"""Processors hear of the end of a run, and are told what its outcome lets be stored."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest

from procession import AbortController, Agent, Around, ConfigurationError, RunEnded, processor, tool
from tests.laws.kit import Hook, PlayedModel, agent_with, call, end, said

if TYPE_CHECKING:
    from procession.messages import Message


class Closer:
    """Notes what it is told, in all lists."""

    id = "closer"

    def __init__(self) -> None:
        self.told: list[RunEnded] = []

    def process_input(self, args: Any) -> None:
        args.state["seen"] = True

    async def run_ended(self, ending: RunEnded) -> None:
        await asyncio.sleep(0)
        self.told.append(ending)

    @property
    def ending(self) -> RunEnded:
        (ending,) = self.told
        return ending


def shown(messages: list[Message]) -> list[tuple[str, ...]]:
    """Messages as role and parts: texts, or the tool with the state of its call."""
    found: list[tuple[str, ...]] = []
    for message in messages:
        parts: list[str] = []
        for part in message.content.parts:
            if part.type == "text":
                parts.append(part.text)
            elif part.type == "tool-invocation":
                parts.append(f"{part.tool_invocation.tool_name}:{part.tool_invocation.state}")
            elif part.type == "error":
                parts.append("error")
        found.append((message.role, *parts))
    return found


def aborts(when: int = 0) -> Any:
    """A hook that aborts from its call number `when` on."""
    calls = iter(range(1_000))

    def hook(args: Any) -> None:
        if next(calls) >= when:
            args.abort("no")

    return hook


def breaks(args: Any) -> None:
    raise LookupError("broken")


TOOLS = [[call("echo", '{"value": "a"}'), end("tool-calls")], [*said("done"), end()]]
USER = ("user", "go")


async def ended(*processors: Any, answers: Any = TOOLS, **options: Any) -> RunEnded:
    closer = Closer()
    agent = agent_with(PlayedModel(answers), closer, *processors)
    async with agent.stream("go", **options) as run:
        async for _ in run:
            pass
    return closer.ending


async def test_an_accepted_run_leaves_all_that_is_new() -> None:
    """The table of outcomes, accepted."""
    ending = await ended()
    assert (ending.status, ending.error, ending.tripwire) == ("success", None, None)
    assert shown(ending.messages) == [USER, ("assistant", "echo:result", "done")]
    assert ending.executed == []
    assert ending.state == {"seen": True}
    assert ending.usage.input_tokens == 6
    assert [step.text for step in ending.steps] == ["", "done"]


@pytest.mark.parametrize(
    ("hook", "when", "executed"),
    [
        ("process_input", 0, []),
        ("process_input_step", 0, []),
        ("process_llm_request", 0, []),
        ("process_input_step", 1, [USER, ("assistant", "echo:result")]),
        ("process_output_stream", 0, [USER]),
        ("process_output_step", 0, [USER]),
        ("process_output_step", 1, [USER, ("assistant", "echo:result")]),
        ("process_tool_result", 0, [USER]),
        ("process_output_result", 0, [USER, ("assistant", "echo:result")]),
    ],
)
async def test_a_blocked_run_leaves_nothing_but_what_really_ran(
    hook: str, when: int, executed: list[Any]
) -> None:
    """M-100, M-101, M-108, G-C: never its text, and nothing of what the verdict covers."""
    ending = await ended(Hook(hook, aborts(when)))
    assert ending.status == "tripwire" and ending.tripwire is not None
    assert ending.messages == []
    assert shown(ending.executed) == executed


async def test_of_a_blocked_step_the_calls_count_whose_outcome_had_passed() -> None:
    """M-108: the pair before the blocked one was delivered, the blocked one was not."""
    answers = [
        [call("echo", id="c1"), call("fail", id="c2"), call("echo", id="c3"), end("tool-calls")]
    ]
    ending = await ended(Hook("process_tool_result", aborts(1)), answers=answers)
    assert shown(ending.executed) == [USER, ("assistant", "echo:result")]


async def test_a_failed_model_leaves_the_question_and_an_error_part() -> None:
    """R-209, M-104."""
    ending = await ended(answers=[TOOLS[0], [*said("so"), ConnectionError("gone")]])
    assert ending.status == "failed" and isinstance(ending.error, ConnectionError)
    assert shown(ending.messages) == [USER, ("assistant", "echo:result", "so", "error")]


@pytest.mark.parametrize("hook", ["process_input", "process_output_step", "process_output_result"])
async def test_a_hook_that_raises_leaves_nothing(hook: str) -> None:
    """R-190."""
    closer = Closer()
    agent = agent_with(PlayedModel(TOOLS), closer, Hook(hook, breaks))
    with pytest.raises(LookupError):
        await agent.generate("go")
    assert closer.ending.status == "failed"
    assert closer.ending.messages == closer.ending.executed == []


async def test_a_stopped_run_leaves_what_was_delivered() -> None:
    """M-105, G-C8: marked interrupted, with the pairs that really ran."""
    closer, stop = Closer(), AbortController()
    model = PlayedModel([TOOLS[0], said("one ", "two ", "three")], hang_at=2)
    model.answers[0] = [call("echo", '{"value": "a"}'), end("tool-calls")]
    model.hang_at = 3
    agent = agent_with(model, closer)
    run = await agent.stream("go", abort_signal=stop.signal)
    async for chunk in run:
        if chunk.type == "text-delta" and chunk.payload.text == "two ":
            stop.abort()
    assert closer.ending.status == "canceled"
    assert shown(closer.ending.messages) == [USER, ("assistant", "echo:result", "one two ")]
    assert (closer.ending.messages[-1].content.metadata or {})["interrupted"] is True


async def test_a_run_that_waits_keeps_its_open_call() -> None:
    """The table of outcomes, waiting: the call stays open, and the end is told again later."""

    @tool(require_approval=True)
    async def pay(amount: int = 1) -> str:
        """Pay."""
        return "paid"

    closer = Closer()
    model = PlayedModel([[*said("I pay."), call("pay"), end("tool-calls")], [*said("Done"), end()]])
    agent = agent_with(model, closer, tools=[pay])
    first = await agent.generate("go")
    assert closer.ending.status == "suspended"
    assert shown(closer.ending.messages) == [
        USER,
        ("assistant", "I pay.", "pay:approval-requested"),
    ]
    await agent.approve_tool_call_generate(first.run_id)
    assert [ending.status for ending in closer.told] == ["suspended", "success"]
    assert shown(closer.told[1].messages) == [USER, ("assistant", "I pay.", "pay:result", "Done")]


async def test_remembered_messages_and_transient_signals_are_not_new() -> None:
    """R-070, R-723: what came from memory or context is not stored again."""

    async def remind(args: Any) -> None:
        await args.send_signal({"type": "reactive", "contents": "hm", "transient": True})
        args.message_list.add("earlier", "memory")

    ending = await ended(Hook("process_input_step", remind), context=["of old"], answers=TOOLS[1:])
    assert shown(ending.messages) == [USER, ("assistant", "done")]


async def test_what_is_raised_fails_a_successful_run_and_names_who() -> None:
    """M-106: reported like any other failure; the answer itself is not undone in the stream."""

    def save(ending: RunEnded) -> None:
        raise OSError("disk full")

    saver = processor(id="saver", process_input=lambda args: None, run_ended=save)
    agent = Agent(id="desk", model=PlayedModel(TOOLS[1:]), input_processors=[saver])
    run = await agent.stream("go")
    kinds = [chunk.type async for chunk in run]
    assert kinds[-1] == "error" and "text-delta" in kinds
    with pytest.raises(OSError, match="disk full") as raised:
        await agent.generate("go")
    assert "processor 'saver' raised OSError in run_ended" in raised.value.__notes__


async def test_each_is_told_once_and_those_of_the_output_list_first() -> None:
    """Whatever lists a processor stands in, the extensions' own among them."""
    told: list[str] = []

    def closer(id: str) -> Any:
        return processor(
            id=id, process_input=lambda args: None, run_ended=lambda _: told.append(id)
        )

    both, first, added = closer("both"), closer("first"), closer("added")

    class Framework:
        def extend(self, opening: Any) -> Around:
            told.append(f"{[p.id for p in opening.input_processors]} {opening.memory}")
            return Around(before_input=[added], after_output=[added])

    agent = Agent(
        id="desk",
        model=PlayedModel(TOOLS[1:]),
        input_processors=[first, both],
        output_processors=[both],
        extensions=[Framework()],
    )
    await agent.generate("go", memory={"thread": "t", "resource": "r"})
    expected = "['first', 'both'] {'thread': 't', 'resource': 'r'}"
    assert told == [expected, "both", "added", "first"]


async def test_a_processor_may_have_nothing_but_an_end(caplog: pytest.LogCaptureFixture) -> None:
    """It is welcome in every list, and nobody says that it does nothing there."""

    class Counter:
        id = "counter"
        count = 0

        def run_ended(self, ending: RunEnded) -> None:
            self.count += 1

    counter = Counter()
    agent = Agent(id="desk", model=PlayedModel(TOOLS[1:]), output_processors=[counter])
    await agent.generate("go")
    assert counter.count == 1 and caplog.text == ""


def test_a_run_ended_that_cannot_be_called_is_refused() -> None:
    """R-011."""

    class Wrong:
        id = "wrong"

        def run_ended(self) -> None: ...

    with pytest.raises(ConfigurationError, match=r"'wrong'.*run_ended"):
        Agent(id="desk", model=PlayedModel([]), output_processors=[Wrong()])


async def test_memory_is_an_extension_and_may_be_a_function_of_the_request() -> None:
    """M-025: asked for once per call; what is no memory is told at once."""
    seen: list[Any] = []

    class Memory:
        def extend(self, opening: Any) -> Around:
            seen.append(opening.memory)
            return Around()

    def choose(scope: Any) -> Any:
        return Memory() if scope.request_context.get("remember") else None

    agent = Agent(id="desk", model=PlayedModel(TOOLS[1:]), memory=choose)
    await agent.generate("go")
    await agent.generate("go", request_context={"remember": 1}, memory={"thread": "t"})
    assert seen == [{"thread": "t"}]
    with pytest.raises(ConfigurationError, match="memory must be a Memory"):
        Agent(id="desk", model=PlayedModel([]), memory=7)  # type: ignore[arg-type]


async def test_what_an_extension_adds_to_each_run_is_compiled_once() -> None:
    """R-021: known by the objects themselves, and not kept when they are other ones each time."""
    steady = processor(id="steady", run_ended=lambda _: None, process_input=lambda _: None)

    class Framework:
        def extend(self, opening: Any) -> Around:
            fresh = [] if same else [processor(id="new", process_input=lambda _: None)]
            return Around(before_input=[steady, *fresh])

    same = True
    agent = Agent(id="desk", model=PlayedModel(TOOLS[1:]), extensions=[Framework()])
    seen: list[Any] = []
    for _ in range(3):
        run = await agent.stream("go")
        seen.append(run._state.pipeline)
        await run.get_full_output()
    assert seen[0] is seen[1] is seen[2]
    own = await agent.stream("go", input_processors=[steady])
    await own.get_full_output()
    assert own._state.pipeline is not seen[0]
    same = False
    for _ in range(20):
        await agent.generate("go")
    assert len(agent.pipelines._kept) <= 8


async def test_what_hangs_is_cancelled_after_the_caller(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Law 6: a store that never answers holds up no cancelled run; others are told all the same."""
    monkeypatch.setattr("procession.extension.PATIENCE", 0.02)
    begun, told = asyncio.Event(), list[str]()

    async def hang(ending: RunEnded) -> None:
        begun.set()
        await asyncio.Event().wait()

    def note(ending: RunEnded) -> None:
        told.append(ending.status)

    closers = [
        processor(id="hanging", process_input=lambda _: None, run_ended=hang),
        processor(id="telling", process_input=lambda _: None, run_ended=note),
    ]
    agent = Agent(id="desk", model=PlayedModel(TOOLS[1:]), input_processors=closers)
    running = asyncio.ensure_future(agent.generate("go"))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert told == ["success"]
    assert len(asyncio.all_tasks()) == 1


async def test_a_run_that_is_dropped_unread_is_told_of() -> None:
    """Whatever the end: nobody has read it, and no extension is there."""
    closer = Closer()
    agent = Agent(id="desk", model=PlayedModel(TOOLS), input_processors=[closer])
    run = await agent.stream("go")
    del run
    gc.collect()
    for _ in range(100):
        if closer.told:
            break
        await asyncio.sleep(0.01)
    assert closer.ending.status == "canceled"
