"""Both transports: one setting, and the same behaviour whichever carries the calls.

How they fail is in test_bad_providers.py and test_lost_connections.py.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from procession import Agent
from procession.errors import ConfigurationError
from procession.models.transports import http_client

from .conftest import Exchange, Provider, head, piece, plays
from .formats import FORMATS, KEY, Format, written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from procession.models.adapter import StreamedModel

WAYS = [(name, transport) for name in FORMATS for transport in ("httpx", "aiohttp")]


@pytest.fixture(params=WAYS, ids="-".join)
def way(request: pytest.FixtureRequest) -> tuple[Format, str]:
    """Each adapter over each transport."""
    return FORMATS[request.param[0]], request.param[1]


@pytest.fixture
async def model(way: tuple[Format, str], provider: Provider) -> AsyncIterator[StreamedModel]:
    form, transport = way
    made = form.model(
        provider="example", base_url=provider.url, api_key=KEY, timeout=5.0, transport=transport
    )
    provider.answer = plays([form.recorded(form.whole)])
    yield made
    await made.aclose()


async def asked(model: StreamedModel) -> str:
    agent = Agent(id="guide", model=model, max_retries=0)
    return (await agent.generate("Hi", max_steps=1)).text


async def test_connections_are_used_again(provider: Provider, model: StreamedModel) -> None:
    for _ in range(3):
        assert await asked(model)
    assert [exchange.connection for exchange in provider.exchanges] == [1, 1, 1]
    assert not provider.hung_up.is_set()
    await model.aclose()
    await asyncio.wait_for(provider.hung_up.wait(), 5)


async def test_what_is_sent(
    way: tuple[Format, str], provider: Provider, model: StreamedModel
) -> None:
    await asked(model)
    headers = provider.exchanges[0].headers
    assert headers["content-type"] == "application/json"
    assert "aiohttp" not in headers.get("user-agent", "")
    assert KEY in "".join(headers.values())


@pytest.mark.parametrize("how", ["closed", "cancelled", "aborted"])
async def test_who_stops_reading_stops_the_provider(
    way: tuple[Format, str], provider: Provider, model: StreamedModel, how: str
) -> None:
    form, _ = way
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def answer(exchange: Exchange, writer: Any) -> None:
        writer.write(head() + piece(written(form.begun)))
        await writer.drain()
        begun.set()
        await go_on.wait()

    provider.answer = answer
    agent = Agent(id="guide", model=model, max_retries=0)
    run = await agent.stream("Hi")
    texts = run.text_stream
    assert await anext(texts) == "Half"
    waiting = asyncio.ensure_future(anext(texts))
    await begun.wait()
    await asyncio.sleep(0)
    if how == "cancelled":
        waiting.cancel()
        await asyncio.wait([waiting])
    await run.aclose()
    await asyncio.wait([waiting], timeout=5)
    await asyncio.wait_for(provider.hung_up.wait(), 5)


async def test_answers_that_are_packed(
    way: tuple[Format, str], provider: Provider, model: StreamedModel
) -> None:
    import gzip

    form, _ = way
    body = gzip.compress(form.recorded(form.whole))

    async def answer(exchange: Exchange, writer: Any) -> None:
        packed = piece(body[:20]) + piece(body[20:]) + piece(b"")
        writer.write(head(Content_Encoding="gzip") + packed)

    provider.answer = answer
    assert await asked(model)


async def test_many_at_a_time(provider: Provider, model: StreamedModel) -> None:
    texts = await asyncio.gather(*(asked(model) for _ in range(40)))
    assert len(set(texts)) == 1


@pytest.mark.parametrize("excepted", [False, True])
async def test_proxies_of_the_environment(
    way: tuple[Format, str], provider: Provider, monkeypatch: pytest.MonkeyPatch, excepted: bool
) -> None:
    form, transport = way
    provider.answer = plays([form.recorded(form.whole)])
    monkeypatch.setenv("HTTP_PROXY", provider.url.removesuffix("/v1"))
    model = form.model(
        provider="example",
        base_url="http://localhost:9/v1" if excepted else "http://models.invalid/v1",
        api_key=KEY,
        transport=transport,
        timeout=2.0,
        **({"use_proxies": False} if excepted else {}),
    )
    try:
        if excepted:
            with pytest.raises(Exception, match="could not be reached"):
                await asked(model)
            assert provider.exchanges == []
        else:
            assert await asked(model)
            assert provider.exchanges[0].path.startswith("http://models.invalid/v1")
    finally:
        await model.aclose()


PROGRAM = """
import asyncio, gc, sys
from tests.models.conftest import Provider, plays
from tests.models.formats import FORMATS

async def call():
    form, provider = FORMATS[sys.argv[1]], Provider()
    provider.answer = plays([form.recorded(form.whole)])
    async with await asyncio.start_server(provider.serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        kept, dropped = (form.model(base_url=url, transport="aiohttp") for _ in range(2))
        for model in (kept, dropped):
            await asked(model)
        del model, dropped
        gc.collect()
        await asyncio.wait_for(provider.hung_up.wait(), 5)
    return kept

async def asked(model):
    from procession import Agent
    print((await Agent(id="guide", model=model).generate("Hi", max_steps=1)).text)

kept = asyncio.run(call())
del kept
gc.collect()
"""


@pytest.mark.parametrize("name", ["chat", "google"])
def test_a_model_that_nobody_closed_says_nothing(name: str) -> None:
    """Neither when it is dropped, nor when its event loop has ended before it."""
    root = Path(__file__).parent.parent.parent
    command = [sys.executable, "-c", PROGRAM, name]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 2
    # The provider here ends with its loop, and may complain of that.
    assert "Unclosed" not in done.stderr


def made(**options: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(**options)


def test_transports_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"unknown transport 'carrier'.*'aiohttp'"):
        http_client(made, "carrier", use_proxies=True)
    monkeypatch.setenv("PROCESSION_TRANSPORT", "pigeon")
    with pytest.raises(ConfigurationError, match="unknown transport 'pigeon'"):
        http_client(made, None, use_proxies=True)


def test_a_transport_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "procession.models.aiohttp_transport", raising=False)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'procession\[fast\]'"):
        http_client(made, "aiohttp", use_proxies=True)


def test_proxies_that_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    with pytest.raises(ConfigurationError, match="SOCKS"):
        http_client(made, "aiohttp", use_proxies=True)
    http_client(made, "aiohttp", use_proxies=False)


async def test_the_environment_chooses(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    from procession.models.aiohttp_transport import AiohttpTransport

    calls: list[str] = []
    send = AiohttpTransport.handle_async_request

    async def noticed(self: AiohttpTransport, request: httpx2.Request) -> httpx2.Response:
        calls.append(str(request.url))
        return await send(self, request)

    monkeypatch.setattr(AiohttpTransport, "handle_async_request", noticed)
    monkeypatch.setenv("PROCESSION_TRANSPORT", "aiohttp")
    for number, form in enumerate(FORMATS.values(), 1):
        provider.answer = plays([form.recorded(form.whole)])
        model = form.model(provider="example", base_url=provider.url, api_key=KEY)
        await asked(model)
        await model.aclose()
        assert len(calls) == number
