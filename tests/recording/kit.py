"""What the tests of recorded runs have in common: an agent, and its run read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from procession import Agent, tool
from procession.testing import ScriptedModel

if TYPE_CHECKING:
    from procession.recording import RecordedRun, Recorder


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


def shout(args: Any) -> Any:
    """Text in capitals."""
    if args.part.type != "text-delta":
        return args.part
    return args.with_text(args.part.payload.text.upper())


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
