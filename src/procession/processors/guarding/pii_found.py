"""What `PIIDetector` finds, and what it tells `on_detection` (B-127)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Finding", "PIICategory", "PIIDetection", "PIIDetectionEvent", "PIIDetectionResult"]


class Finding(Struct, frozen=True):
    """A stretch of a text that holds personal data; an empty one only says that there is some.

    `replacement`: what a model has written in its place, where nobody knows which words it is.
    """

    type: str
    start: int
    end: int
    confidence: float = 1.0
    replacement: str | None = None


class PIICategory(Struct, frozen=True):
    """A type, and how sure it is that the text holds a value of it (0 to 1)."""

    type: str
    score: float


class PIIDetection(Struct, frozen=True):
    """A value that was found: `input[start:end]` of the event. It is not part of the `repr`."""

    type: str
    value: str
    confidence: float
    start: int
    end: int
    redacted_value: str

    def __repr__(self) -> str:
        return f"PIIDetection({self.type!r}, {self.start}, {self.end}, {self.confidence:g})"


class PIIDetectionResult(Struct, frozen=True):
    """All that was found in one text."""

    categories: list[PIICategory] = field(default_factory=list[PIICategory])
    detections: list[PIIDetection] = field(default_factory=list[PIIDetection])


class PIIDetectionEvent(Struct, frozen=True):
    """What `on_detection` is told: here the text and the values do stand (B-127).

    `strategy_applied` is the strategy when the text was flagged, else `"none"`.
    """

    detection_result: PIIDetectionResult
    input: str
    flagged: bool
    strategy_applied: str

    def __repr__(self) -> str:
        # Neither the text nor the values get into a log by accident.
        return (
            f"PIIDetectionEvent({self.detection_result!r}, flagged={self.flagged}, "
            f"strategy_applied={self.strategy_applied!r})"
        )


def categories_of(found: Iterable[Finding]) -> list[PIICategory]:
    """The types of what was found, each with the highest confidence."""
    scores: dict[str, float] = {}
    for finding in found:
        scores[finding.type] = max(scores.get(finding.type, 0.0), finding.confidence)
    return [PIICategory(kind, score) for kind, score in scores.items()]
