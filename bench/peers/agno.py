"""Agno. Its hooks: pre_hooks and post_hooks, once a run; there is none for chunks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from agno.agent import Agent
from agno.models.base import Model as BaseModel
from agno.models.message import Message
from agno.models.response import ModelResponse

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
    only,
    relay_hooks,
    relayed,
    tokens,
)
from bench.formats import texts_of as wire_texts_of
from bench.wire import Wire

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Sequence

logging.disable(logging.WARNING)


class Model(Recorder, BaseModel):
    """Plays what `script` makes of the messages: a response, or an iterable of them."""

    def __init__(self, script: Callable[[list[Message]], Any]) -> None:
        super().__init__(id="scripted", name="scripted", provider="bench")
        self.script = script

    def __deepcopy__(self, memo: object) -> Model:
        return self

    def heard(self, messages: list[Message]) -> Any:
        if self.log is not None:
            self.log.append(list(messages))
        return self.script(messages)

    async def ainvoke(self, messages: list[Message], *_: Any, **__: Any) -> ModelResponse:
        return self.heard(messages)

    async def ainvoke_stream(
        self, messages: list[Message], *_: Any, **__: Any
    ) -> AsyncIterator[ModelResponse]:
        for response in self.heard(messages):
            yield response

    def invoke(self, *_: Any, **__: Any) -> ModelResponse:
        raise RuntimeError("only the async path is measured")

    def invoke_stream(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("only the async path is measured")

    def _parse_provider_response(self, response: ModelResponse, **_: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: ModelResponse) -> ModelResponse:
        return response


def plain_before(run_input: Any) -> None: ...


def plain_after(run_output: Any) -> None: ...


async def async_before(run_input: Any) -> None: ...


async def async_after(run_output: Any) -> None: ...


def said(text: str) -> ModelResponse:
    return ModelResponse(role="assistant", content=text)


def texts_of(messages: list[Message]) -> list[str]:
    return [str(message.content) for message in messages]


def agent_of(model: Model, setup: Setup, **values: Any) -> tuple[Agent, list[Hook]]:
    """The agent, and its hooks, which run once each."""
    plain = setup.kind == "plain"
    before, after = (plain_before, plain_after) if plain else (async_before, async_after)
    count = setup.processors
    agent = Agent(
        model=model,
        telemetry=False,
        pre_hooks=[before] * count or None,
        post_hooks=[after] * count or None,
        **values,
    )
    return agent, [Hook(before.__code__, count), Hook(after.__code__, count)]


def request(setup: Setup) -> Case:
    model = Model(lambda _: said(ANSWER))
    agent, hooks = agent_of(model, setup)
    earlier = conversation(setup, lambda role, text: Message(role=role, content=text))

    async def run() -> str:
        if not setup.size:
            return (await agent.arun(QUESTION)).content
        return (await agent.arun([*earlier(), Message(role="user", content=QUESTION)])).content

    return Case(run=run, expected=ANSWER, model=model, texts=texts_of, hooks=hooks)


def chunks(setup: Setup) -> Case:
    only(setup, "async", "no hook for chunks; async generators stand in")
    texts = tokens(setup.size)
    model = Model(lambda _: (said(text) for text in texts))
    agent = Agent(model=model, telemetry=False)

    async def run() -> list[str]:
        stream = relayed(agent.arun(QUESTION, stream=True), setup.processors)
        return [event.content async for event in stream if event.event == "RunContent"]

    async def alone(_: Sequence[Any]) -> list[Any]:
        return [response.content async for response in model.ainvoke_stream([])]

    return Case(
        run=run,
        expected=texts,
        model=model,
        texts=texts_of,
        hooks=relay_hooks(setup),
        alone=alone,
    )


def steps(setup: Setup) -> Case:
    ran: list[int] = []

    async def echo(x: int) -> int:
        """Echo."""
        ran.append(x)
        return x

    def script(messages: list[Message]) -> ModelResponse:
        done = len(messages) // 2
        if done == setup.size:
            return said(DONE)
        function = {"name": "echo", "arguments": f'{{"x":{done}}}'}
        call = {"id": f"c{done}", "type": "function", "function": function}
        return ModelResponse(role="assistant", tool_calls=[call])

    model = Model(script)
    agent, hooks = agent_of(model, setup, tools=[echo])

    async def run() -> tuple[str, list[int]]:
        ran.clear()
        return (await agent.arun(QUESTION)).content, ran

    expected = (DONE, list(range(setup.size)))
    return Case(run=run, expected=expected, model=model, texts=texts_of, hooks=hooks)


def agent_on(url: str) -> Agent:
    # Imported here: its objects would give the collector work in all other measurements.
    from agno.models.openai.like import OpenAILike

    return Agent(model=OpenAILike(id="bench", base_url=url, api_key="bench"), telemetry=False)


def wire(setup: Setup) -> Case:
    only(setup, "async", "no hook for chunks; async generators stand in")
    provider = Wire(setup.size)
    agent = agent_on(provider.url)

    async def run() -> list[str]:
        stream = relayed(agent.arun(QUESTION, stream=True), setup.processors)
        events = [event.content async for event in stream if event.event == "RunContent"]
        return [text for text in events if text]

    return Case(
        run=run,
        expected=tokens(setup.size),
        model=provider,
        texts=wire_texts_of,
        hooks=relay_hooks(setup),
    )


def paced(url: str, wire: str) -> Callable[[], AsyncIterator[str]]:
    agent = agent_on(url)

    async def texts() -> AsyncIterator[str]:
        async for event in agent.arun(QUESTION, stream=True):
            if event.event == "RunContent" and event.content:
                yield event.content

    return texts


def idle(gate: asyncio.Event) -> Callable[[], AsyncIterator[str]]:
    class Waiting(Model):
        async def ainvoke_stream(self, *_: Any, **__: Any) -> AsyncIterator[ModelResponse]:
            yield said(IDLE_TEXTS[0])
            await gate.wait()
            yield said(IDLE_TEXTS[1])

    agent = Agent(model=Waiting(lambda _: ()), telemetry=False)

    async def texts() -> AsyncIterator[str]:
        async for event in agent.arun(QUESTION, stream=True):
            if event.event == "RunContent":
                yield event.content

    return texts
