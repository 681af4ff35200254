"""Providers, and what stands before them, at their worst: the same for each adapter.

A clear error of a type that can be caught, what was said so far marked as a part, nothing that
hangs, and the key in none of it.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import re
import socket
import ssl
import traceback
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from procession import Agent, APICallError, ModelError
from procession.models.sse import EventReader

from .conftest import Answer, Exchange, Provider, head, piece, plays, refuses
from .formats import FORMATS, KEY, Format, written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from procession.models.adapter import StreamedModel


# Two of the adapters also over the other transport: one through a provider's client, one without.
WAYS = [*((name, "httpx") for name in FORMATS), ("chat", "aiohttp"), ("google", "aiohttp")]


@pytest.fixture(params=WAYS, ids="-".join)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Format:
    """Each adapter in turn."""
    name, transport = request.param
    monkeypatch.setenv("PROCESSION_TRANSPORT", transport)
    return FORMATS[name]


@pytest.fixture
async def model(form: Format, provider: Provider) -> AsyncIterator[StreamedModel]:
    """The adapter's model behind the provider of this test."""
    made = form.model(provider="example", base_url=provider.url, api_key=KEY, timeout=3.0)
    yield made
    await made.aclose()


def sends(*data: bytes, kind: str = "text/event-stream") -> Answer:
    """An answer of these HTTP chunks, with any content type."""

    async def answer(exchange: Exchange, writer: Any) -> None:
        writer.write(head(kind=kind) + b"".join(map(piece, filter(None, data))) + piece(b""))

    return answer


def drips(body: bytes) -> Answer:
    """An answer of which each byte is an HTTP chunk of its own."""

    async def answer(exchange: Exchange, writer: Any) -> None:
        writer.write(head())
        for place in range(len(body)):
            writer.write(piece(body[place : place + 1]))
            await writer.drain()
        writer.write(piece(b""))

    return answer


def check_secret(error: BaseException) -> None:
    """The key is nowhere in what a program may print of an error."""
    assert KEY not in "".join(traceback.format_exception(error))
    assert KEY not in json.dumps({name: str(value) for name, value in vars(error).items()})


async def failure(model: StreamedModel) -> ModelError:
    """The error of a call of which nothing is delivered."""
    agent = Agent(id="guide", model=model, max_retries=0)
    with pytest.raises(ModelError) as caught:
        await asyncio.wait_for(agent.generate("Hi"), 20)
    check_secret(caught.value)
    return caught.value


async def partial(model: StreamedModel) -> tuple[str, ModelError]:
    """What is delivered of an answer that breaks off, and why it did."""
    agent = Agent(id="guide", model=model, max_retries=0)
    run = await agent.stream("Hi")
    text = "".join([text async for text in run.text_stream])
    assert await run.finish_reason == "error"
    assert isinstance(run.error, ModelError)
    check_secret(run.error)
    return text, run.error


PAGE = "<!doctype html><html><title>502 Bad Gateway</title><body>nginx</body></html>"
RUBBISH = {
    "no JSON": b"data: {broken\n\n",
    "another JSON": b"data: [1, 2]\n\n",
    "wrong types": b'data: {"choices": 1, "type": 2, "candidates": 3}\n\n',
    "wrong bytes": b"data: \xff\xfe\x00\n\n",
    "a web page": b"data: <html>\n\n",
    "nested too deeply": b"data: " + b"[" * 200_000 + b"\n\n",
}


@pytest.mark.parametrize("rubbish", RUBBISH)
async def test_malformed_events_at_first(
    provider: Provider, model: StreamedModel, rubbish: str
) -> None:
    provider.answer = plays([RUBBISH[rubbish]])
    error = await failure(model)
    assert "sent an event that is no" in str(error)


@pytest.mark.parametrize("rubbish", RUBBISH)
async def test_malformed_events_within_an_answer(
    provider: Provider, form: Format, model: StreamedModel, rubbish: str
) -> None:
    """R-209: what was said stays, and is marked as a part."""
    provider.answer = plays([written(form.begun), RUBBISH[rubbish], written(form.begun)])
    text, error = await partial(model)
    assert text == "Half"
    assert "sent an event that is no" in str(error)


@pytest.mark.parametrize("ends", [True, False])
async def test_truncated_bodies(
    provider: Provider, form: Format, model: StreamedModel, ends: bool
) -> None:
    provider.answer = plays([written(form.begun), b'data: {"type"'], ends=ends)
    text, error = await partial(model)
    assert text == "Half"
    assert isinstance(error, APICallError)
    assert error.is_retryable


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "x", ""])
async def test_events_by_another_name_are_read(
    provider: Provider, form: Format, model: StreamedModel, kind: str
) -> None:
    provider.answer = sends(form.recorded(form.whole), kind=kind)
    agent = Agent(id="guide", model=model, max_retries=0)
    assert (await agent.generate("Hi", max_steps=1)).text


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "application/json"])
@pytest.mark.parametrize(
    "body", [b"", b"upstream connect error", b"\x00\x01" * 500, b"null", b"{}"]
)
async def test_bodies_that_are_no_answer(
    provider: Provider, model: StreamedModel, kind: str, body: bytes
) -> None:
    provider.answer = sends(body, kind=kind)
    assert re.match("(example|google) (sent|ended)", str(await failure(model)))


async def test_a_page_instead_of_an_answer(provider: Provider, model: StreamedModel) -> None:
    provider.answer = sends(PAGE.encode(), kind="text/html; charset=utf-8")
    error = await failure(model)
    assert "text/html" in str(error) and "base URL" in str(error)
    assert isinstance(error, APICallError) and error.status_code == 200


async def test_a_page_of_a_proxy(provider: Provider, model: StreamedModel) -> None:
    provider.answer = refuses("502 Bad Gateway", PAGE)
    error = await failure(model)
    assert str(error) == "example answered with status 502: a web page: 502 Bad Gateway"
    assert isinstance(error, APICallError)
    assert (error.status_code, error.is_retryable) == (502, True)


@pytest.mark.parametrize("stage", ["refused", "streamed"])
async def test_a_provider_that_repeats_the_key(
    provider: Provider, model: StreamedModel, stage: str
) -> None:
    body = {"error": {"message": f"wrong key {KEY}", "code": 401}, "type": "error"}
    provider.answer = refuses("401 No", body) if stage == "refused" else plays([written([body])])
    assert "wrong key …" in str(await failure(model))


async def test_ten_megabytes_in_one_event(
    provider: Provider, form: Format, model: StreamedModel
) -> None:
    whole = written(form.begun).replace(b"Half", b"abcdefghij" * 1_000_000)
    provider.answer = plays([whole[i : i + 65_536] for i in range(0, len(whole), 65_536)])
    text, _ = await partial(model)
    assert len(text) == 10_000_000


def test_an_event_in_single_bytes_costs_no_more_than_its_length() -> None:
    """Gathering what has come anew for each read would take minutes."""
    reader, text = EventReader(), b"abcdefgh" * 250_000
    for byte in b"data: " + text:
        assert reader.feed(bytes([byte])) == []
    assert reader.feed(b"\n\n") == [text]


async def test_slow_drip(provider: Provider, form: Format, model: StreamedModel) -> None:
    whole = form.recorded(form.whole)
    agent = Agent(id="guide", model=model, max_retries=0)
    provider.answer = plays([whole])
    expected = await agent.generate("Hi", max_steps=1)
    provider.answer = drips(whole)
    result = await agent.generate("Hi", max_steps=1)
    assert result.text == expected.text
    assert len(result.tool_calls) == len(expected.tool_calls)


async def test_nobody_listens(form: Format) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    error = await unreachable(form, f"http://127.0.0.1:{port}/v1")
    assert error.is_retryable


async def test_no_such_host(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(host: Any, *args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    error = await unreachable(form, "http://models.invalid/v1")
    assert "not known" in str(error)
    assert error.url and error.url.startswith("http://models.invalid/")


async def test_a_plain_server_behind_a_secure_address(form: Format, provider: Provider) -> None:
    await unreachable(form, provider.url.replace("http:", "https:"), timeout=0.2)


async def test_a_certificate_that_nobody_knows(form: Format, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path))
    quiet = asyncio.get_running_loop()
    quiet.set_exception_handler(lambda loop, context: None)  # the server's view of it
    server = await asyncio.start_server(Provider().serve, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        error = await unreachable(form, f"https://127.0.0.1:{port}/v1")
    assert "certificate" in str(error)
    assert not error.is_retryable


async def unreachable(form: Format, url: str, timeout: float = 3.0) -> APICallError:  # noqa: ASYNC109
    model = form.model(provider="example", base_url=url, api_key=KEY, timeout=timeout)
    error = await failure(model)
    await model.aclose()
    assert isinstance(error, APICallError)
    assert str(error).startswith("example could not be reached at http")
    return error


def certificate(folder: Path) -> Path:
    """A file with a new key and a certificate that it signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "example.com")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now,
        not_valid_after=now + datetime.timedelta(days=1),
    ).sign(key, hashes.SHA256())
    file = folder / "certificate.pem"
    form, encoding = serialization.PrivateFormat.PKCS8, serialization.Encoding.PEM
    file.write_bytes(
        key.private_bytes(encoding, form, serialization.NoEncryption())
        + made.public_bytes(encoding)
    )
    return file
