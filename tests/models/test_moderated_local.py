"""The guide's moderated agent, behind its chain of three, on the embedded model, for real; and
processors that classify.

A model of this size judges badly: what holds is that the run comes to an end of its own or to one
that a judge stands for, and that all verdicts fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from procession import Agent, ProcessorViolation
from procession.models.local import LocalModel
from procession.processors import (
    Classifier,
    ClassifierProcessor,
    ModelSelectionDecision,
    ModelSelectionProcessor,
    ModerationProcessor,
    PromptInjectionDetector,
    UnicodeNormalizer,
)
from procession.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from procession.models.local_server import LocalServer
    from procession.processors import ClassifierAnswers, ClassifierContext


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


async def test_a_classifier_has_all_kinds_of_questions_answered(embedded: LocalModel) -> None:
    """B-500, B-501, B-510: a small model keeps to the form of each answer, in a stream as well."""
    topics = {"sports": None, "cooking": None}
    found: list[tuple[str, ClassifierAnswers]] = []

    def decide(answers: ClassifierAnswers, context: ClassifierContext) -> None:
        found.append((context.phase, answers))

    guard = ClassifierProcessor(
        classifier=Classifier(
            "topics",
            embedded,
            {
                "topic": {"type": "choice", "criteria": topics},
                "mood": {"type": "score", "criteria": ["sad", "calm", "glad"]},
                "rude": {"type": "boolean"},
            },
        ),
        on_result=decide,
        granularity="sentence",
    )
    answering = ScriptedModel(["Two goals were shot. The soup is hot."])
    agent = Agent(id="a", model=answering, input_processors=[guard], output_processors=[guard])
    outcome = await agent.generate("Who has won?")
    assert outcome.policy_events == []
    assert outcome.tripwire is None
    assert [phase for phase, _ in found] == ["input", "stream", "stream", "output"]
    for _, answers in found:
        assert answers.choice("topic").choice in topics
        assert 0 <= answers.score("mood").score <= 2
        assert 0 <= answers.boolean("rude").probability <= 1
    assert outcome.processor_usage.output_tokens


@pytest.mark.parametrize("min_probability", [None, 0.1], ids=["choice", "probabilities"])
async def test_a_model_is_selected_by_the_embedded_one(
    embedded: LocalModel, min_probability: float | None
) -> None:
    """B-530 to B-532: one of the choices answers, or the agent's own where none is likely."""
    models = {name: ScriptedModel([name]) for name in ("large", "small", "own")}
    decided: list[ModelSelectionDecision] = []
    selection = ModelSelectionProcessor(
        choices=[
            {"model": models["small"], "criteria": "greetings and thanks", "name": "small"},
            {"model": models["large"], "criteria": "proofs and programs", "name": "large"},
        ],
        model=embedded,
        min_probability=min_probability,
        on_decision=decided.append,
    )
    agent = Agent(id="a", model=models["own"], input_processors=[selection])
    outcome = await agent.generate("Good morning!")
    assert outcome.policy_events == []
    [decision] = decided
    assert decision.choice in ("small", "large")
    if min_probability is not None:
        assert decision.probability is not None
    chosen = decision.choice if decision.abstained is None else "own"
    assert outcome.text == chosen
    assert decision.abstained in (None, "below-threshold")
