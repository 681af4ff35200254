"""Tools of MCP servers, over stdio and streamable HTTP; needs the extra `mcp`."""

from ..extras import brought_by

with brought_by("mcp", "anyio", "httpx2", "mcp", "mcp_types"):
    from .server import MCPServer
    from .together import MCPTools

__all__ = ["MCPServer", "MCPTools"]
