"""What is wrong with an option is told in one way, whatever has the option (B-014)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from procession import Breaker, ConfigurationError, InputError, OptionError, Policy
from procession.detection import LocalDetector
from procession.hold import Literals, Pattern, Unit
from procession.processors import (
    BatchPartsProcessor,
    Classifier,
    CostGuardProcessor,
    InMemoryCostStore,
    LanguageDetector,
    LanguageEvaluationModel,
    ModelPrice,
    ModelSelectionProcessor,
    ModerationProcessor,
    PIIDetector,
    Prices,
    PromptInjectionDetector,
    ProviderHistoryCompat,
    RegexFilterProcessor,
    RegexRule,
    StreamErrorRetryProcessor,
    StructuredOutputProcessor,
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


MISNAMED: dict[str, tuple[Callable[..., object], dict[str, Any], str]] = {
    "written alike": (
        CostGuardProcessor,
        {"max_cost": 1, "windows": "7d"},
        "CostGuardProcessor has no option 'windows'; did you mean 'window'?",
    ),
    "camelCase": (
        ToolCallFilter,
        {"filterAfterToolSteps": 2},
        "ToolCallFilter has no option 'filterAfterToolSteps'; did you mean 'filter_after_tool_ste",
    ),
    "a word of it": (
        PIIDetector,
        {"types": ["email"]},
        "PIIDetector has no option 'types'; did you mean 'detection_types'?",
    ),
    "nothing near": (
        TokenLimiter,
        {"limit": 5, "xyz": 5},
        "TokenLimiter has no option 'xyz'; there are at_max_remove_tokens, count_mode, encoding, ",
    ),
    "a policy": (Policy, {"time_out": 5}, "Policy has no option 'time_out'; did you mean 'timeou"),
    "a breaker": (
        Breaker,
        {"failure": 5},
        "Breaker has no option 'failure'; did you mean 'failures'?",
    ),
    "a store": (
        InMemoryCostStore,
        {"price": {}},
        "InMemoryCostStore has no option 'price'; did you mean 'prices'?",
    ),
    "prices": (Prices, {"tables": {}}, "Prices has no option 'tables'; did you mean 'table'?"),
    "a classifier": (
        Classifier,
        {"id": "c", "model": "mock/m", "question": {}},
        "Classifier has no option 'question'; did you mean 'questions'?",
    ),
    "a model that evaluates": (
        LanguageEvaluationModel,
        {"model": "mock/m", "probability": True},
        "LanguageEvaluationModel has no option 'probability'; did you mean 'probabilities'?",
    ),
    "a second model": (
        StructuredOutputProcessor,
        {"schema": {}, "model": "mock/m", "errorStrategy": "warn"},
        "StructuredOutputProcessor has no option 'errorStrategy'; did you mean 'error_strategy'?",
    ),
    "texts to watch for": (
        Literals,
        {"ignorecase": True},
        "Literals has no option 'ignorecase'; did you mean 'ignore_case'?",
    ),
    "a rule": (
        RegexRule,
        {"name": "n", "pattern": "p", "replace": ""},
        "RegexRule has no option 'replace'; did you mean 'replacement'?",
    ),
    "a unit": (Unit, {"name": "sentence", "sized": 1}, "Unit has no option 'sized'; there are "),
    "a pattern": (
        Pattern,
        {"source": "a", "carry": 1},
        "Pattern has no option 'carry'; did you mean 'carryover'?",
    ),
    "a detector": (
        LocalDetector,
        {"type": ["email"]},
        "LocalDetector has no option 'type'; did you mean 'types'?",
    ),
    "a price": (
        ModelPrice,
        {"input": 1, "out": 2},
        "ModelPrice has no option 'out'; did you mean 'output'?",
    ),
}


@pytest.mark.parametrize(("kind", "options", "said"), MISNAMED.values(), ids=MISNAMED)
def test_an_option_that_does_not_exist(
    kind: Callable[..., object], options: dict[str, Any], said: str
) -> None:
    """B-014: nothing is passed over, and what was meant is told where it can be guessed."""
    with pytest.raises(OptionError) as raised:
        kind(**options)
    assert str(raised.value).startswith(said)


def test_options_that_a_class_of_ones_own_collects() -> None:
    class Mine(UnicodeNormalizer):
        def __init__(self, **more: Any) -> None:
            self.more = more
            super().__init__()

    assert Mine(anything=1).more == {"anything": 1}


def test_a_limiter_is_called_what_its_page_calls_it() -> None:
    with pytest.raises(OptionError, match=r"^TokenLimiter: limit must be"):
        TokenLimiter(-5)


def test_an_argument_that_is_missing() -> None:
    incomplete: Any = {"input": 1}
    with pytest.raises(TypeError, match=r"ModelPrice.*'output'"):
        ModelPrice(**incomplete)


@pytest.mark.parametrize(
    ("price", "said"),
    [
        ({"input": 1, "out": 2}, "the price of 'a' has no option 'out'; did you mean 'output'?"),
        ({"input": 1}, "the price of 'a' needs 'output': US dollars for a million tokens"),
        ({"input": 1, "output": -1}, "the price of 'a': ModelPrice: output must be a number fr"),
        (3, "the price of 'a' must be a ModelPrice or a mapping of its fields, not int"),
    ],
)
def test_prices(price: Any, said: str) -> None:
    """B-279: what is wrong with a price is told, and with which model's."""
    with pytest.raises(OptionError) as raised:
        InMemoryCostStore(prices={"a": price})
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(("window", "meant"), [("1d", "24h"), ("week", "7d"), ("1Y", "365d")])
def test_a_window_by_another_name(window: Any, meant: str) -> None:
    with pytest.raises(OptionError, match=f"did you mean '{meant}'"):
        CostGuardProcessor(max_cost=1, window=window)


@pytest.mark.parametrize("listener", [0, "x", float("nan"), object()])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (RegexFilterProcessor, {"presets": ["pii"]}),
        (PIIDetector, {}),
        (TokenLimiter, {"limit": 5}),
        (ToolCallFilter, {}),
        (CostGuardProcessor, {"max_cost": 1}),
        (UnicodeNormalizer, {}),
    ],
)
def test_who_is_to_be_told_must_be_callable(
    kind: Callable[..., object], options: dict[str, Any], listener: Any
) -> None:
    """B-014: a listener that is none is told when it is given, not missed when it is needed."""
    with pytest.raises(OptionError, match=rf"^{kind.__name__}: on_violation must be callable"):
        kind(**options, on_violation=listener)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("regions", 5),
        ("regions", []),
        ("structured_output_options", True),
        ("structured_output_options", "x"),
        ("provider_options", 5),
    ],
)
def test_options_of_a_detector_by_their_names(option: str, value: Any) -> None:
    options = {option: value}
    with pytest.raises(OptionError, match=rf"^PIIDetector: {option} must"):
        PIIDetector(**options)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("flags", "i", "flags must be those of re"),
        ("flags", None, "flags must be those of re"),
        ("pattern", "(" * 2000 + "a" + ")" * 2000, "pattern nests groups too deeply"),
        ("replacement", "\ud800", "replacement holds half a character"),
    ],
)
def test_rules_that_cannot_be_used(field: str, value: Any, said: str) -> None:
    rule = {"name": "n", "pattern": "p", field: value}
    with pytest.raises(OptionError, match=f"^rule 'n': {said}"):
        RegexFilterProcessor(rules=[rule])
