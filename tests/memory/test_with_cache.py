"""Memory and the response cache in one agent: a replayed answer is remembered like a live one."""

from __future__ import annotations

from procession import tool
from procession.cache import InMemoryServerCache
from procession.memory import Memory
from procession.processors import ResponseCache
from procession.stores import InMemoryStore
from procession.testing import ScriptedModel, answer, tool_call
from tests.memory.kit import remembering, rows, shown


async def test_c_077_a_replayed_answer_is_saved_under_ids_of_its_own() -> None:
    """C-001 to C-003, C-077, M-040: the key is made of what memory has loaded."""
    model = ScriptedModel(["Two."])
    cached = ResponseCache(cache=InMemoryServerCache())
    agent, memory = remembering(model, input_processors=[cached])
    for thread in ("t1", "t2"):
        result = await agent.generate("1 + 1?", memory={"thread": thread, "resource": "u1"})
        assert result.text == "Two."
    assert len(model.calls) == 1
    assert await shown(memory, "t1") == await shown(memory, "t2")
    ids = [message.id for thread in ("t1", "t2") for message in await rows(memory, thread)]
    assert len(set(ids)) == 4


async def test_c_133_another_history_is_another_question() -> None:
    model = ScriptedModel(["Two.", "As I said: two."])
    cached = ResponseCache(cache=InMemoryServerCache())
    agent, _ = remembering(model, input_processors=[cached])
    for text in ("Two.", "As I said: two."):
        result = await agent.generate("1 + 1?", memory={"thread": "t1", "resource": "u1"})
        assert result.text == text
    assert len(model.calls) == 2


async def test_c_032_the_resource_of_the_call_scopes_the_entries() -> None:
    """G-V: two owners with equal threads and questions never share an answer."""
    model = ScriptedModel(["For u1.", "For u2."])
    cached = ResponseCache(cache=InMemoryServerCache())
    agent, _ = remembering(model, input_processors=[cached])
    for owner in ("u1", "u2", "u1", "u2"):
        call = {"thread": f"{owner}-{len(model.calls)}", "resource": owner}
        result = await agent.generate("Who am I?", memory=call)
        assert result.text == f"For {owner}."
    assert len(model.calls) == 2


async def test_c_074_a_replayed_tool_loop_is_saved_with_its_pairs() -> None:
    ran: list[str] = []

    @tool
    def look(place: str) -> str:
        """Look."""
        ran.append(place)
        return "rain"

    model = ScriptedModel([answer(tool_calls=[tool_call("look", {"place": "Nice"})]), "It rains."])
    cached = ResponseCache(cache=InMemoryServerCache())
    memory = Memory(storage=InMemoryStore())
    agent, _ = remembering(model, memory, input_processors=[cached], tools=[look])
    for thread in ("t1", "t2"):
        await agent.generate("Weather?", memory={"thread": thread, "resource": "u1"})
    assert (ran, len(model.calls)) == (["Nice"], 2)
    assert await shown(memory, "t1") == await shown(memory, "t2")
    assert ("assistant", "look:result", "It rains.") in await shown(memory, "t2")
