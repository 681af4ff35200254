"""A small MCP server for the tests: `python tool_server.py` speaks over stdio."""

from __future__ import annotations

import asyncio
import base64
import logging
import os

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    Annotations,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

PIXEL = base64.b64encode(b"\x89PNG pixel").decode()


def make(events: list[str]) -> MCPServer:  # noqa: C901  # many small functions
    """A server. `events` takes what happens in it."""
    server = MCPServer("tools", instructions="Use them.")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool(structured_output=False)
    def greet(name: str) -> str:
        """Greet."""
        return f"Hello, {name}!"

    @server.tool()
    def picture() -> CallToolResult:
        """A picture with words, and more."""
        return CallToolResult(
            content=[
                TextContent(type="text", text="a pixel"),
                ImageContent(type="image", data=PIXEL, mime_type="image/png"),
                ResourceLink(type="resource_link", uri="file:///a.txt", name="a.txt"),
                EmbeddedResource(
                    type="resource",
                    resource=TextResourceContents(uri="file:///b.txt", text="inside b"),
                ),
                TextContent(
                    type="text", text="for people", annotations=Annotations(audience=["user"])
                ),
            ]
        )

    @server.tool()
    def fail(word: str) -> str:
        """Fail."""
        raise ToolError(f"no {word}, and the key is {os.environ.get('SECRET_KEY')}")

    @server.tool()
    async def slow(ctx: Context) -> str:
        """Take long, and tell."""
        events.append("started")
        try:
            for step in range(3):
                await ctx.report_progress(step, 3, f"step {step}")
            await asyncio.sleep(30)
        except BaseException as error:
            events.append(type(error).__name__)
            raise
        return "never"

    @server.tool()
    async def steps(ctx: Context) -> str:
        """Tell of three steps."""
        for step in range(3):
            await ctx.report_progress(step, 3, f"step {step}")
        return "done"

    @server.tool()
    def happened() -> list[str]:
        """What has happened here."""
        return events

    @server.tool()
    async def learn(ctx: Context) -> str:
        """Learn another tool."""

        def extra() -> str:
            """Learned."""
            return "extra"

        server.add_tool(extra)
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return "learned"

    @server.tool()
    def die() -> str:
        """End the process, in the middle of the call."""
        os._exit(3)

    @server.tool(annotations=ToolAnnotations(idempotent_hint=True))
    def die_once(path: str) -> str:
        """End the process the first time."""
        if os.path.exists(path):
            return "alive"
        with open(path, "w") as file:
            file.write("dead")
        os._exit(3)

    @server.tool(name="odd.name/here")
    def odd() -> str:
        """A name that no provider takes."""
        return "odd"

    return server


if __name__ == "__main__":
    logging.disable()
    make([]).run("stdio")
