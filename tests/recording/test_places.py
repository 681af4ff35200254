"""Where recordings are: written line by line, listed, read whatever is left of them, deleted."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from procession import Agent, InputError, processor, tool
from procession.recording import RecordedRun, RecordedRuns, Recorder
from procession.stores import InMemoryStore, SQLiteStore
from procession.testing import ScriptedModel, answer, tool_call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["folder", "memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "folder":
        yield tmp_path / "runs"
        return
    store = InMemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db")
    yield store
    asyncio.run(store.close())


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def an_agent(id: str, recorder: Recorder, *guards: Any) -> Agent:
    return Agent(
        id=id, model=ScriptedModel(["It is 21"]), output_processors=guards, record=recorder
    )


async def test_runs_are_listed_by_agent_status_and_time(place: Any) -> None:
    recorder = Recorder(place)
    guard = processor(id="guard", process_output_step=lambda args: args.abort("no"))
    await an_agent("desk", recorder).generate("hello", run_id="r1")
    await asyncio.sleep(0.002)
    await an_agent("shop", recorder, guard).generate("hello", run_id="r2")
    runs = recorder.runs

    async def ids(**filters: Any) -> list[str]:
        return [each.run_id for each in await runs.list(**filters)]

    assert await ids() == ["r2", "r1"]
    assert await ids(agent="desk") == ["r1"]
    assert await ids(status="tripwire") == ["r2"]
    second = (await runs.list())[0]
    assert second.tripwire == {"processorId": "guard", "reason": "no"}
    assert await ids(since=second.started_at) == ["r2"]
    assert await ids(until=second.started_at - timedelta(microseconds=1)) == ["r1"]


async def test_a_run_that_is_not_there_is_told(place: Any) -> None:
    runs = RecordedRuns(place)
    assert await runs.list() == []
    with pytest.raises(InputError, match="no recorded run 'r1'"):
        await runs.load("r1")
    assert not await runs.delete("r1")


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(id=st.text(min_size=1).filter(lambda id: id.encode("utf-8", "ignore").decode() == id))
def test_any_id_of_a_run_is_the_name_of_a_file(tmp_path: Path, id: str) -> None:
    async def check() -> None:
        recorder = Recorder(tmp_path / "runs")
        await an_agent("desk", recorder).generate("hello", run_id=id)
        assert (await recorder.runs.load(id)).run_id == id
        assert await recorder.runs.delete(id)

    if "\0" not in id:
        asyncio.run(check())
    assert {path.name for path in tmp_path.iterdir()} <= {"runs"}


CRASHES = """
import asyncio, os, sys
from procession import Agent, processor, tool
from procession.recording import Recorder
from procession.testing import ScriptedModel, answer, tool_call

@tool
def look_up():
    "Look it up."
    return "21"

def die(args):
    if args.step_number == 1:
        os._exit(9)

agent = Agent(
    id="desk",
    model=ScriptedModel([answer(tool_calls=[tool_call("look_up")]), "It is 21"]),
    tools=[look_up],
    input_processors=[processor(id="die", process_llm_request=die)],
    record=Recorder(sys.argv[1], raw=sys.argv[2] == "raw"),
)
asyncio.run(agent.generate("hello", run_id="r1"))
"""


@pytest.mark.parametrize("raw", [False, True])
def test_a_process_that_dies_leaves_what_had_happened(tmp_path: Path, raw: bool) -> None:
    mode = "raw" if raw else "plain"
    died = subprocess.run([sys.executable, "-c", CRASHES, str(tmp_path), mode], check=False)
    assert died.returncode == 9
    run = RecordedRun.load(only_file(tmp_path))
    assert run.status == "unfinished"
    assert [(e.name, e.outcome) for e in run.events] == [
        ("process_llm_request", "ok"),
        ("look_up", "ok"),
    ]
    assert len(run.calls) == (1 if raw else 0)
    (listed,) = asyncio.run(RecordedRuns(tmp_path).list())
    assert listed.status == "unfinished"


async def test_a_file_cut_off_anywhere_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    await an_agent("desk", recorder).generate("hello", run_id="r1")
    path = only_file(tmp_path)
    whole = path.read_bytes()
    first = whole.index(b"\n")
    for end in range(first, len(whole), 7):
        path.write_bytes(whole[:end])
        run = RecordedRun.load(path)
        assert run.status == ("success" if end >= len(whole) - 1 else "unfinished")
    path.write_bytes(whole[: first + 20])
    await recorder.runs.append("r1", lambda: [b'{"line":"end","part":"x"}'])
    assert path.read_bytes()[first + 20 :] == b'\n{"line":"end","part":"x"}\n'


async def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    await an_agent("desk", Recorder(tmp_path)).generate("hello")
    assert os.stat(only_file(tmp_path)).st_mode & 0o077 == 0


async def test_what_a_later_version_adds_survives_and_what_it_changes_is_refused(
    tmp_path: Path,
) -> None:
    recorder = Recorder(tmp_path)
    await an_agent("desk", recorder).generate("hello", run_id="r1")
    path = only_file(tmp_path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    part = lines[0]["part"]
    lines[-1]["mood"] = "good"
    lines.insert(1, {"line": "weather", "part": part, "is": "fine"})
    path.write_text("\n".join(map(json.dumps, lines)))
    run = RecordedRun.load(path)
    read = RecordedRun.from_json(run.to_json())
    assert read == run
    extra = read.parts[0].extra
    assert extra is not None and extra["mood"] == "good"
    assert extra["lines"] == [{"line": "weather", "part": part, "is": "fine"}]
    lines[0]["version"] = 2
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(InputError, match="recorded in form 2, and this version"):
        RecordedRun.load(path)
    assert await recorder.runs.list() == []


@pytest.mark.parametrize("held", [b"", b"hello\n", b"{}\n", b"[1]\n", b'{"line":"end"}\n'])
async def test_what_is_no_recorded_run_is_refused_and_passed_over(
    tmp_path: Path, held: bytes
) -> None:
    (tmp_path / "x.run.jsonl").write_bytes(held)
    with pytest.raises(InputError, match="no recorded run at"):
        RecordedRun.load(tmp_path / "x.run.jsonl")
    assert await RecordedRuns(tmp_path).list() == []
    with pytest.raises(InputError, match="No such file"):
        RecordedRun.load(tmp_path / "y.run.jsonl")


async def test_texts_and_recordings_have_bounds(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, max_text=100, max_bytes=3_000, raw=True)
    agent = Agent(id="desk", model=ScriptedModel([answer(*["word "] * 2_000)]), record=recorder)
    async with agent.stream("question " * 100, run_id="r1") as stream:
        await stream.consume_stream()
    run = await recorder.runs.load("r1")
    assert run.status == "success"
    assert run.parts[0].cut
    assert run.text == f"{'word ' * 20}… (9900 characters more)"
    assert run.calls == []
    assert only_file(tmp_path).stat().st_size < 3_500


async def test_a_long_loop_takes_as_much_per_step_at_its_end_as_at_its_beginning(
    tmp_path: Path,
) -> None:
    """Law 7: a prompt is written as what it adds."""

    @tool
    def look_up() -> str:
        """Look it up."""
        return "x" * 100

    sizes: list[int] = []
    for steps in (10, 40):
        recorder = Recorder(tmp_path / str(steps))
        calls = [answer(tool_calls=[tool_call("look_up")])] * steps
        agent = Agent(id="desk", model=ScriptedModel(calls), tools=[look_up], record=recorder)
        await agent.generate("hello", run_id="r1", max_steps=steps)
        sizes.append(next((tmp_path / str(steps)).iterdir()).stat().st_size)
        run = await recorder.runs.load("r1")
        assert len(run.calls[-1].prompt) == 2 * steps - 1
    assert sizes[1] < 4.5 * sizes[0]
