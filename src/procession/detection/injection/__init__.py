"""Known forms of prompt injection, found locally: a tripwire, not a proof."""

from .detector import find_injections
from .findings import TYPES, Finding
from .grammar import ENOUGH
from .removal import without_sentences

__all__ = ["ENOUGH", "TYPES", "Finding", "find_injections", "without_sentences"]
