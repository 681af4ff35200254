"""OpenAI Chat Completions, spoken by OpenAI itself and by every server compatible with it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from msgspec.structs import replace

from ..errors import MissingKeyError
from ..extras import brought_by

with brought_by("openai", "openai"):
    import openai

from .chat_dialect import ChatDialect, dialect_of
from .chat_events import ChatEvents
from .chat_prompt import chat_body
from .option_checks import check_options, check_variable
from .sdk import SdkModel
from .transports import http_client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model import ModelRequest
    from .adapter import Decoder

__all__ = ["OpenAIChatModel", "OpenAIModel", "OpenAIOptions", "openai_model"]

_KEY_VARIABLE = "OPENAI_API_KEY"
_URL_VARIABLE = "OPENAI_BASE_URL"


class OpenAIOptions(TypedDict, total=False):
    """How a server that speaks an API of OpenAI is reached.

    Without `base_url` it is OpenAI's own, with the key from `api_key` or `OPENAI_API_KEY`; to other
    addresses only a given `api_key` is sent, never that variable. `client` replaces all of that by
    an `AsyncOpenAI` of the caller's, who then also closes it. `headers` go with every call,
    `timeout` is in seconds, `use_proxies=False` is for addresses that proxy settings of the
    environment must not apply to. `transport="aiohttp"`, or `PROCESSION_TRANSPORT`, halves what a
    read costs; it needs the extra `fast`. Provider options stand under `openai`, or `provider`.
    """

    provider: str
    base_url: str | None
    api_key: str | None
    client: openai.AsyncOpenAI | None
    headers: Mapping[str, str] | None
    timeout: float | None
    use_proxies: bool
    transport: Literal["httpx", "aiohttp"] | None


class OpenAIModel(SdkModel):
    """What the APIs of OpenAI have in common, and so those of compatible servers."""

    supported_urls: Mapping[str, list[str]] = {"image/*": [r"^https?://.*$"]}
    """Media types, and patterns of the addresses, that the provider fetches by itself (R-362)."""

    def __init__(self, model_id: str, **options: Unpack[OpenAIOptions]) -> None:
        check_options(type(self).__name__, model_id, options, OpenAIOptions)
        self._base_url = options.get("base_url")
        self._api_key = options.get("api_key")
        self._headers = dict(options.get("headers") or {})
        self._transport = options.get("transport")
        super().__init__(
            model_id,
            provider=options.get("provider", "openai"),
            given_client=options.get("client"),
            timeout=options.get("timeout"),
            call_headers=self._headers_to_leave_out(),
            use_proxies=options.get("use_proxies", True),
        )

    def _sdk_classes(self) -> tuple[type[Exception], Any]:
        return openai.APIError, openai.AsyncStream[Any]

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
            check_variable(_URL_VARIABLE)
            key = key or os.environ.get(_KEY_VARIABLE)
            if not key:
                raise MissingKeyError(self._provider, _KEY_VARIABLE)
        return openai.AsyncOpenAI(
            api_key=key or "none",  # the client insists on one; it is not sent
            base_url=self._base_url,
            default_headers=self._headers,
            max_retries=0,
            http_client=http_client(
                openai.DefaultAsyncHttpxClient, self._transport, use_proxies=self._use_proxies
            ),
        )


class OpenAIChatModel(OpenAIModel):
    """A model behind the chat completions API of OpenAI or of a compatible server.

    `include_usage=False` is for servers that refuse `stream_options`, `dialect` for those that
    differ in more than that; for the rest see `OpenAIOptions`.
    """

    path = "/chat/completions"

    def __init__(
        self,
        model_id: str,
        *,
        include_usage: bool = True,
        dialect: ChatDialect | None = None,
        **options: Unpack[OpenAIOptions],
    ) -> None:
        super().__init__(model_id, **options)
        dialect = dialect or dialect_of(self.provider)
        self._dialect = dialect if include_usage else replace(dialect, usage_on_request=False)

    def _body(self, request: ModelRequest) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        return chat_body(self._model_id, self._provider, request, self._dialect)

    def _decoder(self, request: ModelRequest) -> Decoder:
        return ChatEvents(self._provider, include_raw=request.include_raw_chunks)


def openai_model(name: str) -> OpenAIChatModel:
    """The model of an id `openai/name`."""
    return OpenAIChatModel(name)
