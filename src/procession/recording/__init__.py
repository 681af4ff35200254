"""Runs written down as they happen, and read back as values (X7, X9).

`Agent(…, record=Recorder("runs/"))` records each run of an agent, `record=` in a call that one.
"""

from .places import RecordedRuns
from .recorded_run import (
    RecordedModelCall,
    RecordedPart,
    RecordedRun,
    RunEvent,
    RunSummary,
    TextChange,
)
from .recorder import Recorder
from .replay import RecordedModel

__all__ = [
    "RecordedModel",
    "RecordedModelCall",
    "RecordedPart",
    "RecordedRun",
    "RecordedRuns",
    "Recorder",
    "RunEvent",
    "RunSummary",
    "TextChange",
]
