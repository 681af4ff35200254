"""Scene: an address that comes in pieces is taken out of the stream, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ..agent import Agent
from ..testing import answer
from .holding import Redactor
from .scene import INSTRUCTIONS, OPTIONS, Scene, Setting, raise_failure
from .stage import quoted

if TYPE_CHECKING:
    from .holding import Turn
    from .stage import Stage

__all__ = ["SCENE", "Redacted", "show_turns"]

ADDRESS = "anna.berg@example.com"
LABEL = "[e-mail]"
QUESTION = f"Repeat: The address of Anna Berg is {ADDRESS} and she answers every letter."
WIDTHS = [13, 24]


class Redacted(Struct, frozen=True):
    """Pieces the model sent, deltas the client got, and the text that is kept of the answer."""

    pieces: list[str]
    delivered: list[str]
    kept: str


async def play(setting: Setting) -> Redacted:
    """Ask for a sentence with the address in it, and watch the address not arrive."""
    stage, model = setting.stage, setting.model
    stage.say(
        f"The processor 'redact' must not let {ADDRESS} out. The model sends it in pieces, so what "
        "may still become the address is held back until the next piece has decided."
    )
    stage.asked(QUESTION)
    redact = Redactor("redact", ADDRESS, LABEL)
    agent = Agent(
        id="redaction", model=model, instructions=INSTRUCTIONS, output_processors=[redact]
    )
    stage.blank()
    show_turns_heading(stage)
    delivered: list[str] = []
    shown = 0
    async with agent.stream(QUESTION, observer=setting.observer, **OPTIONS) as run:
        async for chunk in run:
            if chunk.type == "text-delta":
                delivered.append(chunk.payload.text)
            shown = show_turns(stage, redact.turns, shown)
        raise_failure(run)
        kept = await run.text
    found = Redacted(model.calls[-1].pieces, delivered, kept)
    _judge(stage, found)
    return found


def show_turns_heading(stage: Stage) -> None:
    """The names of the columns."""
    head = ["the model sent", "held back", "let through"]
    stage.columns([(text, "dim") for text in head], [WIDTHS[0] + 1, WIDTHS[1]])


def show_turns(stage: Stage, turns: list[Turn], shown: int) -> int:
    """Show the turns that have come since; returns how many are shown now."""
    for turn in turns[shown:]:
        cells = [(quoted(turn.came), "cyan"), (quoted(turn.held), "yellow")]
        stage.columns([*cells, (quoted(turn.passed), "green")], [WIDTHS[0] + 1, WIDTHS[1]])
    return len(turns)


def _judge(stage: Stage, found: Redacted) -> None:
    said, got = "".join(found.pieces), "".join(found.delivered)
    stage.blank()
    stage.columns([("model said", "dim"), (said, "cyan")], [12])
    stage.columns([("client got", "dim"), (got, "green")], [12])
    if ADDRESS not in said.lower():
        stage.note("the model did not say the address this time, so nothing had to be held back.")
        return
    stage.checks()
    cut = not any(ADDRESS in piece.lower() for piece in found.pieces)
    stage.check(
        "the model said the address" + (", cut into pieces" if cut else " in one piece"), True
    )
    stage.check("no part of it reached the client", _clean(got))
    stage.check("the text that is kept is the text that was delivered", found.kept == got)


def _clean(text: str) -> bool:
    """Whether nothing of the address is there but words it shares with the sentence."""
    parts = (ADDRESS, ADDRESS.partition("@")[0], ADDRESS.partition("@")[2])
    return not any(part in text.lower() for part in parts)


SCENE = Scene(
    name="redaction",
    title="redaction: an address that arrives in pieces",
    play=play,
    script=[
        answer(
            *("The", " address", " of", " Anna", " Berg", " is", " an", "na.b", "erg", "@exam"),
            *("ple.", "com", " and", " she", " answers", " every", " letter", "."),
        )
    ],
)
