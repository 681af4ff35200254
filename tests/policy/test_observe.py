"""An observed processor changes nothing, and all that it would have done is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from procession import Breaker, Policy
from procession.hold import Literals
from procession.messages import TextPart
from procession.processor import HOOKS
from tests.laws.checks import REFUSED, TWO_STEPS, WAYS
from tests.laws.kit import METADATA, Hook, PlayedModel, Tap, agent_with, end, others_done, said
from tests.policy.kit import FAILURES, KINDS, NO_WRONG, PATIENT, Shaky, trace
from tests.policy.test_table import CASES, answers_for

OBSERVE = Policy(observe=True)


def observed(hook: str, function: Any, policy: Policy = OBSERVE) -> Any:
    made: Any = Hook(hook, function, "watched")
    made.policy = policy
    return made


async def told(answers: Any, processor: Any, **options: Any) -> list[Any]:
    """The events of a run with an observed processor, once it is found to be as one without."""
    taps = [Tap("b"), Tap("a")]
    expected = await trace(answers, *taps, **options)
    before = [tap.log.copy() for tap in taps]
    for tap in taps:
        tap.log.clear()
    assert await trace(answers, taps[0], processor, taps[1], **options) == expected
    assert [tap.log for tap in taps] == before
    run = await agent_with(PlayedModel(answers), processor).stream("go", **options)
    await run.consume_stream()
    assert {event.action for event in run.policy_events} <= {"observed"}
    return run.policy_events


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(("hook", "failure"), CASES)
async def test_failures(hook: str, failure: str, plain: bool) -> None:
    """Failures are open, whatever `on_error` says; that is told."""
    before = set(asyncio.all_tasks())
    policy = Policy(observe=True, timeout=PATIENT)
    shaky = Shaky(hook, failure, policy, plain=plain)
    events = await told(answers_for(hook), shaky, max_processor_retries=2)
    kind, error = KINDS[failure]
    assert {(e.kind, e.would, e.error) for e in events} == {(kind, "block", error)}
    await others_done(before)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("hook", HOOKS)
async def test_verdicts(hook: str, way: str) -> None:
    """R-184: an observed verdict is no abort: it is told as an event, and to nobody else."""
    heard: list[Any] = []

    async def judge(args: Any) -> Any:
        made = WAYS[way](args)
        if made is not None:
            await made
        return getattr(args, "part", None)

    processor = observed(hook, judge)
    processor.on_violation = heard.append
    events = await told(answers_for(hook), processor, max_processor_retries=2)
    assert {(e.kind, e.would) for e in events} == {("finding", "block")}
    assert not heard


async def test_retry() -> None:
    events = await told(
        TWO_STEPS,
        observed("process_output_step", lambda args: args.abort("no", retry=True)),
        max_processor_retries=2,
    )
    assert [(e.would, e.step_number) for e in events] == [("retry", 0), ("retry", 1)]
    events = await told(
        REFUSED,
        observed("process_api_error", lambda args: {"retry": True}),
        max_processor_retries=2,
    )
    assert [e.would for e in events] == ["retry"]


def _edit(args: Any) -> None:
    for message in args.messages:
        for part in message.content.parts:
            if isinstance(part, TextPart):
                part.text = "CHANGED"


def _add(args: Any) -> Any:
    args.message_list.add("more", "input")
    return args.message_list


CHANGES: dict[str, Any] = {
    "edit": _edit,
    "add": _add,
    "return": lambda args: [*args.messages, {"role": "user", "content": "more"}],
    "system": lambda args: args.message_list.add_system("more") and None,
    "context": lambda args: args.request_context.set("k", 1) or _edit(args),
}
MESSAGE_HOOKS = [
    "process_input",
    "process_input_step",
    "process_output_step",
    "process_tool_result",
    "process_output_result",
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("hook", MESSAGE_HOOKS)
async def test_changes_of_messages(hook: str, change: str) -> None:
    """What the hook does to its messages, nobody else sees; its state is its own."""
    states: list[Any] = []

    def hooked(args: Any) -> Any:
        args.state["seen"] = args.state.get("seen", 0) + 1
        states.append(dict(args.state))
        return CHANGES[change](args)

    events = await told(TWO_STEPS, observed(hook, hooked))
    assert {e.would for e in events} == {"change"}
    assert max(state["seen"] for state in states) == sum(e.count for e in events)


@pytest.mark.parametrize("hook", MESSAGE_HOOKS)
async def test_no_change(hook: str) -> None:
    """What reads only, or returns what it was given, would have done nothing."""
    assert not await told(TWO_STEPS, observed(hook, lambda args: args.messages))
    assert not await told(TWO_STEPS, observed(hook, lambda args: args.message_list))


@pytest.mark.parametrize(
    ("hook", "returned", "would"),
    [
        ("process_input_step", {"tool_choice": "none"}, "change"),
        ("process_input_step", {"tool_choice": "auto"}, None),
        ("process_llm_request", {"prompt": []}, None),
        ("process_llm_request", {"prompt": [{"role": "user", "content": "x"}]}, "change"),
        ("process_llm_request", {"response": {"chunks": []}}, "respond"),
        ("process_llm_response", 1, None),
        ("process_api_error", {"retry": False}, None),
    ],
)
async def test_other_returns(hook: str, returned: Any, would: str | None) -> None:
    events = await told(answers_for(hook), observed(hook, lambda args: returned))
    assert {e.would for e in events} == ({would} if would else set())


async def test_arguments_are_copies() -> None:
    """In-place edits of arguments reach nobody."""

    def edit(args: Any) -> None:
        args.tools.clear()
        args.steps.append(1)
        args.model_settings["temperature"] = 2

    events = await told(TWO_STEPS, observed("process_input_step", edit))
    assert {e.would for e in events} == {"change"}

    def result(args: Any) -> None:
        args.steps[-1].tool_calls.clear()
        args.args["value"] = "other"

    assert not await told(TWO_STEPS, observed("process_tool_result", result))


def _upper(part: Any) -> Any:
    part.payload.text = part.payload.text.upper()
    return part


STREAM: dict[str, tuple[Any, str | None]] = {
    "pass": (lambda part: part, None),
    "drop": (lambda part: None, "drop"),
    "in-place": (_upper, "change"),
    "another": (lambda part: _upper(part.replace(payload=part.payload.replace())), "change"),
    "several": (lambda part: [part.replace(), part], "change"),
    "copy": (lambda part: part.replace(), None),
}


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("way", STREAM)
async def test_chunks(way: str, is_async: bool) -> None:
    change, would = STREAM[way]

    def plain(args: Any) -> Any:
        return change(args.part) if args.part.type == "text-delta" else args.part

    async def awaited(args: Any) -> Any:
        return plain(args)

    events = await told(
        TWO_STEPS, observed("process_output_stream", awaited if is_async else plain)
    )
    found = [(e.would, e.step_number, e.count) for e in events]
    assert found == ([(would, 0, 2), (would, 1, 2)] if would else [])


@pytest.mark.parametrize("hook", [h for h in HOOKS if h != "process_input"])
async def test_what_is_written(hook: str) -> None:
    """Chunks and signals go nowhere; one of a wrong type raises as ever."""

    async def writes(args: Any) -> Any:
        await args.writer.custom({"type": "data-x", "data": 1})
        await args.send_signal({"type": "reactive", "contents": "listen"})
        return getattr(args, "part", None)

    events = await told(answers_for(hook), observed(hook, writes))
    assert {e.would for e in events} == {"write", "signal"}

    async def wrong(args: Any) -> Any:
        await args.writer.custom({"type": "text-delta"})

    events = await told(answers_for(hook), observed(hook, wrong))
    assert {(e.would, e.error) for e in events} == {("block", "InputError")}


@pytest.mark.parametrize("is_async", [False, True])
async def test_held_back_for_show(is_async: bool) -> None:
    """Law 3: an observed guard finds what is cut apart, and the cutting stays what it was."""
    pieces: list[str] = []

    def plain(args: Any) -> Any:
        if args.piece is None:
            return args.part
        pieces.append(args.piece.text)
        return args.with_text(args.piece.text.replace("secret", "***"))

    async def awaited(args: Any) -> Any:
        return plain(args)

    guard = observed("process_output_stream", awaited if is_async else plain)
    guard.watches, guard.lanes = Literals("secret"), ["text"]
    events = await told([[METADATA, *said("a se", "cr", "et b", "sec"), end()]], guard)
    assert [(e.would, e.count) for e in events] == [("change", 1)]
    assert any("secret" in piece for piece in pieces) and pieces[-1].endswith("sec")
    guard.process_output_stream = lambda args: args.abort("no")
    events = await told([[METADATA, *said("a se", "cr", "et b"), end()]], guard)
    assert {e.would for e in events} == {"block"}


async def test_flush_of_observed() -> None:
    """What a hook keeps has left long before it lets go of it."""

    def keep(args: Any) -> Any:
        if args.part.type == "text-delta":
            args.state["kept"] = args.part
            return None
        return args.part

    guard = observed("process_output_stream", keep)
    guard.flush = lambda state: state.pop("kept", None)
    assert {e.would for e in await told(TWO_STEPS, guard)} == {"drop"}


async def test_breaker() -> None:
    """A watched processor that keeps failing is left alone as well."""
    policy = Policy(observe=True, breaker=Breaker(failures=2, seconds=60))
    shaky = Shaky("process_output_stream", "error", policy)
    run = await agent_with(PlayedModel(TWO_STEPS), shaky).stream("go")
    await run.consume_stream()
    assert shaky.calls == 2 and run.status == "success"
    assert {e.kind for e in run.policy_events} == {"error", "circuit-open"}


def test_cases_are_complete() -> None:
    assert {failure for _, failure in CASES} == set(FAILURES) and NO_WRONG < set(HOOKS)
