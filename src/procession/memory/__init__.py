"""Memory: conversations that go on from one run to the next."""

from .bounded_history import BoundedHistory
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
from .recall import Found, SemanticRecall
from .threads import Recalled
from .working import WorkingMemory, working_memory_tool

__all__ = [
    "BoundedHistory",
    "Conversation",
    "Found",
    "HistoryBudget",
    "Memory",
    "MemoryInputFilter",
    "MemoryOptions",
    "MessageHistory",
    "OptionsDict",
    "RecallOptions",
    "Recalled",
    "SemanticRecall",
    "TitleOptions",
    "WorkingMemory",
    "WorkingMemoryOptions",
    "memory_context",
    "working_memory_tool",
]
