"""Google Gemini, over the `streamGenerateContent` method of its API.

The official client has no public way to a raw stream, so an HTTP client of ours asks.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack
from urllib.parse import quote

from ..errors import ConfigurationError, MissingKeyError
from ..extras import brought_by

with brought_by("google", "httpx2"):
    import httpx2

from .adapter import StreamedModel, encode_body
from .call_errors import broken_off, unreached
from .google_body import gemini_body
from .google_events import GoogleEvents
from .google_failures import google_refusal
from .option_checks import check_options, check_variable
from .transports import http_client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ..model import ModelRequest
    from .adapter import Decoder

__all__ = ["GoogleModel", "GoogleOptions", "google_model"]

_KEY_VARIABLES = ("GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GOOGLE_API_KEY")
_URL_VARIABLE = "GOOGLE_BASE_URL"
_BASE_URL = "https://generativelanguage.googleapis.com/v1beta"
_TIMEOUT = httpx2.Timeout(600, connect=5)
"""Long enough for a model that thinks before it says anything."""


class GoogleOptions(TypedDict, total=False):
    """How Gemini is reached.

    Without `base_url` it is Google's own address, or that of `GOOGLE_BASE_URL` (with the version at
    its end), with the key from `api_key` or the environment (`GEMINI_API_KEY`,
    `GOOGLE_GENERATIVE_AI_API_KEY` or `GOOGLE_API_KEY`, in this order); to other addresses only a
    given `api_key` is sent. `client` is an HTTP client of the caller's, who then
    also closes it. `headers` go with every call, `timeout` is in seconds, `use_proxies=False` is
    for addresses that proxy settings of the environment must not apply to. `transport="aiohttp"`,
    or `PROCESSION_TRANSPORT`, halves what a read costs; it needs the extra `fast`. Provider options
    stand under `google`, or under `provider`.
    """

    provider: str
    base_url: str | None
    api_key: str | None
    client: httpx2.AsyncClient | None
    headers: Mapping[str, str] | None
    timeout: float | None
    use_proxies: bool
    transport: Literal["httpx", "aiohttp"] | None


class GoogleModel(StreamedModel):
    """A Gemini model: `GoogleModel("gemini-2.5-flash")`."""

    supported_urls: Mapping[str, list[str]] = {
        "*": [
            r"^https://generativelanguage\.googleapis\.com/v1beta/files/",
            r"^https://(www\.)?youtube\.com/watch\?v=",
            r"^https://youtu\.be/",
        ]
    }
    """Media types, and patterns of the addresses, that the provider fetches by itself (R-362)."""

    def __init__(self, model_id: str, **options: Unpack[GoogleOptions]) -> None:
        check_options(type(self).__name__, model_id, options, GoogleOptions)
        super().__init__(
            model_id,
            provider=options.get("provider", "google"),
            given_client=options.get("client"),
        )
        self._base_url = options.get("base_url")
        self._api_key = options.get("api_key")
        self._headers = dict(options.get("headers") or {})
        self._timeout = options.get("timeout")
        self._use_proxies = options.get("use_proxies", True)
        self._transport = options.get("transport")

    def _body(self, request: ModelRequest) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        return gemini_body(self._model_id, request, self._provider)

    async def _post(self, body: dict[str, Any], request: ModelRequest) -> httpx2.Response:
        key = self._key()
        client: httpx2.AsyncClient = self._client()
        settings = request.settings
        timeout = settings.get("timeout", self._timeout)
        headers = {"content-type": "application/json", **self._headers}
        if key:
            headers["x-goog-api-key"] = key
        asked = client.build_request(
            "POST",
            self._url(),
            content=encode_body(body),
            headers={**headers, **(settings.get("headers") or {})},
            timeout=_TIMEOUT if timeout is None else timeout,
        )
        try:
            response = await client.send(asked, stream=True)
        except httpx2.HTTPError as error:
            proxies = self._use_proxies
            raise unreached(self._provider, error, str(asked.url), use_proxies=proxies) from error
        if response.is_success:
            return response
        try:
            await response.aread()
        except httpx2.HTTPError as error:
            raise broken_off(self._provider, error, begun=False) from error
        finally:
            await response.aclose()
        raise google_refusal(self._provider, response, key or "")

    def _secret(self) -> str:
        return self._key() or ""

    def _decoder(self, request: ModelRequest) -> Decoder:
        return GoogleEvents(include_raw=request.include_raw_chunks)

    def _new_client(self) -> httpx2.AsyncClient:
        # Redirects are not followed: the key would go wherever they lead.
        return http_client(_client_of, self._transport, use_proxies=self._use_proxies)

    def _closing(self, client: httpx2.AsyncClient) -> Callable[[], Awaitable[Any]]:
        return client.aclose

    def _key(self) -> str | None:
        key = self._api_key
        if self._base_url is None:
            key = key or next(filter(None, map(os.environ.get, _KEY_VARIABLES)), None)
            if not key:
                raise MissingKeyError(self._provider, _KEY_VARIABLES[0])
        key = key.strip() if key else None
        if key and not (key.isascii() and key.isprintable()):
            raise ConfigurationError(
                f"the key for provider {self._provider!r} has characters that no key has: "
                f"copy it again"
            )
        return key

    def _url(self) -> str:
        name = self._model_id if "/" in self._model_id else f"models/{self._model_id}"
        base = (self._base_url or check_variable(_URL_VARIABLE) or _BASE_URL).rstrip("/")
        return f"{base}/{quote(name)}:streamGenerateContent?alt=sse"


def _client_of(**options: Any) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
    return httpx2.AsyncClient(limits=limits, **options)


def google_model(name: str) -> GoogleModel:
    """The model of an id `google/name`."""
    return GoogleModel(name)
