"""Addresses of servers: whether they are any, and how they are shown."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from .errors import ConfigurationError

__all__ = ["check_address", "public_url"]


def check_address(what: str, url: object) -> None:
    """Raise `ConfigurationError` for what no call can be sent to; `what` names the option.

    The address itself is not shown: where it is wrong, nobody knows what it holds.
    """
    if isinstance(url, str):
        try:
            parts = urlsplit(url)
            if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
                return
        except ValueError:  # brackets or a port that are none
            pass
    given = "" if isinstance(url, str) else f", not of type {type(url).__name__}"
    raise ConfigurationError(f"{what} must be an address such as https://host/path{given}")


def public_url(url: str) -> str:
    """An address without user, password and query: each may hold a key."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "…"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
