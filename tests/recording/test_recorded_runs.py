"""A run's recording, read back, is what happened: texts, steps, verdicts, times (X7)."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from procession import AbortController, Agent, APICallError, ConfigurationError, processor, tool
from procession.policy import Policy
from procession.recording import RecordedRun, Recorder
from procession.stores import InMemoryStore, SQLiteStore
from procession.testing import RecordingObserver, ScriptedModel, answer, tool_call
from procession.tracing import InMemoryExporter, Tracing
from procession.waiting import WaitingCalls
from procession.workflows import ProcessorStepSchema, create_step, create_workflow

if TYPE_CHECKING:
    from pathlib import Path


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


def shout(args: Any) -> Any:
    """Text in capitals."""
    if args.part.type != "text-delta":
        return args.part
    return args.with_text(args.part.payload.text.upper())


def politely_once(args: Any) -> None:
    """Reject the first attempt."""
    if args.retry_count == 0:
        args.abort("say it politely", retry=True)


def desk(recorder: Recorder, *answers: Any, **options: Any) -> Agent:
    return Agent(
        id="desk",
        model=ScriptedModel(answers or ["It is 21"]),
        record=recorder,
        **{"tools": [weather], **options},
    )


async def recorded(recorder: Recorder, run_id: str = "r1") -> RecordedRun:
    return await recorder.runs.load(run_id)


def outcomes(run: RecordedRun) -> list[tuple[str | None, str, str]]:
    return [(event.processor_id, event.name, event.outcome) for event in run.events]


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


async def test_record_in_a_call_goes_before_the_agents_and_none_switches_it_off(
    tmp_path: Path,
) -> None:
    own, other = Recorder(tmp_path / "own"), Recorder(tmp_path / "other")
    agent = desk(own)
    await agent.generate("hello", run_id="r1", record=other)
    await agent.generate("hello", run_id="r2", record=None)
    await asyncio.to_thread(agent.generate_sync, "hello", run_id="r3")
    assert [each.run_id for each in await own.runs.list()] == ["r3"]
    assert [each.run_id for each in await other.runs.list()] == ["r1"]


async def test_an_observer_hears_the_same_beside_a_recorder(tmp_path: Path) -> None:
    def told(observer: RecordingObserver) -> list[Any]:
        spans = [(s.kind, s.name, s.processor_id, s.outcome, s.count) for s in observer.spans]
        return [span for span in spans if not (span[2] or "").startswith("procession-recorder")]

    heard: list[list[Any]] = []
    for record in (None, Recorder(tmp_path)):
        observer = RecordingObserver()
        agent = Agent(
            id="desk",
            model=ScriptedModel([answer("a", "b")]),
            output_processors=[processor(id="shout", process_output_stream=shout)],
            observer=observer,
        )
        await agent.generate("hello", record=record)
        heard.append(told(observer))
    assert heard[0] == heard[1] != []


async def test_what_policies_did_is_recorded(tmp_path: Path) -> None:
    def broken(_args: Any) -> None:
        raise RuntimeError("no")

    recorder = Recorder(tmp_path)
    guard = processor(id="guard", process_output_step=broken, policy=Policy(on_error="allow"))
    watcher = processor(
        id="watcher",
        process_output_step=lambda args: args.abort("seen"),
        policy=Policy(observe=True),
    )
    await desk(recorder, output_processors=[guard, watcher]).generate("hello", run_id="r1")
    run = await recorded(recorder)
    policies = [(e.processor_id, e.outcome) for e in run.events if e.type == "policy"]
    assert policies == [("guard", "bypassed"), ("watcher", "observed")]
    assert [event["action"] for event in run.parts[0].policy_events] == ["bypassed", "observed"]


async def test_a_store_holds_runs_as_a_folder_does() -> None:
    recorder = Recorder(InMemoryStore())
    await desk(recorder).generate("hello", run_id="r1")
    run = await recorded(recorder)
    assert (run.status, run.text) == ("success", "It is 21")
    assert [each.run_id for each in await recorder.runs.list()] == ["r1"]
    assert await recorder.runs.delete("r1")
    assert not await recorder.runs.delete("r1")
    assert await recorder.runs.list() == []


async def test_recording_never_fails_a_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("a file, and no folder")
    result = await desk(Recorder(tmp_path / "taken")).generate("hello")
    assert result.text == "It is 21"
    assert "is not recorded any further: FileExistsError" in caplog.text


async def test_options_that_say_how_a_run_was_made_are_kept(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    await desk(recorder).generate(
        "hello",
        run_id="r1",
        max_steps=3,
        tool_choice="none",
        model_settings={"temperature": 0.5, "headers": {"authorization": "Bearer k"}},
    )
    run = await recorded(recorder)
    assert run.parts[0].options == {
        "max_steps": 3,
        "tool_choice": "none",
        "model_settings": {"temperature": 0.5},
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"raw": "yes"}, "raw must be"),
        ({"mask": "secrets"}, "mask must be"),
        ({"max_text": 0}, "max_text must be"),
        ({"max_bytes": True}, "max_bytes must be"),
        ({"maxtext": 5}, "did you mean 'max_text'"),
    ],
)
def test_wrong_options_are_told_when_the_recorder_is_made(options: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Recorder("runs", **options)


def test_a_place_and_a_recorder_are_checked() -> None:
    place: Any = 5
    with pytest.raises(ConfigurationError, match="a folder or a Store"):
        Recorder(place)
    with pytest.raises(ConfigurationError, match="record must be a Recorder"):
        Agent(id="desk", model=ScriptedModel(["a"]), record=place)


class Ended:
    """Tells that a run is over."""

    id = "ended"

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def run_ended(self, _ending: Any) -> None:
        self._event.set()


async def test_a_run_that_is_cancelled_or_dropped_unread_is_recorded(tmp_path: Path) -> None:
    hangs, ended = asyncio.Event(), asyncio.Event()

    async def hang(args: Any) -> Any:
        hangs.set()
        await asyncio.sleep(3600)
        return args.part

    recorder = Recorder(tmp_path)
    agent = desk(
        recorder,
        # Input processors are told of the end when all output processors have been.
        input_processors=[Ended(ended)],
        output_processors=[processor(id="slow", process_output_stream=hang)],
    )
    task = asyncio.create_task(agent.generate("hello", run_id="cancelled"))
    await hangs.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await recorded(recorder, "cancelled")).status == "canceled"

    ended.clear()
    run = await agent.stream("hello", run_id="unread")
    del run
    gc.collect()
    await ended.wait()
    assert (await recorded(recorder, "unread")).status == "canceled"
    assert recorder._under_way == {}


async def test_runs_at_the_same_time_are_told_apart(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    agent = Agent(
        id="desk",
        model=ScriptedModel([answer("a", "b")]),
        output_processors=[processor(id="shout", process_output_stream=shout)],
        record=recorder,
    )
    names = [f"r{number}" for number in range(20)]
    await asyncio.gather(*(agent.generate(f"I am {name}", run_id=name) for name in names))
    for name in names:
        run = await recorded(recorder, name)
        assert run.calls[0].prompt[0]["content"][0]["text"] == f"I am {name}"
        assert outcomes(run) == [("shout", "process_output_stream", "changed")]


async def test_a_run_that_is_not_recorded_has_nothing_of_it(tmp_path: Path) -> None:
    """No observer, no processor, no pipeline of its own."""
    seen: list[Any] = []
    recorder = Recorder(tmp_path)
    agent = desk(
        recorder,
        input_processors=[processor(id="look", process_input=lambda a: seen.append(a.run))],
    )
    await agent.generate("hello")
    await agent.generate("hello", record=None)
    on, off = seen
    assert on.observer is not None and on.pipeline is not agent.compiled
    assert off.observer is None and off.pipeline is agent.compiled


def test_a_run_without_an_event_loop_is_recorded(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    agent = desk(recorder)
    agent.generate_sync("hello", run_id="r1")
    list(agent.stream_sync("hello", run_id="r2"))
    for name in ("r1", "r2"):
        assert asyncio.run(recorded(recorder, name)).text == "It is 21"


async def test_what_cannot_be_noted_leaves_a_gap_and_the_run_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd:
        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            raise ArithmeticError("not to be compared")

    def odd(_args: Any) -> Any:
        return {"provider_options": {"mock": {"odd": Odd()}}}

    recorder = Recorder(tmp_path)
    agent = desk(
        recorder,
        input_processors=[processor(id=name, process_input_step=odd) for name in ("odd", "odder")],
    )
    result = await agent.generate("hello", run_id="r1", provider_options={"mock": {"odd": Odd()}})
    assert result.text == "It is 21"
    run = await recorded(recorder)
    assert (run.status, run.parts[0].cut) == ("success", True)
    assert caplog.text.count("the recording of run 'r1' is incomplete: ArithmeticError") == 1


async def test_half_characters_in_what_hooks_write_are_no_trouble(tmp_path: Path) -> None:
    def halved(args: Any) -> None:
        args.messages[0].content.parts[0].text = "half \ud83d"

    for raw in (True, False):
        recorder = Recorder(tmp_path, raw=raw)
        agent = desk(recorder, input_processors=[processor(id="halved", process_input=halved)])
        await agent.generate("whole", run_id=f"r{raw}")
        assert (await recorded(recorder, f"r{raw}")).events[0].outcome == "changed"


async def test_traces_are_the_same_beside_a_recorder(tmp_path: Path) -> None:
    names: list[list[str]] = []
    for record in (None, Recorder(tmp_path)):
        exporter = InMemoryExporter()
        async with Tracing([exporter]) as tracing:
            agent = desk(
                Recorder(tmp_path),
                answer(tool_calls=[tool_call("weather", {"city": "Oslo"})]),
                "It is 21",
                output_processors=[processor(id="shout", process_output_stream=shout)],
                observer=tracing,
            )
            await agent.generate("hello", record=record)
            await tracing.flush()
        spans = [each.name for each in exporter.spans if "procession-recorder" not in each.name]
        names.append(spans)
    assert sorted(names[0]) == sorted(names[1])
    assert "tool: 'weather'" in names[0]


@pytest.mark.parametrize("hook", ["process_input", "process_output_stream"])
async def test_processors_within_a_workflow_are_told_of_by_their_own_names(
    tmp_path: Path, hook: str
) -> None:
    def change(args: Any) -> Any:
        if hook == "process_output_stream":
            return shout(args)
        args.messages[0].content.parts[0].text = "HELLO"
        return args.messages

    steps = create_workflow(
        id="steps", input_schema=ProcessorStepSchema, output_schema=ProcessorStepSchema
    )
    one: dict[str, Any] = {hook: change}
    flow = steps.then(create_step(processor(id="loud", **one))).commit()
    recorder = Recorder(tmp_path)
    where = "input_processors" if hook == "process_input" else "output_processors"
    await desk(recorder, **{where: [flow]}).generate("hello", run_id="r1")
    run = await recorded(recorder)
    assert ("changed", "loud") in [(e.outcome, e.processor_id) for e in run.events]
