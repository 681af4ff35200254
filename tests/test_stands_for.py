"""What takes the place of several processors in a list: `stands_for` of the contract (R-024)."""

from __future__ import annotations

from typing import Any

import pytest

from procession import Agent, KindError, processor
from procession.processor import in_place
from procession.processors import TokenLimiter
from procession.testing import ScriptedModel
from tests.laws.kit import Tap


class Pair:
    """Stands for two processors."""

    id = "pair"

    def __init__(self, *processors: Any) -> None:
        self.processors = processors
        self.asked: set[str] = set()

    def stands_for(self, hook: str, /) -> Any:
        self.asked.add(hook)
        return self.processors


async def test_they_are_called_in_its_place() -> None:
    """In order, in every hook, as if they stood there."""
    ended: list[str] = []

    def pair(log: list[Any], stands: bool) -> list[Any]:
        inner = [Tap("a", log), Tap("b", log)]
        return [Tap("first", log), *([Pair(*inner)] if stands else inner), Tap("last", log)]

    logs: list[list[Any]] = [[], []]
    for log, stands in zip(logs, (True, False), strict=True):
        agent = Agent(
            id="x",
            model=ScriptedModel(["hi"]),
            input_processors=pair(log, stands),
            output_processors=pair(log, stands),
        )
        await agent.generate("x")
    assert logs[0] == logs[1]

    class Closer:
        id = "closer"

        def run_ended(self, ending: Any) -> None:
            ended.append(ending.status)

    closer = Closer()
    closing = Agent(id="x", model=ScriptedModel(["hi"]), input_processors=[Pair(closer)])
    await closing.generate("x")
    assert ended == ["success"]


def test_who_is_called_and_whether_for_another() -> None:
    one, two, alone = Tap("one"), Tap("two"), Tap("alone")
    pair = Pair(one, two)
    found = list(in_place([pair, alone], "process_input"))
    assert found == [(one, True), (two, True), (alone, False)]
    assert pair.asked == {"process_input"}


def test_it_is_no_error_processor() -> None:
    """W-007: a TypeError, and a mistake in the configuration."""
    with pytest.raises(KindError, match=r"error_processors\[0\] \('pair'\) is a Pair"):
        Agent(id="x", model=ScriptedModel(["hi"]), error_processors=[Pair()])  # type: ignore[list-item]
    assert issubclass(KindError, TypeError)


async def test_nothing_stands_there_without_being_told(caplog: pytest.LogCaptureFixture) -> None:
    """R-014: what does nothing in its list is told."""
    nothing = Pair(processor(id="out", process_output_step=lambda args: None))
    Agent(id="x", model=ScriptedModel(["hi"]), input_processors=[nothing])
    assert "'pair' (Pair) does nothing in input_processors" in caplog.text


async def test_the_request_stage_is_not_announced_within() -> None:
    """B-255: a token limiter trims the messages in the step then."""
    seen: list[tuple[str, bool]] = []

    def look(args: Any) -> None:
        seen.append((args.processor_id, args.llm_request_stage))

    def looking(id: str) -> Any:
        return processor(id=id, process_input_step=look)

    class Words:
        def count_message(self, message: Any) -> int:
            return len(str(message).split()) if isinstance(message, str) else 4

    limiter = TokenLimiter(limit=6, token_counter=Words())
    model = ScriptedModel(["hi"])
    agent = Agent(
        id="x",
        model=model,
        input_processors=[looking("before"), Pair(looking("within"), limiter), looking("after")],
    )
    await agent.generate(["one two three four", "five six"])
    assert seen == [("before", True), ("within", False), ("after", True)]
    assert model.calls[0].text == "five six"
