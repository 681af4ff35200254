"""What is wrong with an option is told in one way, whatever has the option (B-014)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from procession import Breaker, ConfigurationError, InputError, OptionError, Policy
from procession.hold import Literals, Pattern, Unit
from procession.processors import (
    BatchPartsProcessor,
    Classifier,
    CostGuardProcessor,
    InMemoryCostStore,
    LanguageDetector,
    ModelPrice,
    ModelSelectionProcessor,
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    ProviderHistoryCompat,
    RegexFilterProcessor,
    StreamErrorRetryProcessor,
    SystemPromptScrubber,
    TokenLimiter,
    ToolCallFilter,
    ToolSearchProcessor,
    UnicodeNormalizer,
)

if TYPE_CHECKING:
    from collections.abc import Callable

UNKNOWN: Any = "nope"

WRONG: dict[str, Callable[[], object]] = {
    "batch": lambda: BatchPartsProcessor(batch_size=UNKNOWN),
    "breaker": lambda: Breaker(failures=0),
    "classifier": lambda: Classifier(id="", model=UNKNOWN),
    "cost guard": lambda: CostGuardProcessor(max_cost=0),
    "cost guard's scope": lambda: CostGuardProcessor(max_cost=1, scope=UNKNOWN),
    "cost store": lambda: InMemoryCostStore(max_entries=0),
    "history": lambda: ProviderHistoryCompat(additional_rules=UNKNOWN),
    "injection": lambda: PromptInjectionDetector(strategy=UNKNOWN),
    "language": lambda: LanguageDetector(model="mock/m", target_languages=[]),
    "literals": lambda: Literals(),
    "model selection": lambda: ModelSelectionProcessor(choices=UNKNOWN, model="mock/m"),
    "moderation": lambda: ModerationProcessor(model="mock/m", categories=[]),
    "pattern": lambda: Pattern("("),
    "pii": lambda: PIIDetector(detection_types=[]),
    "policy": lambda: Policy(on_error=UNKNOWN),
    "price": lambda: ModelPrice(input=-1, output=0),
    "regex": lambda: RegexFilterProcessor(),
    "retry": lambda: StreamErrorRetryProcessor(max_retries=UNKNOWN),
    "scrubber": lambda: SystemPromptScrubber(custom_patterns=UNKNOWN),
    "token limit": lambda: TokenLimiter(0),
    "tool calls": lambda: ToolCallFilter(exclude=UNKNOWN),
    "tool search": lambda: ToolSearchProcessor(tools=[], search=UNKNOWN),
    "unicode": lambda: UnicodeNormalizer(collapse_whitespace=UNKNOWN),
    "unit": lambda: Unit(UNKNOWN),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_an_option_that_cannot_be_used(wrong: Callable[[], object]) -> None:
    with pytest.raises(OptionError) as raised:
        wrong()
    assert isinstance(raised.value, ConfigurationError)
    assert isinstance(raised.value, InputError) and isinstance(raised.value, ValueError)
