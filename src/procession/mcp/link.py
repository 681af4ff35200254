"""One connection to an MCP server, for as long as it lasts.

A task of its own holds it: what the client enters can only be left by the task that entered it,
while anybody may call through it, find it lost, or close it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, cast

import anyio
import httpx2
from mcp import types
from mcp.client.client import Client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError

from .listing import leave_out_misfits

__all__ = ["Link", "Transport", "leaves"]

Transport = Callable[["Link"], AbstractAsyncContextManager[Any]]
"""Makes the streams of a connection; told of the link, which hears how it fares."""
NOTICE = 0.2
LEAVING = 8.0
"""Seconds that a server gets to end in peace; the client ends a process before that."""


class Link:
    """A connection. `ready` waits until it stands, `close` until nothing of it is left."""

    def __init__(self, transport: Transport, *, call_timeout: float | None) -> None:
        self._transport = transport
        self._call_timeout = call_timeout
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._leave = anyio.Event()
        self._scope = anyio.CancelScope()
        self.is_lost = False
        """Whether nothing can be sent through it any more."""
        self.has_expired = False
        """Whether the server has forgotten the session: what was sent last was not carried out."""
        self.refusal = ""
        """The HTTP error with which the server answered last, in words."""
        self.is_process = False
        """Whether the server is a program of ours."""
        self.error: BaseException | None = None
        """Why it was lost, where that is known."""
        self.listed: list[Any] | None = None
        """The server's tools, as long as nothing says that they have changed."""
        self.hears_changes = False
        """Whether the server tells when its tools change."""
        self.changes = 0
        """How often it has told so."""
        self._leaving = asyncio.Event()
        self._version: str | None = None
        self._task = asyncio.create_task(self._hold())

    async def ready(self, seconds: float) -> Client:
        """The client, connected; raises `TimeoutError`, or what went wrong."""
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._ready)
        except BaseException:
            await self.close(at_once=True)
            raise

    @property
    def was_never_sent(self) -> bool:
        """Whether what was asked last has not reached the server."""
        return self.has_expired or _holds(self.error, (httpx2.ConnectError, httpx2.ConnectTimeout))

    async def is_leaving(self) -> bool:
        """Whether it is lost; a transport that breaks down may take a moment to say so."""
        if not self.is_lost:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NOTICE):
                    await self._leaving.wait()
        return self.is_lost

    async def close(self, *, at_once: bool = False) -> None:
        """Leave, and wait until the connection is gone, its process too.

        Being cancelled meanwhile makes it quicker, but does not end the wait.
        """
        self.is_lost = True
        self._leave.set()
        if at_once or not self._ready.done():  # what is still being made does not look
            self._scope.cancel()
        cancelled: asyncio.CancelledError | None = None
        while not self._task.done():
            try:
                done, _ = await asyncio.wait([self._task], timeout=LEAVING)
            except asyncio.CancelledError as error:
                cancelled, done = error, set[Any]()
            if not done:
                self._scope.cancel()
        if cancelled is not None:
            raise cancelled

    # ── the task that holds it ─────────────────────────────────────────────────────────────────

    async def _hold(self) -> None:
        try:
            with self._scope:
                async with AsyncExitStack() as stack:
                    client = Client(
                        _watched(self._transport(self), self._look_at, self._end),
                        read_timeout_seconds=self._call_timeout,
                        message_handler=self._hear,
                    )
                    await self._stay(await stack.enter_async_context(client))
        except BaseException as error:
            self.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self.is_lost = True
            if not self._ready.done():
                self._ready.set_exception(self.error or ConnectionError("closed"))
                self._ready.exception()  # read, so that nobody is told it was lost

    async def _stay(self, client: Client) -> None:
        tools = client.server_capabilities.tools
        self.hears_changes = bool(tools and tools.list_changed)
        self._version = client.protocol_version
        if not self._ready.done():
            self._ready.set_result(client)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._listen, client)
                await self._leave.wait()
                group.cancel_scope.cancel()
        finally:
            self.is_lost = True
            self._leaving.set()

    def _end(self) -> None:
        """The server has gone: nothing more will come."""
        self.is_lost = True
        self._leave.set()

    def _look_at(self, received: Any) -> None:
        """Something has come, and the client has not seen it yet."""
        if self._version is not None:
            leave_out_misfits(getattr(received.message, "result", None), self._version)

    async def _hear(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._forget()

    def _forget(self) -> None:
        self.changes += 1
        self.listed = None

    async def _listen(self, client: Client) -> None:
        """Servers of the newer protocol tell of changes to who asks for it."""
        if not self.hears_changes:
            return
        try:
            async with client.listen(tools_list_changed=True) as changes:
                self._forget()
                async for _ in changes:
                    self._forget()
        except ListenNotSupportedError:
            return  # an older one tells without being asked
        except (MCPError, SubscriptionLost, TimeoutError):
            pass
        self.hears_changes = False


class _Watched:
    """A stream of what a server sends, which shows what comes, and says when it ends."""

    def __init__(
        self, stream: Any, look_at: Callable[[Any], None], ended: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._look_at = look_at
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        with self._watching():
            return self._seen(await self._stream.__anext__())

    async def receive(self) -> Any:
        with self._watching():
            return self._seen(await self._stream.receive())

    def _seen(self, received: Any) -> Any:
        if not isinstance(received, Exception):
            self._look_at(received)
        return received

    @contextlib.contextmanager
    def _watching(self) -> Any:
        try:
            yield
        except (StopAsyncIteration, anyio.EndOfStream, anyio.ClosedResourceError):
            self._ended()
            raise


@asynccontextmanager
async def _watched(
    transport: AbstractAsyncContextManager[Any],
    look_at: Callable[[Any], None],
    ended: Callable[[], None],
) -> AsyncGenerator[Any, None]:
    async with transport as (read, write):
        yield _Watched(read, look_at, ended), write


def leaves(error: BaseException | None) -> list[BaseException]:
    """The errors that an exception group holds, or the one error."""
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return [leaf for one in inner for leaf in leaves(one)]
    return [] if error is None else [error]


def _holds(error: BaseException | None, kinds: tuple[type[BaseException], ...]) -> bool:
    return any(isinstance(leaf, kinds) for leaf in leaves(error))
