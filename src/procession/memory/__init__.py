"""Memory: conversations that go on from one run to the next."""

from .conversation import Conversation, memory_context
from .history import MessageHistory
from .input_filter import MemoryInputFilter
from .memory import Memory
from .options import (
    HistoryBudget,
    MemoryOptions,
    OptionsDict,
    RecallOptions,
    TitleOptions,
    WorkingMemoryOptions,
)
from .threads import Recalled

__all__ = [
    "Conversation",
    "HistoryBudget",
    "Memory",
    "MemoryInputFilter",
    "MemoryOptions",
    "MessageHistory",
    "OptionsDict",
    "RecallOptions",
    "Recalled",
    "TitleOptions",
    "WorkingMemoryOptions",
    "memory_context",
]
