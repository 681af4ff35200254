"""E-82: a workflow of three checks in parallel as the agent's input processor."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent
from procession.memory import Memory
from procession.processors import ModerationProcessor, PIIDetector, PromptInjectionDetector
from procession.stores import InMemoryStore
from procession.testing import ScriptedModel
from procession.workflows import ProcessorStepSchema, StepContext, create_step, create_workflow
from tests.seeds.threeways import play, three_ways

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from procession import Chunk, ModelRequest

ADDRESS = "joe@example.com"
GIVEN = f"Mail {ADDRESS} now"


class Judge:
    """Answers after so many turns of others."""

    provider, model_id = "example", "judge-1"

    def __init__(self, turns: int, verdict: dict[str, Any]) -> None:
        self._turns = turns
        self._model = ScriptedModel([json.dumps(verdict)])

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Chunk], None]:
        for _ in range(self._turns):
            await asyncio.sleep(0)
        async for read in self._model.stream(request):
            yield read


def moderation_workflow(turns: Sequence[int], injection: float = 0.0, hate: float = 0.0) -> Any:
    found = {"type": "email", "value": ADDRESS, "confidence": 0.95, "start": 5, "end": 20}
    pii = {
        "categories": [{"type": "email", "score": 0.95}],
        "detections": [{**found, "redacted_value": None}],
        "redacted_content": None,
    }
    attacks = [{"type": "injection", "score": injection}] if injection else None
    injected = {"categories": attacks, "reason": "it says so", "rewritten_content": None}
    scores = [{"category": "hate", "score": hate}] if hate else None

    async def choose(context: StepContext) -> Any:
        return context.input_data["processor:pii-detector"]

    return (
        create_workflow(
            id="moderation-pipeline",
            input_schema=ProcessorStepSchema,
            output_schema=ProcessorStepSchema,
        )
        .parallel(
            [
                create_step(PIIDetector(model=Judge(turns[0], pii), strategy="redact")),
                create_step(
                    PromptInjectionDetector(model=Judge(turns[1], injected), strategy="block")
                ),
                create_step(
                    ModerationProcessor(
                        model=Judge(turns[2], {"category_scores": scores, "reason": None}),
                        strategy="block",
                    )
                ),
            ]
        )
        .map(choose)
        .commit()
    )


@three_ways
@pytest.mark.parametrize("turns", list(itertools.permutations((0, 9, 30))))
async def test_e82_the_redacted_text_reaches_model_and_storage(
    way: str, turns: Sequence[int]
) -> None:
    """E-82 (W-002 to W-005, W-063, W-180): whatever branch ends last."""
    store = InMemoryStore()
    model = ScriptedModel(["Done."])
    agent = Agent(
        id="moderated-agent",
        name="moderated-agent",
        model=model,
        input_processors=[moderation_workflow(turns)],
        memory=Memory(storage=store),
    )
    ids = {"thread": "t1", "resource": "r1"}
    outcome = await play(way, agent, GIVEN, memory=ids)
    assert outcome.text == "Done."
    page = await store.get_store("memory").list_messages("t1")
    for text in (model.calls[0].text, page.messages[0].text):
        assert ADDRESS not in text
        assert text.startswith("Mail ")
        assert text.endswith(" now")
    assert [message.role for message in page.messages] == ["user", "assistant"]


@three_ways
@pytest.mark.parametrize("turns", [(0, 9, 30), (30, 9, 0), (9, 30, 9)])
@pytest.mark.parametrize(
    ("verdict", "blocker"),
    [({"injection": 0.95}, "prompt-injection-detector"), ({"hate": 0.95}, "moderation")],
)
async def test_e82_a_blocking_branch_trips_with_its_own_id(
    way: str, turns: Sequence[int], verdict: dict[str, float], blocker: str
) -> None:
    """E-82 (W-065, W-180): and the model is not asked."""
    model = ScriptedModel(["never"])
    workflow = moderation_workflow(turns, **verdict)
    agent = Agent(id="moderated-agent", model=model, input_processors=[workflow])
    outcome = await play(way, agent, GIVEN)
    assert outcome.tripwire is not None
    assert outcome.tripwire.processor_id == blocker
    assert model.calls == []
