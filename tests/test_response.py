"""The message that an answer goes into."""

from __future__ import annotations

from typing import Any

import pytest

from procession import Agent, processor
from procession.testing import ScriptedModel, answer, tool_call


def mask(args: Any) -> None:
    for message in args.messages:
        for part in message.parts:
            if part.type == "text":
                part.text = part.text.replace("secret", "***")


@pytest.mark.parametrize("hook", ["process_output_step", "process_output_result"])
async def test_the_flat_text_is_what_hooks_have_left(hook: str) -> None:
    """R-303, law 2: the text that old readers look for is the last text part's, masked like it."""
    model = ScriptedModel([answer("Let me see.", tool_calls=[tool_call("none")]), "The secret."])
    guard: Any = processor(id="guard", **{hook: mask})
    agent = Agent(id="a", model=model, output_processors=[guard])
    output = await agent.generate("go")
    (message,) = output.response.db_messages
    assert message.content.content == "The ***."
    assert "secret" not in str(message.to_json())


async def test_the_flat_text_of_a_text_that_a_hook_has_emptied() -> None:
    """R-302: what was taken out of the parts does not come back as flat text."""

    def empty(args: Any) -> None:
        for part in args.messages[-1].parts:
            if part.type == "text":
                part.text = ""

    guard = processor(id="guard", process_output_step=empty)
    agent = Agent(id="a", model=ScriptedModel(["The secret."]), output_processors=[guard])
    output = await agent.generate("go")
    assert [message.text for message in output.response.db_messages] == [""]
