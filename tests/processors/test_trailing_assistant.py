"""TrailingAssistantGuard: no prompt ends with an answer where the model refuses that."""

from __future__ import annotations

from typing import Any

import pytest

from procession import Agent, tool
from procession.processors import TrailingAssistantGuard
from procession.testing import ScriptedModel, answer, collect, tool_call

TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "partial"}]
SCHEMA = {"schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}


async def last_of(model_id: str, talk: Any = TALK, **options: Any) -> tuple[str, ScriptedModel]:
    """Who speaks last in the prompt of the first call."""
    model = ScriptedModel(['{"a": 1}'], model_id=model_id)
    agent = Agent(id="a", model=model, input_processors=[TrailingAssistantGuard()])
    await agent.generate(talk, **options)
    return model.calls[0].prompt[-1]["role"], model


@pytest.mark.parametrize(
    ("model_id", "alone", "with_schema"),
    [
        ("gemini-3.5-pro", "user", "user"),
        ("google/gemini-4-flash", "user", "user"),
        ("gemini-3.1-pro-preview", "assistant", "assistant"),
        ("gemini-3-pro", "assistant", "assistant"),
        ("gemini-2.5-flash-lite", "assistant", "assistant"),
        ("gemini-flash-latest", "assistant", "assistant"),
        ("claude-opus-4-6", "assistant", "user"),
        ("anthropic.claude-sonnet-4.7-v1:0", "assistant", "user"),
        ("claude-opus-5", "assistant", "user"),
        ("claude-sonnet-4-5-20250929", "assistant", "assistant"),
        ("claude-opus-4-20250514", "assistant", "assistant"),
        ("claude-3-7-sonnet-latest", "assistant", "assistant"),
        ("gpt-5", "assistant", "assistant"),
    ],
)
async def test_b450_who_refuses(model_id: str, alone: str, with_schema: str) -> None:
    """B-450: newer Gemini always, newer Claude with structured output of its own."""
    assert (await last_of(model_id))[0] == alone
    assert (await last_of(model_id, structured_output=SCHEMA))[0] == with_schema


async def test_b450_only_structured_output_of_the_provider_counts() -> None:
    """B-450: a schema in words, and a second model, leave the call as it is."""
    for more in ({"json_prompt_injection": True}, {"model": ScriptedModel(['{"a": 1}'])}):
        asked = {**SCHEMA, **more}
        assert (await last_of("claude-opus-4-6", structured_output=asked))[0] == "assistant"


async def test_b450_what_ends_with_a_user_stays() -> None:
    """B-450: nothing is added to a prompt that is accepted."""
    _, model = await last_of("gemini-3.5-pro", "q")
    assert [entry["role"] for entry in model.calls[0].prompt] == ["user"]


async def test_b450_once_and_not_stored() -> None:
    """B-450: one turn, for this run only; after a tool's result there is no need of another."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel(
        [answer(tool_calls=[tool_call("look")]), "Done."], model_id="gemini-3.5-pro"
    )
    agent = Agent(id="a", model=model, tools=[look], input_processors=[TrailingAssistantGuard()])
    run = await agent.stream(TALK)
    await collect(run)
    assert [entry["role"] for entry in model.calls[1].prompt] == [
        *("user", "assistant", "user", "assistant", "tool")
    ]
    assert "continue</system-reminder>" in model.calls[0].text
    assert "signal" not in [m.role for m in run.message_list.drain_unsaved_messages()]


async def test_b450_the_model_of_the_step_counts() -> None:
    """B-450: also one that a hook before it has chosen, by its id."""
    chosen = ScriptedModel(["ok"], model_id="gemini-3.5-pro")

    class Choose:
        id = "choose"

        def process_input_step(self, args: Any) -> Any:
            return {"model": chosen}

    plain = ScriptedModel(["never"])
    guard = TrailingAssistantGuard()
    agent = Agent(id="a", model=plain, input_processors=[Choose(), guard])
    await agent.generate(TALK)
    assert chosen.calls[0].prompt[-1]["role"] == "user"
    assert guard.id == "trailing-assistant-guard"


async def test_b450_a_prompt_that_cannot_be_made_is_told_by_the_call() -> None:
    """B-450: the guard hides no error, and makes none of its own."""
    part = {"type": "file", "mimeType": "image/png", "data": "not base64!"}
    talk = [{"role": "user", "content": {"format": 2, "parts": [part]}, "id": "m"}]
    model = ScriptedModel(["never"], model_id="gemini-3.5-pro")
    agent = Agent(id="a", model=model, input_processors=[TrailingAssistantGuard()])
    run = await agent.stream(talk)
    await collect(run)
    assert run.status == "failed"
    assert "neither base64 nor a URL" in str(run.error)
    assert "trailing-assistant-guard" not in str(getattr(run.error, "__notes__", ""))
