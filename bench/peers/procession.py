"""procession. Its hooks: process_input_step and process_output_step, process_output_stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from bench.case import (
    ANSWER,
    DONE,
    IDLE_TEXTS,
    QUESTION,
    Case,
    Hook,
    Recorder,
    Setup,
    conversation,
    tokens,
)
from bench.formats import texts_of as wire_texts_of
from bench.wire import Wire
from procession import Agent, Chunk, ModelRequest, Usage, text_message, tool
from procession.chunks import (
    BlockPayload,
    DeltaPayload,
    FinishPayload,
    StepOutcome,
    StepOutput,
    ToolCallPayload,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence

    Reads = Iterable[list[Chunk]]

encode = msgspec.json.Encoder().encode
BLOCK = "1"


class PlainPair:
    id = "pair"

    def process_input_step(self, args: Any) -> None:
        return None

    def process_output_step(self, args: Any) -> None:
        return None


class AsyncPair:
    id = "pair"

    async def process_input_step(self, args: Any) -> None:
        return None

    async def process_output_step(self, args: Any) -> None:
        return None


class PlainChunk:
    id = "chunk"

    def process_output_stream(self, args: Any) -> Any:
        return args.part


class AsyncChunk:
    id = "chunk"

    async def process_output_stream(self, args: Any) -> Any:
        return args.part


PAIRS: dict[bool, Any] = {False: PlainPair, True: AsyncPair}
CHUNKS: dict[bool, Any] = {False: PlainChunk, True: AsyncChunk}


class Model(Recorder):
    """Encodes the prompt, as a real model would, then plays `reads(prompt)`."""

    provider = "bench"
    model_id = "scripted"

    def __init__(self, reads: Callable[[list[dict[str, Any]]], Reads]) -> None:
        self.reads = reads

    async def stream(self, request: ModelRequest) -> AsyncGenerator[list[Chunk], None]:
        if self.log is not None:
            prompt = list(request.prompt)
            self.log.append(msgspec.structs.replace(request, prompt=prompt))
        encode(request.prompt)
        for read in self.reads(request.prompt):
            yield read


def delta(text: str) -> Chunk:
    return Chunk("text-delta", DeltaPayload(id=BLOCK, text=text))


def begin() -> Chunk:
    return Chunk("text-start", BlockPayload(id=BLOCK))


def end() -> Chunk:
    return Chunk("text-end", BlockPayload(id=BLOCK))


def finish(reason: str) -> Chunk:
    output = StepOutput(usage=Usage(input_tokens=3, output_tokens=1))
    return Chunk("finish", FinishPayload(step_result=StepOutcome(reason=reason), output=output))


def said(text: str) -> Reads:
    """A whole answer, as one read delivers it."""
    return ([begin(), delta(text), end(), finish("stop")],)


def texts_of(request: ModelRequest) -> list[str]:
    return ["".join(part.get("text", "") for part in entry["content"]) for entry in request.prompt]


def case(model: Model, **values: Any) -> Case:
    async def alone(requests: Sequence[Any]) -> list[str]:
        texts: list[str] = []
        for request in requests:
            async for read in model.stream(request):
                for chunk in read:
                    if chunk.type == "text-delta":
                        texts.append(chunk.payload.text)
        return texts

    return Case(model=model, texts=texts_of, alone=alone, **values)


def agent_of(model: Model, processors: list[Any], **values: Any) -> Agent:
    """Each processor is in both lists, so that both of its hooks are used."""
    return Agent(
        id="bench",
        model=model,
        input_processors=processors,
        output_processors=processors,
        **values,
    )


def pairs(setup: Setup, calls: int) -> tuple[list[Any], list[Hook]]:
    """The processors of W1 and W3, each hook of which is called `calls` times."""
    kind = PAIRS[setup.kind == "async"]
    processors = [kind() for _ in range(setup.processors)]
    hooks = (kind.process_input_step, kind.process_output_step)
    return processors, [Hook(hook.__code__, calls * setup.processors) for hook in hooks]


def request(setup: Setup) -> Case:
    model = Model(lambda _: said(ANSWER))
    processors, hooks = pairs(setup, 1)
    agent = agent_of(model, processors)
    earlier = conversation(setup, lambda role, text: text_message(text, role=role))

    async def run() -> str:
        given = [*earlier(), text_message(QUESTION)] if setup.size else QUESTION
        return (await agent.generate(given)).text

    return case(model, run=run, expected=ANSWER, hooks=hooks)


def chunks(setup: Setup) -> Case:
    texts = tokens(setup.size)

    def reads(_: Any) -> Reads:
        yield [begin()]
        for text in texts:
            yield [delta(text)]
        yield [end(), finish("stop")]

    model = Model(reads)
    kind = CHUNKS[setup.kind == "async"]
    agent = agent_of(model, [kind() for _ in range(setup.processors)])

    async def run() -> list[str]:
        run = await agent.stream(QUESTION)
        return [chunk.payload.text async for chunk in run.full_stream if chunk.type == "text-delta"]

    # Besides the deltas there are text-start and text-end, and what frames a step.
    code, count = kind.process_output_stream.__code__, setup.processors
    hooks = [Hook(code, count * setup.size, extra=8 * count)]
    return case(model, run=run, expected=texts, hooks=hooks)


def steps(setup: Setup) -> Case:
    ran: list[int] = []

    @tool
    async def echo(x: int) -> int:
        """Echo."""
        ran.append(x)
        return x

    def reads(prompt: list[dict[str, Any]]) -> Reads:
        done = len(prompt) // 2
        if done == setup.size:
            return said(DONE)
        call = ToolCallPayload(tool_call_id=f"c{done}", tool_name="echo", args={"x": done})
        return ([Chunk("tool-call", call), finish("tool-calls")],)

    model = Model(reads)
    processors, hooks = pairs(setup, setup.size + 1)
    agent = agent_of(model, processors, tools=[echo])

    async def run() -> tuple[str, list[int]]:
        ran.clear()
        return (await agent.generate(QUESTION, max_steps=setup.size + 1)).text, ran

    return case(model, run=run, expected=(DONE, list(range(setup.size))), hooks=hooks)


def model_on(url: str, wire: str) -> Any:
    # Imported here: its objects would give the collector work in all other measurements.
    if wire == "chat":
        from procession.models.openai import OpenAIChatModel as Asked
    elif wire == "responses":
        from procession.models.responses import OpenAIResponsesModel as Asked
    elif wire == "anthropic":
        from procession.models.anthropic import AnthropicModel as Asked
    else:
        from procession.models.google import GoogleModel as Asked
    return Asked("bench", base_url=url, api_key="bench")


def wire(setup: Setup) -> Case:
    provider = Wire(setup.size)
    model = model_on(provider.url, setup.wire)
    kind = CHUNKS[setup.kind == "async"]
    agent = agent_of(model, [kind() for _ in range(setup.processors)])

    async def run() -> list[str]:
        run = await agent.stream(QUESTION)
        return [chunk.payload.text async for chunk in run.full_stream if chunk.type == "text-delta"]

    code, count = kind.process_output_stream.__code__, setup.processors
    hooks = [Hook(code, count * setup.size, extra=8 * count)]
    return Case(
        run=run, expected=tokens(setup.size), model=provider, texts=wire_texts_of, hooks=hooks
    )


def paced(url: str, wire: str) -> Callable[[], AsyncIterator[str]]:
    agent = Agent(id="bench", model=model_on(url, wire))

    async def texts() -> AsyncIterator[str]:
        async for chunk in (await agent.stream(QUESTION)).full_stream:
            if chunk.type == "text-delta":
                yield chunk.payload.text

    return texts


def idle(gate: asyncio.Event) -> Callable[[], AsyncIterator[str]]:
    class Waiting(Model):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[list[Chunk], None]:
            yield [begin(), delta(IDLE_TEXTS[0])]
            await gate.wait()
            yield [delta(IDLE_TEXTS[1]), end(), finish("stop")]

    agent = Agent(id="bench", model=Waiting(lambda _: ()))

    async def texts() -> AsyncIterator[str]:
        async for chunk in (await agent.stream(QUESTION)).full_stream:
            if chunk.type == "text-delta":
                yield chunk.payload.text

    return texts
