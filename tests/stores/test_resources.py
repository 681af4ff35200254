"""Resources, and working memory that nobody changes in between (M-121, M-128)."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from procession import InputError, OwnerError
from procession.store import Resource
from tests.stores.saying import START, said, turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from procession.store import MemoryStore


def noted(key: str) -> Callable[[str | None], str]:
    def change(before: str | None) -> str:
        return json.dumps({**json.loads(before or "{}"), key: 1})

    return change


async def test_m_203_a_resource_is_what_was_saved(memory: MemoryStore) -> None:
    assert await memory.get_resource_by_id("r") is None
    resource = Resource(
        id="r",
        working_memory="# Ada \0",
        metadata={"a": [None]},
        created_at=START,
        updated_at=START,
    )
    assert await memory.save_resource(resource) == resource
    assert await memory.get_resource_by_id("r") == resource
    changed = resource.replace(working_memory=None, metadata=None, extra={"later": 1})
    await memory.save_resource(changed)
    assert await memory.get_resource_by_id("r") == changed


async def test_what_is_not_given_to_an_update_of_a_resource_stays(memory: MemoryStore) -> None:
    made = await memory.update_resource("r", working_memory="notes")
    assert (made.id, made.working_memory, made.metadata) == ("r", "notes", None)
    await memory.update_resource("r", metadata={"a": 1, "b": 2})
    changed = await memory.update_resource("r", metadata={"b": 3})
    assert (changed.working_memory, changed.metadata) == ("notes", {"a": 1, "b": 3})
    assert changed.updated_at > made.updated_at
    await memory.update_resource("r", working_memory=None)
    found = await memory.get_resource_by_id("r")
    assert found is not None and found.working_memory is None


async def test_m_121_working_memory_of_a_resource(memory: MemoryStore) -> None:
    seen: list[str | None] = []

    def change(before: str | None) -> str | None:
        seen.append(before)
        return f"{before or ''}+"

    for expected in ("+", "++"):
        made = await memory.change_working_memory(resource_id="r", change=change)
        assert made == expected
    assert (seen[0], seen[-1]) == (None, "+")
    found = await memory.get_resource_by_id("r")
    assert found is not None and found.working_memory == "++"
    assert await memory.change_working_memory(resource_id="r", change=lambda _: None) is None


async def test_m_121_working_memory_of_a_thread_is_apart(memory: MemoryStore) -> None:
    await memory.save_turn(turn(said("Hi"), metadata={"tier": "gold"}))
    await memory.change_working_memory(resource_id="r", change=lambda _: "shared")
    made = await memory.change_working_memory(thread_id="t", change=lambda _: "own")
    assert made == "own"
    thread = await memory.get_thread_by_id("t")
    assert thread is not None
    assert thread.metadata == {"tier": "gold", "workingMemory": "own"}
    resource = await memory.get_resource_by_id("r")
    assert resource is not None and resource.working_memory == "shared"


async def test_a_thread_with_an_owner_is_made_for_its_working_memory(memory: MemoryStore) -> None:
    with pytest.raises(InputError, match="no thread 't'"):
        await memory.change_working_memory(thread_id="t", change=lambda _: "own")
    await memory.change_working_memory(thread_id="t", resource_id="r", change=lambda _: "own")
    thread = await memory.get_thread_by_id("t", resource_id="r")
    assert thread is not None and thread.metadata == {"workingMemory": "own"}
    with pytest.raises(OwnerError, match=r"'r'.*'s'"):
        await memory.change_working_memory(thread_id="t", resource_id="s", change=lambda _: "x")


async def test_no_change_makes_nothing(memory: MemoryStore) -> None:
    await memory.change_working_memory(resource_id="r", change=lambda before: before)
    await memory.change_working_memory(thread_id="t", resource_id="r", change=lambda _: None)
    assert await memory.get_resource_by_id("r") is None
    assert await memory.get_thread_by_id("t") is None


async def test_a_change_that_raises_changes_nothing(memory: MemoryStore) -> None:
    def refuse(before: str | None) -> str:
        raise LookupError(before)

    with pytest.raises(LookupError):
        await memory.change_working_memory(resource_id="r", change=refuse)
    await memory.change_working_memory(resource_id="r", change=lambda _: "kept")
    with pytest.raises(LookupError, match="kept"):
        await memory.change_working_memory(resource_id="r", change=refuse)
    with pytest.raises(LookupError):
        await memory.change_working_memory(thread_id="t", resource_id="r", change=refuse)
    found = await memory.get_resource_by_id("r")
    assert found is not None and found.working_memory == "kept"
    assert await memory.get_thread_by_id("t") is None
    with pytest.raises(InputError, match="resource_id or thread_id"):
        await memory.change_working_memory(change=lambda _: "x")


@pytest.mark.parametrize("scope", ["resource", "thread"])
async def test_m_128_no_change_is_lost_among_fifty(memory: MemoryStore, scope: str) -> None:
    where = {"resource_id": "r"} if scope == "resource" else {"resource_id": "r", "thread_id": "t"}
    keys = [f"k{number}" for number in range(50)]
    await asyncio.gather(
        *(memory.change_working_memory(change=noted(key), **where) for key in keys)
    )
    last = await memory.change_working_memory(change=noted("last"), **where)
    assert json.loads(last or "") == dict.fromkeys([*keys, "last"], 1)


async def test_deleting_a_resource_deletes_all_that_is_its_own_and_nothing_else(
    memory: MemoryStore,
) -> None:
    await memory.update_resource("r", working_memory="notes")
    await memory.update_resource("other", working_memory="theirs")
    await memory.save_turn(turn(said("one"), thread_id="a"))
    await memory.save_turn(turn(said("two"), thread_id="b"))
    await memory.save_turn(turn(said("theirs"), thread_id="c", resource_id="other"))
    await memory.delete_resource("r")
    await memory.delete_resource("r")
    assert await memory.get_resource_by_id("r") is None
    assert (await memory.list_threads(filter={"resource_id": "r"})).total == 0
    assert (await memory.list_messages_by_resource_id("r")).total == 0
    assert [await memory.newest_messages(thread, 5) for thread in "ab"] == [[], []]
    assert [thread.id for thread in (await memory.list_threads()).threads] == ["c"]
    assert [m.text for m in await memory.newest_messages("c", 5)] == ["theirs"]
    other = await memory.get_resource_by_id("other")
    assert other is not None and other.working_memory == "theirs"


@pytest.mark.parametrize("id", ["", None, 3])
async def test_deleting_a_resource_needs_its_id(memory: MemoryStore, id: Any) -> None:
    with pytest.raises(InputError, match="id must be a text that is not empty"):
        await memory.delete_resource(id)


async def test_a_thread_whose_notes_are_cleared_has_no_entry_for_them_m_121(
    memory: MemoryStore,
) -> None:
    await memory.save_turn(turn(said("x"), metadata={"a": 1}))
    for made in ("notes", None):
        await memory.change_working_memory(change=lambda _, made=made: made, thread_id="t")
    thread = await memory.get_thread_by_id("t")
    assert thread is not None and thread.metadata == {"a": 1}
