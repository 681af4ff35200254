"""The two ways to a server: a process of its own, and an HTTP endpoint."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TextIO

import httpx2
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from .refusals import refusal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from pathlib import Path

    from .link import Link, Transport

__all__ = ["endpoint", "process"]

CONNECT = 30.0
BODY = 2.0
"""Seconds; how long the words are waited for with which a server refuses."""
SESSION = "mcp-session-id"


def process(
    command: str,
    args: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: str | Path | None,
    errlog: TextIO | None,
) -> Transport:
    """A process that is spoken to over its standard input and output."""
    parameters = StdioServerParameters(
        command=command, args=list(args), env=dict(env) if env else None, cwd=cwd
    )

    @asynccontextmanager
    async def connect(link: Link) -> AsyncGenerator[Any, None]:
        link.is_process = True
        with _stderr(errlog) as log:
            async with stdio_client(parameters, log) as streams:
                yield streams

    return connect


def _stderr(errlog: TextIO | None) -> AbstractContextManager[TextIO]:
    """Where the process complains: a file that stays open, or one that is closed with it."""
    for stream in (errlog, sys.stderr, sys.__stderr__):
        try:
            if stream is not None and stream.fileno() >= 0:
                return nullcontext(stream)
        except (OSError, ValueError, AttributeError):  # a notebook's, or one that was closed
            continue
    return open(os.devnull, "w", encoding="utf-8")


def endpoint(
    url: str,
    headers: Mapping[str, str] | None,
    http_client: Callable[[], httpx2.AsyncClient] | None,
) -> Transport:
    """An HTTP endpoint; every connection has a client of its own."""

    @asynccontextmanager
    async def connect(link: Link) -> AsyncGenerator[Any, None]:
        async def note(response: httpx2.Response) -> None:
            # Sessions end on the server's side too; then the call was not looked at (404).
            if response.status_code == 404 and SESSION in response.request.headers:
                link.has_expired = True
            if response.request.method == "POST":  # other methods need not be there
                link.refusal = await _refusal(response) if response.is_error else ""

        client = http_client() if http_client is not None else _client(headers)
        client.event_hooks = {
            **client.event_hooks,
            "response": [*client.event_hooks.get("response", []), note],
        }
        async with client, streamable_http_client(url, http_client=client) as streams:
            yield streams

    return connect


async def _refusal(response: httpx2.Response) -> str:
    with suppress(TimeoutError, httpx2.HTTPError):
        async with asyncio.timeout(BODY):
            await response.aread()
    return refusal(response)


def _client(headers: Mapping[str, str] | None) -> httpx2.AsyncClient:
    # Without a limit on reading: how long a call may take is the server object's `call_timeout`.
    timeout = httpx2.Timeout(CONNECT, read=None)
    return httpx2.AsyncClient(headers=dict(headers or {}), timeout=timeout)
