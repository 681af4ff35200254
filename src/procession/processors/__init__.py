"""The processors that come with the library."""

from ..prefill import PrefillErrorHandler
from ..structured.second_model import StructuredOutputProcessor
from .batching import BatchPartsProcessor
from .caching.cache_keys import CachedModel, CacheKeyInputs, build_response_cache_key
from .caching.cache_overrides import RESPONSE_CACHE_CONTEXT_KEY
from .caching.response_cache import (
    DEFAULT_RESPONSE_CACHE_TTL_SECONDS,
    CacheOfResponses,
    ResponseCache,
)
from .costs.cost_guard import CostGuardProcessor, TokenCostControl
from .costs.cost_store import (
    CostQuery,
    CostShare,
    CostStore,
    CostTotal,
    InMemoryCostStore,
    default_cost_store,
)
from .costs.costs import ModelPrice, Prices
from .guarding.injection_verdict import (
    PromptInjectionCategory,
    PromptInjectionEvent,
    PromptInjectionResult,
)
from .guarding.pii import PIIDetector
from .guarding.pii_found import (
    PIICategory,
    PIIDetection,
    PIIDetectionEvent,
    PIIDetectionResult,
)
from .guarding.prompt_injection import PromptInjectionDetector
from .guarding.prompt_scrubber import SystemPromptScrubber
from .guarding.regex_filter import RegexFilterProcessor
from .guarding.regex_rules import RegexRule
from .history.history_rule import HistoryRule, RulePrompt
from .history.provider_history import ProviderHistoryCompat
from .history.stream_error_retry import RetryMatcher, StreamErrorRetryProcessor
from .history.trailing_assistant import TrailingAssistantGuard
from .history.transient_errors import (
    is_bad_request_error,
    is_retryable_openai_responses_stream_error,
)
from .judging.budget import JudgeBudget
from .judging.classifier import Classifier, ClassifierResult
from .judging.classifier_answers import (
    BooleanAnswer,
    ChoiceAnswer,
    ClassifierAnswers,
    ScoreAnswer,
)
from .judging.classifier_questions import BooleanQuestion, ChoiceQuestion, ScoreQuestion
from .judging.classifying import ClassifierContext, ClassifierProcessor
from .judging.evaluation import (
    EvaluationModel,
    EvaluationRequest,
    EvaluationResponse,
    LanguageEvaluationModel,
)
from .judging.language import LanguageDetector
from .judging.model_selection import (
    ModelSelectionChoice,
    ModelSelectionContext,
    ModelSelectionDecision,
    ModelSelectionProcessor,
)
from .judging.moderation import ModerationProcessor
from .tokens.token_limiter import TokenLimiter, TokenLimiterProcessor
from .tools.tool_call_filter import ToolCallFilter
from .tools.tool_search import ToolFilterArgs, ToolSearchProcessor
from .unicode import UnicodeNormalizer
from .workspace.agents_md import AgentsMDInjector
from .workspace.instruction_files import InstructionReader
from .workspace.skill import Skill, SkillSource
from .workspace.skill_search import SkillSearchProcessor
from .workspace.skills import SkillsProcessor
from .workspace.workspace import Sandbox, Workspace
from .workspace.workspace_instructions import DescribedWorkspace, WorkspaceInstructionsProcessor

__all__ = [
    "DEFAULT_RESPONSE_CACHE_TTL_SECONDS",
    "RESPONSE_CACHE_CONTEXT_KEY",
    "AgentsMDInjector",
    "BatchPartsProcessor",
    "BooleanAnswer",
    "BooleanQuestion",
    "CacheKeyInputs",
    "CacheOfResponses",
    "CachedModel",
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
    "DescribedWorkspace",
    "EvaluationModel",
    "EvaluationRequest",
    "EvaluationResponse",
    "HistoryRule",
    "InMemoryCostStore",
    "InstructionReader",
    "JudgeBudget",
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
    "ResponseCache",
    "RetryMatcher",
    "RulePrompt",
    "Sandbox",
    "ScoreAnswer",
    "ScoreQuestion",
    "Skill",
    "SkillSearchProcessor",
    "SkillSource",
    "SkillsProcessor",
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
    "Workspace",
    "WorkspaceInstructionsProcessor",
    "build_response_cache_key",
    "default_cost_store",
    "is_bad_request_error",
    "is_retryable_openai_responses_stream_error",
]
