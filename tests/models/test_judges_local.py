"""The judges on the embedded model, for real: its server binds it to their schemas.

A model of this size judges badly. What is shown is that its verdicts fit, come to an end, and are
paid for; what they say is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent, Policy
from procession.models.local import LocalModel
from procession.processors import LanguageDetector, ModerationProcessor, SystemPromptScrubber
from procession.testing import ScriptedModel, text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from procession.models.local_server import LocalServer

SAID = "Bonjour, comment allez-vous? 你好 こんにちは"


@pytest.fixture
async def judge(llama: LocalServer) -> AsyncIterator[LocalModel]:
    model = LocalModel(server=llama)
    yield model
    await model.aclose()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (ModerationProcessor, {"strategy": "warn", "threshold": 0.0}),
        (ModerationProcessor, {"strategy": "warn", "threshold": 0.0, "categories": ["spam"]}),
        (LanguageDetector, {"threshold": 0.0}),
    ],
)
async def test_input(kind: Any, options: Any, judge: LocalModel) -> None:
    """B-101, B-170: a verdict that does not fit would block the run."""
    processor = kind(model=judge, error_strategy="strict", **options)
    told: list[Any] = []
    processor.on_violation = told.append
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[processor])
    out = await agent.generate(SAID)
    assert out.policy_events == []
    assert out.text == "ok"
    assert out.processor_usage.output_tokens
    for violation in told:
        assert set(violation.detail["types"]) <= set(processor.categories)


async def test_a_translation(judge: LocalModel) -> None:
    """B-175: what comes in time counts; nothing else holds the run."""
    policy = Policy(timeout=20, on_error="allow")
    processor = LanguageDetector(model=judge, strategy="translate", threshold=0.0, policy=policy)
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[processor])
    run = await agent.stream(SAID)
    assert await run.text == "ok"
    [message] = run.message_list.get.input.db()
    found = (message.content.metadata or {}).get("language_detection", {})
    assert bool(found) or run.policy_events
    assert ("translation" in found) == (message.parts[0].text != SAID)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(ModerationProcessor, {"categories": ["spam"]}), (SystemPromptScrubber, {})],
)
async def test_stream(kind: Any, options: Any, judge: LocalModel) -> None:
    """B-101, B-190: one verdict for the part, which fits; nothing of it is delivered."""
    processor = kind(
        model=judge, error_strategy="strict", strategy="warn", granularity="part", **options
    )
    agent = Agent(id="a", model=ScriptedModel([text(*SAID)]), output_processors=[processor])
    run = await agent.stream("go")
    deltas = [chunk.payload.text async for chunk in run if chunk.type == "text-delta"]
    assert deltas == [SAID]
    assert run.policy_events == []
    assert (await run.processor_usage).output_tokens
