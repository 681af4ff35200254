"""Tools of MCP servers, over stdio and streamable HTTP; needs the extra `mcp`."""

from .server import MCPServer
from .together import MCPTools

__all__ = ["MCPServer", "MCPTools"]
