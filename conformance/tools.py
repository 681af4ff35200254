"""Tools from their description."""

import asyncio
import copy
from collections.abc import Mapping
from typing import Any

from procession.tools import Tool, ToolContext

from .schemas import object_schema
from .transforms import known
from .world import World

_KEYS = frozenset("description input returns throws echo client emit sleep_ms model_output".split())


def build_tools(world: World, tools: Mapping[str, Mapping[str, Any]]) -> dict[str, Tool]:
    """Tools by name."""
    return {name: build_tool(world, name, tool) for name, tool in tools.items()}


def build_tool(world: World, name: str, tool: Mapping[str, Any]) -> Tool:
    """A tool that does what its description says, and notes that it was run."""
    known(tool, _KEYS, "key of a tool")
    output = tool.get("model_output")

    async def execute(arguments: Any, context: ToolContext) -> Any:
        world.event("tool_execute", tool=name, args=copy.deepcopy(arguments))
        if "sleep_ms" in tool:
            await asyncio.sleep(tool["sleep_ms"] / 1000)
        for chunk in tool.get("emit", ()):
            await context.writer.custom(copy.deepcopy(chunk))
        if "throws" in tool:
            raise RuntimeError(tool["throws"])
        if tool.get("echo"):
            return {"echo": arguments}
        return copy.deepcopy(tool.get("returns"))

    return Tool(
        name=name,
        description=tool.get("description", ""),
        input_schema=object_schema(tool.get("input", {})),
        execute=None if tool.get("client") else execute,
        to_model_output=None if output is None else lambda result: copy.deepcopy(output),
    )
