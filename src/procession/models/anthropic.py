"""Anthropic Messages, spoken by Anthropic and by servers compatible with it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from msgspec.structs import replace

from ..errors import MissingKeyError
from ..extras import brought_by

with brought_by("anthropic", "anthropic"):
    import anthropic

from .anthropic_events import AnthropicEvents
from .anthropic_options import own_options
from .anthropic_prompt import message_body
from .option_checks import check_options, check_variable
from .sdk import SdkModel
from .transports import http_client

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx2

    from ..model import ModelRequest
    from .adapter import Decoder

__all__ = ["AnthropicModel", "AnthropicOptions", "anthropic_model"]

_KEY_VARIABLE = "ANTHROPIC_API_KEY"
_URL_VARIABLE = "ANTHROPIC_BASE_URL"
_TOKEN_VARIABLE = "ANTHROPIC_AUTH_TOKEN"
_HEADERS_VARIABLE = "ANTHROPIC_CUSTOM_HEADERS"


class AnthropicOptions(TypedDict, total=False):
    """How a server that speaks this API is reached.

    Without `base_url` it is Anthropic's own, with the key from `api_key`, `ANTHROPIC_API_KEY` or
    `ANTHROPIC_AUTH_TOKEN`; to other addresses (with or without `/v1` at the end) only a given
    `api_key` is sent, never those variables. `client` replaces all of that by an `AsyncAnthropic`
    of the caller's, who then also closes it. `betas` and `headers` go with every call, `timeout` is
    in seconds, `use_proxies=False` is for addresses that proxy settings of the environment must not
    apply to. `transport="aiohttp"`, or `PROCESSION_TRANSPORT`, halves what a read costs; it needs
    the extra `fast`. Provider options stand under `anthropic`, or under `provider`.
    """

    provider: str
    base_url: str | None
    api_key: str | None
    client: anthropic.AsyncAnthropic | None
    betas: Sequence[str]
    headers: Mapping[str, str] | None
    timeout: float | None
    use_proxies: bool
    transport: Literal["httpx", "aiohttp"] | None


class AnthropicModel(SdkModel):
    """A model behind the messages API of Anthropic or of a compatible server.

    Without `max_output_tokens` an answer may have 16,384 tokens, and what the option
    `thinking: {"type": "enabled", "budgetTokens": …}` allows on top of them. The option `tools`
    lists tools that the provider executes, in its own form, `betas` names features for one call.
    """

    path = "/v1/messages"
    supported_urls: Mapping[str, list[str]] = {
        "image/*": [r"^https?://.*$"],
        "application/pdf": [r"^https?://.*$"],
    }

    def __init__(self, model_id: str, **options: Unpack[AnthropicOptions]) -> None:
        check_options(type(self).__name__, model_id, options, AnthropicOptions)
        self._base_url = _without_version(options.get("base_url"))
        self._api_key = options.get("api_key")
        self._betas = list(options.get("betas") or ())
        self._headers = dict(options.get("headers") or {})
        self._transport = options.get("transport")
        super().__init__(
            model_id,
            provider=options.get("provider", "anthropic"),
            given_client=options.get("client"),
            timeout=options.get("timeout"),
            call_headers=self._headers_to_leave_out(),
            use_proxies=options.get("use_proxies", True),
        )

    def _body(self, request: ModelRequest) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        return message_body(self._model_id, self._provider, request)

    def _decoder(self, request: ModelRequest) -> Decoder:
        return AnthropicEvents(self._provider, include_raw=request.include_raw_chunks)

    async def _post(self, body: dict[str, Any], request: ModelRequest) -> httpx2.Response:
        options = own_options(self._provider, request.provider_options)
        own: list[str] = options.get("betas") or options.get("anthropicBeta") or []
        betas = list(dict.fromkeys([*self._betas, *own]))
        if betas:
            headers = {"anthropic-beta": ",".join(betas), **(request.settings.get("headers") or {})}
            request = replace(request, settings={**request.settings, "headers": headers})
        return await super()._post(body, request)

    def _sdk_classes(self) -> tuple[type[Exception], Any]:
        return anthropic.APIError, anthropic.AsyncStream[Any]

    def _headers_to_leave_out(self) -> dict[str, Any]:
        """What the client would make of variables that are meant for Anthropic's own address."""
        if self._base_url is None:
            return {}
        lines = os.environ.get(_HEADERS_VARIABLE, "").split("\n")
        names = [line.partition(":")[0].strip() for line in lines if ":" in line]
        if not self._api_key:
            names += ["Authorization", "X-Api-Key"]
        given = {name.lower() for name in self._headers}
        return {name: anthropic.omit for name in names if name.lower() not in given}

    def _new_client(self) -> anthropic.AsyncAnthropic:
        key, token = self._api_key, None
        if self._base_url is None and not key:
            key = os.environ.get(_KEY_VARIABLE) or None
            token = os.environ.get(_TOKEN_VARIABLE) or None if key is None else None
            if not key and not token:
                raise MissingKeyError(self._provider, _KEY_VARIABLE)
        elif not key:
            key = "none"  # the client insists on one; it is not sent
        return anthropic.AsyncAnthropic(
            api_key=key,
            auth_token=token,
            base_url=self._base_url or _without_version(check_variable(_URL_VARIABLE)),
            default_headers=self._headers,
            max_retries=0,
            http_client=http_client(
                anthropic.DefaultAsyncHttpxClient, self._transport, use_proxies=self._use_proxies
            ),
        )


def _without_version(address: str | None) -> str | None:
    """An address as the client wants it, which adds the version by itself."""
    return (address or "").rstrip("/").removesuffix("/v1") or None


def anthropic_model(name: str) -> AnthropicModel:
    """The model of an id `anthropic/name`."""
    return AnthropicModel(name)
