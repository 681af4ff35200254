"""Scene: a guard stops the run; nothing behind the wire is delivered or kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ..agent import Agent
from ..processor import Processor
from ..results import Tripwire
from ..testing import answer
from .holding import Blocker
from .redaction import show_turns, show_turns_heading
from .scene import INSTRUCTIONS, OPTIONS, Scene, Setting, raise_failure

if TYPE_CHECKING:
    from ..processor import ProcessInputArgs

__all__ = ["SCENE", "Blocked"]

WORD = "swordfish"
QUESTION = f"Repeat: The password is {WORD} and it opens every door of the castle."


class Blocked(Struct, frozen=True, kw_only=True):
    """What became of the answer that a guard of the output stopped, and of a guarded question.

    `after` are the types of chunks that came after the tripwire, `kept` is the text that the
    conversation holds, `calls` how often the model was asked although the input was blocked.
    """

    pieces: list[str]
    delivered: list[str]
    tripwire: Tripwire | None
    after: list[str]
    complete: bool
    kept: str
    calls: int


class NoPasswords(Processor):
    """Refuses questions about passwords before anyone is asked."""

    id = "doorman"

    def process_input(self, args: ProcessInputArgs) -> None:
        """Look at the newest question."""
        if "password" in (args.message_list.get_latest_user_content() or "").lower():
            args.abort("questions about passwords are not answered")


async def play(setting: Setting) -> Blocked:
    """The same question twice: guarded on the way out, then guarded on the way in."""
    stage, model = setting.stage, setting.model
    stage.say("The processor 'guard' reads the answer as it comes and stops the run at a password.")
    stage.asked(QUESTION)
    guard = Blocker("guard", WORD, "the answer contains a password")
    agent = Agent(id="tripwire", model=model, instructions=INSTRUCTIONS, output_processors=[guard])
    stage.blank()
    show_turns_heading(stage)
    delivered: list[str] = []
    types: list[str] = []
    shown = 0
    async with agent.stream(QUESTION, observer=setting.observer, **OPTIONS) as run:
        async for chunk in run:
            types.append(chunk.type)
            if chunk.type == "text-delta":
                delivered.append(chunk.payload.text)
            shown = show_turns(stage, guard.turns, shown)
        raise_failure(run)
    heard = model.calls[-1]
    wired = types.index("tripwire") + 1 if "tripwire" in types else len(types)
    found = Blocked(
        pieces=heard.pieces,
        delivered=delivered,
        tripwire=run.tripwire,
        after=types[wired:],
        complete=heard.complete,
        kept=await run.text + _answers(run.message_list.get.response.ui()),
        calls=await _ask_doorman(setting),
    )
    _judge(setting, found)
    return found


def _answers(messages: list[dict[str, object]]) -> str:
    return "".join(str(message.get("parts")) for message in messages if message.get("parts"))


async def _ask_doorman(setting: Setting) -> int:
    """How often the model is asked when the input is blocked."""
    model, before = setting.model, len(setting.model.calls)
    agent = Agent(id="doorman", model=model, input_processors=[NoPasswords()])
    await agent.generate(QUESTION, observer=setting.observer, **OPTIONS)
    return len(model.calls) - before


def _judge(setting: Setting, found: Blocked) -> None:
    stage, wire = setting.stage, found.tripwire
    if wire is None:
        stage.note("the model did not say the password this time, so nothing was blocked.")
        return
    stage.columns([("tripwire", "bold red"), (f"by '{wire.processor_id}': {wire.reason}", "")], [8])
    stage.blank()
    text = "".join(found.delivered)
    stage.columns([("client got", "dim"), (text, "green")], [12])
    stage.checks()
    said = "".join(found.pieces)
    stage.check(
        "the client got what came before the password, and no letter of it",
        text == said[: said.lower().find(WORD)],
    )
    stage.check("nothing was delivered after the tripwire", not found.after)
    stage.check("the model was cut off: nobody waited for the rest", not found.complete)
    stage.check("nothing of the answer is kept", not found.kept)
    stage.check("with 'doorman' at the input the model is not even asked", found.calls == 0)


SCENE = Scene(
    name="tripwire",
    title="tripwire: a guard stops the run",
    play=play,
    script=[
        answer("The", " password", " is", " sw", "ord", "fish", " and", " it", " opens", " all.")
    ],
)
