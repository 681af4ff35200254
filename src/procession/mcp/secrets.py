"""What must not be repeated to anybody: keys in the environment, headers, arguments and address."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Secrets", "secrets_of_address", "secrets_of_process"]

SHORTEST = 6
"""Shorter values are words like any other; replacing them would spoil texts and hide nothing."""


class Secrets:
    """Takes the values a server was set up with out of texts that leave the library."""

    def __init__(self, values: Iterable[str]) -> None:
        pieces = {piece for value in values for piece in (value, *value.split())}
        found = {piece for piece in pieces if len(piece) >= SHORTEST}
        self._values = sorted(found, key=len, reverse=True)

    def hidden(self, text: str) -> str:
        """`text`, with an ellipsis in the place of each value."""
        for value in self._values:
            text = text.replace(value, "…")
        return text


def secrets_of_process(args: Iterable[str], env: Mapping[str, str] | None) -> Secrets:
    """Those of a process: its environment, and what may be a key among its arguments."""
    given = [arg.partition("=")[2] or arg for arg in args]
    return Secrets([*(env or {}).values(), *given])


def secrets_of_address(url: str, headers: Mapping[str, str] | None) -> Secrets:
    """Those of an address: password, query, and the headers sent to it."""
    parts = urlsplit(url)
    query = [value for _, value in parse_qsl(parts.query)]
    return Secrets([*(headers or {}).values(), *query, parts.password or "", parts.query])
