"""A recorder beside others: options, observers, policies, many runs, and what goes wrong."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent, ConfigurationError, processor
from procession.policy import Policy
from procession.recording import Recorder
from procession.stores import InMemoryStore
from procession.testing import RecordingObserver, ScriptedModel, answer, tool_call
from procession.tracing import InMemoryExporter, Tracing
from procession.workflows import ProcessorStepSchema, create_step, create_workflow
from tests.recording.kit import desk, outcomes, recorded, shout

if TYPE_CHECKING:
    from pathlib import Path


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
