"""What went wrong between us and a server, in words that hold nothing secret."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx2
from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED

from .link import leaves

if TYPE_CHECKING:
    from .link import Link
    from .secrets import Secrets

__all__ = ["refusal", "words_of"]

SHOWN = 300
"""Characters of a body that are repeated."""
_DUMP = re.compile(r"\d+ validation errors? for .*\n", re.DOTALL)
"""The client's own account of a message that is none, on many lines."""
_STAND_INS = frozenset({"Server returned an error response", "Not Found"})
"""What the client says of a refusal, without what the server said."""


def refusal(response: httpx2.Response) -> str:
    """An HTTP error in words: the status, and what the body says, a page by its title."""
    said = response.text.strip() if response.is_stream_consumed else ""
    if said.startswith("<"):
        title = re.search(r"<title>([^<]{1,200})</title>", said[:10_000], re.IGNORECASE)
        said = f"a web page: {title[1].strip()}" if title else "a web page"
    told = f"the server answered with status {response.status_code}"
    return f"{told}: {' '.join(said.split())[:SHOWN]}" if said else told


def words_of(error: BaseException, link: Link, place: str, secrets: Secrets) -> str:
    """What went wrong, in the server's own words where it has any; `place` is its address."""
    words = [_words(leaf, link, place) for leaf in leaves(error)]
    return secrets.hidden(", ".join(dict.fromkeys(words)))


def _words(leaf: BaseException, link: Link, place: str) -> str:
    if isinstance(leaf, MCPError):
        return _of_protocol(leaf, link)
    name = type(leaf).__name__
    if isinstance(leaf, httpx2.TransportError):
        told = str(leaf).partition("\n")[0]
        return f"{name} at {place}" + (f": {told}" if told else "")
    if isinstance(leaf, ImportError):  # a proxy may take another package
        return str(leaf)
    if isinstance(leaf, OSError) and leaf.strerror:
        return f"{name}: {leaf.strerror}"
    return name


def _of_protocol(error: MCPError, link: Link) -> str:
    told = error.message
    if told in _STAND_INS and link.refusal:
        return link.refusal
    if _DUMP.search(told):
        return "what it answered is no message of the protocol"
    if error.code == CONNECTION_CLOSED and link.is_process:
        return (
            "the program ended, or closed its output; what it wrote to its standard error may "
            "say why"
        )
    return told or "an error without a word"
