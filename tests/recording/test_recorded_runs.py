"""A run's recording, read back, is what happened: texts, steps, verdicts, times (X7)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from procession import AbortController, Agent, APICallError, processor, tool
from procession.recording import RecordedRun, Recorder
from procession.stores import SQLiteStore
from procession.testing import ScriptedModel, answer, tool_call
from procession.waiting import WaitingCalls
from tests.recording.kit import desk, outcomes, recorded, shout

if TYPE_CHECKING:
    from pathlib import Path


def politely_once(args: Any) -> None:
    """Reject the first attempt."""
    if args.retry_count == 0:
        args.abort("say it politely", retry=True)


async def test_a_run_with_a_tool_and_a_rejected_attempt_is_told_in_order(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    agent = desk(
        recorder,
        answer(tool_calls=[tool_call("weather", {"city": "Oslo"}, id="c1")]),
        "no",
        answer("It is ", "21"),
        output_processors=[
            processor(id="shout", process_output_stream=shout),
            processor(
                id="polite",
                process_output_step=lambda args: None if args.tool_calls else politely_once(args),
            ),
        ],
        max_processor_retries=1,
    )
    async with agent.stream("How warm is it?", run_id="r1") as stream:
        result = await stream.get_full_output()
    run = await recorded(recorder)
    assert (run.run_id, run.agent_id, run.status) == ("r1", "desk", "success")
    assert run.text == result.text == "IT IS 21"
    assert run.usage.total_tokens == result.usage.total_tokens
    assert [step["finishReason"] for step in run.steps] == ["tool-calls", "retry", "stop"]
    assert outcomes(run) == [
        ("shout", "process_output_stream", "ok"),
        ("polite", "process_output_step", "ok"),
        (None, "weather", "ok"),
        ("shout", "process_output_stream", "changed"),
        ("polite", "process_output_step", "retry"),
        ("shout", "process_output_stream", "changed"),
        ("polite", "process_output_step", "ok"),
    ]
    assert [event.step_number for event in run.events] == [0, 0, 0, 1, 1, 1, 1]
    assert [event.attempt for event in run.events] == [0, 0, 0, 0, 0, 1, 1]
    assert run.events[4].detail == {"reason": "say it politely"}
    assert run.events[5].changes[0].diff == [["-", 6], ["+", "IT IS "], ["=", "21"]]
    times = [event.at_ms for event in run.events]
    assert times == sorted(times)
    assert [(call.step_number, call.attempt) for call in run.calls] == [(0, 0), (1, 0), (1, 1)]
    assert [len(call.prompt) for call in run.calls] == [1, 3, 4]
    assert run.calls[1].prompt[2]["content"][0]["output"]["value"] == "21 degrees in Oslo"
    lanes = {lane["type"]: lane["cuts"] for lane in run.calls[2].delivered}
    assert [cut[1] for cut in lanes["text-delta"]] == [6, 2]
    called = run.parts[0].messages[0]["parts"][0]["toolInvocation"]
    assert called["result"] == "21 degrees in Oslo"


async def test_what_a_hook_changes_in_place_or_chooses_is_found(tmp_path: Path) -> None:
    def in_place(args: Any) -> None:
        args.messages[0].content.parts[0].text = "How warm is it in Oslo?"

    def no_tools(_args: Any) -> dict[str, Any]:
        return {"tool_choice": "none"}

    def same(args: Any) -> Any:
        return args.messages

    def first_person(args: Any) -> dict[str, Any]:
        return {"prompt": [{"role": "system", "content": "Be brief."}, *args.prompt]}

    recorder = Recorder(tmp_path)
    agent = desk(
        recorder,
        input_processors=[
            processor(id="in-place", process_input=in_place),
            processor(id="same", process_input=same),
            processor(id="choice", process_input_step=no_tools),
            processor(id="prompt", process_llm_request=first_person),
        ],
    )
    await agent.generate("How warm is it?", run_id="r1")
    run = await recorded(recorder)
    assert [(each[0], each[2]) for each in outcomes(run)] == [
        ("in-place", "changed"),
        ("same", "ok"),
        ("choice", "changed"),
        ("prompt", "changed"),
    ]
    assert run.events[0].changes[0].diff == [
        ["=", "How warm is "],
        ["-", 3],
        ["+", "it in Oslo?"],
    ]
    assert run.events[2].detail == {"set": ["tool_choice"]}
    (change,) = run.events[3].changes
    assert (change.role, change.diff) == ("system", [["+", "Be brief."]])


OUTCOMES = ("success", "tripwire-input", "tripwire-stream", "tripwire-step", "tripwire-result")
FAILURES = ("failed-hook", "failed-model", "canceled", "dropped")


def hooks_for(outcome: str, stop: AbortController) -> dict[str, Any]:
    """Processors by place, which bring a run to this outcome."""

    def act(place: str) -> Any:
        def hook(args: Any) -> Any:
            if outcome == f"tripwire-{place}":
                args.abort(f"no {place}")
            if outcome == "failed-hook" and place == "step":
                raise ValueError("out of order")
            if outcome == "canceled" and place == "stream" and args.part.type == "text-delta":
                stop.abort()
            return args.part if place == "stream" else None

        return hook

    return {
        "input_processors": [processor(id="guard", process_input=act("input"))],
        "output_processors": [
            processor(id="out-stream", process_output_stream=act("stream")),
            processor(id="out-step", process_output_step=act("step")),
            processor(id="out-result", process_output_result=act("result")),
        ],
    }


async def run_to(outcome: str, recorder: Recorder, *, streaming: bool) -> tuple[str, str]:
    """A run that comes to this outcome; its status and its text."""
    stop = AbortController()
    refused = APICallError("refused", status_code=400)
    said = refused if outcome == "failed-model" else answer("a", "b")
    agent = desk(recorder, said, **hooks_for(outcome, stop))
    options: Any = {"run_id": "r1", "abort_signal": stop.signal}
    if outcome == "dropped":
        async with agent.stream("hello", **options) as run:
            async for chunk in run:
                if chunk.type == "text-delta":
                    break
        return run.status, ""
    if streaming:
        run = await agent.stream("hello", **options)
        await run.consume_stream()
        return run.status, "" if run.error else await run.text
    try:
        result = await agent.generate("hello", **options)
    except (ValueError, APICallError):
        return "failed", ""
    status = "tripwire" if result.tripwire else "success"
    return "canceled" if outcome == "canceled" else status, result.text


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("outcome", [*OUTCOMES, *FAILURES])
async def test_every_outcome_is_recorded(tmp_path: Path, outcome: str, streaming: bool) -> None:
    recorder = Recorder(tmp_path)
    status, text = await run_to(outcome, recorder, streaming=streaming)
    run = await recorded(recorder)
    assert (
        run.status
        == status
        == {"failed-hook": "failed", "failed-model": "failed"}.get(
            outcome, "canceled" if outcome == "dropped" else outcome.partition("-")[0]
        )
    )
    if outcome not in ("canceled", "dropped"):
        assert run.text == text
    tripped = [event.processor_id for event in run.events if event.outcome == "tripped"]
    failed = [event.processor_id for event in run.events if event.outcome == "failed"]
    if status == "tripwire":
        place = outcome.partition("-")[2]
        assert tripped == [{"input": "guard"}.get(place, f"out-{place}")]
        assert run.tripwire == {"processorId": tripped[0], "reason": f"no {place}"}
    else:
        assert not tripped and run.tripwire is None
    assert failed == (["out-step"] if outcome == "failed-hook" else [])
    if outcome == "failed-hook":
        assert run.error == {"name": "ValueError"}
    if outcome == "failed-model":
        assert run.error == {"name": "APICallError", "statusCode": 400, "isRetryable": False}
        assert run.calls[0].error == run.error
    assert recorder._under_way == {}


PIECES = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=6)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(pieces=PIECES, raw=st.booleans(), rejects=st.integers(0, 2), blocks=st.booleans())
def test_a_recording_read_back_is_what_happened(
    tmp_path: Path, pieces: list[str], raw: bool, rejects: int, blocks: bool
) -> None:
    def judge(args: Any) -> None:
        if args.retry_count < rejects:
            args.abort("again", retry=True)
        if blocks:
            args.abort("never")

    async def check() -> None:
        recorder = Recorder(tmp_path, raw=raw)
        agent = desk(
            recorder,
            answer(*pieces),
            output_processors=[
                processor(id="shout", process_output_stream=shout),
                processor(id="judge", process_output_step=judge),
            ],
            max_processor_retries=2,
        )
        result = await agent.generate("hello")
        run = await recorder.runs.load(result.run_id)
        assert run.status == ("tripwire" if blocks else "success")
        assert run.text == result.text
        assert [s["finishReason"] for s in run.steps] == [s.finish_reason for s in result.steps]
        verdicts = [e.outcome for e in run.events if e.processor_id == "judge"]
        assert verdicts == ["retry"] * rejects + (["tripped"] if blocks else ["ok"])
        assert len(run.calls) == rejects + 1
        for call in run.calls:
            (cuts,) = [lane["cuts"] for lane in call.delivered if lane["type"] == "text-delta"]
            assert sum(cut[1] for cut in cuts) == len("".join(pieces).upper())
            said = [c for _, c in call.chunks or () if c["type"] == "text-delta"]
            assert "".join(c["payload"]["text"] for c in said) == ("".join(pieces) if raw else "")
        assert RecordedRun.from_json(run.to_json()) == run

    asyncio.run(check())


async def test_parts_of_a_run_that_waited_are_joined_by_its_id(tmp_path: Path) -> None:
    @tool(require_approval=True)
    def wipe() -> str:
        """Wipe it all."""
        return "wiped"

    waiting = WaitingCalls(store=SQLiteStore(tmp_path / "waiting.db"))
    recorder = Recorder(tmp_path / "runs")
    model = ScriptedModel([answer(tool_calls=[tool_call("wipe")]), "done"])

    def fresh() -> Agent:
        return Agent(id="desk", model=model, tools=[wipe], record=recorder, waiting_calls=waiting)

    await fresh().generate("wipe it", run_id="r1")
    assert (await recorded(recorder)).status == "suspended"
    await fresh().approve_tool_call_generate("r1")
    run = await recorded(recorder)
    assert [part.status for part in run.parts] == ["suspended", "success"]
    assert run.text == "done"
    assert [(e.name, e.outcome) for e in run.events] == [("wipe", "ok"), ("wipe", "ok")]
    assert [call.step_number for call in run.calls] == [0, 1]
