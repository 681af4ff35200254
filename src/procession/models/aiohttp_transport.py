"""HTTP by aiohttp, for clients of httpx2."""

from __future__ import annotations

import asyncio
import ssl
import urllib.request
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import aiohttp
import httpx2
from yarl import URL

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

__all__ = ["AiohttpTransport"]

_MOST = 1000
"""Connections, as in the providers' own clients."""
_KEPT_SECONDS = 5.0
"""How long an unused connection is kept, as httpx2 does."""


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Sends what a client gives it, and changes nothing: no cookies, no redirects, no unpacking.

    Raises the errors of httpx2. Proxies are those of the environment; SOCKS is not among them.
    """

    def __init__(self, *, use_proxies: bool = True) -> None:
        self._proxies = _proxies() if use_proxies else {}
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The response, of which only the headers have been read."""
        content = await request.aread()
        # User and password in it are in a header already.
        url = request.url.copy_with(userinfo=b"") if request.url.userinfo else request.url
        limits = request.extensions.get("timeout", {})
        timeout = aiohttp.ClientTimeout(
            total=None,
            connect=limits.get("pool"),
            sock_connect=limits.get("connect"),
            sock_read=limits.get("read"),
        )
        with _errors_of_httpx(answering=False):
            response = await self._open_session().request(
                request.method,
                URL(str(url), encoded=True),
                headers=request.headers.multi_items(),
                data=content or None,
                allow_redirects=False,
                timeout=timeout,
                proxy=self._proxy(request.url),
            )
        return httpx2.Response(
            response.status,
            headers=list(response.raw_headers),
            stream=_Body(response),
            extensions={"reason_phrase": (response.reason or "").encode("ascii", "replace")},
        )

    async def aclose(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=_MOST, keepalive_timeout=_KEPT_SECONDS, ssl=httpx2.create_ssl_context()
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=("accept", "accept-encoding", "user-agent", "content-type"),
            )
            weakref.finalize(self, _leave, self._session, asyncio.get_running_loop())
        return self._session

    def _proxy(self, url: httpx2.URL) -> str | None:
        if not self._proxies or urllib.request.proxy_bypass(url.host):
            return None
        return self._proxies.get(url.scheme) or self._proxies.get("all")


class _Body(httpx2.AsyncByteStream):
    """The body of a response, as it is read."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of_httpx(answering=True):
            while read := await self._response.content.readany():
                yield read

    async def aclose(self) -> None:
        # A connection that has something left to read serves no other call.
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


def _leave(session: aiohttp.ClientSession, loop: asyncio.AbstractEventLoop) -> None:
    """Let go of a session that nobody has closed, as programs do that end: it would complain."""
    connector = session.connector
    if connector is None or session.closed:
        return
    session.detach()
    closing = _close(connector)
    if loop.is_closed():  # and its connections with it: nothing is waited for
        with suppress(StopIteration):
            closing.send(None)
    else:
        loop.call_soon_threadsafe(loop.create_task, closing)


async def _close(connector: aiohttp.BaseConnector) -> None:
    await connector.close()


def _proxies() -> dict[str, str]:
    found = urllib.request.getproxies()
    for scheme in ("http", "https", "all"):
        if found.get(scheme, "").startswith("socks"):
            raise ConfigurationError(
                "the transport 'aiohttp' knows no SOCKS proxies: use the transport 'httpx', or "
                "use_proxies=False"
            )
    return found


@contextmanager
def _errors_of_httpx(*, answering: bool) -> Generator[None]:
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:
        kind = _kind(error, answering=answering)
        raise kind(str(error) or type(error).__name__) from error


def _kind(error: Exception, *, answering: bool) -> type[httpx2.TransportError]:
    """What httpx2 calls this; a `TimeoutError` is an `OSError`, too."""
    for theirs, kind in _KINDS:
        if isinstance(error, theirs):
            return kind
    return httpx2.ReadError if answering else httpx2.ConnectError


_KINDS: tuple[tuple[type[Exception], type[httpx2.TransportError]], ...] = (
    (aiohttp.SocketTimeoutError, httpx2.ReadTimeout),
    (aiohttp.ConnectionTimeoutError, httpx2.ConnectTimeout),
    (TimeoutError, httpx2.PoolTimeout),
    (aiohttp.InvalidURL, httpx2.UnsupportedProtocol),
    (aiohttp.ClientProxyConnectionError, httpx2.ProxyError),
    (aiohttp.ClientHttpProxyError, httpx2.ProxyError),
    (aiohttp.ClientConnectorError, httpx2.ConnectError),
    (aiohttp.ServerDisconnectedError, httpx2.RemoteProtocolError),
    (aiohttp.ClientResponseError, httpx2.RemoteProtocolError),
    (aiohttp.ClientPayloadError, httpx2.RemoteProtocolError),
    (ssl.SSLError, httpx2.ConnectError),
    (aiohttp.ClientConnectionError, httpx2.ReadError),
)
