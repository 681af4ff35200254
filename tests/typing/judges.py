"""The processors that ask a model, as type checkers see them."""

from procession import Agent, Policy
from procession.processor import ProcessorViolation
from procession.processors import LanguageDetector, ModerationProcessor, SystemPromptScrubber
from procession.testing import ScriptedModel


async def told(violation: ProcessorViolation) -> None:
    """A callback that waits."""


moderation = ModerationProcessor(
    model=ScriptedModel(["ok"]),
    categories=["spam"],
    strategy="filter",
    granularity="sentence",
    chunk_window=1,
    on_violation=told,
    policy=Policy(timeout=5),
)
language = LanguageDetector(target_languages=["fr"], strategy="translate", translation_quality=1)
scrubber = SystemPromptScrubber(custom_patterns=[r"code \d+"], redaction_method="placeholder")
wrong = ModerationProcessor(strategy="redact")  # type: ignore[arg-type] # there is nothing to redact
often = SystemPromptScrubber(granularity="word")  # type: ignore[arg-type] # no such one
one = LanguageDetector(target_languages=3)  # type: ignore[arg-type] # a list of languages
categories: tuple[str, ...] = moderation.categories
threshold: float = language.threshold

agent = Agent(
    id="typed",
    model="openai/gpt-5",
    input_processors=[moderation, language],
    output_processors=[moderation, scrubber],
)
