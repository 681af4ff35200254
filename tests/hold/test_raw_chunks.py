"""Raw chunks hold what a provider sent: with guards that is told, once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from procession import Agent, processor
from procession.hold import Literals
from tests.laws.kit import PlayedModel, end, said

if TYPE_CHECKING:
    import pytest

RAW: Any = {"type": "raw", "rawValue": {"text": "secret"}}


def guard(id: str) -> Any:
    def hide(args: Any) -> Any:
        if args.piece is None:
            return args.part
        return args.with_text(args.piece.text.replace("secret", "***"))

    return processor(id=id, process_output_stream=hide, watches=Literals("secret"))


def dropping() -> Any:
    def drop(args: Any) -> Any:
        return None if args.part.type == "raw" else args.part

    return processor(id="no-raw", process_output_stream=drop)


async def told(
    caplog: pytest.LogCaptureFixture, *processors: Any, raw: bool = True
) -> tuple[list[str], list[Any]]:
    caplog.clear()
    model = PlayedModel([[RAW, *said("a secret"), end()]])
    agent = Agent(id="a", model=model, output_processors=processors)
    with caplog.at_level(logging.WARNING, "procession"):
        run = await agent.stream("go", include_raw_chunks=raw)
        chunks = [chunk async for chunk in run]
    return [record.getMessage() for record in caplog.records], chunks


async def test_raw_chunks_beside_a_guard_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """G-A: nobody learns from a leak that the two do not go together."""
    messages, chunks = await told(caplog, guard("raw-1"))
    assert any(chunk.type == "raw" for chunk in chunks)
    (message,) = messages
    assert "include_raw_chunks" in message and "raw-1" in message
    assert (await told(caplog, guard("raw-1")))[0] == []
    assert len((await told(caplog, guard("raw-1"), guard("raw-2")))[0]) == 1


async def test_nobody_is_warned_without_reason(caplog: pytest.LogCaptureFixture) -> None:
    assert (await told(caplog, guard("raw-3"), raw=False))[0] == []
    assert (await told(caplog, dropping()))[0] == []
    assert (await told(caplog))[0] == []


async def test_a_hook_may_drop_them(caplog: pytest.LogCaptureFixture) -> None:
    """What docs/hold.md says to do about it."""
    _, chunks = await told(caplog, guard("raw-4"), dropping())
    assert "secret" not in str([chunk.to_json() for chunk in chunks])
