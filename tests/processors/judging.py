"""What the tests of judges have in common: models that judge by the text, and that fail."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from procession import Agent, APICallError
from procession.testing import ScriptedModel, answer
from tests.laws.kit import PlayedModel, end, said

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from procession.chunks import Chunk

PATIENT = 0.02
"""Seconds of the timeouts that are to run out."""

IMAGE = {"type": "file", "mimeType": "image/png", "data": "aGk="}
MIXED = (
    "Voilà l'été : « déjà ». Größe und Straße! 你好,世界。“引号”!안녕하세요, 세계. "
    "こんにちは、世界。مرحبا بالعالم؟ नमस्ते दुनिया। \U0001f469\u200d\U0001f4bb e\u0301"
)
CODE = "```python\nif x < 1:\n\tprint('«é»')  # \u2026\n```\n"


class JudgeByText:
    """A model whose answer follows from the text that it is to judge; `texts` are those."""

    provider, model_id = "example", "judge-1"

    def __init__(self, verdict: Callable[[str], str]) -> None:
        self.verdict = verdict
        self.texts: list[str] = []
        self.open = 0

    async def stream(self, request: Any) -> AsyncGenerator[Sequence[Chunk], None]:
        text = request.prompt[-1]["content"][0]["text"]
        self.texts.append(text)
        self.open += 1
        try:
            async for read in PlayedModel([[*said(self.verdict(text)), end()]]).stream(request):
                yield read
        finally:
            self.open -= 1


class Endless(JudgeByText):
    """Never comes to the end of its answer."""

    def __init__(self) -> None:
        super().__init__(lambda text: "")
        self.written = 0

    async def stream(self, request: Any) -> AsyncGenerator[Sequence[Chunk], None]:
        reads = PlayedModel([said('{"reason": "', *["so " * 100] * 1000)]).stream(request)
        try:
            async for read in reads:
                self.written += 1
                yield read
        finally:
            await reads.aclose()


def refused(status: int = 429) -> APICallError:
    """What a provider says that wants no more calls for now."""
    return APICallError("slow down: SECRET", status_code=status, is_retryable=True, provider="x")


def broken_judges() -> dict[str, Callable[[], Any]]:
    """Judges that come to no verdict, each in another way."""
    return {
        "raises": lambda: ScriptedModel([ValueError("SECRET")]),
        "nonsense": lambda: ScriptedModel(["SECRET is no JSON"]),
        "nothing": lambda: ScriptedModel([""]),
        "misfit": lambda: ScriptedModel(['{"SECRET": [1, 2]}']),
        "a list": lambda: ScriptedModel(['["SECRET"]']),
        "rate limited": lambda: ScriptedModel([refused()]),
        "endless": Endless,
    }


KINDS = {
    "raises": "ValueError",
    "rate limited": "APICallError",
}
"""What their events are called, where that is not `StructuredOutputError`."""


def hanging() -> PlayedModel:
    """A judge that says nothing, ever."""
    return PlayedModel([[*said("never"), end()]], hang_at=0)


def slow(verdict: str) -> ScriptedModel:
    """A judge that takes its time."""
    return ScriptedModel([answer(verdict, delay=PATIENT / 4)])


class Told(list[Any]):
    """What `on_violation` was told."""

    def __call__(self, violation: Any) -> None:
        self.append(violation)


class Seen:
    """What a run came to."""

    def __init__(self, chunks: list[Any], run: Any, model: Any) -> None:
        self.deltas = [c.payload.text for c in chunks if c.type == "text-delta"]
        self.types = [chunk.type for chunk in chunks]
        self.text = "".join(self.deltas)
        self.tripwire = run.tripwire
        self.error = run.error
        self.events = run.policy_events
        self.model = model
        self.run = run
        self.stored = "".join(
            part.text
            for message in run.message_list.get.response.db()
            for part in message.parts
            if part.type == "text"
        )

    @property
    def prompt(self) -> list[dict[str, Any]]:
        """What the agent's model was given."""
        given: list[dict[str, Any]] = self.model.calls[0].prompt
        return [entry for entry in given if entry["role"] != "system"]


async def judged_input(processor: Any, given: Any = "Judge this text", **options: Any) -> Seen:
    """A run with the processor on its input."""
    model = ScriptedModel(["ok"])
    agent = Agent(id="a", model=model, input_processors=[processor])
    run = await agent.stream(given, **options)
    async with asyncio.timeout(30):
        return Seen([chunk async for chunk in run], run, model)


async def judged_answer(processor: Any, pieces: Sequence[str], **options: Any) -> Seen:
    """A run with the processor on its output; the answer comes in these pieces."""
    model = PlayedModel([[*said(*pieces), end()]])
    agent = Agent(id="a", model=model, output_processors=[processor])
    run = await agent.stream("go", **options)
    async with asyncio.timeout(30):
        return Seen([chunk async for chunk in run], run, model)


async def options_reach_the_judge(make: Callable[..., tuple[Any, Any, Any]], field: str) -> None:
    """`instructions`, `provider_options` and a schema told in words, for what `make` makes.

    `field` is a part of the schema.
    """
    processor, judge, _ = make(instructions="Look.", provider_options={"x": {"y": 1}})
    await judged_input(processor)
    assert judge.calls[0].prompt[0]["content"] == "Look."
    assert judge.calls[0].provider_options == {"x": {"y": 1}}
    processor, judge, _ = make(structured_output_options={"json_prompt_injection": True})
    await judged_input(processor)
    assert judge.calls[0].response_format is None
    assert field in judge.calls[0].prompt[0]["content"]


class Remembers:
    """Brings a message in from an earlier request."""

    id = "remembers"

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def process_input(self, args: Any) -> None:
        for number, text in enumerate(self.texts):
            message = user(text, id=f"old-{number}")
            args.message_list.add({**message, "createdAt": "2020-01-01T00:00:00Z"}, "memory")


def user(*parts: Any, id: str = "m1") -> dict[str, Any]:
    """A message of the user, made of texts and other parts."""
    made = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"id": id, "role": "user", "content": {"format": 2, "parts": made}}
