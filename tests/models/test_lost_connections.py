"""Connections that are lost: each is an error that may pass, and a call is tried again (R-216)
as long as nothing of the answer was delivered."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from procession import Agent, APICallError
from procession.models.openai import OpenAIChatModel

from .conftest import Answer, Exchange, Provider, head, piece, plays, recorded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TEXT = recorded("text")
BEGUN = recorded("no_finish")
"""An answer that says something, and no more."""


def reset(writer: asyncio.StreamWriter) -> None:
    """End the connection as a machine that goes down does."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def loses(data: bytes, *, resets: bool = False, waits: bool = False) -> Answer:
    """An answer that ends after these bytes: closed, reset, or silent from then on."""

    async def answer(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        if waits:
            await asyncio.sleep(60)
        if resets:
            await asyncio.sleep(0.05)  # a reset takes along what was not read yet
            reset(writer)
        writer.close()

    return answer


ENDS_WITH_THE_CONNECTION = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
PACKED = head(Content_Encoding="gzip") + piece(b"this is no gzip") + piece(b"")

NOTHING_DELIVERED = {
    "closed before headers": loses(b""),
    "reset before headers": loses(b"", resets=True),
    "reset within headers": loses(head()[:30], resets=True),
    "silent before headers": loses(b"", waits=True),
    "no HTTP": loses(b"SSH-2.0-example\r\n"),
    "closed after headers": loses(head()),
    "reset after headers": loses(head(), resets=True),
    "silent after headers": loses(head(), waits=True),
    "reset within an event": loses(head() + piece(TEXT[:40]), resets=True),
    "no gzip": loses(PACKED),
    "an empty stream": loses(head() + piece(b"")),
    "comments only": loses(head() + piece(b": on\n\n") + piece(b"")),
    "after the first event": loses(head() + piece(TEXT[: TEXT.index(b"\n\n") + 2])),
    "an error instead of an answer": plays([b'data: {"error": {"type": "overloaded_error"}}\n\n']),
    "cut within an event": loses(ENDS_WITH_THE_CONNECTION + TEXT[:40]),
    "refused, and reset": loses(head("503 Busy", "application/json"), resets=True),
    "refused, and silent": loses(head("503 Busy", "application/json"), waits=True),
}

SOMETHING_DELIVERED = {
    "closed": loses(head() + piece(BEGUN)),
    "reset": loses(head() + piece(BEGUN), resets=True),
    "silent": loses(head() + piece(BEGUN), waits=True),
    "ended in good order": loses(head() + piece(BEGUN) + piece(b"")),
    "ended with the connection": loses(ENDS_WITH_THE_CONNECTION + BEGUN),
}


@pytest.fixture(params=["httpx", "aiohttp"])
async def model(
    provider: Provider, request: pytest.FixtureRequest
) -> AsyncIterator[OpenAIChatModel]:
    """A model behind the provider of this test, with little patience."""
    model = OpenAIChatModel(
        "example-1",
        provider="example",
        base_url=provider.url,
        timeout=0.2,
        transport=request.param,
    )
    yield model
    await model.aclose()


def first(answer: Answer, then: Answer) -> Answer:
    """One answer to the first call, another to the later ones."""
    answers = [answer]

    async def play(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        await (answers.pop() if answers else then)(exchange, writer)

    return play


@pytest.mark.parametrize("way", NOTHING_DELIVERED)
async def test_a_call_of_which_nothing_came_is_made_again(
    provider: Provider, model: OpenAIChatModel, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-216"""
    monkeypatch.setattr("procession.retrying.FIRST_PAUSE", 0.0)
    provider.answer = first(NOTHING_DELIVERED[way], plays([TEXT]))
    agent = Agent(id="guide", model=model, max_retries=1)
    assert (await agent.generate("Hi")).text == "Bonjour, le märchen 😀 你好"
    assert len(provider.exchanges) == 2


@pytest.mark.parametrize("way", NOTHING_DELIVERED)
async def test_the_error_is_the_providers_and_may_pass(
    provider: Provider, model: OpenAIChatModel, way: str
) -> None:
    """R-236"""
    provider.answer = NOTHING_DELIVERED[way]
    agent = Agent(id="guide", model=model, max_retries=0)
    with pytest.raises(APICallError) as caught:
        await agent.generate("Hi")
    assert caught.value.is_retryable
    assert caught.value.message


@pytest.mark.parametrize("way", SOMETHING_DELIVERED)
async def test_an_answer_that_was_seen_is_not_asked_for_again(
    provider: Provider, model: OpenAIChatModel, way: str
) -> None:
    """R-216"""
    provider.answer = first(SOMETHING_DELIVERED[way], plays([TEXT]))
    agent = Agent(id="guide", model=model, max_retries=3)
    run = await agent.stream("Hi")
    assert "".join([text async for text in run.text_stream]) == "It stops in the mid"
    assert await run.finish_reason == "error"
    assert isinstance(run.error, APICallError)
    assert run.error.is_retryable
    assert len(provider.exchanges) == 1


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    model = OpenAIChatModel("x", provider="example", base_url=f"http://127.0.0.1:{port}/v1")
    agent = Agent(id="guide", model=model, max_retries=0)
    with pytest.raises(APICallError, match="example could not be reached") as caught:
        await agent.generate("Hi")
    assert caught.value.is_retryable
    await model.aclose()
