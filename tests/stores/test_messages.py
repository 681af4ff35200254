"""Messages: listed by pages, with neighbours, by time and metadata; changed and deleted (M-201)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from procession import InputError, OwnerError
from tests.stores.saying import START, said, turn

if TYPE_CHECKING:
    from procession.messages import Message
    from procession.store import MemoryStore


def words(messages: list[Message]) -> str:
    return " ".join(message.text for message in messages)


@pytest.fixture
async def ten(memory: MemoryStore) -> list[Message]:
    """Ten messages `0` to `9`, a minute apart, in thread `t`; and some in others."""
    messages = [said(f"{n}", n, id=f"m{n}") for n in range(10)]
    await memory.save_turn(turn(*messages))
    await memory.save_turn(turn(said("x", 3, id="x"), said("y", 4, id="y"), thread_id="u"))
    foreign = [said("p", 1, id="p"), said("q", 2, id="q")]
    await memory.save_turn(turn(*foreign, thread_id="v", resource_id="s"))
    return messages


@pytest.mark.usefixtures("ten")
async def test_m_202_pages_of_messages(memory: MemoryStore) -> None:
    page = await memory.list_messages("t", page=1, per_page=4)
    assert words(page.messages) == "4 5 6 7"
    assert (page.total, page.page, page.per_page, page.has_more) == (10, 1, 4, True)
    page = await memory.list_messages("t", page=2, per_page=4)
    assert (words(page.messages), page.has_more) == ("8 9", False)
    latest = await memory.list_messages("t", per_page=3, order_by={"direction": "DESC"})
    assert words(latest.messages) == "9 8 7"
    page = await memory.list_messages("t", per_page=0)
    assert (page.messages, page.total, page.has_more) == ([], 10, False)
    assert (await memory.list_messages("t", per_page=False)).total == 10
    with pytest.raises(InputError, match="per_page=False"):
        await memory.list_messages("t", per_page=False, page=1)
    with pytest.raises(InputError, match="must be 'created_at'"):
        await memory.list_messages("t", order_by={"field": "updated_at"})


async def test_forty_messages_are_a_page(memory: MemoryStore) -> None:
    await memory.save_turn(turn(*(said(f"{n}", n) for n in range(41))))
    page = await memory.list_messages("t")
    assert (len(page.messages), page.per_page, page.has_more) == (40, 40, True)


@pytest.mark.usefixtures("ten")
async def test_messages_of_several_threads_by_time(memory: MemoryStore) -> None:
    page = await memory.list_messages(["t", "u", "v", "t"], per_page=6)
    assert words(page.messages) == "0 1 p 2 q 3"
    assert page.total == 14
    page = await memory.list_messages(["u", "v"], resource_id="r")
    assert words(page.messages) == "x y"
    assert (await memory.list_messages([])).total == 0


@pytest.mark.usefixtures("ten")
async def test_messages_of_a_resource(memory: MemoryStore) -> None:
    page = await memory.list_messages_by_resource_id("r", per_page=3, page=1)
    assert (words(page.messages), page.total) == ("3 x 4", 12)
    page = await memory.list_messages_by_resource_id("s", order_by={"direction": "DESC"})
    assert words(page.messages) == "q p"


@pytest.mark.usefixtures("ten")
@pytest.mark.parametrize(
    ("dates", "found"),
    [
        ({"start": 3, "end": 5}, "3 4 5"),
        ({"start": 3, "end": 5, "start_exclusive": True}, "4 5"),
        ({"start": 3, "end": 5, "end_exclusive": True}, "3 4"),
        ({"start": 8}, "8 9"),
        ({"end": 1}, "0 1"),
        ({}, "0 1 2 3 4 5 6 7 8 9"),
        ({"start": 5, "end": 3}, ""),
    ],
)
async def test_a_range_of_time(memory: MemoryStore, dates: dict[str, Any], found: str) -> None:
    for end in ("start", "end"):
        if end in dates:
            dates = {**dates, end: START + timedelta(minutes=dates[end])}
    page = await memory.list_messages("t", filter={"date_range": dates})  # type: ignore[typeddict-item]
    assert words(page.messages) == found
    assert page.total == len(found.split())


async def test_m_183_metadata_of_messages(memory: MemoryStore) -> None:
    gold, tin = said("gold"), said("tin")
    gold.content.metadata, tin.content.metadata = {"a": 1, "b": None}, {"a": 1}
    await memory.save_turn(turn(gold, tin, said("none")))
    page = await memory.list_messages("t", filter={"metadata": {"a": 1, "b": None}})
    assert (words(page.messages), page.total) == ("gold", 1)
    await memory.update_messages([{"id": gold.id, "content": {"metadata": {"a": 2}}}])
    assert (await memory.list_messages("t", filter={"metadata": {"a": 1}})).total == 1
    assert (await memory.list_messages("t", filter={"metadata": {"a": 2, "b": None}})).total == 1


@pytest.mark.usefixtures("ten")
async def test_m_181_neighbours_come_along_once_and_in_order(memory: MemoryStore) -> None:
    include: Any = [
        {"id": "m5", "with_previous_messages": 1, "with_next_messages": 1},
        {"id": "m6", "withPreviousMessages": 1, "withNextMessages": 9},
        {"id": "m0", "with_previous_messages": 3},
        {"id": "gone"},
    ]
    page = await memory.list_messages("t", per_page=0, include=include)
    assert words(page.messages) == "0 4 5 6 7 8 9"
    page = await memory.list_messages("t", per_page=2, include=include[:1])
    assert (words(page.messages), page.total, page.has_more) == ("0 1 4 5 6", 10, True)
    down: Any = {"direction": "DESC"}
    page = await memory.list_messages("t", per_page=2, include=include[:1], order_by=down)
    assert words(page.messages) == "9 8 6 5 4"


@pytest.mark.usefixtures("ten")
async def test_m_142_neighbours_stay_within_the_threads_or_the_resource(
    memory: MemoryStore,
) -> None:
    include: Any = [
        {"id": "x", "with_next_messages": 1},
        {"id": "p", "with_next_messages": 1},
        {"id": "m1"},
    ]

    async def found(threads: Any, **more: Any) -> str:
        page = await memory.list_messages(threads, per_page=0, include=include, **more)
        return words(page.messages)

    assert await found("t") == "1"
    assert await found(["t", "u"]) == "1 x y"
    assert await found("t", resource_id="r") == "1 x y"
    assert await found("t", resource_id="s") == "p q"
    assert await found("t", resource_id="nobody") == ""


@pytest.mark.parametrize(
    "wrong",
    [
        [{"with_next_messages": 1}],
        [{"id": "m1", "with_next_messages": -1}],
        [{"id": "m1", "next": 1}],
        ["m1"],
    ],
    ids=str,
)
async def test_what_cannot_come_along_is_refused(memory: MemoryStore, wrong: Any) -> None:
    with pytest.raises(InputError):
        await memory.list_messages("t", include=wrong)


@pytest.mark.usefixtures("ten")
async def test_m_080_the_newest_messages_in_order_of_time(memory: MemoryStore) -> None:
    assert words(await memory.newest_messages("t", 3)) == "7 8 9"
    assert words(await memory.newest_messages("t", 3, before="m7")) == "4 5 6"
    assert words(await memory.newest_messages("t", 3, before="m1")) == "0"
    assert await memory.newest_messages("t", 3, before="m0") == []
    assert await memory.newest_messages("t", 3, before="x") == []
    assert await memory.newest_messages("t", 0) == []
    assert await memory.newest_messages("gone", 3) == []
    assert words(await memory.newest_messages("t", 1, resource_id="r")) == "9"
    assert await memory.newest_messages("t", 1, resource_id="s") == []
    with pytest.raises(InputError):
        await memory.newest_messages("t", -1)


async def test_the_newest_of_messages_of_one_moment(memory: MemoryStore) -> None:
    await memory.save_turn(turn(*(said(f"{n}", id=f"m{9 - n}") for n in range(6))))
    assert words(await memory.newest_messages("t", 2)) == "4 5"
    assert words(await memory.newest_messages("t", 2, before="m5")) == "2 3"


@pytest.mark.usefixtures("ten")
async def test_messages_by_id(memory: MemoryStore) -> None:
    asked = ["x", "m9", "p", "m2", "gone", "m2"]
    assert words(await memory.list_messages_by_id(asked)) == "p 2 x 9"
    assert words(await memory.list_messages_by_id(asked, resource_id="s")) == "p"
    assert await memory.list_messages_by_id([]) == []
    many = [*(f"no{n}" for n in range(1200)), "m1"]
    assert words(await memory.list_messages_by_id(many)) == "1"


async def test_m_087_saving_messages_makes_threads_and_replaces(memory: MemoryStore) -> None:
    first = said("1").replace(thread_id="t", resource_id="r")
    second = said("2").replace(thread_id="u", resource_id="r")
    saved = await memory.save_messages([second, first])
    assert saved == [second, first]
    changed = first.replace(content=said("one").content, resource_id=None)
    (saved_again,) = await memory.save_messages([changed])
    assert (saved_again.text, saved_again.resource_id) == ("one", "r")
    assert [each.id for each in (await memory.list_threads()).threads] in (["t", "u"], ["u", "t"])
    assert await memory.save_messages([]) == []


async def test_messages_that_belong_nowhere_are_refused_and_nothing_is_saved(
    memory: MemoryStore,
) -> None:
    good = said("1").replace(thread_id="t", resource_id="r")
    with pytest.raises(InputError, match="thread_id"):
        await memory.save_messages([good, said("2")])
    with pytest.raises(InputError, match="no thread 'u'"):
        await memory.save_messages([good, said("2").replace(thread_id="u")])
    with pytest.raises(OwnerError):
        await memory.save_messages([good, said("2").replace(thread_id="t", resource_id="s")])
    assert (await memory.list_threads()).total == 0


async def test_m_201_part_of_a_message_is_changed(memory: MemoryStore) -> None:
    message = said("old")
    message.content.metadata = {"a": 1, "b": 2}
    message.extra = {"future": True}
    await memory.save_turn(turn(message, said("next", 5)))
    (changed,) = await memory.update_messages(
        [
            {
                "id": message.id,
                "createdAt": "2026-03-01T13:00:00+01:00",
                "content": {"parts": [{"type": "text", "text": "new"}], "metadata": {"b": 3}},
            },
            {"id": "gone", "role": "user"},
        ]
    )
    assert (changed.text, changed.content.metadata) == ("new", {"a": 1, "b": 3})
    assert (changed.role, changed.created_at, changed.extra) == ("user", START, {"future": True})
    await memory.update_messages([{"id": message.id, "role": "assistant", "createdAt": START}])
    (stored,) = await memory.list_messages_by_id([message.id])
    assert stored == changed.replace(role="assistant")
    later = START + timedelta(hours=1)
    await memory.update_messages([{"id": message.id, "createdAt": later}])
    assert words((await memory.list_messages("t")).messages) == "next new"


@pytest.mark.parametrize("wrong", [{}, {"id": ""}, "m1", {"id": "m1", "content": "x"}], ids=str)
@pytest.mark.usefixtures("ten")
async def test_a_partial_message_of_a_wrong_form_is_refused(
    memory: MemoryStore, wrong: Any
) -> None:
    with pytest.raises(InputError):
        await memory.update_messages([{"id": "m2", "role": "assistant"}, wrong])
    (untouched,) = await memory.list_messages_by_id(["m2"])
    assert untouched.role == "user"


@pytest.mark.usefixtures("ten")
async def test_deleted_messages_are_gone(memory: MemoryStore) -> None:
    await memory.delete_messages(["m1", "m1", "gone", "m3"])
    assert words((await memory.list_messages("t")).messages) == "0 2 4 5 6 7 8 9"
    await memory.delete_messages([])
    await memory.save_turn(turn(said("again", 1, id="m1")))
    assert words(await memory.newest_messages("t", 99)) == "0 again 2 4 5 6 7 8 9"
