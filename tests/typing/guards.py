"""Guards that find regions in text, as type checkers see them."""

import re

from procession import Agent
from procession.processors import (
    PIIDetection,
    PIIDetectionEvent,
    PIIDetector,
    RegexFilterProcessor,
    RegexRule,
)

by_rules = RegexFilterProcessor(
    rules=[RegexRule("id", r"id-(\d+)", r"[\1]"), {"name": "word", "pattern": "secret"}],
    strategy="redact",
    phase="input",
)
by_presets = RegexFilterProcessor(presets=["pii", "secrets", "urls"], stream_carryover_size=64)
compiled = RegexRule("c", re.compile("x+"), flags=re.IGNORECASE)
wrong_preset = RegexFilterProcessor(presets=["pij"])  # type: ignore[list-item] # no such preset
wrong_strategy = RegexFilterProcessor(rules=[compiled], strategy="filter")  # type: ignore[arg-type] # of others


def plain(event: PIIDetectionEvent) -> str:
    """A listener."""
    found: list[PIIDetection] = event.detection_result.detections
    return found[0].value


async def later(event: PIIDetectionEvent) -> None:
    """A listener that waits."""


local = PIIDetector(model=False, detection_types=["email", "phone"], on_detection=plain)
judged = PIIDetector(
    model="openai/gpt-5", redaction_method="placeholder", on_detection=later, regions=["US"]
)
wrong_method = PIIDetector(redaction_method="blur")  # type: ignore[arg-type] # no such method

agent = Agent(
    id="typed",
    model="openai/gpt-5",
    input_processors=[by_rules, local],
    output_processors=[by_presets, judged],
)
