"""A provider on loopback that gives recorded answers, in the pieces it is told to."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Self

from .exchange import Exchange

__all__ = ["Player"]


class Player:
    """An HTTP server that answers what is asked at an exchange's address with that exchange.

    Use it as `async with`. Connections are kept alive.
    """

    def __init__(self) -> None:
        self._answers: list[Iterator[bytes]] = []
        self._connections: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._connections.values():
            writer.close()
        if self._connections:
            await asyncio.wait(list(self._connections))

    def base_url(self, exchange: Exchange, cuts: Sequence[list[bytes]]) -> str:
        """An address where the exchange is answered in these pieces, in others with each call."""
        assert self._server is not None
        self._answers.append(_answer(exchange, pieces) for pieces in cuts)
        port: int = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/{len(self._answers) - 1}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)\ncontent-length: *(\d+)", head)
                await reader.readexactly(int(length[1]) if length else 0)
                address = int(head.split(b"/", 2)[1])
                writer.write(next(self._answers[address]))
                await writer.drain()
        writer.close()
        del self._connections[task]


def _answer(exchange: Exchange, pieces: list[bytes]) -> bytes:
    return _head(exchange) + b"".join(map(_chunk, pieces)) + b"0\r\n\r\n"


def _head(exchange: Exchange) -> bytes:
    lines = [
        f"HTTP/1.1 {exchange.status} Recorded",
        f"Content-Type: {exchange.content_type}",
        "Transfer-Encoding: chunked",
    ]
    if exchange.retry_after is not None:
        lines.append(f"Retry-After: {exchange.retry_after}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)
