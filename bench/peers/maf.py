"""Microsoft Agent Framework. Its hooks: chat middleware around a model call; it sets chunk hooks.

The middleware wraps, so one function is both in and out; it can only be async. Chunk hooks may be
either, and are native.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    chat_middleware,
)

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
    tokens,
)
from bench.formats import texts_of as wire_texts_of
from bench.wire import Wire

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Sequence


class Client(Recorder, FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Plays what `script` makes of the messages: a response, or an async iterator of updates."""

    def __init__(self, script: Callable[[Sequence[Message]], Any], **values: Any) -> None:
        super().__init__(**values)
        self.script = script

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Any, **_: Any
    ) -> Any:
        if self.log is not None:
            self.log.append(list(messages))
        if stream:
            return ResponseStream(self.script(messages), finalizer=ChatResponse.from_updates)
        return self.respond(messages)

    async def respond(self, messages: Sequence[Message]) -> ChatResponse:
        return self.script(messages)


@chat_middleware
async def around(context: Any, call_next: Callable[[], Any]) -> None:
    await call_next()


def plain_chunk(update: Any) -> Any:
    return update


async def async_chunk(update: Any) -> Any:
    return update


@chat_middleware
async def with_plain_chunk(context: Any, call_next: Callable[[], Any]) -> None:
    context.stream_transform_hooks.append(plain_chunk)
    await call_next()


@chat_middleware
async def with_async_chunk(context: Any, call_next: Callable[[], Any]) -> None:
    context.stream_transform_hooks.append(async_chunk)
    await call_next()


def said(text: str) -> ChatResponse:
    return ChatResponse(messages=[Message("assistant", [text])])


def update(text: str) -> ChatResponseUpdate:
    return ChatResponseUpdate(role="assistant", contents=[Content.from_text(text)])


def texts_of(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def request(setup: Setup) -> Case:
    only(setup, "async", "middleware can only be async")
    client = Client(lambda _: said(ANSWER))
    agent = Agent(client=client, middleware=[around] * setup.processors)
    earlier = conversation(setup, lambda role, text: Message(role, [text]))

    async def run() -> str:
        messages = [*earlier(), Message("user", [QUESTION])] if setup.size else QUESTION
        return (await agent.run(messages)).text

    hooks = [Hook(around.__code__, setup.processors)]
    return Case(run=run, expected=ANSWER, model=client, texts=texts_of, hooks=hooks)


def chunks(setup: Setup) -> Case:
    texts = tokens(setup.size)

    async def updates(_: Sequence[Message]) -> AsyncIterator[ChatResponseUpdate]:
        for text in texts:
            yield update(text)

    plain = setup.kind == "plain"
    hook, middleware = (plain_chunk, with_plain_chunk) if plain else (async_chunk, with_async_chunk)
    client = Client(updates)
    agent = Agent(client=client, middleware=[middleware] * setup.processors)

    async def run() -> list[str]:
        return [update.text async for update in agent.run(QUESTION, stream=True) if update.text]

    async def alone(_: Sequence[Any]) -> list[str]:
        return [update.text async for update in updates(()) if update.text]

    hooks = [Hook(hook.__code__, setup.processors * setup.size)]
    return Case(run=run, expected=texts, model=client, texts=texts_of, hooks=hooks, alone=alone)


def steps(setup: Setup) -> Case:
    only(setup, "async", "middleware can only be async")
    ran: list[int] = []

    async def echo(x: int) -> int:
        """Echo."""
        ran.append(x)
        return x

    def script(messages: Sequence[Message]) -> ChatResponse:
        done = len(messages) // 2
        if done == setup.size:
            return said(DONE)
        call = Content.from_function_call(
            call_id=f"c{done}", name="echo", arguments=f'{{"x":{done}}}'
        )
        return ChatResponse(messages=[Message("assistant", [call])])

    limit = {"max_iterations": setup.size + 1}
    client = Client(script, function_invocation_configuration=limit)
    agent = Agent(client=client, middleware=[around] * setup.processors, tools=[echo])

    async def run() -> tuple[str, list[int]]:
        ran.clear()
        return (await agent.run(QUESTION)).text, ran

    hooks = [Hook(around.__code__, setup.processors * (setup.size + 1))]
    expected = (DONE, list(range(setup.size)))
    return Case(run=run, expected=expected, model=client, texts=texts_of, hooks=hooks)


def client_on(url: str) -> Any:
    # Imported here: its objects would give the collector work in all other measurements.
    from agent_framework.openai import OpenAIChatCompletionClient

    return OpenAIChatCompletionClient(model="bench", base_url=url, api_key="bench")


def wire(setup: Setup) -> Case:
    provider = Wire(setup.size)
    plain = setup.kind == "plain"
    hook, middleware = (plain_chunk, with_plain_chunk) if plain else (async_chunk, with_async_chunk)
    agent = Agent(client=client_on(provider.url), middleware=[middleware] * setup.processors)

    async def run() -> list[str]:
        return [update.text async for update in agent.run(QUESTION, stream=True) if update.text]

    return Case(
        run=run,
        expected=tokens(setup.size),
        model=provider,
        texts=wire_texts_of,
        # It turns the first and the last events into updates, too.
        hooks=[Hook(hook.__code__, setup.processors * setup.size, extra=4 * setup.processors)],
    )


def paced(url: str, wire: str) -> Callable[[], AsyncIterator[str]]:
    agent = Agent(client=client_on(url))

    async def texts() -> AsyncIterator[str]:
        async for update in agent.run(QUESTION, stream=True):
            if update.text:
                yield update.text

    return texts


def idle(gate: asyncio.Event) -> Callable[[], AsyncIterator[str]]:
    async def updates(_: Sequence[Message]) -> AsyncIterator[ChatResponseUpdate]:
        yield update(IDLE_TEXTS[0])
        await gate.wait()
        yield update(IDLE_TEXTS[1])

    agent = Agent(client=Client(updates))

    async def texts() -> AsyncIterator[str]:
        async for update in agent.run(QUESTION, stream=True):
            if update.text:
                yield update.text

    return texts
