"""Law 5: after every outcome the history is one that every provider accepts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from procession import AbortController, Tool, tool
from tests.laws.checks import check_balanced, lasting
from tests.laws.kit import Hook, PlayedModel, call, echo, end, fail, said

CALLS = [
    call("echo", '{"value": "x"}', "c1"),
    call("fail", "{}", "c2"),
    call("nobody", "{}", "c3"),
    call("echo", '{"value": [1]}', "c4"),
    call("echo", '{"value": ', "c5"),
]
LAST = [*said("so"), end()]


def asked(*calls: Any) -> list[Any]:
    """An answer that says something and makes calls."""
    return [*said("well"), *calls, end("tool-calls")]


async def test_all_kinds_of_calls() -> None:
    """R-053, R-530 to R-532: results, errors, unknown tools, bad arguments."""
    run = await check_balanced([asked(*CALLS), LAST])
    assert run.status == "success"


async def test_the_step_limit() -> None:
    """R-526, G-E4: the last step's tools have run when the limit ends the run."""
    await check_balanced([asked(CALLS[0])], max_steps=1)
    await check_balanced([asked(CALLS[0], CALLS[1])], max_steps=1)


async def test_a_client_tool() -> None:
    """R-525: its call stays open, those beside it have run, and no model ever sees it open."""
    client = Tool(name="client")
    await check_balanced(
        [asked(call("echo", id="c1"), call("client", id="c2"))],
        waiting=["c2"],
        tools=[echo, client],
    )


async def test_provider_executed_without_result() -> None:
    """G-E7: a provider that never gives the result of its own tool."""
    orphan = call("search", "{}", "p1", providerExecuted=True)
    await check_balanced([[orphan, *said("found"), end()], LAST], waiting=["p1"])
    await check_balanced([asked(orphan, CALLS[0]), LAST], waiting=["p1"])


async def test_provider_executed_with_result() -> None:
    """R-239: its result stands in the stream."""
    made = call("search", "{}", "p1", providerExecuted=True)
    result = {"type": "tool-result", "toolCallId": "p1", "toolName": "search", "result": [1]}
    await check_balanced([[made, {**result, "providerExecuted": True}, *LAST]])


async def test_a_result_without_a_call() -> None:
    """G-E: a result for a call the provider never told of."""
    result = {"type": "tool-result", "toolCallId": "p9", "toolName": "search", "result": [1]}
    await check_balanced([[{**result, "providerExecuted": True}, *LAST]])


@pytest.mark.parametrize("retry", [True, False])
async def test_a_call_that_breaks_off(retry: bool) -> None:
    """R-115, R-209: after a complete call and a half one."""
    half = [
        {"type": "tool-input-start", "id": "c8", "toolName": "echo"},
        {"type": "tool-input-delta", "id": "c8", "delta": '{"va'},
    ]
    broken = [*said("a"), call("echo", id="c7"), *half, ConnectionError("lost")]
    retrier = Hook("process_api_error", lambda args: {"retry": retry})
    await check_balanced([broken, LAST], processors=[retrier])
    await check_balanced([asked(CALLS[0]), broken, LAST], processors=[retrier])


HOOK_NAMES = [
    "process_input_step",
    "process_llm_request",
    "process_llm_response",
    "process_output_stream",
    "process_output_step",
    "process_tool_result",
    "process_output_result",
]


def nth_call(hook: str, nth: int, act: Any) -> Hook:
    """A processor that acts at the n-th call of one hook."""
    count = 0

    async def called(args: Any) -> Any:
        nonlocal count
        count += 1
        if count == nth:
            act(args)
        return args.part if hook == "process_output_stream" else None

    return Hook(hook, called)


def raises(args: Any) -> None:
    raise ValueError("boom")


def aborts(args: Any) -> None:
    args.abort("no")


def rejects(args: Any) -> None:
    args.abort("again", retry=True)


@pytest.mark.parametrize("nth", [1, 2, 5, 9])
@pytest.mark.parametrize("act", [raises, aborts, rejects])
@pytest.mark.parametrize("hook", HOOK_NAMES)
async def test_hooks_that_end_or_repeat_a_step(hook: str, act: Any, nth: int) -> None:
    """R-150, R-170, R-175, R-190: after verdicts, errors and repeated steps."""
    await check_balanced(
        [asked(CALLS[0], CALLS[1], call("echo", id="c9")), LAST],
        processors=[nth_call(hook, nth, act)],
        max_processor_retries=2,
    )


@pytest.mark.parametrize(
    ("way", "index"),
    # Nine chunks come before the tool that never ends; a signal does not end such a tool.
    [
        (way, index)
        for way in ("aclose", "signal", "cancel")
        for index in range(10 - (way == "signal"))
    ],
)
async def test_stopped_by_the_caller(way: str, index: int) -> None:
    """R-555 to R-559, G-C8, G-E8: what was delivered stays, and every call is closed."""
    forever, _ = lasting()
    controller = AbortController()

    async def leave(run: Any, model: PlayedModel) -> None:
        stream = run.full_stream
        for _ in range(index):
            await anext(stream, None)
        if way == "aclose":
            await run.aclose()
        elif way == "signal":
            controller.abort()
            await run.consume_stream()
        else:
            task = asyncio.create_task(run.consume_stream())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    calls = [call("echo", id="c1"), call("forever", id="c2"), call("echo", id="c3")]
    run = await check_balanced(
        [asked(*calls), LAST], leave, tools=[echo, fail, forever], abort_signal=controller.signal
    )
    assert run.status == "canceled"
    message = run.message_list.find(run.message_id)
    assert message is None or message.content.metadata["interrupted"] is True


async def test_hooks_that_answer_or_remove_calls() -> None:
    """README 7: a call removed in `process_output_step` is not run, nor is one answered there."""
    ran: list[str] = []

    @tool
    async def note(value: str = "") -> str:
        ran.append(value)
        return value

    def remove(args: Any) -> None:
        if args.step_number == 0:
            parts = args.message_list.response_messages()[-1].content.parts
            parts[:] = [p for p in parts if getattr(p, "type", "") != "tool-invocation"]

    await check_balanced(
        [asked(call("note", '{"value": "a"}', "c1")), LAST],
        processors=[Hook("process_output_step", remove)],
        tools=[note],
    )
    assert ran == []


async def test_ids_are_stable() -> None:
    """R-222, G-M2: one id for the answer, from the first chunk to storage."""
    run = await check_balanced([asked(CALLS[0]), LAST])
    chunks = [chunk async for chunk in run]
    ids = {c.payload.message_id for c in chunks if c.type in ("start", "step-start", "finish")}
    assert ids == {run.message_id} == {m.id for m in run.message_list.response_messages()}
