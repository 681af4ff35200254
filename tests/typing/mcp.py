"""MCP servers as sources of tools."""

from typing import assert_type

from procession import Agent, Tool
from procession.mcp import MCPServer, MCPTools


async def main() -> None:
    async with MCPServer.stdio("python", ["server.py"], prefix="a_", call_timeout=5) as server:
        assert_type(server, MCPServer)
        assert_type(await server.tools(), list[Tool])
        Agent(id="a", tools=server)
    web = MCPServer.http("https://tools.example.com/mcp", require_approval=["delete"])
    async with MCPTools(server, web) as tools:
        Agent(id="a", tools=tools)
        assert_type(await tools.tools(), list[Tool])
