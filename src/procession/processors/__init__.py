"""The processors that come with the library."""

from ..structuring import StructuredOutputProcessor

__all__ = ["StructuredOutputProcessor"]
