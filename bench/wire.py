"""W5: a provider on loopback that streams chat completions, in a process of its own.

`Wire` starts this file as `python -m bench.wire SIZE`. It answers every POST with a stream of so
many chunks, as fast as it is read, so that a read brings about a hundred: the best case for each
chunk. It prints its port, and for each line on its standard input the bodies it was sent since;
it ends with that pipe.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

from . import machine
from .case import Recorder, tokens
from .catalogue import ROOT

READ = 16_384
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ANSWER = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "bench"}


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
        self.url = f"http://127.0.0.1:{self._said()}/v1"

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


def texts_of(body: Any) -> list[str]:
    """The text of each message of a request."""
    contents = [message["content"] for message in body["messages"]]
    return [
        content if isinstance(content, str) else "".join(part["text"] for part in content)
        for content in contents
    ]


def event(delta: dict[str, str], **values: Any) -> bytes:
    """One event of the stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": values.pop("reason", None)}
    return b"data: " + json.dumps({**ANSWER, "choices": [choice], **values}).encode() + b"\n\n"


def stream_of(size: int) -> list[bytes]:
    """The whole answer, cut into HTTP chunks."""
    usage = {"prompt_tokens": 1, "completion_tokens": size, "total_tokens": size + 1}
    events = [event({"role": "assistant", "content": ""})]
    events += [event({"content": text}) for text in tokens(size)]
    events += [event({}, reason="stop"), event({}, choices=[], usage=usage), b"data: [DONE]\n\n"]
    body = b"".join(events)
    pieces = [body[start : start + READ] for start in range(0, len(body), READ)]
    return [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""]]


class Server:
    """Answers with `pieces`, and keeps what it was sent."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.bodies: list[Any] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, kept alive for as many requests as come."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                self.bodies.append(json.loads(await reader.readexactly(int(length))))
                writer.write(HEAD)
                for piece in self.pieces:
                    writer.write(piece)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def main() -> None:
    """Serve until the standard input ends."""
    server = Server(stream_of(int(sys.argv[1])))
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    print(listener.sockets[0].getsockname()[1], flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(server.bodies), flush=True)
        server.bodies.clear()


if __name__ == "__main__":
    asyncio.run(main())
