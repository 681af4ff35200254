"""How MCP servers are set up and reached: mistakes are told when and where they are made."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent, ConfigurationError, ToolError
from procession.errors import ProcessionError
from procession.mcp import MCPServer, MCPTools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SCRIPT = Path(__file__).with_name("tool_server.py")
SECRET = "sk-very-secret-0123"
URL = "http://127.0.0.1:9/mcp"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("require_aproval", "require_approval"),
        ("timeout", "call_timeout"),
        ("requireApproval", "require_approval"),
        ("workers", "there are"),
    ],
)
def test_an_option_that_does_not_exist_is_no_option(name: str, meant: str) -> None:
    """A guard that is misspelt would be none."""
    for make in (lambda o: MCPServer.stdio("python", **o), lambda o: MCPServer.http(URL, **o)):
        with pytest.raises(ConfigurationError, match=f"no option '{name}'.*{meant}"):
            make({name: True})


STDIO: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((["python", "x.py"],), {}, "command must be the name.*args="),
    (("",), {}, "command"),
    ((None,), {}, "command"),
    (("python", [1]), {}, "args must be a list"),
    (("python", None), {}, "args must be a list"),
    (("python", "x.py"), {}, "args must be a list of arguments"),
    (("python", {"a": "b"}), {}, "args must be a list"),
    (("python",), {"env": {"A": 1}}, "env must be a mapping"),
    (("python",), {"env": ["A=1"]}, "env must be a mapping"),
    (("python",), {"cwd": 5}, "cwd must be a path"),
    (("python",), {"errlog": "log.txt"}, "errlog must be an open file"),
    (("python",), {"name": 5}, "name must be a text"),
    (("python",), {"prefix": None}, "prefix must be a text"),
    (("python",), {"require_approval": 7}, "require_approval must be"),
]


@pytest.mark.parametrize(("args", "options", "told"), STDIO)
def test_a_program_that_cannot_be_started_is_refused(
    args: tuple[Any, ...], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        MCPServer.stdio(*args, **options)


@pytest.mark.parametrize(
    ("url", "options", "told"),
    [
        ("localhost", {}, "url of an MCP server must be an address"),
        ("ftp://example.com", {}, "must be an address"),
        (5, {}, "not of type int"),
        (URL, {"headers": {"a": 1}}, "headers must be a mapping"),
        (URL, {"headers": [("a", "b")]}, "headers must be a mapping"),
        (URL, {"http_client": "client"}, "http_client must be a function"),
    ],
)
def test_an_endpoint_that_cannot_be_reached_is_refused(
    url: Any, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        MCPServer.http(url, **options)


def test_names_are_told_apart() -> None:
    assert (
        repr(MCPServer.http("http://user:pw@127.0.0.1:81/a?k=1"))
        == "MCPServer(name='127.0.0.1:81')"
    )
    assert repr(MCPServer.http("http://127.0.0.1:82/a")) == "MCPServer(name='127.0.0.1:82')"
    assert repr(MCPServer.http(URL, name="mine")) == "MCPServer(name='mine')"
    assert repr(MCPServer.stdio("/usr/bin/python")) == "MCPServer(name='python')"


async def test_of_two_servers_with_one_tool_it_is_said_which_ones_they_are() -> None:
    servers = [MCPServer.stdio(sys.executable, [str(SCRIPT)], name="maths") for _ in range(2)]
    told = r"by MCP server 'maths' \(source 1\) and by MCP server 'maths' \(source 2\).*name="
    async with MCPTools(*servers) as tools:
        with pytest.raises(ConfigurationError, match=told):
            await tools.tools()


def test_a_server_in_a_list_of_tools_is_told_its_place() -> None:
    server = MCPServer.http(URL)
    for source in (server, MCPTools(server)):
        with pytest.raises(ConfigurationError, match=r"tools=….*MCPTools\(…\)"):
            Agent(id="a", tools=[source])  # type: ignore[list-item]


def test_what_gives_no_tools_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not a tool: str"):
        MCPTools("files")  # type: ignore[arg-type]


# ── what is wrong with a connection ────────────────────────────────────────────────────────────


@asynccontextmanager
async def web(status: str, body: str, kind: str) -> AsyncIterator[str]:
    """An HTTP server that has one answer to everything."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            while True:
                asked = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = asked.partition(b"content-length: ")[2].partition(b"\r")[0]
                await reader.readexactly(int(length or 0))
                writer.write(f"{head}{body}".encode())
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"


async def refused(server: MCPServer) -> str:
    """The words with which opening a server fails."""
    with pytest.raises(ProcessionError) as caught:
        async with asyncio.timeout(10):
            await server.__aenter__()
    assert isinstance(caught.value, ToolError)
    assert SECRET not in str(caught.value)
    return str(caught.value)


PAGE = "<html><title>Sign in</title></html>"


@pytest.mark.parametrize(
    ("status", "body", "kind", "told"),
    [
        ("401 Unauthorized", f"no key {SECRET}", "text/plain", "with status 401: no key …"),
        ("403 Forbidden", json.dumps({"error": "not you"}), "application/json", 'not you"'),
        ("500 Oops", "", "text/plain", "answered with status 500"),
        ("502 Bad", PAGE, "text/html", "status 502: a web page: Sign in"),
        ("404 Not Found", "no such place", "text/plain", "status 404: no such place"),
    ],
)
async def test_how_an_endpoint_refuses_is_told(
    status: str, body: str, kind: str, told: str
) -> None:
    async with web(status, body, kind) as url:
        server = MCPServer.http(url, headers={"Authorization": f"Bearer {SECRET}"})
        assert told in await refused(server)


async def test_what_is_no_message_is_told_in_a_line() -> None:
    async with web("200 OK", json.dumps({"hello": SECRET}), "application/json") as url:
        told = await refused(MCPServer.http(url, headers={"X-Key": SECRET}))
    assert told.endswith("no message of the protocol")


async def test_where_nobody_answers_is_told() -> None:
    told = await refused(MCPServer.http(f"http://user:{SECRET}@127.0.0.1:9/mcp?key={SECRET}"))
    assert "ConnectError at http://127.0.0.1:9: " in told


async def test_a_program_that_ends_at_once_is_told() -> None:
    told = await refused(MCPServer.stdio(sys.executable, ["-c", "pass"]))
    assert "the program ended" in told


async def test_a_proxy_that_needs_a_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:9")
    assert "SOCKS" in await refused(MCPServer.http(URL))
