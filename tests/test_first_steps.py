"""What a newcomer does first, and what they are told when it fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from procession import Agent, APICallError, ConfigurationError, processor, tool
from procession.entry_points import load_entry
from procession.testing import ScriptedModel, answer, tool_call


async def test_a_stream_is_read_without_awaiting_it() -> None:
    """R-536: `async for chunk in agent.stream(…)` opens the run, and closes it."""
    model = ScriptedModel("hello")
    kinds = [chunk.type async for chunk in Agent(id="a", model=model).stream("Hi")]
    assert kinds[0] == "start" and kinds[-1] == "finish"
    assert len(model.calls) == 1


def test_a_failed_run_is_not_silent_in_a_script() -> None:
    """R-552: the blocking stream raises behind its last chunk; there is no run to look at."""
    model = ScriptedModel([APICallError("no such model", status_code=404)])
    kinds: list[str] = []
    with pytest.raises(APICallError, match="no such model"):
        for chunk in Agent(id="a", model=model).stream_sync("Hi"):
            kinds.append(chunk.type)
    assert kinds[-1] == "finish" and "error" in kinds


def test_a_missing_extra_is_named() -> None:
    """Habit of errors: say what to install."""

    def load() -> Any:
        raise ModuleNotFoundError("No module named 'sdk'", name="sdk")

    with pytest.raises(ConfigurationError, match=r"pip install 'procession\[openai\]'"):
        brought_by = SimpleNamespace(name="procession", requires=["sdk>=1; extra == 'openai'"])
        load_entry(SimpleNamespace(name="openai", load=load, dist=brought_by))


async def test_an_exception_in_a_hook_says_where() -> None:
    """R-188, R-189: the original exception, with a note of processor and hook."""

    def broken(args: Any) -> None:
        raise ValueError("oops")

    for hook in ("process_output_stream", "process_output_step"):
        made = processor(id="broken", **{hook: broken})
        agent = Agent(id="a", model=ScriptedModel("x"), output_processors=[made])
        with pytest.raises(ValueError) as raised:
            await agent.generate("Hi")
        assert any("'broken'" in note and hook in note for note in raised.value.__notes__)


async def test_a_tool_that_raises_stop_iteration_is_an_error_like_any() -> None:
    """R-530: no future can carry a StopIteration; the model is told, the run goes on."""

    def first() -> str:
        return next(iter(()))

    model = ScriptedModel([answer(tool_calls=[tool_call("first")]), "done"])
    result = await Agent(id="a", model=model, tools=[tool(first)]).generate("Hi")
    assert result.text == "done"
    assert "StopIteration" in str(model.calls[1].prompt)
