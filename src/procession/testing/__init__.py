"""Tools for tests: a model that answers from a script, an observer that keeps what it sees.

They need no network and no key, and are as public as the rest of the package.
"""

from .answers import Answer, Script, answer, text, tool_call
from .recording import RecordingObserver, collect
from .scripted_model import RecordedCall, ScriptedModel

__all__ = [
    "Answer",
    "RecordedCall",
    "RecordingObserver",
    "Script",
    "ScriptedModel",
    "answer",
    "collect",
    "text",
    "tool_call",
]
