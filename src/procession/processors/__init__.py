"""The processors that come with the library."""

from ..prefill import PrefillErrorHandler
from ..structured.second_model import StructuredOutputProcessor
from .unicode import UnicodeNormalizer

__all__ = [
    "StructuredOutputProcessor",
    "UnicodeNormalizer",
]
