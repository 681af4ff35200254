"""Recorded runs."""

from datetime import datetime
from typing import Any, assert_type

from procession import Agent, LanguageModel
from procession.recording import (
    RecordedModelCall,
    RecordedRun,
    RecordedRuns,
    Recorder,
    RunEvent,
    RunSummary,
)
from procession.stores import InMemoryStore

recorder = Recorder("runs", raw=True, mask=str.upper, max_text=1_000)
Recorder(InMemoryStore())
Recorder(5)  # type: ignore[arg-type]
Recorder("runs", mask=len)  # type: ignore[arg-type]
agent = Agent(id="a", record=recorder)
Agent(id="a", record="runs")  # type: ignore[arg-type]


async def main() -> None:
    await agent.generate("Hello", record=None)
    await agent.approve_tool_call_generate("run", record=recorder)
    runs = RecordedRuns("runs")
    assert_type(await runs.list(agent="a", since=datetime.now()), list[RunSummary])
    run = await runs.load("run")
    assert_type(run, RecordedRun)
    assert_type(run.events, list[RunEvent])
    assert_type(run.calls, list[RecordedModelCall])
    assert_type(run.tripwire, dict[str, Any] | None)
    model: LanguageModel = run.model(strict=False)
    Agent(id="b", model=model)
