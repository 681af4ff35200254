"""The laws as functions: each runs the engine and raises AssertionError where a law is broken.

They are called by the tests of the laws, and by the tests that break the engine on purpose.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import weakref
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from procession import AbortController, TripWire, tool
from procession.processor import HOOKS
from tests.laws.kit import (
    LIFE_CYCLE,
    METADATA,
    NEVER_DELIVERED,
    Hook,
    PlayedModel,
    Tap,
    accepted_text,
    agent_with,
    bare,
    call,
    echo,
    end,
    fail,
    generated,
    others_done,
    outcome_of,
    said,
    stored_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TWO_STEPS = (
    [METADATA, *said("look", "ing"), call("echo", '{"value": "x"}'), end("tool-calls")],
    [METADATA, *said("do", "ne"), end()],
)
"""A tool call, then a text: enough to reach all hooks but one."""

REFUSED = ([*said("half"), ConnectionError("lost")], [METADATA, *said("well"), end()])
"""A call that breaks off, then one that works: reaches `process_api_error`."""


# ── law 1 ──────────────────────────────────────────────────────────────────────────────────────


async def check_one_engine(
    answers: Sequence[Any],
    sizes: Sequence[int] = (1,),
    *more: Callable[[], Any],
    **options: Any,
) -> None:
    """`generate` gives what the drained stream gives, by the same calls of the same hooks."""
    found: list[Any] = []
    for streaming in (True, False):
        model, tap = PlayedModel(answers, sizes), Tap()
        agent = agent_with(model, tap, *(make() for make in more))
        if streaming:
            run = await agent.stream("go", **options)
            chunks = [chunk async for chunk in run]
            assert chunks == [chunk async for chunk in run.full_stream], "a second reading differs"
            output = None if run.error else await run.get_full_output()
            found.append([bare(run.error or output), tap.log, bare(model.prompts)])
        else:
            output = await generated(agent, "go", **options)
            found.append([bare(output), tap.log, bare(model.prompts)])
    streamed, at_once = found
    for one, other, what in zip(streamed, at_once, ("outcome", "hooks", "prompts"), strict=True):
        assert one == other, f"generate and stream differ in {what}"


# ── law 2 ──────────────────────────────────────────────────────────────────────────────────────


class Filter:
    """Drops and rewrites chunks by their number; notes what it was offered.

    It leaves `step-finish` alone: the reader needs it to tell one step from the next.
    """

    process_data_parts = True

    def __init__(self, id: str, every: int) -> None:
        self.id = id
        self.every = every
        self.offered: list[Any] = []
        self.passed: list[Any] = []

    async def process_output_stream(self, args: Any) -> Any:
        return self.judge(args.part)

    def judge(self, part: Any) -> Any:
        """What becomes of a chunk."""
        self.offered.append(part)
        number = len(self.offered)
        if number % self.every == 1 and part.type != "step-finish":
            return None
        if number % self.every == 2 and part.type == "text-delta":
            part = part.replace(payload=part.payload.replace(text=part.payload.text.upper()))
        self.passed.append(part)
        return part


class PlainFilter(Filter):
    """The same, plain."""

    def process_output_stream(self, args: Any) -> Any:  # type: ignore[override]
        return self.judge(args.part)


class Onlooker:
    """A plain hook, and no other: nothing but the chunk path is used."""

    process_data_parts = True

    def __init__(self, id: str) -> None:
        self.id = id
        self.offered: list[Any] = []

    def process_output_stream(self, args: Any) -> Any:
        self.offered.append(args.part)
        return args.part


async def check_one_gate(
    answers: Sequence[Any], sizes: Sequence[int] = (1,), every: int = 5, plain: bool = False
) -> None:
    """What is delivered is what the last processor passed on; each text is the same everywhere."""
    tap: Any = Onlooker if plain else Tap
    first, last = tap("first"), tap("last")
    filter = (PlainFilter if plain else Filter)("filter", every)
    agent = agent_with(PlayedModel(answers, sizes), first, filter, last)
    run = await agent.stream("go")
    delivered = [chunk async for chunk in run]
    _same_objects("the second processor", filter.offered, first.offered)
    _same_objects("the third processor", last.offered, filter.passed)
    offered = [c for c in last.offered if c.type not in NEVER_DELIVERED | {"finish"}]
    _same_objects("the client", [c for c in delivered if c.type not in LIFE_CYCLE], offered)
    assert accepted_text(delivered) == await run.text == stored_text(run.message_list.messages())
    assert await run.text == "".join(step.text for step in await run.steps)
    assert delivered[-1].payload.output.text == (await run.steps)[-1].text


def _same_objects(who: str, got: Sequence[Any], expected: Sequence[Any]) -> None:
    assert [c.type for c in got] == [c.type for c in expected], f"{who} got other chunks"
    assert all(a is b for a, b in zip(got, expected, strict=True)), f"{who} got others' chunks"


async def check_every_hook_runs() -> None:
    """Each of the nine hooks runs where the order of a run has it (R-058, R-059)."""
    tap = Tap()
    await agent_with(PlayedModel(TWO_STEPS), tap).generate("go")
    calls = [name for _, name, _ in tap.log if name != "process_output_stream"]
    step = ["process_input_step", "process_llm_request", "process_llm_response"]
    step.append("process_output_step")
    expected = ["process_input", *step, "process_tool_result", *step, "process_output_result"]
    assert calls == expected
    tap = Tap()
    await agent_with(PlayedModel(REFUSED), tap, max_processor_retries=0).stream("go").__aenter__()
    agent = agent_with(PlayedModel(REFUSED), tap, max_processor_retries=0)
    await outcome_of(await agent.stream("go"))
    assert "process_api_error" in [name for _, name, _ in tap.log]


# ── law 3 ──────────────────────────────────────────────────────────────────────────────────────


async def settled_outcome(answers: Sequence[Any], sizes: Sequence[int]) -> dict[str, Any]:
    """A run's outcome, and its delivered text per block, without the borders of its deltas."""
    agent = agent_with(PlayedModel(answers, sizes), Tap())
    run = await agent.stream("go")
    lanes: dict[str, str] = {}
    step = 0
    async for chunk in run:
        step += chunk.type == "step-start"
        if chunk.type in ("text-delta", "reasoning-delta"):
            lane = f"{step} {chunk.payload.id}"
            lanes[lane] = lanes.get(lane, "") + chunk.payload.text
    found = await outcome_of(run)
    lanes = {lane: text for lane, text in lanes.items() if text}
    return {**found, "lanes": dict(sorted(lanes.items()))}


async def check_any_cutting(
    whole: Sequence[Any], pieces: Sequence[Any], sizes: Sequence[int]
) -> None:
    """An answer in pieces comes to what the answer in one comes to (law 3)."""
    assert await settled_outcome(pieces, sizes) == await settled_outcome(whole, (1,))


# ── law 4 ──────────────────────────────────────────────────────────────────────────────────────


async def _plainly(args: Any) -> None:
    args.abort("no", metadata={"by": "law"})


async def _raised(args: Any) -> None:
    raise TripWire("no", metadata={"by": "law"})


async def _in_a_group(args: Any) -> None:
    async def inner() -> None:
        args.abort("no", metadata={"by": "law"})

    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.Event().wait())
        group.create_task(inner())


async def _raised_in_a_group(args: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.Event().wait())
        group.create_task(_raised(args))


async def _gathered(args: Any) -> None:
    await asyncio.gather(_plainly(args), asyncio.sleep(0), return_exceptions=True)


async def _suppressed(args: Any) -> None:
    with contextlib.suppress(BaseException):
        args.abort("no", metadata={"by": "law"})


async def _replaced(args: Any) -> None:
    try:
        args.abort("no", metadata={"by": "law"})
    finally:
        raise ValueError("trouble while tidying up")


async def _in_a_lost_task(args: Any) -> None:
    task = asyncio.create_task(_plainly(args))
    await asyncio.wait([task])
    task._log_traceback = False  # type: ignore[attr-defined]  # what nobody reads is logged


async def _in_a_cancelled_task(args: Any) -> None:
    """A hook that waits for a cancelled task is not cancelled itself."""
    with contextlib.suppress(BaseException):
        args.abort("no", metadata={"by": "law"})
    task = asyncio.create_task(asyncio.Event().wait())
    task.cancel()
    await task


async def _past_exception(args: Any) -> None:
    try:
        args.abort("no", metadata={"by": "law"})
    except Exception:  # not a verdict: it goes through
        raise AssertionError("a verdict was caught as an ordinary error") from None


def _sync(args: Any) -> None:
    args.abort("no", metadata={"by": "law"})


WAYS: dict[str, Callable[[Any], Any]] = {
    "plain": _plainly,
    "raised": _raised,
    "grouped": _in_a_group,
    "past-exception": _past_exception,
    "raised-in-group": _raised_in_a_group,
    "gathered": _gathered,
    "suppressed": _suppressed,
    "replaced": _replaced,
    "lost-task": _in_a_lost_task,
    "cancelled-task": _in_a_cancelled_task,
    "sync": _sync,
}


class Judge:
    """Gives its verdict at the n-th call of one hook; before that it changes nothing."""

    process_data_parts = True

    def __init__(self, hook: str, nth: int, way: str) -> None:
        self.id = "judge"
        self.hook, self.nth, self.way = hook, nth, WAYS[way]
        self.calls = 0
        self.done = False
        self.log: list[Any] = []
        stream = hook == "process_output_stream"
        if way == "sync":
            setattr(self, hook, lambda args: self._count(args) or (args.part if stream else None))
        else:
            setattr(self, hook, self._stream if stream else self._decide)

    def _count(self, args: Any) -> Any:
        self.calls += 1
        if self.calls == self.nth:
            self.done = True
            self.log.append("verdict")
            return self.way(args)
        return None

    async def _decide(self, args: Any) -> None:
        work = self._count(args)
        if work is not None:
            await work

    async def _stream(self, args: Any) -> Any:
        await self._decide(args)
        return args.part


async def check_verdict(
    hook: str, nth: int = 1, way: str = "plain", place: int = 0, sizes: Sequence[int] = (1,)
) -> bool:
    """After a verdict nothing follows (R-131, R-167 to R-171). False: it never came to one."""
    judge = Judge(hook, nth, way)
    ran: list[str] = []

    @tool
    async def note(value: str = "") -> str:
        judge.log.append("tool")
        return value

    answers = REFUSED if hook == "process_api_error" else TWO_STEPS
    renamed = [[_called(part, "note") for part in parts] for parts in answers]
    model = PlayedModel(renamed, sizes)
    taps = [Tap("before", judge.log), Tap("after", judge.log)]
    chain = [*taps[: 1 - place], judge, *taps[1 - place :]]
    agent = agent_with(model, *chain, tools=[note])
    run = await agent.stream("go")
    try:
        chunks = [chunk async for chunk in run]
    except (Exception, BaseExceptionGroup) as error:
        raise AssertionError(f"the verdict became {error!r}") from error
    if not judge.done:
        assert run.tripwire is None
        return False
    after = judge.log[judge.log.index("verdict") + 1 :]
    assert after == ran, f"after the verdict came {after}"
    _assert_blocked(run, chunks, "judge")
    asked = len(model.prompts)
    _check_covered(hook, await run.steps, run)
    output = await _again(renamed, chain, judge, note, sizes)
    assert bare(output.tripwire) == bare(run.tripwire), "generate returns with the same verdict"
    assert asked <= 2 and model.open == 0
    return True


async def _again(answers: Any, chain: list[Any], judge: Judge, tool: Any, sizes: Any) -> Any:
    judge.calls, judge.done = 0, False
    agent = agent_with(PlayedModel(answers, sizes), *chain, tools=[tool])
    return await agent.generate("go")


def _called(part: Any, name: str) -> Any:
    return {**part, "toolName": name} if isinstance(part, dict) and "toolName" in part else part


def _assert_blocked(run: Any, chunks: Sequence[Any], by: str, reason: str = "no") -> None:
    kinds = Counter(chunk.type for chunk in chunks)
    assert chunks[-1].type == "tripwire" and kinds["tripwire"] == 1, "tripwire is last, and once"
    assert not kinds["finish"] and not kinds["error"]
    payload = chunks[-1].payload
    assert (payload.processor_id, payload.reason) == (by, reason)
    assert run.status == "tripwire" and run.error is None
    assert run.tripwire is not None and run.tripwire.reason == reason


def _check_covered(hook: str, steps: Sequence[Any], run: Any) -> None:
    """The texts of what the verdict covers are nowhere (README 19)."""
    kept = "".join(step.text for step in steps if step.accepted)
    assert run._state.text == kept
    assert stored_text(run.message_list.messages()) == kept
    if hook == "process_output_result":
        assert not run.message_list.response_messages() and not kept


async def check_swallowed_verdict(hook: str, way: str = "swallow") -> None:
    """A hook writes, a guard of what it wrote aborts, the hook swallows that: it still holds."""
    guard = Guard()
    went_on: list[str] = []

    async def writes(args: Any) -> Any:
        part = getattr(args, "part", None)
        if part is not None and part.type != "text-delta":
            return part
        try:
            await args.writer.custom({"type": "data-secret", "data": 1})
        except BaseException:
            if way == "swallow":
                went_on.append(hook)
                return part
            raise
        return part

    answers = REFUSED if hook == "process_api_error" else TWO_STEPS
    model = PlayedModel(answers)
    agent = agent_with(model, Hook(hook, writes), guard)
    run = await agent.stream("go", max_processor_retries=3)
    chunks = [chunk async for chunk in run]
    _assert_blocked(run, chunks, "guard", "secret")
    assert not [c for c in chunks if c.type == "data-secret"]
    assert guard.judged == 1 and model.open == 0


class Guard:
    """Aborts at the first data chunk."""

    process_data_parts = True
    id = "guard"

    def __init__(self) -> None:
        self.judged = 0

    def process_output_stream(self, args: Any) -> Any:
        if args.part.type.startswith("data-"):
            self.judged += 1
            args.abort("secret")
        return args.part


# ── law 5 ──────────────────────────────────────────────────────────────────────────────────────


def assert_prompt_balanced(prompt: Sequence[Any]) -> None:
    """Each call in a prompt is answered by the tool entry behind it; no result lacks its call."""
    open_calls: list[str] = []
    for entry in prompt:
        content = entry["content"] if isinstance(entry["content"], list) else []
        if entry["role"] == "tool":
            for part in content:
                assert part["toolCallId"] in open_calls, "a result without its call"
                open_calls.remove(part["toolCallId"])
            continue
        assert not open_calls, f"calls without result: {open_calls}"
        if entry["role"] == "assistant":
            calls = [p for p in content if p["type"] == "tool-call"]
            answered = [p["toolCallId"] for p in content if p["type"] == "tool-result"]
            open_calls = [p["toolCallId"] for p in calls if p["toolCallId"] not in answered]
    assert not open_calls, f"calls without result: {open_calls}"


def assert_closed(messages: Sequence[Any], waiting: Sequence[str] = ()) -> None:
    """Each call in the history has an outcome, but for those that wait for the client (R-525)."""
    found = [
        part.tool_invocation
        for message in messages
        for part in message.parts
        if part.type == "tool-invocation"
    ]
    still = [i.tool_call_id for i in found if i.state not in ("result", "output-error")]
    assert still == list(waiting), f"open calls: {still}"


async def check_balanced(
    answers: Sequence[Any],
    leave: Callable[[Any, PlayedModel], Any] | None = None,
    *,
    waiting: Sequence[str] = (),
    tools: Sequence[Any] = (echo, fail),
    processors: Sequence[Any] = (),
    **options: Any,
) -> Any:
    """However the run goes, its prompts and the history it leaves are balanced, to go on from."""
    model = PlayedModel(answers)
    agent = agent_with(model, *processors, tools=tools)
    run = await agent.stream("go", **options)
    if leave is None:
        await run.consume_stream()
    else:
        await leave(run, model)
    for prompt in model.prompts:
        assert_prompt_balanced(prompt)
    messages = run.message_list.messages()
    assert_closed(messages, waiting)
    follow_up = PlayedModel([[*said("again"), end()]])
    again = agent_with(follow_up, tools=tools)
    stored = [message.to_json() for message in messages]
    await again.generate([*stored, {"role": "user", "content": "and now?"}])
    assert_prompt_balanced(follow_up.prompts[0])
    return run


# ── law 6 ──────────────────────────────────────────────────────────────────────────────────────

PLAYED = (
    [METADATA, *said("a", "b", kind="reasoning", id="r"), *said("look", "ing"),
     call("slow", id="c1"), call("slow", id="c2"), end("tool-calls")],
    [METADATA, *said("do", "ne"), end()],
)  # fmt: skip


class Chatty:
    """Writes from every hook that may; so each of them runs beside the stream, in a task."""

    process_data_parts = True
    id = "chatty"

    async def process_output_stream(self, args: Any) -> Any:
        if args.part.type == "text-delta":
            await args.writer.custom({"type": "data-note", "data": "stream", "transient": True})
        return args.part


async def _write(self: Any, args: Any) -> None:
    if args.writer is not None:
        await args.writer.custom({"type": "data-note", "data": 1, "transient": True})


for _name in HOOKS:
    if _name != "process_output_stream":
        setattr(Chatty, _name, _write)


@tool
async def slow(context: Any = None) -> str:
    """Takes a few turns of the event loop."""
    for _ in range(3):
        await asyncio.sleep(0)
    return "done"


def lasting() -> Any:
    """A tool that never ends by itself; `lasting.ended` counts how often it was stopped."""

    @tool
    async def forever() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("stopped")
        return "never"

    ended: list[str] = []
    return forever, ended


LEAVING = ("aclose", "drop", "cancel", "signal", "timeout", "context", "reader")


async def check_nothing_left(
    way: str, index: int, *processors: Any, with_signal: bool = True
) -> bool:
    """Leave a run when `index` chunks were read; False when it had ended before (law 6)."""
    before = set(asyncio.all_tasks())
    model = PlayedModel(PLAYED)
    made = processors or (Chatty(),)
    controller = AbortController()
    agent = agent_with(model, *made, tools=[slow])
    options = {"abort_signal": controller.signal} if with_signal else {}
    ended = await _LEAVE[way](partial(agent.stream, "go", **options), index, controller)
    await others_done(before)
    assert model.open == 0, "a stream of the model is still open"
    assert not controller.signal._callbacks, "the signal still knows the run"
    return not ended


async def _read(run: Any, count: int) -> bool:
    """Read `count` chunks; whether the run ended before."""
    stream = run.full_stream
    for _ in range(count):
        if await anext(stream, None) is None:
            return True
    return False


async def _by_aclose(start: Any, index: int, controller: Any) -> bool:
    run = await start()
    ended = await _read(run, index)
    await run.aclose()
    assert run.status != "running", "closed, and yet running"
    return ended


async def _by_context(start: Any, index: int, controller: Any) -> bool:
    async with start() as run:
        return await _read(run, index)


async def _by_drop(start: Any, index: int, controller: Any) -> bool:
    run = await start()
    gone = weakref.ref(run._state)
    ended = await _read(run, index)
    del run
    for turn in range(100):  # the garbage collector closes generators through the event loop
        if gone() is None:
            break
        if turn % 10 == 0:
            gc.collect()
        await asyncio.sleep(0)
    assert gone() is None, "a dropped run is still held"
    return ended


async def _by_reader(start: Any, index: int, controller: Any) -> bool:
    count = 0
    async for _ in await start():
        count += 1
        if count > index:
            break
    return count <= index


async def _by_cancel(start: Any, index: int, controller: Any) -> bool:
    at_place = asyncio.Event()
    ended: list[bool] = []

    async def reader() -> None:
        run = await start()
        ended.append(await _read(run, index))
        at_place.set()
        await run.consume_stream()

    task = asyncio.create_task(reader())
    await at_place.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return ended[0]


async def _by_signal(start: Any, index: int, controller: Any) -> bool:
    run = await start()
    ended = await _read(run, index)
    controller.abort("enough")
    chunks = [chunk.type async for chunk in run]
    if not ended and chunks[-1] == "finish" and "abort" in chunks:
        assert run.status == "canceled" and await run.finish_reason == "aborted"
        assert chunks[-2] == "abort"
    return ended


async def _by_timeout(start: Any, index: int, controller: Any) -> bool:
    run = await start()
    ended = await _read(run, index)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0):
            await run.consume_stream()
    return ended


_LEAVE: dict[str, Callable[..., Any]] = {
    "aclose": _by_aclose,
    "context": _by_context,
    "drop": _by_drop,
    "reader": _by_reader,
    "cancel": _by_cancel,
    "signal": _by_signal,
    "timeout": _by_timeout,
}


# ── law 7 ──────────────────────────────────────────────────────────────────────────────────────


async def operations(work: Any) -> int:
    """How many calls, of Python and of C functions, it takes to await `work`."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(profile)
    try:
        await work
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


async def check_linear(cost: Callable[[int], Any], sizes: Sequence[int], slack: float) -> None:
    """The second half of a long run costs what the first costs, but for `slack` (a ratio)."""
    await cost(4)
    counts = [await operations(cost(size)) for size in sizes]
    rates = [(counts[i + 1] - counts[i]) / (sizes[i + 1] - sizes[i]) for i in range(len(sizes) - 1)]
    assert rates[-1] <= rates[0] * slack, f"each one more costs {rates}"


async def many_chunks(count: int, *processors: Any, batch: int = 1) -> None:
    """A run whose answer has `count` deltas."""
    answers = [[*said(*["word "] * count), end()]]
    model = PlayedModel(answers, (batch,))
    await agent_with(model, *(processors or (Tap(),))).generate("go")


async def many_steps(count: int, *processors: Any) -> None:
    """A run of `count` steps, each with a tool call."""
    answers = [
        [*said("next"), call("echo", '{"value": "x"}', f"c{i}"), end("tool-calls")]
        for i in range(count)
    ]
    model = PlayedModel([*answers, [*said("done"), end()]])
    model.stream = _without_copies(model)  # type: ignore[method-assign]
    await agent_with(model, *processors).generate("go", max_steps=count + 1)


def _without_copies(model: PlayedModel) -> Any:
    """The model's stream, which does not copy the prompt: that grows with the steps."""

    async def stream(request: Any) -> Any:
        number = model.open
        model.open += 1
        from procession.testing.parts import chunk_of

        for part in model.answers[number]:
            yield [chunk_of(part)]

    return stream
