"""`procession runs`: the terminal tells who changed or blocked an answer, and why."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from procession import Agent, processor, tool
from procession.cli.commands import app
from procession.recording import Recorder
from procession.stores import SQLiteStore
from procession.testing import ScriptedModel, answer, tool_call

if TYPE_CHECKING:
    from pathlib import Path


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


def shout(args: Any) -> Any:
    if args.part.type != "text-delta":
        return args.part
    return args.with_text(args.part.payload.text.upper())


def record(place: Any, run_id: str = "run-1", *guards: Any, **options: Any) -> None:
    agent = Agent(
        id="desk",
        model=ScriptedModel(
            [answer(tool_calls=[tool_call("weather", {"city": "Oslo"})]), "It is 21 in Oslo"]
        ),
        tools=[weather],
        output_processors=[processor(id="shout", process_output_stream=shout), *guards],
        record=Recorder(place, **options),
    )
    asyncio.run(agent.generate("How warm is it in Oslo?", run_id=run_id))


def procession(*arguments: str | Path, columns: int = 80) -> Result:
    runner = CliRunner(env={"COLUMNS": str(columns), "TERM": "dumb"})
    return runner.invoke(app, ["runs", *map(str, arguments)])


def refuse(args: Any) -> None:
    if not args.tool_calls:
        args.abort("the weather is not for sale")


def test_a_run_is_shown_with_each_hook_its_changes_and_its_times(tmp_path: Path) -> None:
    record(tmp_path)
    shown = procession("show", "run-1", tmp_path)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "run run-1"
    assert lines[1].startswith("success   agent desk   20")
    assert lines[2] == "asked      How warm is it in Oslo?"
    body = " ".join(shown.stdout.split())
    for said in (
        "model mock/mock-1 3 tokens in, 1 out",
        "shout process_output_stream ok",
        'tool weather({"city":"Oslo"}) = "21 degrees in Oslo"',
        "shout process_output_stream changed",
        "assistant text: [-6 characters-]{+IT IS +}21 [-7 characters-]{+IN OSLO+}",
        "IT IS 21 IN OSLO",
    ):
        assert said in body
    assert [line for line in lines if line.startswith("step")] == ["step 0", "step 1"]


def test_a_blocked_run_tells_who_blocked_it_where_and_why(tmp_path: Path) -> None:
    record(tmp_path, "run-1", processor(id="shopkeeper", process_output_step=refuse))
    lines = procession("show", "run-1", tmp_path).stdout.splitlines()
    assert lines[1].startswith("blocked ")
    assert lines[2] == "blocked by 'shopkeeper': the weather is not for sale"
    (place,) = [number for number, line in enumerate(lines) if "BLOCKED" in line]
    assert "shopkeeper  process_output_step  BLOCKED" in lines[place]
    assert lines[place + 1].strip() == "because: the weather is not for sale"


def test_retries_failures_and_unfinished_runs_are_told_as_such(tmp_path: Path) -> None:
    def again(args: Any) -> None:
        if args.retry_count == 0 and not args.tool_calls:
            args.abort("once more", retry=True)

    agent = Agent(
        id="desk",
        model=ScriptedModel(["one", "two"]),
        output_processors=[processor(id="twice", process_output_step=again)],
        max_processor_retries=1,
        record=Recorder(tmp_path),
    )
    asyncio.run(agent.generate("hello", run_id="retried"))
    shown = procession("show", "retried", tmp_path).stdout
    assert "twice  process_output_step  RETRY" in shown
    assert "\nstep 0, attempt 2\n" in shown

    def broken(_args: Any) -> None:
        raise LookupError("no such word")

    record_failing = processor(id="broken", process_output_result=broken)
    with pytest.raises(LookupError):
        record(tmp_path, "failed", record_failing)
    shown = procession("show", "failed", tmp_path).stdout
    assert "failed with LookupError\n" in shown
    assert "broken  process_output_result  FAILED" in shown
    assert "raised LookupError" in shown

    path = next(tmp_path.glob("retried*"))
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert "the process ended before the run did" in procession("show", path).stdout


def test_a_call_that_waits_is_told_as_such_and_what_follows_is_shown_below(tmp_path: Path) -> None:
    @tool(require_approval=True)
    def wipe(what: str) -> str:
        """Wipe it."""
        return f"wiped {what}"

    agent = Agent(
        id="desk",
        model=ScriptedModel([answer(tool_calls=[tool_call("wipe", {"what": "it"})]), "done"]),
        tools=[wipe],
        record=Recorder(tmp_path),
    )
    asyncio.run(agent.generate("wipe it", run_id="run-1"))
    assert "waits: somebody has to allow it" in procession("show", "run-1", tmp_path).stdout
    asyncio.run(agent.approve_tool_call_generate("run-1"))
    before, _, after = procession("show", "run-1", tmp_path).stdout.partition(
        "and on, after it had waited"
    )
    assert 'tool wipe({"what":"it"})\n' in before
    assert 'tool wipe({"what":"it"}) = "wiped it"\n' in after
    assert after.rstrip().endswith("done")


def test_raw_recordings_show_what_was_taken_out(tmp_path: Path) -> None:
    record(tmp_path, raw=True)
    shown = " ".join(procession("show", "run-1", tmp_path).stdout.split())
    assert "[-It is -]{+IT IS +}21 [-in Oslo-]{+IN OSLO+}" in shown


def test_runs_are_listed_and_found_by_how_their_id_begins(tmp_path: Path) -> None:
    record(tmp_path, "aaaaaaaa-1111-long-enough")
    record(tmp_path, "bbbbbbbb-2222-long-enough", processor(id="k", process_output_step=refuse))
    lines = procession(tmp_path).stdout.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["bbbbbbbb-2222", "aaaaaaaa-1111"]
    assert "blocked" in lines[0] and lines[0].endswith("desk  by k")
    assert max(map(len, lines)) <= 80
    assert procession("show", "aaaa", tmp_path).stdout.startswith("run aaaaaaaa-1111-long-enough")
    assert procession("list", tmp_path, "--status", "success").stdout.startswith("aaaa")
    assert "… 1 more" in procession("list", tmp_path, "--limit", "1").stdout
    listed = json.loads(procession("list", tmp_path, "--json").stdout)
    assert [each["runId"] for each in listed] == [
        "bbbbbbbb-2222-long-enough",
        "aaaaaaaa-1111-long-enough",
    ]
    assert procession("delete", "aaaa", tmp_path).stdout == "deleted aaaaaaaa-1111-long-enough\n"
    assert len(procession(tmp_path).stdout.splitlines()) == 3


def test_runs_in_the_folder_runs_need_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    missing = procession()
    assert missing.exit_code == 2
    assert "there is no folder 'runs'" in missing.stderr
    record("runs")
    assert procession().stdout.startswith("run-1 ")
    assert procession("show", "run-1").exit_code == 0


def test_a_run_is_shown_as_json(tmp_path: Path) -> None:
    record(tmp_path)
    shown = json.loads(procession("show", "run-1", tmp_path, "--json").stdout)
    assert shown["parts"][0]["text"] == "IT IS 21 IN OSLO"


def test_runs_in_a_store_are_read_by_its_address(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    record(store)
    asyncio.run(store.close())
    for place in (f"sqlite:{tmp_path / 'runs.db'}", f"{tmp_path / 'runs.db'}"):
        assert procession("show", "run-1", place).stdout.startswith("run run-1\n")
    missing = procession(f"sqlite:{tmp_path / 'other.db'}")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert not (tmp_path / "other.db").exists()


def test_ids_that_are_not_there_or_not_clear_are_one_line(tmp_path: Path) -> None:
    record(tmp_path, "a-1")
    record(tmp_path, "a-2")
    for id, said in (("b", "no recorded run 'b'"), ("a", "2 recorded runs begin with 'a'")):
        refused = procession("show", id, tmp_path)
        assert refused.exit_code == 1
        assert said in refused.stderr
        assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, columns: int) -> None:
    record(tmp_path, raw=True)
    for shown in (
        procession("show", "run-1", tmp_path, columns=columns),
        procession(tmp_path, columns=columns),
    ):
        assert max(map(len, shown.stdout.splitlines())) <= columns
