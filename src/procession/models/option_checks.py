"""How a provider is reached: options that cannot work fail when the model is made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..addresses import check_address, check_texts
from ..errors import ConfigurationError
from ..keywords import check_keywords

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_options", "check_variable"]

_NUMBER = "a number of seconds above 0, or None"


def check_options(owner: str, model_id: Any, options: Mapping[str, Any], known: type[Any]) -> None:
    """Raise `ConfigurationError` for options that do not exist, or have a value of no use."""
    if not isinstance(model_id, str) or not model_id:
        raise ConfigurationError(f"{owner} needs the name of a model, a text")
    check_keywords(owner, options, known.__annotations__)
    if options.get("base_url"):
        check_address(f"{owner}: base_url", options["base_url"])
    for name in ("provider", "api_key"):
        if not isinstance(options.get(name), str | None):
            kind = type(options[name]).__name__
            raise ConfigurationError(f"{owner}: {name} must be a text, not {kind}")
    check_texts(f"{owner}: headers", options.get("headers"))
    timeout = options.get("timeout")
    seconds = isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout > 0
    if timeout is not None and not seconds:
        raise ConfigurationError(f"{owner}: timeout must be {_NUMBER}")
    transport = options.get("transport")
    if transport not in (None, "httpx", "aiohttp"):
        raise ConfigurationError(f"{owner}: transport must be 'httpx' or 'aiohttp'")


def check_variable(name: str) -> str | None:
    """The address that an environment variable names; `ConfigurationError` if it is none."""
    address = os.environ.get(name)
    if address:
        check_address(name, address)
    return address or None
