"""What a server is set up with: it fails here, and not when the server is opened."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..addresses import check_address, check_texts
from ..errors import ConfigurationError
from ..keywords import check_keywords

__all__ = ["check_endpoint", "check_options", "check_process"]


def check_process(command: Any, args: Any, env: Any, cwd: Any, errlog: Any) -> None:
    """Raise `ConfigurationError` for a program that could not be started."""
    if not isinstance(command, str) or not command or "\0" in command:
        raise ConfigurationError(
            f"command must be the name or the path of a program, a text, not "
            f"{type(command).__name__}; its arguments are args=[…]"
        )
    if isinstance(args, str) or not isinstance(args, Sequence) or not _are_texts(args):
        raise ConfigurationError("args must be a list of arguments, which are texts")
    check_texts("env", env)
    if cwd is not None and not isinstance(cwd, str | os.PathLike):
        raise ConfigurationError(f"cwd must be a path, not {type(cwd).__name__}")
    if errlog is not None and not callable(getattr(errlog, "fileno", None)):
        raise ConfigurationError(f"errlog must be an open file, not {type(errlog).__name__}")


def check_endpoint(url: Any, headers: Any, http_client: Any) -> None:
    """Raise `ConfigurationError` for an address or headers that could not be sent."""
    check_address("the url of an MCP server", url)
    check_texts("headers", headers)
    if http_client is not None and not callable(http_client):
        raise ConfigurationError(
            "http_client must be a function that makes a client, for each connection one"
        )


def check_options(options: Mapping[str, Any], known: Mapping[str, Any], *others: str) -> None:
    """Raise `ConfigurationError` for an option that does not exist, or a name that is no text."""
    check_keywords("MCPServer", options, [*known, *others])
    for name in ("name", "prefix"):
        if not isinstance(options.get(name, ""), str):
            raise ConfigurationError(f"{name} must be a text, not {type(options[name]).__name__}")


def _are_texts(values: Any) -> bool:
    return all(isinstance(value, str) and "\0" not in value for value in values)
