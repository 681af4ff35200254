"""The processors around tools, as type checkers see them."""

from procession import Agent, Tool, tool
from procession.processors import (
    ToolCallFilter,
    ToolFilterArgs,
    ToolSearchProcessor,
    UnicodeNormalizer,
)


@tool
def look(what: str) -> str:
    """Look."""
    return what


def may(args: ToolFilterArgs) -> bool:
    """A filter."""
    tool: Tool = args.tool
    return args.phase != "load" or tool.name == args.tool_name


async def may_later(args: ToolFilterArgs) -> bool:
    """A filter that waits."""
    return args.request_context.has("role")


found = ToolSearchProcessor(tools={"look": look}, filter=may, search={"top_k": 3})
later = ToolSearchProcessor(tools=[look], filter=may_later, storage="context", ttl=0)
wrong = ToolSearchProcessor(tools=[look], storage="disk")  # type: ignore[arg-type] # no such one
nothing = ToolSearchProcessor()  # type: ignore[call-arg] # tools are what it is for
count: int = found.get_state_stats()["thread_count"]
when: float | None = found.get_state_stats()["oldest_access_time"]
dropped: int = found.cleanup_now()

agent = Agent(
    id="typed",
    model="openai/gpt-5",
    input_processors=[
        UnicodeNormalizer(strip_control_chars=True),
        ToolCallFilter(exclude=["look"], filter_after_tool_steps=2),
        found,
    ],
)
