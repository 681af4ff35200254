"""Runs that wait, by kind and id: put, found, taken once, forgotten in time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from procession import InputError

if TYPE_CHECKING:
    from procession.store import WorkflowStore

VALUE = {"messages": [{"text": "Pay \0 \ud800 猫"}], "step": 2, "ok": None, "half": 0.5}


async def test_a_value_is_what_was_put(workflows: WorkflowStore) -> None:
    assert await workflows.get("run", "1") is None
    await workflows.put("run", "1", VALUE)
    assert await workflows.get("run", "1") == VALUE
    assert await workflows.get("other", "1") is None
    await workflows.put("run", "1", {"step": 3})
    assert await workflows.get("run", "1") == {"step": 3}
    await workflows.delete("run", "1")
    await workflows.delete("run", "1")
    assert await workflows.get("run", "1") is None


async def test_a_value_is_taken_once(workflows: WorkflowStore) -> None:
    await workflows.put("run", "1", VALUE)
    found = await asyncio.gather(*(workflows.take("run", "1") for _ in range(20)))
    assert [each for each in found if each is not None] == [VALUE]
    assert await workflows.get("run", "1") is None
    assert await workflows.take("run", "1") is None


async def test_ids_of_a_kind_in_the_order_of_putting(workflows: WorkflowStore) -> None:
    for kind, id in (("run", "b"), ("other", "x"), ("run", "a"), ("run", "b"), ("run", "c\0'")):
        await workflows.put(kind, id, {})
    assert await workflows.list_ids("run") == ["b", "a", "c\0'"]
    assert await workflows.list_ids("none") == []


async def test_what_has_expired_is_not_there(workflows: WorkflowStore) -> None:
    now = datetime.now(UTC)
    for id, seconds in (("future", 3600), ("past", -1)):
        await workflows.put("run", id, VALUE, expires_at=now + timedelta(seconds=seconds))
    assert await workflows.get("run", "past") is None
    assert await workflows.take("run", "past") is None
    assert await workflows.list_ids("run") == ["future"]
    assert await workflows.take("run", "future") == VALUE


async def test_a_value_put_again_expires_as_it_says_then(workflows: WorkflowStore) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    await workflows.put("run", "1", VALUE, expires_at=past)
    await workflows.put("run", "1", VALUE)
    assert await workflows.get("run", "1") == VALUE


async def test_a_value_is_nobody_elses(workflows: WorkflowStore) -> None:
    value: dict[str, Any] = {"list": [1]}
    await workflows.put("run", "1", value)
    value["list"].append(2)
    (await workflows.get("run", "1") or {})["list"].append(3)
    assert await workflows.get("run", "1") == {"list": [1]}


@pytest.mark.parametrize("wrong", [("", "1", {}), ("run", "", {}), ("run", "1", [1])], ids=str)
async def test_what_has_no_place_is_refused(workflows: WorkflowStore, wrong: Any) -> None:
    with pytest.raises(InputError):
        await workflows.put(*wrong)
