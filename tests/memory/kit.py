"""What the tests of memory have in common: an agent that remembers, and what its store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from procession import Agent
from procession.memory import Memory
from procession.stores import InMemoryStore

if TYPE_CHECKING:
    from procession import Message

CALL: dict[str, Any] = {"thread": "t1", "resource": "u1"}


def remembering(model: Any, memory: Memory | None = None, **options: Any) -> tuple[Agent, Memory]:
    """An agent with memory, in a store of its own unless `memory` is given."""
    kept = memory or Memory(storage=InMemoryStore())
    return Agent(id="desk", model=model, memory=kept, **options), kept


async def rows(memory: Memory, thread: str = "t1") -> list[Message]:
    """What is stored of a thread, signals included."""
    found = await memory.recall(thread, per_page=False, hide_signals=False)
    return found.messages


async def shown(memory: Memory, thread: str = "t1") -> list[tuple[str, ...]]:
    """What is stored, as role and parts: texts, or the tool with the state of its call."""
    return [outline(message) for message in await rows(memory, thread)]


def outline(message: Message) -> tuple[str, ...]:
    parts: list[str] = []
    for part in message.content.parts:
        if part.type == "text":
            parts.append(part.text)
        elif part.type == "tool-invocation":
            parts.append(f"{part.tool_invocation.tool_name}:{part.tool_invocation.state}")
        elif part.type != "step-start":
            parts.append(part.type)
    return (message.role, *parts)


def said(prompt: list[dict[str, Any]]) -> list[str]:
    """The texts of a prompt but for system messages; an entry without text is its role."""
    found: list[str] = []
    for entry in prompt:
        if entry["role"] != "system":
            texts = [part["text"] for part in entry["content"] if part["type"] == "text"]
            found.append("".join(texts) or entry["role"])
    return found
