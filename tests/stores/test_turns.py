"""What a run leaves is saved in one transaction (M-086, M-087, M-107, M-001, M-004)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from procession import InputError, OwnerError
from procession.messages import TextPart
from tests.stores.saying import START, said, turn

if TYPE_CHECKING:
    from procession.store import MemoryStore


async def texts(memory: MemoryStore, thread: str = "t") -> list[str]:
    return [message.text for message in (await memory.list_messages(thread)).messages]


async def everything(memory: MemoryStore) -> Any:
    threads = await memory.list_threads(per_page=False)
    messages = [await memory.list_messages(thread.id, per_page=False) for thread in threads.threads]
    return threads, messages


async def test_m_086_a_turn_makes_the_thread_with_title_and_metadata(memory: MemoryStore) -> None:
    await memory.save_turn(turn(said("Hi"), title="Lamps", metadata={"tier": "gold"}))
    thread = await memory.get_thread_by_id("t")
    assert thread is not None
    assert (thread.resource_id, thread.title, thread.metadata) == ("r", "Lamps", {"tier": "gold"})
    assert (thread.created_at, thread.updated_at) == (START, START)


async def test_a_turn_leaves_title_and_metadata_of_an_old_thread(memory: MemoryStore) -> None:
    await memory.save_turn(turn(title="Lamps", metadata={"tier": "gold"}))
    await memory.save_turn(turn(title="Chairs", metadata={"tier": "tin"}))
    thread = await memory.get_thread_by_id("t")
    assert thread is not None
    assert (thread.title, thread.metadata) == ("Lamps", {"tier": "gold"})


async def test_m_086_a_turn_raises_updated_at_and_never_lowers_it(memory: MemoryStore) -> None:
    later = START + timedelta(hours=1)
    for at in (START, later, START):
        await memory.save_turn(turn(said("x"), at=at))
    thread = await memory.get_thread_by_id("t")
    assert thread is not None
    assert (thread.created_at, thread.updated_at) == (START, later)


async def test_a_turn_in_a_thread_that_was_deleted_meanwhile_leaves_nothing(
    memory: MemoryStore,
) -> None:
    """Who deletes a thread has the last word, not a run that was under way (M-086)."""
    await memory.save_turn(turn(said("one")))
    await memory.save_turn(turn(said("two"), existed=True))
    assert await texts(memory) == ["one", "two"]
    await memory.delete_thread("t")
    await memory.save_turn(turn(said("three"), existed=True))
    assert await memory.get_thread_by_id("t") is None
    assert await texts(memory) == []


async def test_messages_carry_thread_and_resource_m_085(memory: MemoryStore) -> None:
    message = said("Hi")
    await memory.save_turn(turn(message))
    (stored,) = await memory.newest_messages("t", 5)
    assert (stored.thread_id, stored.resource_id) == ("t", "r")
    assert message.thread_id is None, "what was handed in is left as it was"


async def test_m_087_the_same_turn_again_changes_nothing(memory: MemoryStore) -> None:
    await memory.save_turn(turn(old := said("old"), gone := said("gone", 1)))
    again = turn(
        said("a", 2),
        said("b", 3),
        replaced=[said("new", id=old.id)],
        deleted=[gone.id],
        at=START + timedelta(hours=1),
    )
    await memory.save_turn(again)
    once = await everything(memory)
    await memory.save_turn(again)
    assert await everything(memory) == once
    assert await texts(memory) == ["new", "a", "b"]


async def test_m_087_a_known_id_replaces_the_row_and_keeps_its_place(memory: MemoryStore) -> None:
    first, second = said("1"), said("2")
    await memory.save_turn(turn(first, second))
    await memory.save_turn(turn(said("one", id=first.id)))
    assert await texts(memory) == ["one", "2"]


async def test_m_087_order_is_time_then_insertion(memory: MemoryStore) -> None:
    await memory.save_turn(turn(said("c", 5), said("a", 1), said("d", 5)))
    await memory.save_turn(turn(said("b", 1), said("e", 5)))
    assert await texts(memory) == ["a", "b", "c", "d", "e"]


async def test_a_message_that_gets_another_time_moves(memory: MemoryStore) -> None:
    first, second = said("1", 1), said("2", 2)
    await memory.save_turn(turn(first, second))
    await memory.save_turn(turn(said("1", 3, id=first.id)))
    assert await texts(memory) == ["2", "1"]


async def test_only_what_is_still_there_is_replaced(memory: MemoryStore) -> None:
    here, gone = said("here"), said("gone")
    await memory.save_turn(turn(here, gone))
    await memory.delete_messages([gone.id])
    await memory.save_turn(turn(replaced=[said("h", id=here.id), said("g", id=gone.id)]))
    assert await texts(memory) == ["h"]


async def test_a_turn_replaces_and_deletes_in_its_own_thread_only(memory: MemoryStore) -> None:
    other = said("other's")
    await memory.save_turn(turn(other, thread_id="u"))
    await memory.save_turn(turn(replaced=[said("taken", id=other.id)]))
    await memory.save_turn(turn(deleted=[other.id]))
    assert await texts(memory, "u") == ["other's"]
    assert await texts(memory) == []


@pytest.mark.parametrize("before", [True, False], ids=["thread there", "thread new"])
async def test_a_message_id_of_another_thread_is_refused_and_nothing_changes(
    memory: MemoryStore, before: bool
) -> None:
    taken = said("mine")
    await memory.save_turn(turn(taken, thread_id="theirs", resource_id="them"))
    if before:
        await memory.save_turn(turn(said("x")))
    was = await everything(memory)
    bad = turn(said("new"), said("stolen", id=taken.id), at=START + timedelta(hours=1))
    with pytest.raises(OwnerError, match=rf"{taken.id}.*'theirs'.*'t'"):
        await memory.save_turn(bad)
    assert await everything(memory) == was


async def test_m_001_m_004_a_thread_of_another_resource_is_refused(memory: MemoryStore) -> None:
    """Two tenants with equal thread ids: the second is told, and sees and changes nothing."""
    await memory.save_turn(turn(said("secret"), resource_id="acme"))
    was = await everything(memory)
    with pytest.raises(OwnerError, match="'t' belongs to resource 'acme', not to 'globex'"):
        await memory.save_turn(turn(said("hi"), resource_id="globex"))
    with pytest.raises(OwnerError, match="'acme'"):
        await memory.save_messages([said("hi").replace(thread_id="t", resource_id="globex")])
    assert await everything(memory) == was
    assert await memory.get_thread_by_id("t", resource_id="globex") is None
    assert (await memory.list_messages("t", resource_id="globex")).messages == []
    assert await memory.newest_messages("t", 9, resource_id="globex") == []


async def test_a_message_says_where_it_belongs(memory: MemoryStore) -> None:
    with pytest.raises(OwnerError, match="'u'"):
        await memory.save_turn(turn(said("x").replace(thread_id="u")))
    with pytest.raises(OwnerError, match="'s'"):
        await memory.save_turn(turn(said("x").replace(resource_id="s")))
    assert await memory.get_thread_by_id("t") is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"thread_id": ""},
        {"resource_id": None},
        {"deleted": [""]},
        {"messages": [said("x", id="1")], "deleted": ["1"]},
    ],
)
async def test_a_turn_of_a_wrong_form_is_refused(memory: MemoryStore, wrong: Any) -> None:
    with pytest.raises(InputError):
        await memory.save_turn(turn(**wrong))
    assert (await memory.list_threads()).total == 0


async def test_a_hundred_turns_at_once_on_one_thread(memory: MemoryStore) -> None:
    turns = [turn(said(f"{n}"), said(f"{n}!")) for n in range(100)]
    await asyncio.gather(*(memory.save_turn(each) for each in turns))
    found = await memory.list_messages("t", per_page=False)
    assert found.total == 200
    # Each turn stands together: nobody came in between.
    pairs = zip(found.messages[::2], found.messages[1::2], strict=True)
    assert all(second.text == f"{first.text}!" for first, second in pairs)
    assert {m.text for m in found.messages} == {
        f"{n}{end}" for n in range(100) for end in ("", "!")
    }


async def test_stored_values_are_nobody_elses(memory: MemoryStore) -> None:
    message, metadata = said("Hi"), {"list": [1]}
    message.content.metadata = {"deep": {"a": 1}}
    await memory.save_turn(turn(message, metadata=metadata))
    message.content.metadata["deep"]["a"] = 2
    message.content.parts.append(TextPart(text="!"))
    metadata["list"].append(2)
    (first,) = await memory.newest_messages("t", 1)
    first.content.parts.clear()
    thread = await memory.get_thread_by_id("t")
    assert thread is not None and thread.metadata is not None
    thread.metadata["list"].append(3)
    (again,) = await memory.newest_messages("t", 1)
    assert (again.text, again.content.metadata) == ("Hi", {"deep": {"a": 1}})
    assert (await memory.get_thread_by_id("t")).metadata == {"list": [1]}  # type: ignore[union-attr]
