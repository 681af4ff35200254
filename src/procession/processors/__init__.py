"""The processors that come with the library."""

from ..structured.second_model import StructuredOutputProcessor

__all__ = ["StructuredOutputProcessor"]
