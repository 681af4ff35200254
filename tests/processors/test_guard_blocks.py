"""Blocks of the stream that begin twice: each finding is told of once, and none is missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent
from procession.processors import PIIDetector
from tests.laws.kit import METADATA, PlayedModel, end, said

if TYPE_CHECKING:
    from procession.processor import ProcessorViolation

MAIL = "joe@example.com"


async def told_of(strategy: Any, *parts: dict[str, Any]) -> list[str]:
    """The places of the stream or the result in which something was reported."""
    told: list[ProcessorViolation] = []
    guard = PIIDetector(model=False, strategy=strategy, on_violation=told.append)
    model = PlayedModel([[METADATA, *parts, end()]])
    run = await Agent(id="a", model=model, output_processors=[guard]).stream("go")
    assert [chunk async for chunk in run.full_stream]
    assert run.error is None
    return [violation.detail["phase"] for violation in told]


@pytest.mark.parametrize("kind", ["text", "reasoning"])
@pytest.mark.parametrize("strategy", ["warn", "redact"])
async def test_a_block_that_begins_again_is_one_text(strategy: str, kind: str) -> None:
    """B-006: it is stored as one, so what was reported of its beginning is not reported again."""
    begun = said(f"Mail {MAIL} now ", kind=kind)[:-1]
    phases = await told_of(strategy, *begun, *said("and then", kind=kind))
    assert phases == ["process_output_stream"]


@pytest.mark.parametrize("kind", ["text", "reasoning"])
async def test_a_block_that_has_ended_gives_its_id_to_another(kind: str) -> None:
    """B-006: two texts; what is found in each is reported where it was found."""
    text = f"Mail {MAIL} now."
    phases = await told_of("warn", *said(text, kind=kind), *said(f"Or {MAIL}.", kind=kind))
    assert phases == ["process_output_stream", "process_output_stream"]
