"""Tools as their author has them in hand."""

from __future__ import annotations

import pytest

from procession import Agent, ConfigurationError, Tool, ToolContext, tool
from procession.processors import PIIDetector
from procession.testing import ScriptedModel, answer, tool_call


@tool
def add(first: int, second: int = 1) -> int:
    """Add."""
    return first + second


@tool(name="shout")
async def say(text: str, context: ToolContext | None = None) -> str:
    """Say it loud."""
    return text.upper()


async def test_a_tool_is_still_the_function() -> None:
    """R-529: what was decorated can be called, so that its author can test it."""
    assert add(1) == 2
    assert add(1, second=3) == 4
    assert await say("hi") == "HI"
    assert (add.name, say.name) == ("add", "shout")


def test_a_tool_without_a_function_says_what_to_call() -> None:
    """R-529: a tool that was made of its parts has an `execute` only."""
    with pytest.raises(ConfigurationError, match="'bare' was not made of a function"):
        Tool(name="bare")()


def test_one_tool_is_no_list_of_tools() -> None:
    """R-016: nor is it a function of the request, though it can be called."""
    with pytest.raises(ConfigurationError, match="tools must be a list"):
        Agent(id="a", tools=add)  # type: ignore[arg-type]


async def test_a_tool_can_tell_what_others_are_shown_of_its_arguments() -> None:
    """R-533: it runs with what the model wrote, and can write down what a guard has left of it."""
    seen: list[tuple[str, object]] = []

    @tool
    def mail(to: str, context: ToolContext) -> str:
        """Mail."""
        seen.append((to, context.shown_args))
        return "sent"

    call = answer(tool_calls=[tool_call("mail", {"to": "bo@example.com"})])
    for guards in ((), (PIIDetector(redaction_method="placeholder"),)):
        model = ScriptedModel([call, "Sent."])
        agent = Agent(id="a", model=model, tools=[mail], output_processors=guards)
        await agent.generate("Mail Bo")
    [(plain, unguarded), (raw, guarded)] = seen
    assert plain == raw == "bo@example.com"
    assert unguarded == {"to": "bo@example.com"}
    assert guarded == {"to": "[EMAIL]"}
