"""The processors that come with the library."""

from ..prefill import PrefillErrorHandler
from ..structured.second_model import StructuredOutputProcessor
from .tool_call_filter import ToolCallFilter
from .unicode import UnicodeNormalizer

__all__ = [
    "PrefillErrorHandler",
    "StructuredOutputProcessor",
    "ToolCallFilter",
    "UnicodeNormalizer",
]
