"""The processors that come with the library."""

from ..prefill import PrefillErrorHandler
from ..structured.second_model import StructuredOutputProcessor
from .batching import BatchPartsProcessor
from .classifier import Classifier, ClassifierResult
from .classifier_answers import (
    BooleanAnswer,
    ChoiceAnswer,
    ClassifierAnswers,
    ScoreAnswer,
)
from .classifier_questions import BooleanQuestion, ChoiceQuestion, ScoreQuestion
from .classifying import ClassifierContext, ClassifierProcessor
from .cost_guard import CostGuardProcessor, TokenCostControl
from .cost_store import (
    CostQuery,
    CostShare,
    CostStore,
    CostTotal,
    InMemoryCostStore,
    default_cost_store,
)
from .costs import ModelPrice, Prices
from .evaluation import (
    EvaluationModel,
    EvaluationRequest,
    EvaluationResponse,
    LanguageEvaluationModel,
)
from .history_rule import HistoryRule, RulePrompt
from .injection_verdict import (
    PromptInjectionCategory,
    PromptInjectionEvent,
    PromptInjectionResult,
)
from .language import LanguageDetector
from .model_selection import (
    ModelSelectionChoice,
    ModelSelectionContext,
    ModelSelectionDecision,
    ModelSelectionProcessor,
)
from .moderation import ModerationProcessor
from .pii import PIIDetector
from .pii_found import (
    PIICategory,
    PIIDetection,
    PIIDetectionEvent,
    PIIDetectionResult,
)
from .prompt_injection import PromptInjectionDetector
from .prompt_scrubber import SystemPromptScrubber
from .provider_history import ProviderHistoryCompat
from .regex_filter import RegexFilterProcessor
from .regex_rules import RegexRule
from .stream_error_retry import RetryMatcher, StreamErrorRetryProcessor
from .token_limiter import TokenLimiter, TokenLimiterProcessor
from .tool_call_filter import ToolCallFilter
from .tool_search import ToolFilterArgs, ToolSearchProcessor
from .trailing_assistant import TrailingAssistantGuard
from .transient_errors import is_bad_request_error, is_retryable_openai_responses_stream_error
from .unicode import UnicodeNormalizer

__all__ = [
    "BatchPartsProcessor",
    "BooleanAnswer",
    "BooleanQuestion",
    "ChoiceAnswer",
    "ChoiceQuestion",
    "Classifier",
    "ClassifierAnswers",
    "ClassifierContext",
    "ClassifierProcessor",
    "ClassifierResult",
    "CostGuardProcessor",
    "CostQuery",
    "CostShare",
    "CostStore",
    "CostTotal",
    "EvaluationModel",
    "EvaluationRequest",
    "EvaluationResponse",
    "HistoryRule",
    "InMemoryCostStore",
    "LanguageDetector",
    "LanguageEvaluationModel",
    "ModelPrice",
    "ModelSelectionChoice",
    "ModelSelectionContext",
    "ModelSelectionDecision",
    "ModelSelectionProcessor",
    "ModerationProcessor",
    "PIICategory",
    "PIIDetection",
    "PIIDetectionEvent",
    "PIIDetectionResult",
    "PIIDetector",
    "PrefillErrorHandler",
    "Prices",
    "PromptInjectionCategory",
    "PromptInjectionDetector",
    "PromptInjectionEvent",
    "PromptInjectionResult",
    "ProviderHistoryCompat",
    "RegexFilterProcessor",
    "RegexRule",
    "RetryMatcher",
    "RulePrompt",
    "ScoreAnswer",
    "ScoreQuestion",
    "StreamErrorRetryProcessor",
    "StructuredOutputProcessor",
    "SystemPromptScrubber",
    "TokenCostControl",
    "TokenLimiter",
    "TokenLimiterProcessor",
    "ToolCallFilter",
    "ToolFilterArgs",
    "ToolSearchProcessor",
    "TrailingAssistantGuard",
    "UnicodeNormalizer",
    "default_cost_store",
    "is_bad_request_error",
    "is_retryable_openai_responses_stream_error",
]
