"""Threads for applications: M-180 to M-185, R-725, and signals from outside of a run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from procession import InputError, text_message
from procession.errors import OwnerError
from procession.memory import Memory
from procession.stores import InMemoryStore
from procession.testing import ScriptedModel
from tests.memory.kit import CALL, remembering, rows, said

SIGNALS = ("reactive", "user", "notification")


async def filled(count: int = 5) -> Memory:
    """A memory whose thread t1 has `count` turns."""
    agent, memory = remembering(ScriptedModel(["a"]))
    for number in range(count):
        await agent.generate(f"q{number}", memory=CALL)
    return memory


async def test_the_life_of_a_thread() -> None:
    """M-180."""
    memory = Memory(storage=InMemoryStore())
    made = await memory.create_thread("u1", "t1", "Old", {"a": 1, "b": 2})
    with pytest.raises(InputError, match="already"):
        await memory.create_thread("u1", "t1")
    with pytest.raises(OwnerError):
        await memory.create_thread("u2", "t1")
    await memory.create_thread("u1")
    await memory.create_thread("u2", metadata={"a": 1})
    changed = await memory.update_thread("t1", metadata={"b": 3})
    assert (changed.title, changed.metadata) == ("Old", {"a": 1, "b": 3})
    assert (await memory.update_thread("t1", title=None)).title is None
    found = await memory.list_threads(filter={"resource_id": "u1", "metadata": {"a": 1}})
    assert [thread.id for thread in found.threads] == ["t1"]
    page = await memory.list_threads(page=1, per_page=2)
    assert (page.total, len(page.threads), page.has_more) == (3, 1, False)
    assert await memory.get_thread_by_id("t1", "u2") is None
    again = await memory.save_thread(made)
    assert again.metadata == {"a": 1, "b": 2}
    await memory.delete_thread("t1")
    assert await memory.get_thread_by_id("t1") is None
    with pytest.raises(InputError):
        await memory.update_thread("t1", title="x")


async def test_pages_of_messages() -> None:
    """M-181: the newest first, each in order of time; `last_messages` at a time."""
    memory = await filled()
    texts = [message.text for message in (await memory.recall("t1")).messages]
    assert texts == [text for n in range(5) for text in (f"q{n}", "a")]
    first = await memory.recall("t1", per_page=3)
    assert [message.text for message in first.messages] == ["a", "q4", "a"]
    assert (first.total, first.page, first.per_page, first.has_more) == (10, 0, 3, True)
    last = await memory.recall("t1", page=3, per_page=3)
    assert [message.text for message in last.messages] == ["q0"] and not last.has_more
    old = await memory.recall("t1", per_page=2, order_by={"direction": "ASC"})
    assert [message.text for message in old.messages] == ["q0", "a"]
    assert len((await memory.recall("t1", per_page=False)).messages) == 10
    assert (await memory.recall("t1", "somebody else")).messages == []
    middle = (await rows(memory))[4]
    around = await memory.recall(
        "t1", per_page=0, include=[{"id": middle.id, "with_previous_messages": 1}]
    )
    assert [message.text for message in around.messages] == ["a", "q2"]
    since = await memory.recall("t1", filter={"date_range": {"start": middle.created_at}})
    assert since.total == 6


async def test_which_signals_are_recalled() -> None:
    """M-182, R-724, R-725: reminders are left out, the others not, and all of it can be chosen."""
    memory = await filled(1)
    for kind in SIGNALS:
        await memory.send_signal("t1", {"type": kind, "contents": kind, "tag_name": "note"})

    async def recalled(**options: Any) -> list[str]:
        found = await memory.recall("t1", **options)
        return [message.text for message in found.messages if message.role == "signal"]

    assert await recalled() == ["user", "notification"]
    assert await recalled(hide_signals=False) == list(SIGNALS)
    assert await recalled(hide_signals=True) == []
    assert await recalled(hide_signals=["user"]) == ["reactive", "notification"]
    assert await recalled(include_system_reminders=True) == list(SIGNALS)


async def test_a_signal_from_outside_is_in_the_next_prompt() -> None:
    """R-722, R-726: at its place, and once; a transient one would reach nobody."""
    model = ScriptedModel(["a", "b"])
    agent, memory = remembering(model)
    await agent.generate("1", memory=CALL)
    sent = await memory.send_signal("t1", {"type": "notification", "contents": "It rains."})
    assert sent.to_data_part()["data"]["contents"] == "It rains."
    await agent.generate("2", memory=CALL)
    told = "<notification>It rains.</notification>"
    assert said(model.calls[1].prompt) == ["1", "a", told, "2"]
    with pytest.raises(InputError, match="transient"):
        await memory.send_signal("t1", {"type": "user", "contents": "x", "transient": True})
    with pytest.raises(OwnerError):
        await memory.send_signal("t1", {"type": "user", "contents": "x"}, "u2")
    with pytest.raises(InputError):
        await memory.send_signal("t9", {"type": "user", "contents": "x"})
    await memory.send_signal("t9", {"type": "user", "contents": "x"}, "u1")
    assert [row.text for row in await rows(memory, "t9")] == ["x"]


async def test_a_signal_stands_behind_what_is_there() -> None:
    """R-712: whatever the clock of the server that wrote the last message says."""
    memory = await filled(1)
    newest = (await rows(memory))[-1]
    newest.created_at += timedelta(hours=1)
    await memory.save_messages([newest])
    await memory.send_signal("t1", {"type": "user", "contents": "hm"})
    assert [row.text for row in await rows(memory)] == ["q0", "a", "hm"]


async def test_a_signal_sent_to_a_run_is_stored_with_it() -> None:
    """R-722: heard in the run or not."""
    model = ScriptedModel(["a", "b"])
    agent, memory = remembering(model)
    run = await agent.stream("1", memory=CALL)
    async for chunk in run:
        if chunk.type == "text-delta":
            await run.send_signal({"type": "reactive", "contents": "Be brief."})
    assert [row.role for row in await rows(memory)] == ["user", "assistant", "signal"]
    await agent.generate("2", memory=CALL)
    told = "<system-reminder>Be brief.</system-reminder>"
    assert said(model.calls[1].prompt) == ["1", "a", told, "2"]


async def test_a_clone_is_a_thread_of_its_own() -> None:
    """M-185: the same messages in the same order, under new ids."""
    memory = await filled(2)
    await memory.send_signal("t1", {"type": "user", "contents": "hm"})
    await memory.update_thread("t1", "Title", {"topic": "x"})
    made = await memory.clone_thread("t1", thread_id="t2", metadata={"copy": True})
    assert (made.resource_id, made.title) == ("u1", "Title")
    origin = (made.metadata or {}).pop("clone")
    assert origin["sourceThreadId"] == "t1" and origin["clonedAt"]
    assert made.metadata == {"topic": "x", "copy": True}
    old, new = await rows(memory), await rows(memory, "t2")
    assert [(m.text, m.created_at) for m in new] == [(m.text, m.created_at) for m in old]
    assert {m.id for m in new}.isdisjoint(m.id for m in old)
    assert {m.thread_id for m in new} == {"t2"}
    assert (new[-1].content.metadata or {})["signal"]["id"] == new[-1].id
    await memory.delete_thread("t1")
    assert len(await rows(memory, "t2")) == 5
    with pytest.raises(InputError, match="no thread 't1'"):
        await memory.clone_thread("t1")
    with pytest.raises(InputError, match="already"):
        await memory.clone_thread("t2", thread_id="t2")
    other = await memory.clone_thread("t2", resource_id="u2", title="Mine")
    assert (other.resource_id, other.title) == ("u2", "Mine")


async def test_messages_of_ones_own() -> None:
    """M-180, M-087."""
    memory = Memory(storage=InMemoryStore())
    message = text_message("hello", id="m1")
    message.thread_id, message.resource_id = "t1", "u1"
    await memory.save_messages([message])
    message.content.parts[0].text = "changed"  # type: ignore[attr-defined]
    assert [row.text for row in await rows(memory)] == ["hello"]
    await memory.save_messages([message])
    assert [row.text for row in await rows(memory)] == ["changed"]
    await memory.delete_messages(["m1", "m2"])
    assert await rows(memory) == []
    await memory.settled()
