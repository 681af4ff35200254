"""Calls through the clients that `openai` and `anthropic` publish; both are built alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx2

from .adapter import StreamedModel, encode_body
from .call_errors import broken_off, call_failure, conceal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model import ModelRequest, ModelSettings

__all__ = ["SdkModel"]


class SdkModel(StreamedModel):
    """A model that is asked through a client with `post`, `api_key` and `close`."""

    path: str
    """Where calls go, below the base URL."""

    def __init__(
        self,
        model_id: str,
        *,
        provider: str,
        given_client: Any,
        timeout: float | None,
        call_headers: Mapping[str, Any],
        use_proxies: bool,
    ) -> None:
        super().__init__(model_id, provider=provider, given_client=given_client)
        self._use_proxies = use_proxies
        self._timeout = timeout
        self._call_headers = dict(call_headers)

    async def _post(self, body: dict[str, Any], request: ModelRequest) -> httpx2.Response:
        return await self._begin(self.path, body, request.settings)

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        """Ask the model's server for something else, such as embeddings; the body of its answer.

        Raises `MissingKeyError` and `APICallError`, in which the key never stands.
        """
        response = await self._begin(path, body, {})
        try:
            return await response.aread()
        except httpx2.HTTPError as error:
            raise broken_off(self._provider, error, begun=True) from error
        finally:
            await response.aclose()

    async def _begin(
        self, path: str, body: dict[str, Any], settings: ModelSettings
    ) -> httpx2.Response:
        headers = {**self._call_headers, **(settings.get("headers") or {})}
        options: dict[str, Any] = {"max_retries": 0, "headers": headers}
        timeout = settings.get("timeout", self._timeout)
        if timeout is not None:
            options["timeout"] = timeout
        client = self._client()
        api_error, stream_class = self._sdk_classes()
        try:
            return await client.post(
                path,
                cast_to=httpx2.Response,
                content=encode_body(body),
                options=options,
                stream=True,
                stream_cls=stream_class,
            )
        except api_error as error:
            key = self._secret()
            proxies = self._use_proxies
            failure = call_failure(self._provider, error, key, use_proxies=proxies)
            conceal(error, key)  # a traceback shows it, too
            raise failure from error
        except httpx2.HTTPError as error:  # while the client read why it was refused
            raise broken_off(self._provider, error, begun=False) from error

    def _secret(self) -> str:
        client = self._client()
        return client.api_key or getattr(client, "auth_token", None) or ""

    def _sdk_classes(self) -> tuple[type[Exception], Any]:
        """The SDK's `APIError`, and its stream class for any event."""
        raise TypeError(f"{type(self).__name__} does not name its SDK")
