"""Every case of the seeds is played three ways and must come to the same outcome.

`play(way, agent, given)` runs `generate`, or reads a stream chunk by chunk, or awaits nothing but a
stream's text. What it returns reads the same for all three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from procession import Around
from procession.testing import Answer, ScriptedModel, answer, tool_call

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from procession import Agent, Chunk, FullOutput, Message, ModelRequest, Opening, StepResult
    from procession.results import Tripwire
    from procession.testing import RecordedCall

WAYS = ("generate", "read", "text")

three_ways = pytest.mark.parametrize("way", WAYS)


class Outcome:
    """What a run came to. `chunks` are there when the stream was read, else `None`."""

    def __init__(
        self, output: FullOutput | None, error: BaseException | None, chunks: list[Chunk] | None
    ) -> None:
        self._output = output
        self.error = error
        self.chunks = chunks

    @property
    def output(self) -> FullOutput:
        """Everything, for a run that did not fail."""
        if self._output is None:
            raise AssertionError("the run failed") from self.error
        return self._output

    @property
    def text(self) -> str:
        return self.output.text

    @property
    def steps(self) -> list[StepResult]:
        return self.output.steps

    @property
    def messages(self) -> list[Message]:
        return self.output.messages

    @property
    def answers(self) -> list[Message]:
        """The assistant's messages."""
        return [message for message in self.messages if message.role == "assistant"]

    @property
    def tripwire(self) -> Tripwire | None:
        return self.output.tripwire

    @property
    def finish_reason(self) -> str | None:
        return self.output.finish_reason

    def kinds(self) -> list[str]:
        """The types of the delivered chunks; only for a stream that was read."""
        assert self.chunks is not None
        return [chunk.type for chunk in self.chunks]


async def play(way: str, agent: Agent, given: Any, **options: Any) -> Outcome:
    """Run the agent one of the three ways; an exception is part of the outcome."""
    if way == "generate":
        return await _generated(agent, given, options)
    try:
        run = await agent.stream(given, **options)
    except Exception as error:
        return Outcome(None, error, None)
    chunks: list[Chunk] | None = None
    if way == "read":
        chunks = [chunk async for chunk in run.full_stream]
        check_frame(chunks)
    try:
        text = await run.text
    except Exception as error:
        assert run.error is error
        return Outcome(None, error, chunks)
    if run.error is not None:
        return Outcome(None, run.error, chunks)
    output = await run.get_full_output()
    assert output.text == text
    return Outcome(output, None, chunks)


async def _generated(agent: Agent, given: Any, options: dict[str, Any]) -> Outcome:
    try:
        return Outcome(await agent.generate(given, **options), None, None)
    except Exception as error:
        return Outcome(None, error, None)


def check_frame(chunks: Sequence[Chunk]) -> None:
    """What every stream keeps to: R-512, R-516, R-167, R-069."""
    kinds = [chunk.type for chunk in chunks]
    assert kinds[-1] in ("finish", "tripwire", "error")
    assert sum(kinds.count(kind) for kind in ("finish", "tripwire")) <= 1
    assert kinds.count("start") == (kinds != ["tripwire"])
    if kinds != ["tripwire"]:
        assert kinds[0] == "start"
    assert len({chunk.run_id for chunk in chunks if not chunk.type.startswith("data-")}) == 1


def check_tripped(
    outcome: Outcome,
    *,
    reason: str,
    processor_id: str,
    retry: bool = False,
    metadata: Any = None,
    text: str = "",
) -> None:
    """A verdict ended the run: R-166 to R-169. `text` is that of accepted steps."""
    wire = outcome.tripwire
    assert wire is not None
    assert (wire.reason, wire.processor_id) == (reason, processor_id)
    assert (wire.retry, wire.metadata) == (retry, metadata)
    assert (outcome.finish_reason, outcome.error, outcome.text) == ("other", None, text)
    assert outcome.output.status == "tripwire"
    if outcome.chunks is None:
        return
    payload: dict[str, Any] = {"reason": reason, "processorId": processor_id}
    if retry:
        payload["retry"] = True
    if metadata is not None:
        payload["metadata"] = metadata
    assert outcome.chunks[-1].to_json() == {
        "type": "tripwire",
        "runId": outcome.output.run_id,
        "from": "AGENT",
        "payload": payload,
    }


# ── doubles ────────────────────────────────────────────────────────────────────────────────────


class EagerModel:
    """Asks for the first tool it is offered; without tools it says `words`."""

    provider = "example"

    def __init__(self, model_id: str = "eager", words: str = "Done.") -> None:
        self.model_id = model_id
        self._saying = ScriptedModel([words])
        self.calls: list[RecordedCall] = []

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Chunk], None]:
        return self._chosen(request).stream(request)

    def _chosen(self, request: ModelRequest) -> ScriptedModel:
        model = self._saying
        if request.tools:
            name = request.tools[0].name
            model = ScriptedModel([answer(tool_calls=[tool_call(name)])])
        model.on_call = self.calls.append
        return model


class Only:
    """What `only` makes."""

    def __init__(self, id: str) -> None:
        self.id = id


def only(name: str, function: Callable[[Any], Any], id: str = "hook") -> Any:
    """A processor of one hook, whatever its name."""
    made = Only(id)
    setattr(made, name, function)
    return made


class Shelf:
    """The least that keeps a conversation: an extension that loads and stores messages."""

    def __init__(self) -> None:
        self.rows: list[Message] = []

    def extend(self, opening: Opening) -> Around:
        kept = [type(row).from_json(row.to_json()) for row in self.rows]
        opening.message_list.add(kept, "memory")
        return Around()

    async def run_ended(self, run: Any) -> None:
        if run.status == "success":
            self.rows += run.message_list.drain_unsaved_messages()


# ── answers and prompts ────────────────────────────────────────────────────────────────────────


def blocks(*texts: str, calls: Sequence[dict[str, Any]] = ()) -> Answer:
    """An answer in which each text is a block of its own: whole in one piece, too (R-549)."""
    parts: list[Any] = []
    for number, text in enumerate(texts):
        lane = f"b{number}"
        parts += [
            {"type": "text-start", "id": lane},
            {"type": "text-delta", "id": lane, "delta": text},
            {"type": "text-end", "id": lane},
        ]
    reason = "tool-calls" if calls else "stop"
    usage = {"inputTokens": 4, "outputTokens": 2}
    return Answer(
        parts=[*parts, *calls, {"type": "finish", "finishReason": reason, "usage": usage}]
    )


def prompt_results(call: RecordedCall) -> dict[str, Any]:
    """The tool results of a prompt: call id to output."""
    return {
        part["toolCallId"]: part["output"]
        for entry in call.prompt
        if entry["role"] == "tool"
        for part in entry["content"]
    }


def feedback(call: RecordedCall) -> list[str]:
    """The retry feedback that a prompt holds (R-176)."""
    texts = [entry["content"] for entry in call.prompt if entry["role"] == "system"]
    return [text for text in texts if text.startswith("[Processor Feedback]")]
