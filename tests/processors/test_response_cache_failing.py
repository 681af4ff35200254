"""`ResponseCache` passes a cache by that fails, hangs or gives something else (C-062 to C-064)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from procession import (
    tool,
)
from procession.testing import collect
from tests.processors.caching import (
    FailingCache,
    cached,
    loop_model,
)

DEEP: list[Any] = []
for _ in range(500):
    DEEP = [DEEP]

GARBAGE: list[Any] = [
    "text",
    7,
    [],
    {},
    {"chunks": "x"},
    {"chunks": None},
    {"chunks": [1]},
    {"chunks": [{"payload": {}}]},
    {"chunks": [{"type": 3, "payload": {}}]},
    {"chunks": []},
    {"chunks": [{"type": "text-delta", "payload": {"id": "t", "text": "half"}}]},
    {"chunks": [{"type": "text-delta", "payload": {"id": "t", "text": 5}}]},
    {"chunks": [{"type": "finish", "payload": "x"}]},
    {"chunks": [{"type": "finish", "payload": {"output": {"usage": {"inputTokens": "x"}}}}]},
    {"chunks": [{"type": "error", "payload": {"error": "x"}}, {"type": "finish", "payload": {}}]},
    {
        "chunks": [
            {
                "type": "tool-call",
                "payload": {"toolCallId": "c1", "toolName": "stock", "args": {}},
            },
            {"type": "finish", "payload": {"stepResult": {"reason": "tool-calls"}}},
        ],
        "toolResults": {"c1": DEEP},
    },
]


@pytest.mark.parametrize(
    "how", [*GARBAGE, OSError("down: secret"), "hangs"], ids=lambda how: repr(how)[:60]
)
async def test_a_cache_that_cannot_be_read_is_passed_by(
    how: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """C-062 to C-064: the model is asked, and the events say so; no error, no word of it."""
    agent = cached(cache=FailingCache("get", how), timeout=0.01)
    with caplog.at_level(logging.WARNING, "procession"):
        result = await agent.generate("go")
    assert result.text == "one" and result.error is None
    (event,) = result.policy_events
    assert (event.processor_id, event.hook) == ("response-cache", "process_llm_request")
    assert (event.action, event.kind) == ("bypassed", "error")
    assert event.error in ("InputError", "OSError", "TimeoutError")
    assert caplog.text.count("could not be read: the model is asked") == 1
    assert "secret" not in caplog.text


@pytest.mark.parametrize("how", [OSError("down"), "hangs"], ids=repr)
async def test_a_cache_that_cannot_be_written_is_passed_by(
    how: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """C-094: the run is what it was, and after the first failure no other write is tried."""

    @tool
    def stock(item: str) -> int:
        """How many are left."""
        return 3

    cache = FailingCache("set", how)
    agent = cached(loop_model(), cache, tools=[stock], timeout=0.01)
    with caplog.at_level(logging.WARNING, "procession"):
        run = await agent.stream("go")
        chunks = await collect(run.full_stream)
    assert await run.text == "done" and chunks[-1].type == "finish"
    assert cache.asked == 1
    (event,) = run.policy_events
    assert (event.hook, event.action, event.step_number) == ("run_ended", "bypassed", None)
    assert chunks[-1].payload.metadata["policyEvents"][0]["hook"] == "run_ended"
    assert caplog.text.count("could not be written") == 1


async def test_a_warning_is_given_once_a_run(caplog: pytest.LogCaptureFixture) -> None:
    """C-062: a loop of many steps does not fill the log, but every step is counted."""

    @tool
    def stock(item: str) -> int:
        """How many are left."""
        return 3

    agent = cached(loop_model(), FailingCache("get", OSError("x")), tools=[stock])
    with caplog.at_level(logging.WARNING, "procession"):
        result = await agent.generate("go")
    assert caplog.text.count("could not be read") == 1
    assert [event.step_number for event in result.policy_events] == [0, 1]


async def test_being_cancelled_while_the_cache_is_asked() -> None:
    """T: it is heard, and leaves nothing."""
    agent = cached(cache=FailingCache("get", "hangs"))
    before = asyncio.all_tasks()
    task = asyncio.create_task(agent.generate("go"))
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == before
