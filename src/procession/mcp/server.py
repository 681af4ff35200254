"""An MCP server as a source of tools."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack
from urllib.parse import urlsplit

import anyio
from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

from ..errors import ConfigurationError, ProcessionError, ToolError
from ..tools import Tool
from .calls import Progress, stopped_by
from .checks import check_endpoint, check_options, check_process
from .contents import error_words, shown_to_model, tool_result
from .link import Link
from .listing import Choices, all_pages
from .refusals import words_of
from .secrets import Secrets, secrets_of_address, secrets_of_process
from .transports import endpoint, process

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import TextIO

    import httpx2
    from mcp.client.client import Client
    from mcp.types import CallToolResult
    from mcp.types import Tool as Listed

    from ..tools import Approval, ToolContext
    from .link import Transport

__all__ = ["MCPServer", "ServerOptions"]

T = TypeVar("T")

_log = logging.getLogger("procession.mcp")

CONNECT_TIMEOUT = 30.0
CALL_TIMEOUT = 60.0


class ServerOptions(TypedDict, total=False):
    """How a server is used.

    `name` names it in errors. `prefix` stands before the names of its tools, to tell them from
    others'. `only` are the names of the tools to be used. `require_approval` holds for all its
    tools, or is the names of those that need it. Names may be given with or without the prefix; one
    that no tool has is a `ConfigurationError` when the tools are listed. `connect_timeout` and
    `call_timeout` are seconds.
    """

    name: str
    prefix: str
    only: Collection[str] | None
    require_approval: Approval | Collection[str]
    connect_timeout: float
    call_timeout: float


class MCPServer:
    """A server of tools, and the connection to it: `async with MCPServer.stdio(…) as server`.

    `await server.tools()` gives its tools. The server itself can be given to an agent as `tools`:
    each request then asks for the tools of the moment. While it is open a connection that is lost
    is made anew when it is needed. It belongs to the event loop in which it was opened.
    """

    def __init__(
        self, transport: Transport, secrets: Secrets, options: ServerOptions, place: str
    ) -> None:
        """For `stdio` and `http`, which see."""
        self._place = place
        self.name = options.get("name") or place.rpartition("/")[2]
        self._transport = transport
        self._secrets = secrets
        self._choices = Choices(
            options.get("prefix", ""), options.get("only"), options.get("require_approval", False)
        )
        self._connect_timeout = _seconds("connect_timeout", options, CONNECT_TIMEOUT)
        self._call_timeout = _seconds("call_timeout", options, CALL_TIMEOUT)
        self._link: Link | None = None
        self._opening: asyncio.Lock | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def stdio(
        cls,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        errlog: TextIO | None = None,
        **options: Unpack[ServerOptions],
    ) -> Self:
        """A server that is a program, started when the server is opened and ended with it.

        It gets a few harmless variables of this process's environment, and `env`. What it writes
        to its standard error goes to `errlog`, or to ours.
        """
        check_process(command, args, env, cwd, errlog)
        check_options(options, ServerOptions.__annotations__, "env", "cwd", "errlog")
        transport = process(command, args, env, cwd, errlog)
        name = re.split(r"[\\/]", command)[-1]
        return cls(transport, secrets_of_process(args, env), options, name)

    @classmethod
    def http(
        cls,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        http_client: Callable[[], httpx2.AsyncClient] | None = None,
        **options: Unpack[ServerOptions],
    ) -> Self:
        """A server behind an HTTP endpoint (streamable HTTP).

        `http_client` makes the client of a connection, for sign-on, proxies or certificates of
        your own; it is closed with the connection, and `headers` are not given to it.
        """
        check_endpoint(url, headers, http_client)
        check_options(options, ServerOptions.__annotations__, "headers", "http_client")
        transport = endpoint(url, headers, http_client)
        parts = urlsplit(url)
        place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        return cls(transport, secrets_of_address(url, headers), options, place)

    def __repr__(self) -> str:
        return f"MCPServer(name={self.name!r})"

    @property
    def is_open(self) -> bool:
        """Whether it has been opened, and not been closed since."""
        return self._loop is not None

    # ── opening and closing ────────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Self:
        """Connect. Raises `ToolError` when that fails."""
        if self._loop is not None:
            raise ConfigurationError(f"MCP server {self.name!r} is open already")
        self._loop, self._opening = asyncio.get_running_loop(), (lock := asyncio.Lock())
        try:
            await self._connected()
        except BaseException:
            if self._opening is lock:
                self._loop = self._opening = None
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection; a process is ended. Calls and openings under way fail."""
        link, self._link, self._loop, self._opening = self._link, None, None, None
        if link is not None:
            await link.close()

    async def _connected(self) -> tuple[Link, Client]:
        """The connection, made anew if it was lost."""
        if self._loop is not asyncio.get_running_loop() or self._opening is None:
            if self._loop is None:
                raise ConfigurationError(
                    f"MCP server {self.name!r} is not open: use `async with server`"
                )
            raise ConfigurationError(
                f"MCP server {self.name!r} was opened in another event loop: run the agent in the "
                f"loop of its `async with` (the sync forms have a loop of their own)"
            )
        async with (lock := self._opening):
            self._check_open(lock)
            if self._link is not None and self._link.is_lost:
                await self._link.close()
                self._check_open(lock)
                self._link = None
            if self._link is None:
                self._link = Link(self._transport, call_timeout=self._call_timeout)
            link = self._link
            try:
                client = await self._stands(link)
            except BaseException as error:
                if self._link is link:
                    self._link = None
                if isinstance(error, Exception):
                    self._check_open(lock)
                raise
            self._check_open(lock)
            return link, client

    def _check_open(self, lock: asyncio.Lock) -> None:
        """Raises `ToolError` when the server was closed since `lock` was its lock."""
        if self._opening is not lock:
            raise ToolError(f"MCP server {self.name!r} was closed while it was being connected to")

    async def _stands(self, link: Link) -> Client:
        try:
            return await link.ready(self._connect_timeout)
        except TimeoutError:
            problem = f"no connection within {self._connect_timeout:g} seconds"
        except Exception as error:
            problem = f"no connection: {self._words(error, link)}"
        raise ToolError(f"MCP server {self.name!r}: {problem}")

    def _words(self, error: BaseException, link: Link) -> str:
        return words_of(error, link, self._place, self._secrets)

    # ── tools ──────────────────────────────────────────────────────────────────────────────────

    async def tools(self) -> list[Tool]:
        """The server's tools as they are now.

        The list is kept while the server tells of changes, and asked for again otherwise. Raises
        `ToolError` when the server cannot be reached.
        """
        link, _ = await self._connected()
        if link.listed is not None and link.hears_changes:
            return list(link.listed)
        return await self._through(self._list, "its list of tools", repeatable=True)

    async def __call__(self, _scope: object) -> list[Tool]:
        """The server as a function of the request: its tools."""
        return await self.tools()

    async def _list(self, link: Link, client: Client) -> list[Tool]:
        if client.server_capabilities.tools is None:
            return []
        changes = link.changes
        try:
            async with asyncio.timeout(self._call_timeout):
                found = await all_pages(client)
        except TimeoutError:
            raise self._problem("its list of tools", self._too_late()) from None
        except ToolError as error:
            raise self._problem("its list of tools", str(error)) from None
        tools: list[Tool] = []
        for name, listed, approval in self._choices.of(self.name, found):
            try:
                tools.append(self._tool(name, listed, approval))
            except ConfigurationError as error:
                _log.warning("MCP server %r, tool %r is left out: %s", self.name, name, error)
        if link.changes == changes:
            link.listed = tools
        return list(tools)

    def _tool(self, name: str, listed: Listed, approval: Approval) -> Tool:
        hints = listed.annotations
        # As the protocol has it: what a server says of its own tools is a hint. It decides here
        # whether a call that may have been lost is made again, nothing about who may make it.
        repeatable = bool(hints and (hints.read_only_hint or hints.idempotent_hint))

        async def execute(arguments: Any, context: ToolContext) -> Any:
            return await self._call(listed.name, arguments, context, repeatable)

        return Tool(
            name=name,
            description=listed.description or listed.title or "",
            input_schema=listed.input_schema,
            execute=execute,
            to_model_output=shown_to_model,
            require_approval=approval,
        )

    # ── calls ──────────────────────────────────────────────────────────────────────────────────

    async def _call(self, name: str, arguments: Any, context: ToolContext, repeatable: bool) -> Any:
        progress = Progress(context)

        async def ask(_link: Link, client: Client) -> CallToolResult:
            return await client.call_tool(
                name, arguments, read_timeout_seconds=self._call_timeout, progress_callback=progress
            )

        answer: Any = None
        try:
            with stopped_by(context.abort_signal) as stop:
                progress.on_verdict = stop.cancel
                answer = await self._through(ask, f"tool {name!r}", repeatable=repeatable)
                await progress.settle()
        finally:
            progress.end()
        if progress.verdict is not None:
            raise progress.verdict
        if answer is None or stop.cancelled_caught:
            raise ToolError(f"tool {name!r} of MCP server {self.name!r} was cancelled")
        if answer.is_error:
            raise ToolError(self._secrets.hidden(error_words(answer)))
        return tool_result(answer)

    async def _through(
        self, ask: Callable[[Link, Client], Awaitable[T]], what: str, *, repeatable: bool
    ) -> T:
        """Ask the server something; once more, over a new connection, where that does no harm."""
        for is_last in (False, True):
            link, client = await self._connected()
            try:
                return await ask(link, client)
            except ProcessionError:
                raise
            except Exception as error:
                if not await self._was_lost(link, error):
                    raise self._told(what, error, link) from None
            if is_last or not (repeatable or link.was_never_sent):
                break
        raise ToolError(
            f"MCP server {self.name!r}, {what}: the connection was lost, and it is not known "
            f"whether the call was carried out"
        )

    async def _was_lost(self, link: Link, error: Exception) -> bool:
        """Whether the connection is behind an error; then nothing is left of it."""
        if not isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError):
            if not isinstance(error, MCPError):
                return False
            if error.code != CONNECTION_CLOSED and not link.has_expired:
                return False
        if await link.is_leaving() or link.has_expired:
            await link.close()
        return True

    def _told(self, what: str, error: Exception, link: Link) -> ToolError:
        """The error that model and user are told."""
        if isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT:
            words = self._too_late()
        else:
            words = self._words(error, link)
        return self._problem(what, words)

    def _too_late(self) -> str:
        return f"no answer within {self._call_timeout:g} seconds, so it was cancelled"

    def _problem(self, what: str, words: str) -> ToolError:
        return ToolError(f"MCP server {self.name!r}, {what}: {words}")


def _seconds(name: str, options: Mapping[str, Any], default: float) -> float:
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigurationError(f"{name} must be a number of seconds above 0")
    return value
