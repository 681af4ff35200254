"""How the type checkers see `PromptInjectionDetector`."""

from procession import Agent
from procession.processors import PromptInjectionDetector, PromptInjectionEvent


def plain(event: PromptInjectionEvent) -> None:
    """A plain callback; what was found is typed."""
    scores: dict[str, float] = event.detection_result.flagged(0.7)
    judged: dict[str, float] | None = event.detection_result.judged
    del scores, judged


async def later(event: PromptInjectionEvent) -> None:
    """One that is awaited."""


local = PromptInjectionDetector(model=False, strategy="rewrite", on_detection=plain)
judged = PromptInjectionDetector(model="openai/gpt-5-nano", threshold=0.8, on_detection=later)
own = PromptInjectionDetector(detection_types=["injection", "flattery"], include_scores=True)
wrong_strategy = PromptInjectionDetector(strategy="redact")  # type: ignore[arg-type] # of others
wrong_model = PromptInjectionDetector(model=True)  # type: ignore[arg-type] # only False is one

agent = Agent(id="a", input_processors=[local, judged], output_processors=[local])
