"""Addresses of servers, and headers: whether they are any, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from .errors import ConfigurationError

__all__ = ["check_address", "check_texts", "public_url"]


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


def check_texts(what: str, given: Any) -> None:
    """Raise `ConfigurationError` for what is neither `None` nor a mapping of texts to texts.

    Such are headers and variables of an environment. Values are not shown.
    """
    if given is None:
        return
    pairs = list(cast("Mapping[Any, Any]", given).items()) if isinstance(given, Mapping) else None
    if pairs is None or not all(isinstance(text, str) for pair in pairs for text in pair):
        raise ConfigurationError(f"{what} must be a mapping of texts to texts, or None")


def public_url(url: str) -> str:
    """An address without user, password and query: each may hold a key."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "…"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
