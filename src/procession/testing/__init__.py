"""Tools for tests: a scripted model, arguments for one hook, an observer that keeps what it sees.

They need no network and no key, and are as public as the rest of the package.
"""

from .answers import Answer, Script, answer, text, tool_call
from .embedding import HashingEmbedder
from .hooks import RecordingWriter, hook_args
from .recording import RecordingObserver, collect
from .scripted_model import RecordedCall, ScriptedModel

__all__ = [
    "Answer",
    "HashingEmbedder",
    "RecordedCall",
    "RecordingObserver",
    "RecordingWriter",
    "Script",
    "ScriptedModel",
    "answer",
    "collect",
    "hook_args",
    "text",
    "tool_call",
]
