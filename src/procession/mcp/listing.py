"""The tools that a server lists: which are used, by what names, and which wait for approval."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from mcp_types import methods
from pydantic import ValidationError

from ..errors import ConfigurationError, ToolError

if TYPE_CHECKING:
    from mcp.client.client import Client
    from mcp.types import Tool as Listed

    from ..tools import Approval

__all__ = ["Choices", "all_pages", "leave_out_misfits"]

_log = logging.getLogger("procession.mcp")

NAME_LENGTH = 64
PAGES = 100
"""A list of tools that is longer is one that never ends."""
NAMES_SHOWN = 50


async def all_pages(client: Client) -> list[Listed]:
    """The whole list; raises `ToolError` for one that never ends."""
    found: list[Listed] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found
        if cursor in seen:
            raise ToolError("it does not end: a page leads back to one before it")
        seen.add(cursor)
    raise ToolError(f"it does not end: {PAGES} pages have come, and another one is announced")


def leave_out_misfits(result: Any, version: str) -> None:
    """Take the tools that the protocol does not allow out of a page, which would be lost whole."""
    tools = cast("dict[str, Any]", result).get("tools") if isinstance(result, dict) else None
    if not isinstance(tools, list):
        return
    try:
        methods.validate_server_result("tools/list", version, cast("dict[str, Any]", result))
    except ValidationError as error:
        places = [problem["loc"] for problem in error.errors(include_input=False)]
        bad = {place[1] for place in places if len(place) > 1 and place[0] == "tools"}
        listed = list(enumerate(cast("list[Any]", tools)))
        result["tools"] = [tool for at, tool in listed if at not in bad]
        for at in (at for at, _ in listed if at in bad):
            _log.warning("an MCP server's tool is left out: number %d of its list is no tool", at)
    except (KeyError, ValueError):
        return  # a version that the client will speak of itself


class Choices:
    """What is made of a server's list: `prefix`, `only` and `require_approval`.

    Tools may be named as the server does, or as the agent will know them. A name that fits no tool
    is a `ConfigurationError`: who misspells one must not find the tool open to the model.
    """

    def __init__(self, prefix: str, only: Any, require_approval: Any) -> None:
        self._prefix = prefix
        self._only = None if only is None else _names("only", only)
        self._approval: Any = require_approval
        if not isinstance(require_approval, bool) and not callable(require_approval):
            self._approval = _names("require_approval", require_approval)

    def of(self, server: str, found: Iterable[Listed]) -> Iterator[tuple[str, Listed, Approval]]:
        """The tools to be used, with their names and what is to be asked about them."""
        named = list(self._named(server, found))
        self._check("only", self._only, server, named)
        self._check("require_approval", self._approval, server, named)
        for ours, listed in named:
            names = self._names_of(ours, listed)
            if self._only is None or names & self._only:
                approval = self._approval
                if isinstance(approval, frozenset):
                    approval = bool(names & cast("frozenset[str]", approval))
                yield ours, listed, approval

    def _names_of(self, ours: str, listed: Listed) -> set[str]:
        return {ours, listed.name, self._prefix + listed.name}

    def _check(
        self, option: str, asked: Any, server: str, named: Sequence[tuple[str, Listed]]
    ) -> None:
        if not isinstance(asked, frozenset):
            return
        known = {name for ours, listed in named for name in self._names_of(ours, listed)}
        unknown = sorted(cast("frozenset[str]", asked) - known)
        if unknown:
            has = ", ".join(ours for ours, _ in named[:NAMES_SHOWN]) or "none"
            raise ConfigurationError(
                f"MCP server {server!r} has no tool {unknown[0]!r}, which {option} names. "
                f"Its tools: {has}"
            )

    def _named(self, server: str, found: Iterable[Listed]) -> Iterator[tuple[str, Listed]]:
        """Each tool with a name of its own that every provider takes."""
        tools: dict[str, Listed] = {}
        for listed in found:
            if tools.setdefault(listed.name, listed) is not listed:
                _log.warning(
                    "MCP server %r lists two tools %r: the second is left out", server, listed.name
                )
        wanted = {name: plain_name(self._prefix + name) for name in tools}
        # Names that need no change go first: no other tool may be taken for theirs.
        taken = {plain for name, plain in wanted.items() if plain == self._prefix + name}
        numbers: dict[str, Iterator[int]] = {}
        for name, listed in tools.items():
            plain = wanted[name]
            if plain == self._prefix + name:
                yield plain, listed
                continue
            ours = plain
            while ours in taken:
                end = f"_{next(numbers.setdefault(plain, count(2)))}"
                ours = plain[: NAME_LENGTH - len(end)] + end
            taken.add(ours)
            yield ours, listed


def _names(option: str, given: Any) -> frozenset[str]:
    if isinstance(given, str):
        return frozenset({given})
    names = frozenset(cast("Collection[Any]", given)) if isinstance(given, Collection) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(f"{option} must be the names of tools, texts in a list")
    return cast("frozenset[str]", names)


def plain_name(name: str) -> str:
    """A tool's name in the letters that every provider takes."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:NAME_LENGTH]
