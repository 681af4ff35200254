"""Tool calls that wait for somebody's word: approval, decline, suspension, client tools."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from procession import (
    AbortController,
    Agent,
    Around,
    ConfigurationError,
    InputError,
    MessageList,
    Tool,
    ToolCallInfo,
    ToolContext,
    WaitingCalls,
    processor,
    tool,
)
from procession.testing import ScriptedModel, answer, tool_call

PAID: list[int] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    PAID.clear()


@tool(require_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    PAID.append(amount)
    return f"paid {amount}"


@tool
def look() -> str:
    """Look."""
    return "seen"


def payment(*amounts: int, beside: tuple[str, ...] = (), then: Any = "Done.") -> list[Any]:
    """Answers that pay, under the ids `c0`, `c1`, … and call others after that."""
    calls = [tool_call("pay", {"amount": a}, id=f"c{i}") for i, a in enumerate(amounts)]
    calls += [tool_call(name, id=name) for name in beside]
    return [answer("Let me. ", tool_calls=calls), then]


def paying(*amounts: int, **more: Any) -> ScriptedModel:
    """A model of `payment`."""
    return ScriptedModel(payment(*amounts, **more))


def payer(model: ScriptedModel, **options: Any) -> Agent:
    return Agent(id="payer", model=model, tools=[pay, look], **options)


async def types(run: Any) -> list[str]:
    return [chunk.type async for chunk in run]


def states(messages: Any) -> dict[str, str]:
    """The state of each tool call in a list of messages."""
    parts = [part for message in messages for part in message.parts]
    calls = [part.tool_invocation for part in parts if part.type == "tool-invocation"]
    return {call.tool_call_id: call.state for call in calls}


def told(model: ScriptedModel, call: int = 1) -> list[Any]:
    """What the model was told of its tool calls."""
    entries = [entry for entry in model.calls[call].prompt if entry["role"] == "tool"]
    return [part["output"]["value"] for entry in entries for part in entry["content"]]


# ── waiting ────────────────────────────────────────────────────────────────────────────────────


async def test_r_570_a_call_that_needs_approval_ends_the_stream() -> None:
    model = paying(5)
    run = await payer(model).stream("Pay 5")
    chunks = [chunk async for chunk in run]
    last = chunks[-1]
    assert last.type == "tool-call-approval"
    assert last.to_json()["payload"] | {"resumeSchema": ...} == {
        "toolCallId": "c0",
        "toolName": "pay",
        "args": {"amount": 5},
        "resumeSchema": ...,
    }
    assert last.run_id == run.run_id
    assert not {"step-finish", "finish", "tool-result"} & {chunk.type for chunk in chunks}
    assert (run.status, await run.finish_reason) == ("suspended", "suspended")
    assert await run.text == "Let me. "
    assert [chunk.payload.tool_call_id for chunk in await run.waiting] == ["c0"]
    assert states(run.message_list.get.response.db()) == {"c0": "approval-requested"}
    assert PAID == []
    assert len(model.calls) == 1


async def test_r_571_approved_the_run_goes_on_where_it_was() -> None:
    model = paying(5)
    agent = payer(model)
    first = await agent.stream("Pay 5")
    await first.consume_stream()
    run = await agent.approve_tool_call(first.run_id, "c0")
    assert await types(run) == [
        "tool-result",
        "step-finish",
        "step-start",
        "text-start",
        "text-delta",
        "text-end",
        "step-finish",
        "finish",
    ]
    assert PAID == [5]
    assert told(model) == ["paid 5"]
    assert run.run_id == first.run_id
    assert run.message_id == first.message_id
    assert await run.text == "Let me. Done."
    assert [step.finish_reason for step in await run.steps] == ["tool-calls", "stop"]
    assert (await run.usage).total_tokens == sum([3 + 2, 3 + 1])
    assert states(run.message_list.get.response.db()) == {"c0": "result"}
    # What the first stream has said of itself stays true.
    assert (first.status, await first.text) == ("suspended", "Let me. ")
    assert (await first.usage).total_tokens == 3 + 2
    assert len(agent.waiting_calls) == 0


async def test_r_571_declined_the_model_is_told_the_reason() -> None:
    model = paying(5)
    agent = payer(model)
    waiting = await agent.generate("Pay 5")
    run = await agent.decline_tool_call(waiting.run_id, "c0", reason="Not today.")
    chunks = [chunk async for chunk in run]
    assert [chunk.type for chunk in chunks][:2] == ["tool-output-denied", "step-finish"]
    assert chunks[0].payload["reason"] == "Not today."
    assert told(model) == ["Not today."]
    assert PAID == []
    [message] = run.message_list.get.response.db()
    [call] = [p.tool_invocation for p in message.parts if p.type == "tool-invocation"]
    assert call.state == "output-denied"
    assert call.approval == {"id": "c0", "approved": False, "reason": "Not today."}


async def test_r_571_the_forms_of_generate() -> None:
    agent = payer(ScriptedModel([*payment(5), *payment(6)]))
    waiting = await agent.generate("Pay 5")
    assert (waiting.status, waiting.finish_reason) == ("suspended", "suspended")
    assert [chunk.payload.args for chunk in waiting.waiting] == [{"amount": 5}]
    done = await agent.approve_tool_call_generate(waiting.run_id)
    assert (done.status, done.text, done.waiting) == ("success", "Let me. Done.", [])
    waiting = await agent.generate("Pay 6")
    done = await agent.decline_tool_call_generate(waiting.run_id, reason="No.")
    assert done.finish_reason == "stop"
    assert PAID == [5]


async def test_r_571_each_call_has_its_own_fate() -> None:
    """The others run at once; of those that wait each is decided by itself."""
    model = paying(1, 2, 3, beside=("look",))
    agent = payer(model)
    run = await agent.stream("Pay")
    chunks = [chunk async for chunk in run if chunk.type.startswith("tool-")]
    assert [c.type for c in chunks[4:]] == ["tool-result", *["tool-call-approval"] * 3]
    second = await agent.decline_tool_call(run.run_id, "c1", reason="Two is too many.")
    assert await types(second) == ["tool-output-denied", *["tool-call-approval"] * 2]
    assert second.status == "suspended"
    assert len(model.calls) == 1
    third = await agent.approve_tool_call(run.run_id, "c2")
    assert await types(third) == ["tool-result", "tool-call-approval"]
    expected = {
        "c0": "approval-requested",
        "c1": "output-denied",
        "c2": "result",
        "look": "result",
    }
    assert states(third.message_list.get.response.db()) == expected
    last = await agent.approve_tool_call(run.run_id)
    assert (await types(last))[:2] == ["tool-result", "step-finish"]
    assert told(model) == ["paid 1", "Two is too many.", "paid 3", "seen"]
    assert PAID == [3, 1]
    results = [chunk.payload.tool_call_id for chunk in await last.tool_results]
    assert sorted(results) == ["c0", "c2", "look"]


async def test_an_approval_in_the_loop_that_reads() -> None:
    """The run is kept before its last chunk is delivered."""
    agent = payer(paying(5))
    async for chunk in agent.stream("Pay 5"):
        if chunk.type == "tool-call-approval":
            done = await agent.approve_tool_call_generate(chunk.run_id, "c0")
            assert done.text == "Let me. Done."
    assert PAID == [5]


async def test_a_step_of_a_later_run_may_wait_again() -> None:
    again = answer(tool_calls=[tool_call("pay", {"amount": 6}, id="c9")])
    agent = payer(ScriptedModel([*payment(5, then=again), "Done."]))
    run_id = (await agent.generate("Pay")).run_id
    waiting = await agent.approve_tool_call_generate(run_id, "c0")
    assert [chunk.payload.tool_call_id for chunk in waiting.waiting] == ["c9"]
    done = await agent.approve_tool_call_generate(run_id, "c9")
    assert (done.text, len(done.steps)) == ("Let me. Done.", 3)
    assert PAID == [5, 6]


# ── what asks ──────────────────────────────────────────────────────────────────────────────────


async def test_r_570_the_call_may_ask_for_all_tools() -> None:
    agent = payer(ScriptedModel([answer(tool_calls=[tool_call("look", id="l")]), "Done."]))
    waiting = await agent.generate("Look", require_tool_approval=True)
    assert [chunk.payload.tool_name for chunk in waiting.waiting] == ["look"]
    done = await agent.approve_tool_call_generate(waiting.run_id)
    assert done.text == "Done."


async def test_r_570_the_call_may_ask_for_some() -> None:
    calls = [tool_call("look", id="l"), tool_call("look", id="m")]
    agent = payer(ScriptedModel([answer(tool_calls=calls)]))

    async def the_second(call: ToolCallInfo) -> bool:
        return call.tool_call_id == "m"

    waiting = await agent.generate("Look", require_tool_approval=the_second)
    assert [chunk.payload.tool_call_id for chunk in waiting.waiting] == ["m"]
    assert [chunk.payload.tool_call_id for chunk in waiting.tool_results] == ["l"]


@pytest.mark.parametrize("amount", [5, 500])
async def test_a_function_of_the_arguments_decides(amount: int) -> None:
    @tool(name="pay", require_approval=lambda args: args["amount"] > 100)
    def careful(amount: int) -> str:
        return f"paid {amount}"

    result = await Agent(id="a", model=paying(amount), tools=[careful]).generate("Pay")
    assert result.status == ("suspended" if amount > 100 else "success")


@pytest.mark.parametrize("role", ["clerk", "owner"])
async def test_a_function_of_the_request_decides(role: str) -> None:
    async def unless_owner(arguments: Any, context: ToolContext) -> bool:
        assert arguments == {"amount": 5}
        return context.request_context.get("role") != "owner"

    @tool(name="pay", require_approval=unless_owner)
    def careful(amount: int) -> str:
        return f"paid {amount}"

    agent = Agent(id="a", model=paying(5), tools=[careful])
    result = await agent.generate("Pay", request_context={"role": role})
    assert result.status == ("success" if role == "owner" else "suspended")


async def test_a_rule_that_fails_says_yes() -> None:
    def broken(_arguments: Any) -> bool:
        raise KeyError("amount")

    @tool(name="pay", require_approval=broken)
    def careful(amount: int) -> str:
        return f"paid {amount}"

    result = await Agent(id="a", model=paying(5), tools=[careful]).generate("Pay")
    assert result.status == "suspended"


async def test_nobody_is_asked_about_a_call_that_cannot_run() -> None:
    """R-531, R-532: arguments that do not fit are refused before anybody looks at them."""
    bad = [tool_call("pay", {"amount": "a lot"}, id="c0"), tool_call("pay", "{", id="c1")]
    model = ScriptedModel([answer(tool_calls=bad), "Done."])
    result = await payer(model).generate("Pay")
    assert result.status == "success"
    assert told(model)[0]["error"] is True


async def test_r_217_one_at_a_time_where_approval_may_be_needed() -> None:
    running: list[int] = []
    most: list[int] = []

    @tool(require_approval=lambda args: False)
    async def slow() -> str:
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(0)
        running.pop()
        return "slow"

    calls = [tool_call("slow", id=f"s{i}") for i in range(3)]
    model = ScriptedModel([answer(tool_calls=calls), "Done."])
    await Agent(id="a", model=model, tools=[slow]).generate("go")
    assert max(most) == 1


def test_what_cannot_be_asked_is_refused_when_it_is_built() -> None:
    with pytest.raises(ConfigurationError, match="require_approval"):
        Tool(name="t", require_approval="yes")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="resume_schema"):
        Tool(name="t", resume_schema=3)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="limit"):
        WaitingCalls(limit=0)


async def test_options_of_the_first_call_are_not_those_of_a_later_one() -> None:
    agent = payer(paying(5))
    run_id = (await agent.generate("Pay")).run_id
    with pytest.raises(ConfigurationError, match="require_tool_approval"):
        await agent.generate("Pay", require_tool_approval=3)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="instructions"):
        await agent.approve_tool_call(run_id, instructions="Be quick.")  # type: ignore[call-arg]
    assert await agent.waiting_calls.of(run_id), "a mistake in the call decides nothing"


# ── decided once ───────────────────────────────────────────────────────────────────────────────


async def test_a_call_is_decided_once() -> None:
    """G-F: exactly one execution, however often somebody clicks."""
    agent = payer(paying(5))
    run_id = (await agent.generate("Pay")).run_id
    tries = [agent.approve_tool_call_generate(run_id, "c0") for _ in range(3)]
    ends = await asyncio.gather(*tries, return_exceptions=True)
    assert sorted(type(end).__name__ for end in ends) == ["FullOutput", "InputError", "InputError"]
    with pytest.raises(InputError, match="decided already"):
        await agent.decline_tool_call(run_id, "c0")
    assert PAID == [5]


async def test_who_waits_must_be_named_where_several_do() -> None:
    agent = payer(paying(1, 2))
    run_id = (await agent.generate("Pay")).run_id
    with pytest.raises(InputError, match="'c0', 'c1'"):
        await agent.approve_tool_call(run_id)
    with pytest.raises(InputError, match="'c0', 'c1'"):
        await agent.approve_tool_call(run_id, "c7")
    assert [chunk.payload.tool_call_id for chunk in await agent.waiting_calls.of(run_id)] == [
        "c0",
        "c1",
    ]


async def test_the_room_is_limited_and_nothing_waits_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("procession.waiting.time.monotonic", lambda: now[0])
    room = WaitingCalls(limit=2, expires_after=60)
    agent = payer(ScriptedModel([payment(n)[0] for n in range(3)]), waiting_calls=room)
    ids = [(await agent.generate("Pay")).run_id for _ in range(3)]
    assert [bool(await room.of(id)) for id in ids] == [False, True, True]
    assert await room.forget(ids[1])
    assert not await room.forget(ids[1])
    now[0] = 61
    assert len(room) == 0
    with pytest.raises(InputError, match="waited too long"):
        await agent.approve_tool_call(ids[2])
    assert PAID == []


async def test_nothing_is_held_of_a_run_that_was_decided() -> None:
    """Law 6."""
    agent = payer(paying(5))

    class User:
        pass

    user = User()
    run_id = (await agent.generate("Pay", request_context={"user": user})).run_id
    held = weakref.ref(user)
    del user
    gc.collect()  # other tests' clients may leave a task to close them
    before = asyncio.all_tasks()
    await agent.approve_tool_call_generate(run_id)
    assert asyncio.all_tasks() <= before
    gc.collect()
    assert held() is None


async def test_another_agent_in_the_same_room_cannot_continue() -> None:
    """Law 2: its processors are not those that guard the run."""
    room = WaitingCalls()

    def guard(args: Any) -> Any:
        if args.part.type == "tool-result":
            args.part.payload.result = "masked"
        return args.part

    mask = processor(id="mask", process_output_stream=guard)
    agent = payer(paying(5), waiting_calls=room, output_processors=[mask])
    other = payer(ScriptedModel(["Mine."]), waiting_calls=room)
    run_id = (await agent.generate("Pay")).run_id
    for decide in (other.approve_tool_call, other.decline_tool_call):
        with pytest.raises(InputError, match="another agent"):
            await decide(run_id, "c0")
    assert PAID == []
    ended = await agent.approve_tool_call_generate(run_id, "c0")
    assert [chunk.payload.result for chunk in ended.tool_results] == ["masked"]


@pytest.mark.parametrize("shared", [True, False])
async def test_a_run_of_the_same_id_takes_nobodys_place(shared: bool) -> None:
    """What is decided holds for the calls that were shown under that id."""
    room = WaitingCalls()
    first = payer(ScriptedModel([payment(1)[0], payment(1000)[0], "Done."]), waiting_calls=room)
    second = payer(paying(1000), waiting_calls=room) if shared else first
    await first.generate("Pay 1", run_id="R")
    run = await second.stream("Pay 1000", run_id="R")
    chunks = [chunk async for chunk in run]
    assert chunks[-1].type == "error"
    assert "tool-call-approval" not in {chunk.type for chunk in chunks}
    assert run.status == "failed"
    assert isinstance(run.error, InputError)
    assert [chunk.payload.args for chunk in await room.of("R")] == [{"amount": 1}]
    await first.approve_tool_call_generate("R", "c0")
    assert PAID == [1]


async def test_two_runs_of_one_id_that_come_to_wait_at_once() -> None:
    class Slow:
        def extend(self, _opening: Any) -> Around:
            return Around()

        async def run_ended(self, _run: Any) -> None:
            await asyncio.sleep(0.01)

    agent = payer(ScriptedModel([payment(1)[0], payment(2)[0], "Done."]), extensions=[Slow()])
    runs = [agent.generate("Pay", run_id="R") for _ in range(2)]
    ends = await asyncio.gather(*runs, return_exceptions=True)
    [shown] = [end for end in ends if not isinstance(end, BaseException)]
    [refused] = [end for end in ends if isinstance(end, BaseException)]
    assert isinstance(refused, InputError)
    await agent.approve_tool_call_generate("R", "c0")
    assert PAID == [shown.waiting[0].payload.args["amount"]]


async def test_a_run_that_is_closed_before_it_is_read_ran_nothing() -> None:
    agent = payer(paying(1, 2))
    run_id = (await agent.generate("Pay")).run_id
    async with agent.approve_tool_call(run_id, "c0") as run:
        pass
    assert run.status == "canceled"
    assert PAID == []
    assert states(run.message_list.get.response.db()) == dict.fromkeys(("c0", "c1"), "output-error")
    assert len(agent.waiting_calls) == 0


async def test_a_signal_that_has_fired_uses_no_approval_up() -> None:
    controller = AbortController()
    agent = payer(paying(5))
    run_id = (await agent.generate("Pay", abort_signal=controller.signal)).run_id
    controller.abort()
    with pytest.raises(InputError, match=r"signal of run .* has fired already"):
        await agent.approve_tool_call(run_id)
    with pytest.raises(InputError, match=r"signal of run .* has fired already"):
        await agent.decline_tool_call_generate(run_id, abort_signal=controller.signal)
    assert PAID == []
    another = AbortController()
    ended = await agent.approve_tool_call_generate(run_id, abort_signal=another.signal)
    assert ended.status == "success"
    assert PAID == [5]


async def test_another_signal_takes_its_place() -> None:
    controller = AbortController()
    agent = payer(paying(5))
    run_id = (await agent.generate("Pay", abort_signal=controller.signal)).run_id
    controller.abort()
    ended = await agent.approve_tool_call_generate(run_id, abort_signal=None)
    assert ended.status == "success"
    assert PAID == [5]


# ── processors ─────────────────────────────────────────────────────────────────────────────────


async def test_processors_see_the_chunk_that_asks_and_may_block_it() -> None:
    """Law 2, law 4: what was blocked cannot be approved."""

    def guard(args: Any) -> Any:
        if args.part.type == "tool-call-approval":
            args.abort("Never.")
        return args.part

    block = processor(id="guard", process_output_stream=guard)
    agent = payer(paying(5), output_processors=[block])
    result = await agent.generate("Pay")
    assert result.status == "tripwire"
    assert len(agent.waiting_calls) == 0
    with pytest.raises(InputError):
        await agent.approve_tool_call(result.run_id, "c0")
    assert PAID == []


async def test_a_retry_asked_for_by_a_guard_of_the_question() -> None:
    def guard(args: Any) -> Any:
        if args.part.type == "tool-call-approval" and args.part.payload.args["amount"] > 10:
            args.abort("Less, please.", retry=True)
        return args.part

    model = ScriptedModel([payment(50)[0], *payment(5)])
    agent = payer(
        model,
        output_processors=[processor(id="guard", process_output_stream=guard)],
        max_processor_retries=1,
    )
    waiting = await agent.generate("Pay")
    assert [chunk.payload.args for chunk in waiting.waiting] == [{"amount": 5}]
    await agent.approve_tool_call_generate(waiting.run_id)
    assert PAID == [5]


async def test_what_is_shown_is_what_runs() -> None:
    """The arguments as processors have left them, in whatever chunk."""

    def less(args: Any) -> Any:
        if args.part.type == "tool-call":
            args.part.payload.args = {"amount": 4}
        if args.part.type == "tool-call-approval":
            assert args.part.payload.args == {"amount": 4}
            args.part.payload.args["amount"] = 3
        return args.part

    limit = processor(id="limit", process_output_stream=less)
    agent = payer(paying(5), output_processors=[limit])
    waiting = await agent.generate("Pay")
    assert waiting.waiting[0].payload.args == {"amount": 3}
    waiting.waiting[0].payload.args["amount"] = 1_000_000  # a reader's own copy
    await agent.approve_tool_call_generate(waiting.run_id)
    assert PAID == [3]


async def test_a_processor_that_keeps_the_chunk_cannot_change_it_later() -> None:
    """Nor can a reader: what is shown, what is told of later, and what runs are the same."""
    kept: list[Any] = []

    def keep(args: Any) -> Any:
        if args.part.type == "tool-call-approval":
            kept.append(args.part)
            for earlier in kept[:-1]:
                earlier.payload.args["amount"] = 1
        return args.part

    hook = processor(id="keep", process_output_stream=keep)
    agent = payer(paying(1000, 2), output_processors=[hook])
    waiting = await agent.generate("Pay")
    amounts = [chunk.payload.args["amount"] for chunk in waiting.waiting]
    assert amounts == [1000, 2]
    for chunk in (*kept, *waiting.waiting, *await agent.waiting_calls.of(waiting.run_id)):
        chunk.payload.args["amount"] = 7
        chunk.payload.resume_schema["required"] = ["more"]
    told = await agent.waiting_calls.of(waiting.run_id)
    assert [chunk.payload.args["amount"] for chunk in told] == amounts
    assert [chunk.payload.resume_schema["required"] for chunk in told] == [["approved"]] * 2
    waiting = await agent.approve_tool_call_generate(waiting.run_id, "c0")
    assert [chunk.payload.args["amount"] for chunk in waiting.waiting] == [2]
    await agent.approve_tool_call_generate(waiting.run_id, "c1")
    assert PAID == amounts


@pytest.mark.parametrize("field", ["tool_name", "tool_call_id", "run_id"])
@pytest.mark.parametrize("in_place", [True, False])
async def test_which_call_is_asked_about_is_not_for_processors_to_say(
    field: str, in_place: bool
) -> None:
    def rename(args: Any) -> Any:
        part = args.part
        if part.type != "tool-call-approval":
            return part
        if not in_place:
            part = type(part).from_json(part.to_json())
        setattr(part if field == "run_id" else part.payload, field, "look")
        return part

    hook = processor(id="rename", process_output_stream=rename)
    agent = payer(paying(5), output_processors=[hook])
    waiting = await agent.generate("Pay")
    [told] = await agent.waiting_calls.of(waiting.run_id)
    for chunk in (told, *waiting.waiting):
        assert (chunk.type, chunk.run_id) == ("tool-call-approval", waiting.run_id)
        assert (chunk.payload.tool_name, chunk.payload.tool_call_id) == ("pay", "c0")
    await agent.approve_tool_call_generate(waiting.run_id, "c0")
    assert PAID == [5]


async def test_arguments_that_have_changed_since_are_refused() -> None:
    agent = payer(paying(5))
    run = await agent.stream("Pay")
    await run.consume_stream()
    [part] = [p for p in run.message_list.get.response.db()[0].parts if p.type[:4] == "tool"]
    part.tool_invocation.args["amount"] = 500
    with pytest.raises(InputError, match="have changed"):
        await agent.approve_tool_call(run.run_id)
    declined = await agent.decline_tool_call_generate(run.run_id)
    assert declined.status == "success"
    assert PAID == []


async def test_input_processors_do_not_run_again_and_states_are_kept() -> None:
    """G-F4: what is done once per request is done once; steps see the whole list."""
    inputs: list[str] = []
    steps: list[tuple[int, int, int]] = []

    class Watcher:
        id = "watcher"

        def process_input(self, args: Any) -> None:
            inputs.append("once")
            args.state["seen"] = 1

        def process_input_step(self, args: Any) -> None:
            args.state["seen"] += 1
            steps.append((args.step_number, args.state["seen"], len(args.messages)))

    agent = payer(paying(5), input_processors=lambda scope: [Watcher()])
    waiting = await agent.generate("Pay")
    await agent.approve_tool_call_generate(waiting.run_id)
    assert inputs == ["once"]
    assert steps == [(0, 2, 1), (1, 3, 2)]


async def test_results_are_judged_and_the_result_hook_runs_at_the_real_end() -> None:
    results: list[Any] = []
    ends: list[str] = []

    class Judge:
        id = "judge"

        def process_tool_result(self, args: Any) -> None:
            results.append((args.tool_call_id, args.result, len(args.steps)))

        def process_output_result(self, args: Any) -> None:
            ends.append(args.result.text)

    agent = payer(paying(5), output_processors=[Judge()])
    waiting = await agent.generate("Pay")
    assert ends == []
    await agent.approve_tool_call_generate(waiting.run_id)
    assert results == [("c0", "paid 5", 1)]
    assert ends == ["Let me. Done."]


async def test_a_tool_that_a_hook_brought_is_known_when_the_run_goes_on() -> None:
    """G-F6."""

    def bring(args: Any) -> Any:
        return {"tools": {"pay": pay}}

    step = processor(id="bring", process_input_step=bring)
    agent = Agent(id="a", model=paying(5), input_processors=[step])
    waiting = await agent.generate("Pay")
    await agent.approve_tool_call_generate(waiting.run_id)
    assert PAID == [5]


async def test_a_verdict_on_the_result_takes_back_the_step() -> None:
    def never(args: Any) -> None:
        args.abort("The result is secret.")

    hook = processor(id="never", process_tool_result=never)
    agent = payer(paying(5), output_processors=[hook])
    waiting = await agent.generate("Pay")
    run = await agent.approve_tool_call(waiting.run_id)
    assert await types(run) == ["tripwire"]
    assert await run.text == ""
    assert run.message_list.get.response.db() == []


async def test_extensions_are_told_of_both_ends() -> None:
    ends: list[tuple[str, dict[str, str]]] = []

    class Memory:
        def extend(self, _opening: Any) -> Around:
            return Around()

        async def run_ended(self, run: Any) -> None:
            ends.append((run.status, states(run.message_list.get.all.db())))

    agent = payer(paying(5), extensions=[Memory()])
    waiting = await agent.generate("Pay")
    await agent.approve_tool_call_generate(waiting.run_id)
    assert ends == [
        ("suspended", {"c0": "approval-requested"}),
        ("success", {"c0": "result"}),
    ]


async def test_a_run_that_could_not_be_stored_does_not_wait() -> None:
    class Broken:
        def extend(self, _opening: Any) -> Around:
            return Around()

        async def run_ended(self, run: Any) -> None:
            raise OSError("disk full")

    agent = payer(paying(5), extensions=[Broken()])
    with pytest.raises(OSError, match="disk full"):
        await agent.generate("Pay")
    assert len(agent.waiting_calls) == 0


async def test_callbacks_go_on_with_the_run() -> None:
    told: list[Any] = []
    agent = payer(paying(5))
    waiting = await agent.generate(
        "Pay",
        on_finish=lambda result: told.append(result.text),
        on_step_finish=lambda step: told.append(step.finish_reason),
    )
    assert told == []
    await agent.approve_tool_call_generate(waiting.run_id)
    assert told == ["tool-calls", "stop", "Let me. Done."]


# ── suspension ─────────────────────────────────────────────────────────────────────────────────

PIN = {"type": "object", "properties": {"pin": {"type": "string"}}, "required": ["pin"]}


@tool(resume_schema=PIN)
async def sign(document: str, context: ToolContext) -> str:
    """Sign."""
    if not context.resumed:
        try:
            context.suspend({"question": "PIN?"})
        except Exception:  # what waits is no error of the tool's
            return "swallowed"
    return f"{document} signed with {context.resume_data['pin']}"


def signing() -> ScriptedModel:
    return ScriptedModel([answer(tool_calls=[tool_call("sign", {"document": "d"}, id="s")]), "Ok."])


async def test_r_572_a_tool_suspends_itself_and_is_given_data() -> None:
    model = signing()
    agent = Agent(id="a", model=model, tools=[sign])
    run = await agent.stream("Sign")
    last = [chunk async for chunk in run][-1]
    assert last.type == "tool-call-suspended"
    assert last.to_json()["payload"] == {
        "toolCallId": "s",
        "toolName": "sign",
        "args": {"document": "d"},
        "suspendPayload": {"question": "PIN?"},
        "resumeSchema": PIN,
    }
    assert run.status == "suspended"
    with pytest.raises(InputError, match="resumeSchema"):
        await agent.resume_tool_call(run.run_id, "s", data={"pin": 12})
    with pytest.raises(InputError, match="resume_tool_call"):
        await agent.approve_tool_call(run.run_id, "s")
    done = await agent.resume_tool_call_generate(run.run_id, "s", data={"pin": "12"})
    assert done.text == "Ok."
    assert told(model) == ["d signed with 12"]


async def test_r_572_a_plain_function_suspends_from_its_thread() -> None:
    @tool(name="sign")
    def plain(document: str, context: ToolContext) -> str:
        if context.resume_data is None:
            context.suspend()
        return str(context.resume_data)

    agent = Agent(id="a", model=signing(), tools=[plain])
    waiting = await agent.generate("Sign")
    assert waiting.waiting[0].payload.suspend_payload is None
    done = await agent.resume_tool_call_generate(waiting.run_id, data="yes")
    assert [chunk.payload.result for chunk in done.tool_results] == ["yes"]


async def test_r_572_out_of_a_task_group() -> None:
    @tool(name="sign")
    async def grouped(document: str, context: ToolContext) -> str:
        async def ask() -> None:
            if not context.resumed:
                context.suspend("who?")

        async with asyncio.TaskGroup() as group:
            group.create_task(ask())
        return "signed"

    agent = Agent(id="a", model=signing(), tools=[grouped])
    waiting = await agent.generate("Sign")
    assert [chunk.payload.suspend_payload for chunk in waiting.waiting] == ["who?"]


async def test_a_suspended_call_can_be_declined() -> None:
    model = signing()
    agent = Agent(id="a", model=model, tools=[sign])
    waiting = await agent.generate("Sign")
    await agent.decline_tool_call_generate(waiting.run_id, reason="No PIN.")
    assert told(model) == ["No PIN."]


async def test_approved_then_suspended_then_resumed() -> None:
    careful = tool(name="sign", require_approval=True, resume_schema=PIN)(sign.function)
    agent = Agent(id="a", model=signing(), tools=[careful])
    run_id = (await agent.generate("Sign")).run_id
    waiting = await agent.resume_tool_call_generate(run_id, data={"approved": True})
    assert [chunk.type for chunk in waiting.waiting] == ["tool-call-suspended"]
    done = await agent.resume_tool_call_generate(run_id, data={"pin": "12"})
    assert (done.text, len(done.tool_results)) == ("Ok.", 1)


# ── history ────────────────────────────────────────────────────────────────────────────────────


async def test_r_376_an_open_call_is_never_sent_to_a_model() -> None:
    agent = payer(paying(5, beside=("look",)))
    waiting = await agent.generate("Pay")
    stored = [message.to_json() for message in waiting.messages]
    later = ScriptedModel(["Hello."])
    await payer(later).generate([*stored, {"role": "user", "content": "Hello?"}])
    prompt = later.calls[0].prompt
    calls = [part for entry in prompt for part in entry["content"] if "toolCallId" in part]
    assert {part["toolCallId"] for part in calls} == {"look"}
    assert MessageList().add(stored, "memory").get.all.ui()[1]["parts"][1]["state"] == (
        "input-available"
    )


@pytest.mark.parametrize("form", ["tool message", "ui message"])
async def test_r_525_a_client_answers_with_its_next_messages(form: str) -> None:
    """R-335, R-391: the round trip of a tool without `execute`."""
    pick = Tool(name="pick", input_schema={"type": "object"})
    first = ScriptedModel([answer("Which? ", tool_calls=[tool_call("pick", {"of": 2}, id="p")])])
    asked = await Agent(id="a", model=first, tools=[pick]).generate("Paint it")
    assert (asked.finish_reason, asked.status) == ("tool-calls", "success")
    assert states(asked.messages) == {"p": "call"}
    if form == "tool message":
        result = {"type": "tool-result", "toolCallId": "p", "toolName": "pick", "output": "red"}
        history = [m.to_json() for m in asked.messages]
        history.append({"role": "tool", "content": [result]})
    else:
        history = asked.response.ui_messages
        part = next(part for part in history[0]["parts"] if part["type"] == "tool-pick")
        part.update(state="output-available", output="red")
        history = [{"role": "user", "content": "Paint it"}, *history]
    second = ScriptedModel(["Painted red."])
    done = await Agent(id="a", model=second, tools=[pick]).generate(history)
    assert done.text == "Painted red."
    assert [entry["role"] for entry in second.calls[0].prompt] == ["user", "assistant", "tool"]
    [outcome] = second.calls[0].prompt[-1]["content"]
    assert (outcome["toolCallId"], outcome["output"]["value"]) == ("p", "red")


async def test_a_client_tool_and_an_approval_in_one_step() -> None:
    pick = Tool(name="pick")
    calls = [tool_call("pick", id="p"), tool_call("pay", {"amount": 5}, id="c0")]
    model = ScriptedModel([answer(tool_calls=calls)])
    agent = Agent(id="a", model=model, tools=[pick, pay])
    waiting = await agent.generate("Pay")
    done = await agent.approve_tool_call_generate(waiting.run_id)
    assert (done.finish_reason, done.status) == ("tool-calls", "success")
    assert states(done.messages) == {"p": "call", "c0": "result"}
    assert len(model.calls) == 1
