"""Message history of a scenario: the memory of its agent, and what is stored afterwards."""

from collections.abc import Mapping
from typing import Any

from .features import find
from .trace import message_form
from .world import World

DEFAULT_WINDOW = 20
_THREAD_KEY = "mastra__threadId"


def build_memory(world: World, memory: Mapping[str, Any]) -> Any:
    """Memory with message history only, in a store that lives as long as the scenario."""
    world.store = find("InMemoryStore")()
    window = memory.get("last_messages", DEFAULT_WINDOW)
    world.memory = find("Memory")(storage=world.store, options={"last_messages": window})
    return world.memory


async def stored_messages(world: World, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the store holds of the call's thread, signals included."""
    thread = thread_id(options)
    if thread is None:
        return []
    domain = await _maybe(world.store.get_store("memory"))
    page = await domain.list_messages(thread, per_page=False)
    return [message_form(message) for message in _messages(page)]


async def recalled_roles(world: World, options: Mapping[str, Any]) -> list[str]:
    """The roles of what is recalled by default."""
    thread = thread_id(options)
    if thread is None:
        return []
    return [message.role for message in _messages(await world.memory.recall(thread_id=thread))]


def thread_id(options: Mapping[str, Any]) -> str | None:
    """The thread of a call: what the request context says, else the `memory` option."""
    named = (options.get("request_context") or {}).get(_THREAD_KEY)
    thread = named or (options.get("memory") or {}).get("thread")
    return thread["id"] if isinstance(thread, Mapping) else thread


def _messages(page: Any) -> Any:
    return page["messages"] if isinstance(page, Mapping) else page.messages


async def _maybe(value: Any) -> Any:
    return await value if hasattr(value, "__await__") else value
