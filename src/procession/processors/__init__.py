"""The processors that come with the library."""

from ..structured_output import StructuredOutputProcessor

__all__ = ["StructuredOutputProcessor"]
