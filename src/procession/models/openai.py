"""OpenAI Chat Completions, spoken by OpenAI itself and by every server compatible with it.

The official client does what a transport has to: keys, addresses, time-outs, proxies, connection
pools. The answer is read here as bytes, because building the client's typed events costs thirty
times as much as decoding the few fields that are used.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import httpx2
import msgspec
import openai

from ..chunks import Chunk, ModelStartPayload
from ..errors import MissingKeyError
from ..records import clean_text
from .chat_events import ChatEvents
from .chat_prompt import chat_body
from .openai_errors import broken_off, call_failure, cut_short, public_headers, wrong_answer
from .sse import EventReader
from .whole import WholeBlocks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from ..model import ModelConfig, ModelRequest

__all__ = ["OpenAIChatModel", "compatible_model", "openai_model"]

_KEY_VARIABLE = "OPENAI_API_KEY"


class OpenAIChatModel:
    """A model behind the chat completions API of OpenAI or of a compatible server.

    Without `base_url` it is OpenAI's own, with the key from `api_key` or `OPENAI_API_KEY`; to other
    addresses only a given `api_key` is sent, never that variable. `client` replaces all of that by
    an `AsyncOpenAI` of the caller's, who then also closes it. `headers` go with every call,
    `timeout` is in seconds, `include_usage=False` is for servers that refuse `stream_options`,
    `use_proxies=False` for addresses that proxy settings of the environment must not apply to.

    Failed calls are not retried here. Provider options stand under `openai`, or under `provider`.
    Connections are pooled for each event loop; `aclose` ends the pool of the running one.
    """

    supported_urls: Mapping[str, list[str]] = {"image/*": [r"^https?://.*$"]}
    """Media types, and patterns of the addresses, that the provider fetches by itself (R-362)."""

    def __init__(
        self,
        model_id: str,
        *,
        provider: str = "openai",
        base_url: str | None = None,
        api_key: str | None = None,
        client: openai.AsyncOpenAI | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        include_usage: bool = True,
        use_proxies: bool = True,
    ) -> None:
        self._model_id = model_id
        self._provider = provider
        self._base_url = base_url
        self._api_key = api_key
        self._given_client = client
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._include_usage = include_usage
        self._use_proxies = use_proxies
        self._left_out = self._headers_to_leave_out()
        # A pool belongs to the event loop that opened its connections.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, openai.AsyncOpenAI]
        self._clients = WeakKeyDictionary()

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
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[list[Chunk], None]:
        """Ask the model; one list of chunks for each read that completed any.

        The first list comes with the first of the answer, so that a call can be made again as long
        as there is nothing of it.

        Raises `MissingKeyError` without a key, `InputError` for parts that cannot be sent, and
        `APICallError` when the provider refuses, cannot be reached, or breaks off.
        """
        body, warnings = chat_body(
            self._model_id, self._provider, request, include_usage=self._include_usage
        )
        response = await self._send(body, request)
        reads = response.aiter_bytes()
        try:
            events = ChatEvents(self._provider, include_raw=request.include_raw_chunks)
            start = _start(response, body, warnings)
            answer = _Answer(events, start, whole=not request.streaming)
            framed = await self._is_framed(response)
            while not answer.complete:
                read = await self._next(reads, answer)
                chunks = answer.feed(read, framed=framed)
                if chunks:
                    yield chunks
            if not events.finished:
                raise cut_short(self._provider)
            await _drain(reads)
        finally:
            await reads.aclose()
            await response.aclose()

    async def _send(self, body: dict[str, Any], request: ModelRequest) -> httpx2.Response:
        settings = request.settings
        headers = {**self._left_out, **(settings.get("headers") or {})}
        options: Any = {"max_retries": 0, "headers": headers}
        timeout = settings.get("timeout", self._timeout)
        if timeout is not None:
            options["timeout"] = timeout
        client = self._client()
        try:
            return await client.post(
                "/chat/completions",
                cast_to=httpx2.Response,
                content=_encode(body),
                options=options,
                stream=True,
                stream_cls=openai.AsyncStream[Any],
            )
        except openai.APIError as error:
            raise call_failure(self._provider, error, client.api_key) from error
        except httpx2.HTTPError as error:  # while the client read why it was refused
            raise broken_off(self._provider, error, begun=False) from error

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
            return await anext(reads, b"")
        except Exception as error:
            raise broken_off(self._provider, error, begun=answer.begun) from error

    def _client(self) -> openai.AsyncOpenAI:
        if self._given_client is not None:
            return self._given_client
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = self._new_client()
        return client

    def _headers_to_leave_out(self) -> dict[str, Any]:
        """What the client would make of variables that are meant for OpenAI's own address."""
        if self._base_url is None:
            return {}
        names = ["OpenAI-Organization", "OpenAI-Project"]
        if not self._api_key:
            names.append("Authorization")
        given = {name.lower() for name in self._headers}
        return {name: openai.omit for name in names if name.lower() not in given}

    def _new_client(self) -> openai.AsyncOpenAI:
        key = self._api_key
        if self._base_url is None:
            key = key or os.environ.get(_KEY_VARIABLE)
            if not key:
                raise MissingKeyError(self._provider, _KEY_VARIABLE)
        return openai.AsyncOpenAI(
            api_key=key or "none",  # the client insists on one; it is not sent
            base_url=self._base_url,
            default_headers=self._headers,
            max_retries=0,
            http_client=None if self._use_proxies else _direct_client(),
        )


class _Answer:
    """From the bytes of an answer to its chunks."""

    def __init__(self, events: ChatEvents, start: Chunk, *, whole: bool) -> None:
        self._reader = EventReader()
        self._events = events
        self._opening = [start]
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
            chunks = self._events.feed(self._reader.feed(read))
        else:
            chunks = self._events.end(self._reader.finish())
        self.complete = not read or self._events.finished
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
        return self._events.feed([b"".join(self._unframed)]) + self._events.end()


def _start(response: httpx2.Response, body: dict[str, Any], warnings: list[Any]) -> Chunk:
    payload = ModelStartPayload(
        warnings=warnings, request={"body": body}, headers=public_headers(response.headers)
    )
    return Chunk(type="stream-start", payload=payload)


def _encode(body: dict[str, Any]) -> bytes:
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


def _direct_client() -> httpx2.AsyncClient:
    return openai.DefaultAsyncHttpxClient(trust_env=False)


def openai_model(name: str) -> OpenAIChatModel:
    """The model of an id `openai/name`."""
    return OpenAIChatModel(name)


def compatible_model(config: ModelConfig) -> OpenAIChatModel:
    """The model of a `ModelConfig`; its id is `provider/model`, or only the model's name."""
    provider, slash, name = config.id.partition("/")
    return OpenAIChatModel(
        name if slash else config.id,
        provider=provider if slash else "openai-compatible",
        base_url=config.url,
        api_key=config.api_key,
        headers=config.headers,
    )
