"""A provider on loopback that says what a test tells it to, and the embedded model, for real."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from procession.models.adapter import StreamedModel
from procession.models.local_server import LocalServer
from procession.models.weights import ensure_weights

DATA = Path(__file__).parent.parent / "data" / "openai_chat"


@pytest.fixture(autouse=True)
async def connections(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """What a test's models leave open is closed while the event loop runs."""
    asked: weakref.WeakSet[StreamedModel] = weakref.WeakSet()
    client_of = StreamedModel._client

    def noting(self: StreamedModel) -> Any:
        asked.add(self)
        return client_of(self)

    monkeypatch.setattr(StreamedModel, "_client", noting)
    yield
    for model in list(asked):
        await model.aclose()


class Exchange:
    """One request that arrived: what it asked, and on which connection (counted from 1)."""

    def __init__(self, connection: int, head: bytes, body: bytes) -> None:
        self.connection = connection
        lines = head.decode("latin-1").split("\r\n")
        self.path = lines[0].split(" ")[1]
        pairs = (line.split(": ", 1) for line in lines[1:] if ": " in line)
        self.headers = {name.lower(): value for name, value in pairs}
        self.json: Any = json.loads(body) if body else None


Answer = Callable[[Exchange, asyncio.StreamWriter], Awaitable[None]]


class Provider:
    """An HTTP server that keeps connections alive and answers with `answer`."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.hung_up = asyncio.Event()
        """Set once a client closed a connection."""
        self.answer: Answer = plays([b"data: [DONE]\n\n"])
        self.url = ""
        self._connections = 0
        self._open: set[asyncio.StreamWriter] = set()

    def hang_up(self) -> None:
        """Close what clients have left open: from Python 3.12.1 on a server waits for them."""
        for writer in self._open:
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        connection = self._connections
        self._open.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                exchange = Exchange(connection, head, b"")
                length = int(exchange.headers.get("content-length", 0))
                exchange = Exchange(connection, head, await reader.readexactly(length))
                self.exchanges.append(exchange)
                answering = asyncio.ensure_future(self.answer(exchange, writer))
                closing = asyncio.ensure_future(self._watch(reader))
                await asyncio.wait({answering, closing}, return_when=asyncio.FIRST_COMPLETED)
                if closing.done():
                    answering.cancel()
                await cancel_and_wait(closing)
                await asyncio.gather(answering, return_exceptions=True)
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            self.hung_up.set()
        finally:
            self._open.discard(writer)
            writer.close()

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        # Clients of this API send nothing while an answer is under way: only the end can come.
        while not reader.at_eof():  # noqa: ASYNC110 - the reader has no event for its end
            await asyncio.sleep(0.005)
        self.hung_up.set()


async def cancel_and_wait(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])


def head(status: str = "200 OK", kind: str = "text/event-stream", **headers: str) -> bytes:
    """The head of an answer whose body comes in HTTP chunks."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Transfer-Encoding: chunked"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def piece(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def plays(pieces: list[bytes], *, ends: bool = True, pause: float = 0.0) -> Answer:
    """An answer of these pieces; without `ends` the connection is cut after them."""

    async def answer(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        writer.write(head())
        for data in pieces:
            writer.write(piece(data))
            await writer.drain()
            if pause:
                await asyncio.sleep(pause)
        if ends:
            writer.write(piece(b""))
        else:
            writer.close()

    return answer


def refuses(status: str, body: Any, **headers: str) -> Answer:
    """An error answer; a body that is no text is sent as JSON."""

    async def answer(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        kind = "text/plain" if isinstance(body, str) else "application/json"
        writer.write(head(status, kind, **headers) + piece(text.encode()) + piece(b""))

    return answer


def recorded(name: str) -> bytes:
    """The event text of a data file."""
    return (DATA / f"{name}.txt").read_bytes()


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """A provider of this test's own."""
    server_side = Provider()
    server = await asyncio.start_server(server_side.serve, "127.0.0.1", 0)
    server_side.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server:
        yield server_side
        server_side.hang_up()


@pytest.fixture(scope="session")
def weights(request: pytest.FixtureRequest) -> Path:
    """The embedded model's weights. Fetched once; a failure to fetch fails the tests, by design.

    They are kept beside pytest's own cache, so that a second run needs no network and nobody's
    home folder is written to.
    """
    kept = request.config.cache.mkdir("procession-weights")  # type: ignore[union-attr]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROCESSION_CACHE", str(kept))
        return asyncio.run(ensure_weights())


@pytest.fixture(scope="session")
def llama(weights: Path) -> Any:
    """A llama.cpp server with the embedded model, for the whole session."""
    server = LocalServer(weights)
    asyncio.run(server.start())
    yield server
    server.stop()
