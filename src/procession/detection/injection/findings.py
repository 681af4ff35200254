"""What the rules find, and how it is said."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TYPES", "Finding"]

TYPES = (
    "injection",
    "jailbreak",
    "tool-exfiltration",
    "data-exfiltration",
    "system-override",
    "role-manipulation",
)
"""What an attack is after, as `PromptInjectionDetector` names it."""


class Finding(NamedTuple):
    """A known form of an attack between two offsets. `score` is between 0 and 1."""

    type: str
    score: float
    start: int
    end: int
