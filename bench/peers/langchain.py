"""LangChain's create_agent. Its hooks: wrap_model_call around a model call; none for chunks.

Of its two kinds of middleware this is the cheaper one: before_model and after_model make every hook
a node of the graph, about twice the price. One function is both in and out. Its plain twin,
wrap_model_call, is not called in async runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool

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

ASYNC_ONLY = "in async runs the middleware has to be async"


class Model(BaseChatModel):
    """Answers with what `script` makes of the messages."""

    script: Any
    recorder: Any = None

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def heard(self, messages: list[BaseMessage]) -> Any:
        if self.recorder.log is not None:
            self.recorder.log.append(list(messages))
        return self.script(messages)

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise RuntimeError("only the async path is measured")

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.heard(messages))])


class StreamingModel(Model):
    """Streams what `script` makes of the messages: an async iterator of texts."""

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        async for text in self.heard(messages):
            yield ChatGenerationChunk(message=AIMessageChunk(content=text))
        yield ChatGenerationChunk(message=AIMessageChunk(content="", chunk_position="last"))


async def around(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
    return await handler(request)


def middleware(count: int) -> list[AgentMiddleware]:
    """`count` of them, each of a name of its own: two of one name are refused."""
    kinds = [
        type(f"Around{i}", (AgentMiddleware,), {"awrap_model_call": around}) for i in range(count)
    ]
    return [kind() for kind in kinds]


def texts_of(messages: list[BaseMessage]) -> list[str]:
    return [str(message.content) for message in messages]


def request(setup: Setup) -> Case:
    only(setup, "async", ASYNC_ONLY)
    recorder = Recorder()
    model = Model(script=lambda _: AIMessage(ANSWER), recorder=recorder)
    agent = create_agent(model, tools=[], middleware=middleware(setup.processors))
    kinds = {"user": HumanMessage, "assistant": AIMessage}
    earlier = conversation(setup, lambda role, text: kinds[role](text))

    async def run() -> str:
        state = await agent.ainvoke({"messages": [*earlier(), HumanMessage(QUESTION)]})
        return state["messages"][-1].content

    hooks = [Hook(around.__code__, setup.processors, extra=None)]
    return Case(run=run, expected=ANSWER, model=recorder, texts=texts_of, hooks=hooks)


def stream_of(agent: Any) -> AsyncIterator[Any]:
    question = {"messages": [HumanMessage(QUESTION)]}
    return agent.astream(question, stream_mode="messages")


def chunks(setup: Setup) -> Case:
    only(setup, "async", "no hook for chunks; async generators stand in")
    texts = tokens(setup.size)

    async def script(_: Any) -> AsyncIterator[str]:
        for text in texts:
            yield text

    recorder = Recorder()
    model = StreamingModel(script=script, recorder=recorder)
    agent = create_agent(model, tools=[])

    async def run() -> list[str]:
        stream = relayed(stream_of(agent), setup.processors)
        return [message.content async for message, _ in stream if message.content]

    async def alone(_: Sequence[Any]) -> list[Any]:
        stream = model._astream([])
        return [chunk.message.content async for chunk in stream if chunk.message.content]

    return Case(
        run=run,
        expected=texts,
        model=recorder,
        texts=texts_of,
        hooks=relay_hooks(setup),
        alone=alone,
    )


def steps(setup: Setup) -> Case:
    only(setup, "async", ASYNC_ONLY)
    ran: list[int] = []

    @tool
    async def echo(x: int) -> int:
        """Echo."""
        ran.append(x)
        return x

    def script(messages: list[BaseMessage]) -> AIMessage:
        done = len(messages) // 2
        if done == setup.size:
            return AIMessage(DONE)
        return AIMessage("", tool_calls=[{"name": "echo", "args": {"x": done}, "id": f"c{done}"}])

    recorder = Recorder()
    model = Model(script=script, recorder=recorder)
    agent = create_agent(model, tools=[echo], middleware=middleware(setup.processors))
    limit = {"recursion_limit": 4 * setup.size + 10}

    async def run() -> tuple[str, list[int]]:
        ran.clear()
        state = await agent.ainvoke({"messages": [HumanMessage(QUESTION)]}, limit)
        return state["messages"][-1].content, ran

    hooks = [Hook(around.__code__, setup.processors * (setup.size + 1), extra=None)]
    expected = (DONE, list(range(setup.size)))
    return Case(run=run, expected=expected, model=recorder, texts=texts_of, hooks=hooks)


def agent_on(url: str) -> Any:
    # Imported here: its objects would give the collector work in all other measurements.
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="bench", base_url=url, api_key="bench", stream_usage=True)
    return create_agent(model, tools=[])


def wire(setup: Setup) -> Case:
    only(setup, "async", "no hook for chunks; async generators stand in")
    provider = Wire(setup.size)
    agent = agent_on(provider.url)

    async def run() -> list[str]:
        stream = relayed(stream_of(agent), setup.processors)
        return [message.content async for message, _ in stream if message.content]

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
        async for message, _ in stream_of(agent):
            if message.content:
                yield message.content

    return texts


def idle(gate: asyncio.Event) -> Callable[[], AsyncIterator[str]]:
    async def script(_: Any) -> AsyncIterator[str]:
        yield IDLE_TEXTS[0]
        await gate.wait()
        yield IDLE_TEXTS[1]

    agent = create_agent(StreamingModel(script=script, recorder=Recorder()), tools=[])

    async def texts() -> AsyncIterator[str]:
        async for message, _ in stream_of(agent):
            if message.content:
                yield message.content

    return texts
