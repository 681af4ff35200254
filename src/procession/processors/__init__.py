"""The processors that come with the library."""

from ..prefill import PrefillErrorHandler
from ..structured.second_model import StructuredOutputProcessor
from .batching import BatchPartsProcessor
from .history_rule import HistoryRule, RulePrompt
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
    "HistoryRule",
    "PrefillErrorHandler",
    "ProviderHistoryCompat",
    "RegexFilterProcessor",
    "RegexRule",
    "RetryMatcher",
    "RulePrompt",
    "StreamErrorRetryProcessor",
    "StructuredOutputProcessor",
    "TokenLimiter",
    "TokenLimiterProcessor",
    "ToolCallFilter",
    "ToolFilterArgs",
    "ToolSearchProcessor",
    "TrailingAssistantGuard",
    "UnicodeNormalizer",
    "is_bad_request_error",
    "is_retryable_openai_responses_stream_error",
]
