"""What carries the calls: httpx2, or aiohttp below httpx2, which takes half the time for a read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2

__all__ = ["http_client"]

_VARIABLE = "PROCESSION_TRANSPORT"


def http_client(
    make: Callable[..., httpx2.AsyncClient], transport: str | None, *, use_proxies: bool
) -> httpx2.AsyncClient:
    """A client made by `make`, over the transport that is asked for.

    That is `transport`, or what `PROCESSION_TRANSPORT` says, or `httpx`.

    Raises `ConfigurationError` for an unknown transport, for one that is not installed, and for
    proxies of the environment that cannot be used.
    """
    name = transport or os.environ.get(_VARIABLE) or "httpx"
    if name == "httpx":
        return _over_httpx(make, use_proxies=use_proxies)
    if name != "aiohttp":
        raise ConfigurationError(f"unknown transport {name!r}: it is 'httpx' or 'aiohttp'")
    try:
        from .aiohttp_transport import AiohttpTransport
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "the transport 'aiohttp' needs a package: pip install 'procession[fast]'"
        ) from error
    return make(transport=AiohttpTransport(use_proxies=use_proxies))


def _over_httpx(
    make: Callable[..., httpx2.AsyncClient], *, use_proxies: bool
) -> httpx2.AsyncClient:
    try:
        return make(trust_env=use_proxies)
    except ImportError as error:
        raise ConfigurationError(
            "a proxy of the environment speaks SOCKS, for which a package is needed: pip install "
            "socksio. Without the proxy: use_proxies=False"
        ) from error
    except ValueError:  # whose text has the address, and with it a password perhaps
        raise ConfigurationError(
            "a proxy of the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) has an address that "
            "is none. Without the proxy: use_proxies=False"
        ) from None
