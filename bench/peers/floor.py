"""The floor (bench/floor.py). Its hooks: request and step in W1 and W3, chunk in W2."""

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
from bench.floor import Agent, Call, Chunk, Message
from bench.formats import texts_of as wire_texts_of
from bench.wire import Wire

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Sequence

encode = msgspec.json.Encoder().encode


class PlainPair:
    def request(self, messages: Any, run: Any) -> Any:
        return messages

    def step(self, message: Any, run: Any) -> Any:
        return message


class AsyncPair:
    async def request(self, messages: Any, run: Any) -> Any:
        return messages

    async def step(self, message: Any, run: Any) -> Any:
        return message


class PlainChunk:
    def chunk(self, chunk: Any, run: Any) -> Any:
        return chunk


class AsyncChunk:
    async def chunk(self, chunk: Any, run: Any) -> Any:
        return chunk


PAIRS: dict[bool, Any] = {False: PlainPair, True: AsyncPair}
CHUNKS: dict[bool, Any] = {False: PlainChunk, True: AsyncChunk}


class Model(Recorder):
    """Encodes the request, as a real model would, then plays `reads(request)`."""

    def __init__(self, reads: Callable[[list[Message]], Any]) -> None:
        self.reads = reads

    async def __call__(self, request: list[Message]) -> AsyncIterator[list[Chunk]]:
        if self.log is not None:
            self.log.append(list(request))
        encode(request)
        for read in self.reads(request):
            yield read


def texts_of(request: list[Message]) -> list[str]:
    return [message.text for message in request]


def case(model: Model, **values: Any) -> Case:
    async def alone(requests: Sequence[Any]) -> list[str]:
        texts: list[str] = []
        for request in requests:
            async for read in model(request):
                for chunk in read:
                    texts.append(chunk.text)
        return texts

    return Case(model=model, texts=texts_of, alone=alone, **values)


def request(setup: Setup) -> Case:
    model = Model(lambda _: ([Chunk(ANSWER)],))
    pair = PAIRS[setup.kind == "async"]
    agent = Agent(model, processors=[pair() for _ in range(setup.processors)])
    earlier = conversation(setup, Message)

    async def run() -> str:
        return (await agent.generate([*earlier(), Message("user", QUESTION)])).text

    hooks = [Hook(hook.__code__, setup.processors) for hook in (pair.request, pair.step)]
    return case(model, run=run, expected=ANSWER, hooks=hooks)


def chunks(setup: Setup) -> Case:
    texts = tokens(setup.size)
    model = Model(lambda _: ([Chunk(text)] for text in texts))
    hook = CHUNKS[setup.kind == "async"]
    agent = Agent(model, processors=[hook() for _ in range(setup.processors)])

    async def run() -> list[str]:
        return [chunk.text async for chunk in agent.stream([Message("user", QUESTION)])]

    hooks = [Hook(hook.chunk.__code__, setup.processors * setup.size)]
    return case(model, run=run, expected=texts, hooks=hooks)


def steps(setup: Setup) -> Case:
    ran: list[int] = []

    async def echo(x: int) -> int:
        ran.append(x)
        return x

    def reads(request: list[Message]) -> Any:
        done = len(request) // 2
        if done == setup.size:
            return ([Chunk(DONE)],)
        return ([Chunk(call=Call(f"c{done}", "echo", f'{{"x":{done}}}'))],)

    model = Model(reads)
    pair = PAIRS[setup.kind == "async"]
    agent = Agent(model, [echo], [pair() for _ in range(setup.processors)])

    async def run() -> tuple[str, list[int]]:
        ran.clear()
        result = await agent.generate([Message("user", QUESTION)])
        return result.text, ran

    calls = setup.processors * (setup.size + 1)
    hooks = [Hook(hook.__code__, calls) for hook in (pair.request, pair.step)]
    return case(model, run=run, expected=(DONE, list(range(setup.size))), hooks=hooks)


class Delta(msgspec.Struct):
    content: str | None = None


class Choice(msgspec.Struct):
    delta: Delta


class Event(msgspec.Struct):
    choices: list[Choice]


def model_on(url: str) -> Any:
    # Imported here: its objects would give the collector work in all other measurements.
    import httpx2

    client = httpx2.AsyncClient(timeout=None, limits=httpx2.Limits(max_connections=None))
    decode = msgspec.json.Decoder(Event).decode

    async def model(request: list[Message]) -> AsyncIterator[list[Chunk]]:
        messages = [{"role": message.role, "content": message.text} for message in request]
        body = encode({"model": "bench", "messages": messages, "stream": True})
        address = f"{url}/chat/completions"
        async with client.stream("POST", address, content=body) as response:
            rest = b""
            async for read in response.aiter_raw():
                *events, rest = (rest + read).split(b"\n\n")
                found: list[Chunk] = []
                for event in events:
                    if event == b"data: [DONE]":
                        continue
                    choices = decode(event[6:]).choices
                    if choices and choices[0].delta.content:
                        found.append(Chunk(choices[0].delta.content))
                yield found

    return model


def wire(setup: Setup) -> Case:
    provider = Wire(setup.size)
    model = model_on(provider.url)
    hook = CHUNKS[setup.kind == "async"]
    agent = Agent(model, processors=[hook() for _ in range(setup.processors)])

    async def run() -> list[str]:
        return [chunk.text async for chunk in agent.stream([Message("user", QUESTION)])]

    hooks = [Hook(hook.chunk.__code__, setup.processors * setup.size)]
    return Case(
        run=run, expected=tokens(setup.size), model=provider, texts=wire_texts_of, hooks=hooks
    )


def paced(url: str, wire: str) -> Callable[[], AsyncIterator[str]]:
    agent = Agent(model_on(url))

    async def texts() -> AsyncIterator[str]:
        async for chunk in agent.stream([Message("user", QUESTION)]):
            yield chunk.text

    return texts


def idle(gate: asyncio.Event) -> Callable[[], AsyncIterator[str]]:
    async def model(_: list[Message]) -> AsyncIterator[list[Chunk]]:
        yield [Chunk(IDLE_TEXTS[0])]
        await gate.wait()
        yield [Chunk(IDLE_TEXTS[1])]

    agent = Agent(model)

    async def texts() -> AsyncIterator[str]:
        async for chunk in agent.stream([Message("user", QUESTION)]):
            yield chunk.text

    return texts
