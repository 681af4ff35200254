"""What models open is closed with their event loop, or when nobody holds them any more (law 6)."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent, APICallError
from procession.models import keeping
from procession.models.openai import OpenAIChatModel

from .conftest import Exchange, Provider, head, piece

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WHOLE = (
    b'data: {"id":"r","choices":[{"delta":{"content":"Hello"}}]}\n\n'
    b'data: {"id":"r","choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


async def says(exchange: Exchange, writer: Any) -> None:
    """An answer on a connection that stays."""
    writer.write(head() + piece(WHOLE) + piece(b""))


@pytest.fixture
async def answering(provider: Provider) -> AsyncIterator[Provider]:
    """A provider that keeps its connections open."""
    provider.answer = says
    yield provider


ONE_LINER = """
import asyncio
from procession import Agent

print(asyncio.run(Agent(id="a", model={model!r}).generate("Hi")).text)
"""
HELD = """
import asyncio
from procession import Agent

agent = Agent(id="a", model={model!r})
for _ in range(2):
    print(asyncio.run(agent.generate("Hi")).text)
"""


@pytest.mark.parametrize(
    ("model", "transport", "program", "answers"),
    [
        ("openai/x", "httpx", ONE_LINER, 1),
        ("openai/x", "httpx", HELD, 2),
        (["openai/x"], "aiohttp", ONE_LINER, 1),
        ("pydantic-ai/openai-chat:x", "httpx", HELD, 2),
    ],
)
async def test_a_program_leaves_nothing_open(
    answering: Provider, model: Any, transport: str, program: str, answers: int
) -> None:
    """What Python has to say of connections that nobody closed is heard in a process of its own."""
    if "pydantic" in model:
        answering.answer = says_at_once
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "always::ResourceWarning", "-c", program.format(model=model)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            "OPENAI_BASE_URL": answering.url,
            "OPENAI_API_KEY": "example-key-0001",
            "PROCESSION_TRANSPORT": transport,
            "PYTHONPATH": ":".join(sys.path),
        },
    )
    said, complained = await process.communicate()
    assert (said.decode().split(), complained.decode()) == (["Hello"] * answers, "")


async def says_at_once(exchange: Exchange, writer: Any) -> None:
    """The same for a client that asks for no stream."""
    body = (
        b'{"id":"r","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
        b'"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}'
    )
    writer.write(head(kind="application/json") + piece(body) + piece(b""))


def open_here() -> list[keeping.Kept]:
    """What is open in this event loop; other tests may have some in others."""
    return [kept for kept in keeping._kept if kept.loop is asyncio.get_running_loop()]


def model_of(provider: Provider) -> OpenAIChatModel:
    return OpenAIChatModel("x", base_url=provider.url, api_key="example-key-0001")


async def test_a_model_that_is_dropped_closes_its_connections(answering: Provider) -> None:
    """A function of the request may make a model for each: they do not pile up."""
    agent = Agent(id="a", model=lambda scope: model_of(answering))
    for _ in range(3):
        assert (await agent.generate("Hi")).text == "Hello"
        gc.collect()
        await asyncio.wait_for(answering.hung_up.wait(), 5)
        answering.hung_up.clear()
    assert open_here() == []


def test_a_model_that_is_used_in_many_loops_holds_on_to_the_last_one_only() -> None:
    """Nothing piles up with each `asyncio.run`: no loop, no client, nothing to close them."""
    model = OpenAIChatModel("x", base_url="http://127.0.0.1:9/v1", api_key="example-key-0001")
    loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()

    async def ask() -> None:
        loops.add(asyncio.get_running_loop())
        with pytest.raises(APICallError):
            await Agent(id="a", model=model).generate("Hi")

    for _ in range(4):
        asyncio.run(ask())
    gc.collect()
    assert len(loops) <= 1


async def test_closing_is_done_once(answering: Provider) -> None:
    model = model_of(answering)
    await Agent(id="a", model=model).generate("Hi")
    await asyncio.gather(model.aclose(), model.aclose())
    await model.aclose()
    assert open_here() == []
    assert (await Agent(id="a", model=model).generate("Hi")).text == "Hello"
    assert [exchange.connection for exchange in answering.exchanges] == [1, 2]


def test_a_loop_that_was_closed_by_force_is_forgotten() -> None:
    """Nothing is left to be closed there, and nothing of it is held on to."""
    closed: list[str] = []

    class Owner:
        pass

    async def close() -> None:
        closed.append("now")

    async def begin(owner: Owner) -> None:
        keeping.keep(owner, close)

    first, second = Owner(), Owner()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin(first))
    loop.close()
    assert closed == []
    asyncio.run(begin(second))
    assert closed == ["now"]
    assert [kept for kept in keeping._kept if kept.loop.is_closed()] == []
    del first
    gc.collect()
