"""Memory, as type checkers see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from procession import Agent, Message, RequestScope
from procession.memory import (
    BoundedHistory,
    HistoryBudget,
    Memory,
    MemoryInputFilter,
    MemoryOptions,
    MessageHistory,
    OptionsDict,
    Recalled,
    memory_context,
)
from procession.stores import InMemoryStore

if TYPE_CHECKING:
    from procession.processor import ProcessInputArgs
    from procession.store import Thread, ThreadPage

store = InMemoryStore()
options: OptionsDict = {"last_messages": 20, "message_history": {"max_tokens": 8000}}
memory = Memory(storage=store, options=options, read_only=False)
domain = Memory(storage=store.get_store("memory"), last_messages=False, generate_title=True)
in_force: MemoryOptions = memory.options


def choose(scope: RequestScope) -> Memory | None:
    """A memory for those who have one."""
    return memory if scope.request_context.has("member") else None


agents = [
    Agent(id="fixed", memory=memory),
    Agent(id="chosen", memory=choose),
    Agent(
        id="by-hand",
        input_processors=[
            MemoryInputFilter(storage=store, retain_full_input=True),
            MessageHistory(storage=store, last_messages=None),
            BoundedHistory(budget=HistoryBudget(max_tokens=100, remove=10), storage=store),
        ],
        output_processors=[MessageHistory(storage=store, save_on_abort=True)],
    ),
]


def look(args: ProcessInputArgs) -> str | None:
    """The thread of a run, if it has one."""
    found = memory_context(args.request_context)
    return found.thread_id if found is not None else None


async def threads() -> list[Message]:
    """What an application does with threads."""
    made: Thread = await memory.create_thread("ada", title="Names")
    page: ThreadPage = await memory.list_threads(filter={"resource_id": "ada"}, per_page=False)
    found: Recalled = await memory.recall(made.id, per_page=10, hide_signals=["reactive"])
    copy: Thread = await memory.clone_thread(made.id)
    await memory.delete_thread(copy.id)
    return found.messages if page.total else []
