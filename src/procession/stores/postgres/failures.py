"""What errors of PostgreSQL mean, and what to do about them."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...errors import StoreError
from .driver import psycopg

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["Failures"]

_MEANINGS = {
    "53100": "the server's disk is full: make room, and what was to be saved can be saved again",
    "53300": "the server has no connection left: lower max_size, or raise its max_connections",
    "25006": "the server only reads: give the url of the primary server",
    "42501": "this user lacks a privilege: it has to own the schema, or be granted CREATE on it",
    "28P01": "the server refuses the user or the password",
    "28000": "the server refuses the user",
    "3D000": "there is no database of this name: make it, or name another one in the url",
}

# A connection that fails has no code, only words.
_SAID = [
    (re.compile("password authentication failed|no password supplied"), "28P01"),
    (re.compile("too many clients|remaining connection slots"), "53300"),
    (re.compile('database "[^"]*" does not exist'), "3D000"),
]
_LASTING = frozenset({"28P01", "28000", "3D000"})


class Failures:
    """Errors of psycopg as ours; its own are left out of the chain, for they may tell too much."""

    def __init__(self, password: str, timeout: float) -> None:
        self._password = password
        self._timeout = timeout

    @contextmanager
    def explained(self) -> Generator[None]:
        """Where psycopg is used: `StoreError` instead of its errors."""
        try:
            yield
        except psycopg.Error as error:
            raise self.of(error) from None

    def of(self, error: psycopg.Error) -> StoreError:
        """The `StoreError` for an error of psycopg."""
        return StoreError(f"PostgreSQL: {self._meaning(error)}. Nothing of this was written")

    def unsure(self, error: psycopg.Error) -> StoreError:
        """The `StoreError` for a transaction of which nobody knows whether it was committed."""
        return StoreError(
            f"PostgreSQL: {self._meaning(error)}. The connection was lost while this was being "
            f"committed: it was written, or nothing of it. What was to be saved can be saved again"
        )

    def none_free(self) -> StoreError:
        """The `StoreError` for a call that has waited for a connection in vain."""
        return StoreError(
            f"PostgreSQL: no connection was free for {self._timeout:g} seconds: raise max_size, or "
            f"see what holds them. Nothing of this was written"
        )

    def is_lasting(self, error: psycopg.Error) -> bool:
        """Whether connecting once more would fail as well."""
        return _state(error) in _LASTING

    def _meaning(self, error: psycopg.Error) -> str:
        said = _said(error)
        known = _MEANINGS.get(_state(error))
        return known or f"{type(error).__name__}: {self._without_password(said)}"

    def _without_password(self, text: str) -> str:
        short = " ".join(text.split())[:300]
        return short.replace(self._password, "…") if self._password else short


def _said(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error)


def _state(error: psycopg.Error) -> str:
    """The code of an error, also of one that has only words."""
    if error.sqlstate in _MEANINGS:
        return error.sqlstate
    said = _said(error)
    return next((state for words, state in _SAID if words.search(said)), "")
