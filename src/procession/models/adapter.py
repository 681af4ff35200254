"""What all adapters share: one answer of a provider, read as bytes, as lists of chunks.

The provider's official client does what a transport has to: keys, addresses, time-outs, proxies,
connection pools. The answer is read here, because building the client's typed events costs thirty
times as much as decoding the few fields that are used.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import httpx2
import msgspec

from ..aio import Within, begin
from ..chunks import Chunk, ModelStartPayload
from ..records import clean_text
from .call_errors import broken_off, conceal, cut_short, public_headers, wrong_answer
from .keeping import PerLoop
from .sse import EventReader
from .whole import WholeBlocks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping

    from ..model import ModelRequest

__all__ = ["Decoder", "StreamedModel", "encode_body"]


class Decoder(Protocol):
    """Turns the events of one answer into chunks, and knows when it is complete."""

    @property
    def finished(self) -> bool:
        """Whether the answer has come to its end: `finish` was among the chunks."""
        ...

    def feed(self, events: list[bytes]) -> list[Chunk]:
        """The chunks that these events stand for."""
        ...

    def end(self, rest: Iterable[bytes] = ()) -> list[Chunk]:
        """What remains when the connection has ended; no `finish` if the answer was cut short.

        `rest` is an event whose end did not come. It counts unless it was cut itself.
        """
        ...


class StreamedModel(ABC):
    """A model behind an HTTP API whose answers are server-sent events.

    Connections are pooled for each event loop. A pool is closed when its loop ends, or when nobody
    holds the model any more; `aclose` closes that of the running loop at once. Failed calls are not
    made again here: the engine does that, as long as nothing has come of them.
    """

    supported_urls: Mapping[str, list[str]] = {}
    """Media types, and patterns of the addresses, that the provider fetches by itself (R-362)."""

    def __init__(self, model_id: str, *, provider: str, given_client: Any = None) -> None:
        self._model_id = model_id
        self._provider = provider
        self._given_client = given_client
        # A pool belongs to the event loop that opened its connections.
        self._clients: PerLoop[Any] = PerLoop()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model_id!r}, provider={self._provider!r})"

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._provider

    @property
    def model_id(self) -> str:
        """The provider's own name of the model."""
        return self._model_id

    async def aclose(self) -> None:
        """Close the connections that this model opened in the running event loop."""
        await self._clients.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[list[Chunk], None]:
        """Ask the model; one list of chunks for each read that completed any.

        The first list comes with the first of the answer, so that a call can be made again as long
        as there is nothing of it.

        Raises `MissingKeyError` without a key, `InputError` for parts that cannot be sent, and
        `APICallError` when the provider refuses, cannot be reached, or breaks off.
        """
        body, warnings = self._body(request)
        response = await self._post(body, request)
        reads = response.aiter_bytes()
        try:
            decoder = self._decoder(request)
            start = _start(response, body, warnings)
            answer = _Answer(
                decoder,
                start,
                whole=not request.streaming,
                key=self._secret(),
                provider=self._provider,
            )
            framed = await self._is_framed(response)
            while not answer.complete:
                read = await self._next(reads, answer)
                chunks = answer.feed(read, framed=framed)
                if chunks:
                    yield chunks
            if not decoder.finished:
                raise cut_short(self._provider)
            await _drain(reads)
        finally:
            await reads.aclose()
            await response.aclose()

    # ── what a provider's adapter adds ─────────────────────────────────────────────────────────

    @abstractmethod
    def _body(self, request: ModelRequest) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The body of the call, and warnings about what it cannot express."""

    @abstractmethod
    async def _post(self, body: dict[str, Any], request: ModelRequest) -> httpx2.Response:
        """Send a body; the response, of which only the headers have been read."""

    @abstractmethod
    def _decoder(self, request: ModelRequest) -> Decoder:
        """What will read this answer's events."""

    @abstractmethod
    def _new_client(self) -> Any:
        """A client with a connection pool of its own."""

    def _closing(self, client: Any) -> Callable[[], Awaitable[Any]]:
        """What closes such a client."""
        return client.close

    @abstractmethod
    def _secret(self) -> str:
        """The key that was sent, so that no error repeats it; empty without one."""

    # ── what it can use ────────────────────────────────────────────────────────────────────────

    def _client(self) -> Any:
        if self._given_client is not None:
            return self._given_client
        client = self._clients.get()
        if client is None:
            client = self._new_client()
            self._clients.put(self, client, self._closing(client))
        return client

    async def _is_framed(self, response: httpx2.Response) -> bool:
        """Whether events are to come; False for servers that answer in one piece of JSON."""
        kind = response.headers.get("content-type", "")
        if "json" in kind:
            return False
        if "html" in kind:
            raise wrong_answer(self._provider, response)
        return True

    async def _next(self, reads: AsyncGenerator[bytes, None], answer: _Answer) -> bytes:
        """The next read; empty at the end."""
        try:
            if answer.begun:
                return await anext(reads, b"")
            # The client's own generators begin here; closing the response closes them.
            return await Within(begin(reads))
        except StopAsyncIteration:
            return b""
        except Exception as error:
            raise broken_off(self._provider, error, begun=answer.begun) from error


class _Answer:
    """From the bytes of an answer to its chunks."""

    def __init__(
        self, decoder: Decoder, start: Chunk, *, whole: bool, key: str, provider: str
    ) -> None:
        self._provider = provider
        self._reader = EventReader()
        self._decoder = decoder
        self._opening = [start]
        self._key = key
        self._whole = WholeBlocks() if whole else None
        self._unframed: list[bytes] = []
        self.begun = False
        self.complete = False

    def feed(self, read: bytes, *, framed: bool) -> list[Chunk]:
        """The chunks that `read` completes; an empty read is the end.

        Raises an error that the provider sent instead of an answer.
        """
        self.begun = self.begun or bool(read)
        if not framed:
            chunks = self._feed_unframed(read)
        elif read:
            chunks = self._decoder.feed(self._reader.feed(read))
        else:
            chunks = self._decoder.end(self._reader.finish())
        self.complete = not read or self._decoder.finished
        if self.complete:
            for chunk in chunks:
                if chunk.type == "error":
                    conceal(chunk.payload.error, self._key)
                    chunk.payload.error.provider = self._provider
        if self._whole is not None:
            chunks = self._whole.feed(chunks)
            if self.complete:
                chunks += self._whole.end()
        return self._opened(chunks) if self._opening else chunks

    def _opened(self, chunks: list[Chunk]) -> list[Chunk]:
        """What is said of the answer is held until there is something of it."""
        self._opening += chunks
        first = next((chunk for chunk in chunks if chunk.type != "response-metadata"), None)
        if first is None:
            return []
        if first.type == "error":
            raise first.payload.error
        chunks, self._opening = self._opening, []
        return chunks

    def _feed_unframed(self, read: bytes) -> list[Chunk]:
        if read:
            self._unframed.append(read)
            return []
        return self._decoder.feed([b"".join(self._unframed)]) + self._decoder.end()


def _start(response: httpx2.Response, body: dict[str, Any], warnings: list[Any]) -> Chunk:
    payload = ModelStartPayload(
        warnings=warnings, request={"body": body}, headers=public_headers(response.headers)
    )
    return Chunk(type="stream-start", payload=payload)


def encode_body(body: dict[str, Any]) -> bytes:
    """The JSON of a body, with clean texts whatever a hook has put into the prompt."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        # Half a surrogate pair somewhere: no provider takes that.
        import json

        return clean_text(json.dumps(body, ensure_ascii=False)).encode()


async def _drain(reads: AsyncGenerator[bytes, None]) -> None:
    """Read what follows the end mark, so that the connection can serve the next call.

    That is nearly always there already; a server that says nothing more and does not end the
    response only loses the connection.
    """
    with suppress(TimeoutError, httpx2.HTTPError):
        async with asyncio.timeout(0.5):
            async for _ in reads:
                pass
