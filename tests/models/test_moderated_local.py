"""The guide's moderated agent, behind its chain of three, on the embedded model, for real.

A model of this size judges badly: what holds is that the run comes to an end of its own or to one
that a judge stands for, and that all verdicts fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from procession import Agent, ProcessorViolation
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


async def test_e60_e61_the_chain_of_three(embedded: LocalModel) -> None:
    """E-60, E-61, B-021: the agent's own model judges, and answers what passes."""
    injection = PromptInjectionDetector(
        detection_types=["injection", "jailbreak"],  # few, for the time it takes
        strategy="warn",  # for moderation to have its turn
        error_strategy="strict",
    )
    told: list[ProcessorViolation] = []
    injection.on_violation = told.append
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
    # A failure of a judge would be an event, and a verdict that does not fit is a failure.
    assert outcome.policy_events == []
    assert outcome.processor_usage.output_tokens
    for violation in told:
        assert set(violation.detail["types"]) <= {"injection", "jailbreak"}
    assert outcome.messages[0].text == "Office hours?"
    if outcome.tripwire is None:
        assert outcome.usage.output_tokens
        return
    assert outcome.tripwire.processor_id == "moderation"
    assert set(outcome.tripwire.metadata["categories"]) <= set(moderation.categories)
    assert (outcome.text, outcome.finish_reason) == ("", "other")
