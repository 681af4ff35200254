"""The embedded model, `local/smollm2`: no key, no account; it runs on this machine's cores.

It is the chat adapter pointed at a llama.cpp server on loopback. It answers simple English
questions; it is there for first steps, demonstrations and tests, not for work.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..aio import Unnoticed
from ..errors import UnknownModelError
from ..extras import brought_by
from .local_server import LocalServer, shared_server
from .local_tools import BoundAnswer, call_schema, offered_tools, spoken_prompt

with brought_by("local", "openai"):
    from .openai import OpenAIChatModel

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..chunks import Chunk
    from ..model import ModelRequest
    from .weights import Progress

__all__ = ["LocalModel", "local_model"]


class LocalModel:
    """SmolLM2-135M-Instruct behind a local server.

    The first call fetches the weights (93 MB, once per machine; `progress` hears of it) and starts
    the server, which all models of the process share unless `server` is given. Tool calls are
    spelled as JSON bound to the tools' schemas, one call at a time.
    """

    provider = "local"
    """The provider's name."""

    def __init__(
        self, *, server: LocalServer | None = None, progress: Progress | None = None
    ) -> None:
        self._server = server
        self._progress = progress
        self._chat: OpenAIChatModel | None = None
        self._chat_url = ""

    @property
    def model_id(self) -> str:
        """The model's name."""
        return "smollm2"

    async def aclose(self) -> None:
        """Close this model's connections in the running event loop; the server stays."""
        if self._chat is not None:
            await self._chat.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[list[Chunk], None]:
        """Ask the model. Raises what `LocalServer.start` raises, and `APICallError`."""
        chat = await self._ready()
        tools = offered_tools(request)
        spoken = replace(
            request, prompt=spoken_prompt(request.prompt, tools), tools=(), tool_choice="none"
        )
        bound = None
        if tools:
            bound = BoundAnswer()
            form = {"type": "json", "name": "call", "schema": call_schema(tools)}
            # The likeliest call, unless the caller wants it otherwise.
            settings = {"temperature": 0.0, **request.settings}
            spoken = replace(spoken, response_format=form, settings=settings)
        async with aclosing(Unnoticed(chat.stream(spoken))) as answer:
            async for chunks in answer:
                told = chunks if bound is None else bound.feed(chunks)
                if told:
                    yield told

    async def _ready(self) -> OpenAIChatModel:
        server = self._server or shared_server()
        await server.start(self._progress)
        if self._chat is None or self._chat_url != server.base_url:
            # The first call, or the server has been started anew, elsewhere.
            await self.aclose()
            self._chat_url = server.base_url
            self._chat = OpenAIChatModel(
                server.model,
                provider=self.provider,
                base_url=server.base_url,
                api_key=server.api_key,
                # This server ends a connection after each stream without saying so: a call that
                # came quickly after another would find it dead.
                headers={"Connection": "close"},
                use_proxies=False,
            )
        return self._chat


def local_model(name: str) -> LocalModel:
    """The model of an id `local/name`."""
    if name != "smollm2":
        raise UnknownModelError(
            f"unknown model id 'local/{name}': the embedded model is 'local/smollm2'"
        )
    return LocalModel()
