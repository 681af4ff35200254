"""Threads: written, found, listed by pages and by what their metadata say (M-180, M-183, M-202)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from procession import InputError, OwnerError
from procession.store import Thread
from tests.stores.saying import START, said, turn

if TYPE_CHECKING:
    from procession.store import MemoryStore


def thread(id: str, resource: str = "r", minute: int = 0, **more: Any) -> Thread:
    at = START + timedelta(minutes=minute)
    return Thread(id=id, resource_id=resource, **{"created_at": at, "updated_at": at, **more})


async def ids(memory: MemoryStore, **how: Any) -> list[str]:
    return [each.id for each in (await memory.list_threads(**how)).threads]


async def test_m_001_a_thread_is_what_was_saved(memory: MemoryStore) -> None:
    made = thread("t", title="Lamps", metadata={"a": [1, {"b": None}]}, extra={"later": 1})
    assert await memory.save_thread(made) == made
    assert await memory.get_thread_by_id("t") == made
    assert await memory.get_thread_by_id("t", resource_id="r") == made
    assert await memory.get_thread_by_id("t", resource_id="s") is None
    assert await memory.get_thread_by_id("u") is None


async def test_m_001_saving_over_a_thread_of_another_resource_is_refused(
    memory: MemoryStore,
) -> None:
    await memory.save_thread(thread("t", title="mine"))
    with pytest.raises(OwnerError, match="'t' belongs to resource 'r', not to 's'"):
        await memory.save_thread(thread("t", "s"))
    await memory.save_thread(thread("t", title="still mine"))
    found = await memory.get_thread_by_id("t")
    assert found is not None and found.title == "still mine"


async def test_m_180_what_is_not_given_to_an_update_stays(memory: MemoryStore) -> None:
    await memory.save_thread(thread("t", title="Lamps", metadata={"a": 1, "b": 2}))
    changed = await memory.update_thread("t", metadata={"b": 3})
    assert (changed.title, changed.metadata) == ("Lamps", {"a": 1, "b": 3})
    assert changed.updated_at > START == changed.created_at
    changed = await memory.update_thread("t", title=None)
    assert (changed.title, changed.metadata) == (None, {"a": 1, "b": 3})
    assert await memory.get_thread_by_id("t") == changed
    with pytest.raises(InputError, match="no thread 'u'"):
        await memory.update_thread("u", title="x")


async def test_a_deleted_thread_takes_its_messages_along(memory: MemoryStore) -> None:
    mine, other = said("mine"), said("other")
    await memory.save_turn(turn(mine))
    await memory.save_turn(turn(other, thread_id="u"))
    await memory.delete_thread("t")
    await memory.delete_thread("t")
    assert await ids(memory) == ["u"]
    assert [m.id for m in await memory.list_messages_by_id([mine.id, other.id])] == [other.id]
    # Its ids are free again.
    await memory.save_turn(turn(mine, resource_id="s"))


async def test_threads_are_listed_latest_first_or_as_asked(memory: MemoryStore) -> None:
    await memory.save_thread(thread("a", minute=1, updated_at=START + timedelta(hours=3)))
    await memory.save_thread(thread("b", minute=2))
    await memory.save_thread(thread("c", minute=2))
    assert await ids(memory) == ["c", "b", "a"]
    assert await ids(memory, order_by={"direction": "ASC"}) == ["a", "b", "c"]
    assert await ids(memory, order_by={"field": "updated_at"}) == ["a", "c", "b"]
    oldest = {"field": "updatedAt", "direction": "ASC"}
    assert await ids(memory, order_by=oldest) == ["b", "c", "a"]


async def test_m_202_pages_of_threads(memory: MemoryStore) -> None:
    for number in range(5):
        await memory.save_thread(thread(f"{number}", minute=number))
    page = await memory.list_threads(page=1, per_page=2)
    assert [each.id for each in page.threads] == ["2", "1"]
    assert (page.total, page.page, page.per_page, page.has_more) == (5, 1, 2, True)
    page = await memory.list_threads(page=2, per_page=2)
    assert ([each.id for each in page.threads], page.has_more) == (["0"], False)
    page = await memory.list_threads(page=9, per_page=2)
    assert (page.threads, page.total, page.has_more) == ([], 5, False)
    page = await memory.list_threads(per_page=False)
    assert (len(page.threads), page.per_page, page.has_more) == (5, False, False)
    page = await memory.list_threads(per_page=0)
    assert (page.threads, page.total, page.has_more) == ([], 5, False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"page": -1},
        {"page": 1.0},
        {"page": True},
        {"per_page": -1},
        {"per_page": "all"},
        {"per_page": None},
        {"per_page": True},
        {"per_page": False, "page": 1},
        {"order_by": {"field": "title"}},
        {"order_by": {"direction": "up"}},
        {"order_by": "created_at"},
        {"filter": {"resource": "r"}},
        {"filter": {"metadata": ["a"]}},
        {"filter": {"resource_id": ""}},
        {"filter": {"resource_id": None}},
        {"filter": {"resourceId": None}},
        {"filter": {"resource_id": 7}},
    ],
    ids=str,
)
async def test_m_202_what_cannot_be_meant_is_refused(memory: MemoryStore, wrong: Any) -> None:
    with pytest.raises(InputError):
        await memory.list_threads(**wrong)


FOUND = {
    "text": "gold",
    "long": "x" * 5000,
    "number": 3,
    "zero": 0,
    "part": 0.5,
    "yes": True,
    "nothing": None,
    "odd": "'; DROP TABLE procession_threads; -- \n% _ \\ \0 \ud800 猫😀",
}


@pytest.mark.parametrize("key", FOUND)
async def test_m_183_an_entry_of_metadata_finds_the_thread(memory: MemoryStore, key: str) -> None:
    await memory.save_thread(thread("there", metadata=FOUND))
    await memory.save_thread(thread("without", metadata={"other": FOUND[key]}))
    await memory.save_thread(thread("another", metadata={key: "else"}))
    await memory.save_thread(thread("none"))
    assert await ids(memory, filter={"metadata": {key: FOUND[key]}}) == ["there"]


@pytest.mark.parametrize(
    ("stored", "asked"),
    [(1, True), (0, False), (0, None), ("", None), ("1", 1), ("null", None), ("a", "A")],
)
async def test_m_183_values_that_only_look_alike(
    memory: MemoryStore, stored: Any, asked: Any
) -> None:
    await memory.save_thread(thread("t", metadata={"a": stored}))
    assert await ids(memory, filter={"metadata": {"a": asked}}) == []
    assert await ids(memory, filter={"metadata": {"a": stored}}) == ["t"]


async def test_m_183_numbers_are_equal_as_in_json(memory: MemoryStore) -> None:
    await memory.save_thread(thread("t", metadata={"a": 1.0, "b": 2}))
    assert await ids(memory, filter={"metadata": {"a": 1, "b": 2.0}}) == ["t"]


async def test_m_183_all_keys_must_match_and_the_resource_too(memory: MemoryStore) -> None:
    await memory.save_thread(thread("a", metadata={"x": 1, "y": 2}))
    await memory.save_thread(thread("b", metadata={"x": 1}))
    await memory.save_thread(thread("c", "s", metadata={"x": 1, "y": 2}))
    assert await ids(memory, filter={"metadata": {"x": 1, "y": 2}, "resource_id": "r"}) == ["a"]
    assert await ids(memory, filter={"metadata": {"x": 1}, "resourceId": "s"}) == ["c"]
    assert await ids(memory, filter={"metadata": {}, "resource_id": "r"}) == ["b", "a"]
    assert await ids(memory, filter={"resource_id": "nobody"}) == []


async def test_m_183_a_filter_sees_what_an_update_changed(memory: MemoryStore) -> None:
    await memory.save_thread(thread("t", metadata={"x": 1}))
    await memory.update_thread("t", metadata={"x": 2})
    assert await ids(memory, filter={"metadata": {"x": 1}}) == []
    assert await ids(memory, filter={"metadata": {"x": 2}}) == ["t"]
    await memory.change_working_memory(thread_id="t", change=lambda _: "notes")
    assert await ids(memory, filter={"metadata": {"x": 2, "workingMemory": "notes"}}) == ["t"]


@pytest.mark.parametrize("key", ["", "a.b", "a b", "1a", "a'", "$a", "é", "a\n", 1])
async def test_m_183_keys_are_identifiers(memory: MemoryStore, key: Any) -> None:
    with pytest.raises(InputError, match="identifiers"):
        await memory.list_threads(filter={"metadata": {key: 1}})


@pytest.mark.parametrize("value", [[1], {"a": 1}, b"x", START])
async def test_m_183_values_are_scalars(memory: MemoryStore, value: Any) -> None:
    with pytest.raises(InputError, match="'a'"):
        await memory.list_threads(filter={"metadata": {"a": value}})
