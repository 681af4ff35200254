"""Scene: an answer is rejected, the model is told why, and its second answer is accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ..agent import Agent
from ..chunks import Usage
from ..processor import Processor
from ..results import StepResult
from ..testing import answer
from .scene import INSTRUCTIONS, OPTIONS, Scene, Setting, raise_failure

if TYPE_CHECKING:
    from ..chunks import FinishPayload
    from ..processor import ProcessOutputStepArgs
    from .stage import LiveText, Stage

__all__ = ["SCENE", "Retried"]

QUESTION = "Where is the Eiffel Tower?"
FEEDBACK = "Too long: answer with the name of the city only."
MOST_WORDS = 10


class Retried(Struct, frozen=True, kw_only=True):
    """The attempts in time, what each of them said, the run's text and usage.

    `sent` is all that the model was sent the last time.
    """

    attempts: list[StepResult]
    said: list[str]
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
    said: list[str] = []
    async with agent.stream(QUESTION, observer=setting.observer, **OPTIONS) as run:
        async for chunk in run:
            if chunk.type == "step-start":
                said.append("")
                line = stage.live([(f"attempt {len(said)}", "cyan")], [9], "cyan")
            elif chunk.type == "text-delta" and line:
                said[-1] += chunk.payload.text
                line.write(chunk.payload.text)
            elif chunk.type == "step-finish" and line:
                line.end()
                _verdict(stage, chunk.payload)
        raise_failure(run)
        found = Retried(
            attempts=await run.steps,
            said=said,
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
    accepted = found.attempts[-1].accepted
    if not accepted:
        stage.note("the second answer was too long as well, so the run ended without an answer.")
    stage.columns([("result", "dim"), (found.text or "(no text)", "green")], [8])
    counts = [step.usage.total_tokens or 0 for step in found.attempts]
    total = found.usage.total_tokens
    spelled = " + ".join(map(str, counts))
    stage.checks()
    stage.check("the feedback was part of the second request", FEEDBACK in found.sent)
    stage.check(
        "the result is the accepted answer only",
        found.text == (found.said[-1] if accepted else ""),
    )
    stage.check(f"tokens of all attempts are counted: {spelled} = {total}", sum(counts) == total)


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
