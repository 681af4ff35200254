"""The guide's moderated agent, behind its chain of three, on the embedded model, for real.

A model of this size judges badly: what holds is that the run comes to an end of its own or to one
that a judge stands for, and that all verdicts fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent
from procession.models.local import LocalModel
from procession.processors import ModerationProcessor, PromptInjectionDetector, UnicodeNormalizer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from procession.models.local_server import LocalServer


@pytest.fixture
async def embedded(llama: LocalServer) -> AsyncIterator[LocalModel]:
    model = LocalModel(server=llama)
    yield model
    await model.aclose()


def check(outcome: Any, judges: dict[str, Any]) -> None:
    """The run ended by itself, or one of these judges has named what it looks for."""
    assert outcome.policy_events == []  # every judge that was asked came to a verdict
    assert outcome.processor_usage.output_tokens
    if outcome.tripwire is None:
        assert outcome.usage.output_tokens
        return
    judge = judges[outcome.tripwire.processor_id]
    types = outcome.tripwire.metadata["types"]
    assert types
    assert set(types) <= set(judge)
    assert (outcome.text, outcome.finish_reason) == ("", "other")


async def test_e60_e61_the_chain_of_three(embedded: LocalModel) -> None:
    """E-60, E-61, B-021: the agent's own model judges, and answers what passes."""
    injection = PromptInjectionDetector(error_strategy="strict")
    moderation = ModerationProcessor(
        categories=["hate", "harassment", "violence"],
        threshold=0.7,
        strategy="block",
        error_strategy="strict",
    )
    agent = Agent(
        id="moderated-agent",
        name="moderated-agent",
        instructions="Answer in one word.",
        model=embedded,
        input_processors=[UnicodeNormalizer(), injection, moderation],
    )
    outcome = await agent.generate(
        "  Of\ufb01ce   hours? ", model_settings={"max_output_tokens": 8}
    )
    check(
        outcome,
        {
            "prompt-injection-detector": injection.detection_types,
            "moderation": moderation.categories,
        },
    )
    assert outcome.messages[0].text == "Office hours?"
