"""Several sources of tools as one."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self, cast

from ..errors import ConfigurationError
from ..tools import Tool, tool_map
from .server import MCPServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

__all__ = ["MCPTools"]


class MCPTools:
    """The tools of several servers, and tools of your own: `async with MCPTools(files, web, mine)`.

    It opens and closes the servers that are not open yet, and can be given to an agent as `tools`.
    Two tools of one name are a `ConfigurationError` when the tools are asked for: give the servers
    a `prefix`.
    """

    def __init__(self, *sources: MCPServer | Tool | Callable[..., object]) -> None:
        for source in sources:
            if not isinstance(source, MCPServer):
                _own(source)  # what is no tool is refused now
        self._sources = sources
        self._open: AsyncExitStack | None = None

    async def __aenter__(self) -> Self:
        """Open the servers, one after the other; if one cannot be, those before it are closed."""
        async with AsyncExitStack() as stack:
            for source in self._sources:
                if isinstance(source, MCPServer) and not source.is_open:
                    await stack.enter_async_context(source)
            self._open = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._open is not None:
            stack, self._open = self._open, None
            await stack.aclose()

    async def tools(self) -> list[Tool]:
        """All tools, as they are now."""
        found: dict[str, Tool] = {}
        givers: dict[str, str] = {}
        for number, source in enumerate(self._sources, 1):
            server = isinstance(source, MCPServer)
            giver = f"MCP server {source.name!r} (source {number})" if server else "you"
            for tool in await source.tools() if server else _own(source):
                if tool.name in found:
                    raise ConfigurationError(
                        f"two tools are named {tool.name!r}, given by {givers[tool.name]} and by "
                        f"{giver}: set a prefix for the server, MCPServer.stdio(…, prefix='x_'); "
                        f"name='…' says in errors which one it is"
                    )
                found[tool.name], givers[tool.name] = tool, giver
        return list(found.values())

    async def __call__(self, _scope: object) -> list[Tool]:
        """A function of the request: the tools."""
        return await self.tools()


def _own(source: object) -> Iterable[Tool]:
    return tool_map([cast("Tool", source)]).values()
