"""W5: a provider on loopback that streams an answer, in a process of its own.

`Wire` starts this file as `python -m bench.wire SIZE`. Below `/v1` it answers every POST with a
stream of so many texts, in the format that the path stands for, as fast as it is read, so that a
read brings about a hundred: the best case for each chunk. Below `/paced/v1` it sends 50 texts a
second until the client leaves, each text the time when it was written. It prints its port, and for
each line on its standard input the bodies it was sent since; it ends with that pipe.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from typing import Any

from . import machine
from .case import Recorder, tokens
from .catalogue import ROOT
from .formats import FORMATS, Format, format_of

READ = 16_384
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
RATE = 50
PHASES = 20  # paced streams are spread over so many milliseconds


class Wire(Recorder):
    """The provider as the measuring process sees it.

    Its requests reach `log` when that is taken off again: they arrive in another process.
    """

    def __init__(self, size: int) -> None:
        self._log: list[Any] | None = None
        self._child = subprocess.Popen(
            [sys.executable, "-m", "bench.wire", str(size)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        machine.elsewhere(self._child.pid)
        self.origin = f"http://127.0.0.1:{self._said()}"
        self.url = f"{self.origin}/v1"

    @property
    def log(self) -> list[Any] | None:
        """Where requests are kept, if anywhere."""
        return self._log

    @log.setter
    def log(self, log: list[Any] | None) -> None:
        since = self._asked()
        if self._log is not None:
            self._log += since
        self._log = log

    def _asked(self) -> list[Any]:
        assert self._child.stdin is not None
        self._child.stdin.write(b"\n")
        self._child.stdin.flush()
        return self._said()

    def _said(self) -> Any:
        assert self._child.stdout is not None
        return json.loads(self._child.stdout.readline())


def framed(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream_of(form: Format, size: int) -> list[bytes]:
    """The whole answer, cut into HTTP chunks."""
    body = form.opening + b"".join(map(form.text, tokens(size))) + form.ending(size)
    pieces = [body[start : start + READ] for start in range(0, len(body), READ)]
    return [framed(piece) for piece in [*pieces, b""]]


class Server:
    """Answers in every format, and keeps what it was sent."""

    def __init__(self, size: int) -> None:
        self.pieces = {form.path: stream_of(form, size) for form in FORMATS.values()}
        self.bodies: list[Any] = []
        self.paced: list[dict[asyncio.StreamWriter, Format]] = [{} for _ in range(PHASES)]
        self.count = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, kept alive for as many requests as come."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
                body = await reader.readexactly(int(length))
                target = head.partition(b"\r\n")[0]
                if b"/paced/" in target:
                    return await self.pace(format_of(target), reader, writer)
                self.bodies.append(json.loads(body))
                writer.write(HEAD)
                for piece in self.pieces[format_of(target).path]:
                    writer.write(piece)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def pace(
        self, form: Format, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """A stream that goes on until its client leaves."""
        writer.write(HEAD + (framed(form.opening) if form.opening else b""))
        phase = self.paced[self.count % PHASES]
        self.count += 1
        phase[writer] = form
        try:
            await reader.read()
        finally:
            del phase[writer]

    async def tick(self) -> None:
        """Write to the streams of one phase each millisecond."""
        loop = asyncio.get_running_loop()
        due, number = loop.time(), 0
        while True:
            for writer, form in self.paced[number % PHASES].items():
                if not writer.is_closing():
                    writer.write(framed(form.text(f"{time.monotonic_ns()} ")))
            number += 1
            due += 1 / RATE / PHASES
            await asyncio.sleep(max(0.0, due - loop.time()))


async def main() -> None:
    """Serve until the standard input ends."""
    server = Server(int(sys.argv[1]))
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=4096)
    ticking = asyncio.create_task(server.tick())
    print(listener.sockets[0].getsockname()[1], flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(server.bodies), flush=True)
        server.bodies.clear()
    ticking.cancel()


if __name__ == "__main__":
    asyncio.run(main())
