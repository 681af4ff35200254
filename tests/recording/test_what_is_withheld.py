"""Nothing that a guard took out or blocked is in a recording, nor the words of errors (G-W)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent, APICallError, ModelError, processor, tool
from procession.processors import PIIDetector
from procession.recording import Recorder
from procession.testing import ScriptedModel, answer, tool_call

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECRET = "4111-1111-1111-1111"
SAID = f"the card {SECRET} is hers"


def clean(text: str) -> str:
    return text.replace(SECRET, "[CARD]")


def in_messages(args: Any) -> None:
    """Edit what stands in the messages, calls of tools included."""
    for message in args.message_list.get.all.db():
        for part in message.content.parts:
            if part.type == "text":
                part.text = clean(part.text)
            elif part.type == "reasoning":
                part.reasoning = clean(part.reasoning)
                part.details = []
            elif part.type == "tool-invocation" and isinstance(part.tool_invocation.result, str):
                part.tool_invocation.result = clean(part.tool_invocation.result)


def in_prompt(args: Any) -> dict[str, Any]:
    for entry in args.prompt:
        for part in entry["content"] if isinstance(entry["content"], list) else ():
            if "text" in part:
                part["text"] = clean(part["text"])
    return {"prompt": args.prompt}


def in_chunk(args: Any) -> Any:
    if args.part.type == "text-delta" and SECRET in args.part.payload.text:
        return args.with_text(clean(args.part.payload.text))
    return args.part


def dropped(args: Any) -> Any:
    is_secret = args.part.type == "text-delta" and SECRET in args.part.payload.text
    return None if is_secret else args.part


def in_result(args: Any) -> None:
    args.message_list.update_tool_invocation(
        {"toolInvocation": {"toolCallId": args.tool_call_id, "result": clean(args.result)}}
    )


def blocked(args: Any) -> Any:
    part: Any = getattr(args, "part", None)
    if part is None:
        return args.abort("not allowed")
    if part.type == "text-delta" and SECRET in part.payload.text:
        args.abort("not allowed")
    return part


def raised(args: Any) -> Any:
    part = getattr(args, "part", None)
    if part is None or part.type == "text-delta":
        raise ValueError(f"out of order: {SAID}")
    return part


def rejected(args: Any) -> None:
    if args.retry_count == 0:
        args.abort("again", retry=True)


@tool
def look_up() -> str:
    """Look it up."""
    return SAID


@tool
def fail() -> str:
    """Fail."""
    raise RuntimeError(SAID)


WHERE = {
    "process_input": "asked",
    "process_input_step": "asked",
    "process_llm_request": "asked",
    "process_output_stream": "answered",
    "process_llm_response": "answered",
    "process_output_step": "answered",
    "process_tool_result": "looked up",
    "process_output_result": "answered",
}
CASES: list[tuple[str, Callable[[Any], Any]]] = [
    ("process_input", in_messages),
    ("process_input_step", in_messages),
    ("process_llm_request", in_prompt),
    ("process_output_stream", in_chunk),
    ("process_output_stream", dropped),
    ("process_output_step", in_messages),
    ("process_output_step", rejected),
    ("process_tool_result", in_result),
    ("process_output_result", in_messages),
    *[(hook, blocked) for hook in WHERE],
    *[(hook, raised) for hook in WHERE],
]
INPUTS = ("process_input", "process_input_step", "process_llm_request", "process_llm_response")


def held(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.iterdir())


async def run_with(folder: Path, hook: str, guard: Any, **options: Any) -> str:
    """The recording of a run in which the secret stands where this hook sees it."""
    where = WHERE[hook]
    last = answer("well ", "fine") if guard is rejected or where != "answered" else None
    first: Any = answer("so: ", SAID, " yes")
    if where == "looked up":
        first = answer(tool_calls=[tool_call("look_up")])
    elif where == "asked":
        first = answer("well ", "fine")
    before = processor(
        id="before",
        process_output_stream=lambda args: (
            args.with_text(args.part.payload.text.replace("card", "CARD no."))
            if args.part.type == "text-delta"
            else args.part
        ),
    )
    guards = [processor(id="guard", **{hook: guard})]
    agent = Agent(
        id="desk",
        model=ScriptedModel([first] if last is None else [first, last]),
        tools=[look_up],
        input_processors=guards if hook in INPUTS else (),
        output_processors=[before, *(() if hook in INPUTS else guards)],
        max_processor_retries=1,
        record=Recorder(folder, **options),
    )
    with suppress(ValueError):
        run = await agent.stream(SAID if where == "asked" else "hello", run_id="r1")
        await run.consume_stream()
    return held(folder)


@pytest.mark.parametrize(("hook", "guard"), CASES)
async def test_what_a_guard_took_out_or_blocked_is_not_in_a_recording(
    tmp_path: Path, hook: str, guard: Any
) -> None:
    recording = await run_with(tmp_path, hook, guard)
    assert '"processorId":"guard"' in recording
    for word in (SECRET, "4111", "1111"):
        assert word not in recording


@pytest.mark.parametrize(("hook", "guard"), CASES)
async def test_raw_recordings_hold_it(tmp_path: Path, hook: str, guard: Any) -> None:
    """So the test above looks where the secret is."""
    assert SECRET in await run_with(tmp_path, hook, guard, raw=True)


@pytest.mark.parametrize(("hook", "guard"), CASES)
async def test_a_mask_goes_before_everything_in_raw_recordings(
    tmp_path: Path, hook: str, guard: Any
) -> None:
    recording = await run_with(tmp_path, hook, guard, raw=True, mask=clean)
    assert "[CARD]" in recording
    assert SECRET not in recording


async def test_a_mask_sees_blocks_of_the_model_as_wholes(tmp_path: Path) -> None:
    """Law 3: where a provider cuts its text does not matter."""
    recorder = Recorder(tmp_path, raw=True, mask=clean)
    agent = Agent(id="desk", model=ScriptedModel([answer(*SAID)]), record=recorder)
    async with agent.stream("hello", run_id="r1") as stream:
        await stream.consume_stream()
    run = await recorder.runs.load("r1")
    chunks = run.calls[0].chunks or []
    pieces = [c["payload"]["text"] for _, c in chunks if c["type"] == "text-delta"]
    assert "".join(pieces) == clean(SAID)
    assert len(pieces) == len(SAID)


@pytest.mark.parametrize("mask", [lambda _text: 5, lambda _text: 1 / 0])
async def test_a_mask_that_fails_leaves_a_note_and_no_text(tmp_path: Path, mask: Any) -> None:
    agent = Agent(
        id="desk", model=ScriptedModel([SAID]), record=Recorder(tmp_path, raw=True, mask=mask)
    )
    await agent.generate(SAID)
    recording = held(tmp_path)
    assert SECRET not in recording
    assert "(the mask " in recording


@pytest.mark.parametrize("fails", ["tool", "model"])
async def test_the_words_of_errors_are_not_recorded(tmp_path: Path, fails: str) -> None:
    first: Any = answer(tool_calls=[tool_call("fail")]) if fails == "tool" else ModelError(SAID)
    agent = Agent(
        id="desk",
        model=ScriptedModel([first, "sorry"]),
        tools=[fail],
        record=Recorder(tmp_path),
    )
    run = await agent.stream("hello", max_steps=1)
    await run.consume_stream()
    recording = held(tmp_path)
    assert SECRET not in recording
    assert ("RuntimeError" if fails == "tool" else "ModelError") in recording


async def test_a_verdict_is_told_with_its_reason_and_names_alone(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    agent = Agent(
        id="desk",
        model=ScriptedModel(["write to ann@example.com"]),
        output_processors=[PIIDetector(strategy="block")],
        record=recorder,
    )
    await agent.generate("hello", run_id="r1")
    run = await recorder.runs.load("r1")
    assert run.tripwire == {
        "processorId": "pii-detector",
        "reason": "Personal data found: email",
        "metadata": {"strategy": "block", "types": ["email"]},
    }
    assert "ann@example.com" not in held(tmp_path)


async def test_a_blocked_answer_is_not_in_the_prompts_of_its_later_steps(tmp_path: Path) -> None:
    agent = Agent(
        id="desk",
        model=ScriptedModel([answer(SAID, tool_calls=[tool_call("look_up")]), "well"]),
        tools=[look_up],
        output_processors=[processor(id="guard", process_output_result=blocked)],
        record=Recorder(tmp_path),
    )
    await agent.generate("hello")
    recording = held(tmp_path)
    assert '"withheld"' in recording
    assert '"toolName":"look_up"' in recording
    assert SECRET not in recording


async def test_the_words_of_an_error_that_was_got_over_are_not_recorded(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    busy = APICallError(SAID, status_code=503, is_retryable=True)
    agent = Agent(id="desk", model=ScriptedModel([busy, "fine"]), max_retries=1, record=recorder)
    await agent.generate("hello", run_id="r1")
    run = await recorder.runs.load("r1")
    assert run.calls[0].error == {"name": "APICallError", "statusCode": 503, "isRetryable": True}
    assert SECRET not in held(tmp_path)
