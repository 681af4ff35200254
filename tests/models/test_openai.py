"""The chat adapter against a provider on loopback: requests, answers, and what goes wrong."""

from __future__ import annotations

import asyncio
import gc
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import httpx2
import openai
import pytest

from procession.errors import APICallError, InputError, MissingKeyError
from procession.model import LanguageModel, ModelConfig, ModelRequest
from procession.models.compatible import compatible_model
from procession.models.openai import OpenAIChatModel, openai_model

from .conftest import Exchange, Provider, head, piece, plays, recorded, refuses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from procession.chunks import Chunk

KEY = "example-key-1234567890"


@pytest.fixture
async def model(provider: Provider) -> AsyncIterator[OpenAIChatModel]:
    """A model behind the provider of this test."""
    model = OpenAIChatModel("example-1", provider="example", base_url=provider.url, api_key=KEY)
    yield model
    await model.aclose()


def asks(text: str = "Hello", **options: Any) -> ModelRequest:
    prompt = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    return ModelRequest(prompt=prompt, settings=options.pop("settings", {}), **options)


async def answer_of(model: OpenAIChatModel, request: ModelRequest | None = None) -> list[Chunk]:
    async with aclosing(model.stream(request or asks())) as stream:
        return [chunk async for chunks in stream for chunk in chunks]


def text(chunks: list[Chunk]) -> str:
    return "".join(chunk.payload.text for chunk in chunks if chunk.type == "text-delta")


def test_is_a_language_model() -> None:
    assert isinstance(openai_model("gpt-5"), LanguageModel)


async def test_streams_and_sends_what_was_asked(provider: Provider, model: OpenAIChatModel) -> None:
    provider.answer = plays([recorded("text")])
    chunks = await answer_of(model, asks(settings={"headers": {"X-Example": "1"}}))
    assert chunks[0].type == "stream-start"
    assert chunks[0].payload.request["body"]["model"] == "example-1"
    assert chunks[0].payload.headers["content-type"] == "text/event-stream"
    assert text(chunks) == "Bonjour, le märchen 😀 你好"
    assert chunks[-1].type == "finish"
    (exchange,) = provider.exchanges
    assert exchange.path == "/v1/chat/completions"
    assert exchange.headers["authorization"] == f"Bearer {KEY}"
    assert exchange.headers["x-example"] == "1"
    assert exchange.json == {
        "model": "example-1",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_a_server_that_refuses_to_be_asked_for_usage(provider: Provider) -> None:
    model = OpenAIChatModel("example-1", base_url=provider.url, include_usage=False)
    provider.answer = plays([recorded("text")])
    await answer_of(model)
    await model.aclose()
    assert "stream_options" not in provider.exchanges[0].json


@pytest.mark.parametrize("size", [1, 7, 64])
async def test_small_reads_change_nothing(
    provider: Provider, model: OpenAIChatModel, size: int
) -> None:
    body = recorded("tools_interleaved")
    provider.answer = plays([body[i : i + size] for i in range(0, len(body), size)])
    chunks = await answer_of(model)
    args = [chunk.payload.args for chunk in chunks if chunk.type == "tool-call"]
    assert args == [{"city": "Lyon"}, {"a": 1, "b": 2}]


async def test_chunks_come_as_soon_as_their_bytes(
    provider: Provider, model: OpenAIChatModel
) -> None:
    go_on = asyncio.Event()

    async def answer(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        body = recorded("text").split(b"\n\n")
        writer.write(head() + piece(b"\n\n".join(body[:2]) + b"\n\n"))
        await go_on.wait()
        writer.write(piece(b"\n\n".join(body[2:])) + piece(b""))

    provider.answer = answer
    async with aclosing(model.stream(asks())) as stream:
        first = await anext(stream)
        assert text(list(first)) == "Bon"
        go_on.set()
        rest = [chunk async for chunks in stream for chunk in chunks]
    assert rest[-1].type == "finish"


async def test_calls_share_a_connection(provider: Provider, model: OpenAIChatModel) -> None:
    provider.answer = plays([recorded("text")])
    for _ in range(3):
        await answer_of(model)
    assert [exchange.connection for exchange in provider.exchanges] == [1, 1, 1]


async def test_closing_the_stream_hangs_up(provider: Provider, model: OpenAIChatModel) -> None:
    provider.answer = plays([recorded("text")[:700]] + [b": on\n\n"] * 500, pause=0.01)
    async with aclosing(model.stream(asks())) as stream:
        async for chunks in stream:
            if text(list(chunks)):
                break
    await asyncio.wait_for(provider.hung_up.wait(), 20)


async def test_cancelling_a_wait_hangs_up(provider: Provider, model: OpenAIChatModel) -> None:
    async def never(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        writer.write(head())
        await asyncio.sleep(60)

    provider.answer = never
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(answer_of(model))
    while not provider.exchanges:  # noqa: ASYNC110 - a list has no event
        await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(provider.hung_up.wait(), 20)
    gc.collect()
    left = {task for task in asyncio.all_tasks() - before if "stream" in repr(task.get_coro())}
    assert not left


async def test_a_server_that_never_ends_the_response_costs_half_a_second(
    provider: Provider, model: OpenAIChatModel
) -> None:
    async def lingers(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        writer.write(head() + piece(recorded("text")))
        await asyncio.sleep(60)

    provider.answer = lingers
    chunks = await asyncio.wait_for(answer_of(model), 5)
    assert chunks[-1].type == "finish"


async def test_an_answer_in_one_piece_of_json(provider: Provider, model: OpenAIChatModel) -> None:
    whole = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "id": "x"}
    provider.answer = refuses("200 OK", whole)
    chunks = await answer_of(model)
    assert text(chunks) == "Hi"
    assert chunks[-1].payload.step_result.reason == "stop"


async def test_without_streaming_each_block_is_one_delta(
    provider: Provider, model: OpenAIChatModel
) -> None:
    body = recorded("text")
    provider.answer = plays([body[i : i + 50] for i in range(0, len(body), 50)])
    chunks = await answer_of(model, asks(streaming=False))
    deltas = [chunk.payload.text for chunk in chunks if chunk.type == "text-delta"]
    assert deltas == ["Bonjour, le märchen 😀 你好"]


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        ("400 Bad Request", False),
        ("401 Unauthorized", False),
        ("404 Not Found", False),
        ("408 Request Timeout", True),
        ("409 Conflict", True),
        ("422 Unprocessable", False),
        ("429 Too Many Requests", True),
        ("500 Internal Server Error", True),
        ("503 Service Unavailable", True),
    ],
)
async def test_a_refused_call(
    provider: Provider, model: OpenAIChatModel, status: str, retryable: bool
) -> None:
    message = f"context length exceeded for {KEY}"
    provider.answer = refuses(
        status,
        {"error": {"message": message, "type": "example", "code": None}},
        Retry_After="7",
        Set_Cookie="session=secret",
        Openai_Organization="example-org",
    )
    with pytest.raises(APICallError) as caught:
        await answer_of(model)
    error = caught.value
    assert error.message == "context length exceeded for …"
    assert error.message in str(error)
    assert error.status_code == int(status[:3])
    assert error.is_retryable is retryable
    assert "context length exceeded" in (error.response_body or "")
    assert error.url == f"{provider.url}/chat/completions"
    assert error.response_headers is not None
    assert error.response_headers["retry-after"] == "7"
    assert isinstance(error.__cause__, openai.APIStatusError)
    assert KEY not in repr(vars(error))
    assert "secret" not in repr(vars(error))
    assert "example-org" not in repr(vars(error))
    assert len(provider.exchanges) == 1, "the engine retries, not the adapter"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "Provider error", "metadata": {"raw": "slow down"}}}, "slow down"),
        ({"detail": "no such model"}, "no such model"),
        ({"error": "plain words"}, "plain words"),
        ({"message": "at the top"}, "at the top"),
        ("only text", "only text"),
        ("<html><body>Bad gateway</body></html>", "answered with status 502"),
        ({}, "answered with status 502"),
    ],
)
async def test_the_providers_words_in_whatever_form(
    provider: Provider, model: OpenAIChatModel, body: Any, message: str
) -> None:
    provider.answer = refuses("502 Bad Gateway", body)
    with pytest.raises(APICallError, match=message):
        await answer_of(model)


async def test_a_web_page_instead_of_an_answer(provider: Provider, model: OpenAIChatModel) -> None:
    async def page(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        writer.write(head(kind="text/html") + piece(b"<html>welcome</html>") + piece(b""))

    provider.answer = page
    with pytest.raises(APICallError, match="check the base URL"):
        await answer_of(model)


async def test_a_connection_that_breaks_off(provider: Provider, model: OpenAIChatModel) -> None:
    provider.answer = plays([recorded("no_finish")], ends=False)
    heard: list[Chunk] = []
    with pytest.raises(APICallError, match="broke off before its answer was complete") as caught:
        async for chunks in model.stream(asks()):
            heard += chunks
    assert text(heard) == "It stops in the mid"
    assert caught.value.is_retryable
    assert isinstance(caught.value.__cause__, httpx2.TransportError)


async def test_nobody_listens() -> None:
    model = OpenAIChatModel("x", provider="example", base_url="http://user:pw@127.0.0.1:9/v1?k=1")
    with pytest.raises(APICallError, match="example could not be reached") as caught:
        await answer_of(model)
    assert caught.value.is_retryable
    assert caught.value.status_code is None
    assert "pw" not in repr(vars(caught.value))
    await model.aclose()


async def test_a_timeout_is_an_error_that_may_pass(
    provider: Provider, model: OpenAIChatModel
) -> None:
    async def slow(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    provider.answer = slow
    with pytest.raises(APICallError, match="could not be reached") as caught:
        await answer_of(model, asks(settings={"timeout": 0.1}))
    assert caught.value.is_retryable


async def test_without_a_key_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(MissingKeyError, match="OPENAI_API_KEY"):
        await answer_of(openai_model("gpt-5"))


async def test_openais_own_key_goes_to_no_other_address(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", "example-org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "example-project")
    config = ModelConfig(id="acme/small", url=provider.url, headers={"X-Team": "blue"})
    model = compatible_model(config)
    assert (model.provider, model.model_id) == ("acme", "small")
    await answer_of(model)
    await model.aclose()
    (exchange,) = provider.exchanges
    assert "authorization" not in exchange.headers
    assert "example-" not in repr(exchange.headers)
    assert exchange.headers["x-team"] == "blue"


async def test_the_callers_own_client(provider: Provider) -> None:
    async with openai.AsyncOpenAI(api_key=KEY, base_url=provider.url) as client:
        model = OpenAIChatModel("example-1", client=client)
        provider.answer = refuses("500 Oops", {"error": {"message": "down"}})
        with pytest.raises(APICallError, match="down"):
            await answer_of(model)
        assert len(provider.exchanges) == 1
        await model.aclose()
        assert not client.is_closed()


def test_each_event_loop_has_connections_of_its_own() -> None:
    async def once() -> str:
        provider = Provider()
        provider.answer = plays([recorded("text")])
        server = await asyncio.start_server(provider.serve, "127.0.0.1", port)
        async with server:
            chunks = await answer_of(model)
            await model.aclose()
            return text(chunks)

    async def free_port() -> int:
        server = await asyncio.start_server(Provider().serve, "127.0.0.1", 0)
        async with server:
            return server.sockets[0].getsockname()[1]

    port = asyncio.run(free_port())
    model = OpenAIChatModel("x", provider="example", base_url=f"http://127.0.0.1:{port}/v1")
    assert asyncio.run(once()) == asyncio.run(once()) == "Bonjour, le märchen 😀 你好"


async def test_half_a_character_in_a_prompt_is_replaced(
    provider: Provider, model: OpenAIChatModel
) -> None:
    await answer_of(model, asks("a\ud83db"))
    assert provider.exchanges[0].json["messages"][0]["content"] == "a\ufffdb"


async def test_parts_that_cannot_be_sent_are_refused_before_the_call(
    provider: Provider, model: OpenAIChatModel
) -> None:
    prompt = [{"role": "user", "content": [{"type": "file", "mediaType": "video/mp4", "data": ""}]}]
    with pytest.raises(InputError, match="video/mp4"):
        await answer_of(model, ModelRequest(prompt=prompt, settings={}))
    assert provider.exchanges == []
