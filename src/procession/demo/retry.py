"""Scene: an answer is rejected, the model is told why, and its second answer is accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ..agent import Agent
from ..processor import Processor
from ..testing import answer
from .scene import INSTRUCTIONS, OPTIONS, Scene, Setting, raise_failure

if TYPE_CHECKING:
    from ..chunks import FinishPayload, Usage
    from ..processor import ProcessOutputStepArgs
    from ..results import StepResult
    from .stage import LiveText, Stage

__all__ = ["SCENE", "Retried"]

QUESTION = "Where is the Eiffel Tower?"
FEEDBACK = "Too long: answer with the name of the city only."
MOST_WORDS = 10


class Retried(Struct, frozen=True, kw_only=True):
    """The attempts in time, the run's text and usage, and all that the last call was sent."""

    attempts: list[StepResult]
    text: str
    usage: Usage
    sent: str


class Brevity(Processor):
    """Rejects an answer of more than so many words; the reason is the model's feedback."""

    id = "brevity"

    def process_output_step(self, args: ProcessOutputStepArgs) -> None:
        """Count the words of the step's text."""
        if len(args.text.split()) > MOST_WORDS:
            args.abort(FEEDBACK, retry=True)


async def play(setting: Setting) -> Retried:
    """Ask; show every attempt as it streams, and what was made of it."""
    stage, model = setting.stage, setting.model
    stage.say(
        f"The processor 'brevity' rejects an answer of more than {MOST_WORDS} words. Its reason "
        "goes to the model, which may try once more."
    )
    stage.asked(QUESTION)
    stage.blank()
    agent = Agent(
        id="retry",
        model=model,
        instructions=INSTRUCTIONS,
        output_processors=[Brevity()],
        max_processor_retries=1,
    )
    line: LiveText | None = None
    attempt = 0
    async with agent.stream(QUESTION, observer=setting.observer, **OPTIONS) as run:
        async for chunk in run:
            if chunk.type == "step-start":
                attempt += 1
                line = stage.live([(f"attempt {attempt}", "cyan")], [9], "cyan")
            elif chunk.type == "text-delta" and line:
                line.write(chunk.payload.text)
            elif chunk.type == "step-finish" and line:
                line.end()
                _verdict(stage, chunk.payload)
        raise_failure(run)
        found = Retried(
            attempts=await run.steps,
            text=await run.text,
            usage=await run.usage,
            sent=model.calls[-1].sent,
        )
    _judge(stage, found)
    return found


def _verdict(stage: Stage, finish: FinishPayload) -> None:
    """What the client is told at the end of an attempt."""
    outcome, text = finish.step_result, finish.output.text or ""
    used = f"{len(text.split())} words, {finish.output.usage.total_tokens} tokens"
    if outcome.reason == "retry":
        who = f"by '{outcome.retry_processor_id}': {used}"
        stage.columns([("", ""), ("rejected", "bold red"), (who, "")], [9, 8])
        stage.columns([("", ""), ("feedback", "yellow"), (str(outcome.retry_reason), "")], [9, 8])
    else:
        stage.columns([("", ""), ("accepted", "bold green"), (used, "")], [9, 8])


def _judge(stage: Stage, found: Retried) -> None:
    stage.blank()
    rejected = [step for step in found.attempts if step.finish_reason == "retry"]
    if not rejected:
        stage.note("the first answer was short enough this time, so nothing was rejected.")
        return
    if found.attempts[-1] in rejected or found.attempts[-1].tripwire:
        stage.note("the second answer was too long as well, so the run ended without an answer.")
    stage.columns([("result", "dim"), (found.text or "(no text)", "green")], [8])
    counts = [step.usage.total_tokens or 0 for step in found.attempts]
    total = found.usage.total_tokens
    spelled = " + ".join(map(str, counts))
    stage.check("the feedback was part of what the model was sent the second time", _told(found))
    stage.check(
        "the rejected answer is no part of the result", rejected[0].text not in (found.text or " ")
    )
    stage.check(f"tokens of all attempts are counted: {spelled} = {total}", sum(counts) == total)


def _told(found: Retried) -> bool:
    return FEEDBACK in found.sent


SCENE = Scene(
    name="retry",
    title="retry: an answer is rejected, and the model is told why",
    play=play,
    script=[
        answer(
            *("The Eiffel", " Tower", " is a", " tower", " of", " iron", " that", " stands"),
            *(" by", " the", " river", " in", " Paris", ", France", "."),
        ),
        answer("The Eiffel", " Tower", " is in", " Paris", "."),
    ],
)
