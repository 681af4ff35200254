"""What holds for every cache: in memory, in a file, in a server (C-110 to C-115)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from procession.cache import MastraServerCache, ServerCache
from procession.cache.values import dumped, loaded
from procession.errors import InputError, StoreError
from tests.cache.backends import BACKENDS, Plain, closed, every_cache, gone, maker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

VALUES = [
    None,
    True,
    0,
    -(2**53),
    1.5,
    "",
    "“Größe” 東京 😀",
    [],
    {},
    {"a": [1, {"b": None}], "": "empty"},
    b"\x00\xff",
    {"file": b"\x89PNG", "at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)},
    {"$bytes": "no"},
    {"$time": 1, "$$": 2},
    [{"$$bytes": {"$bytes": b"yes"}}],
    datetime(2026, 1, 2, 3, 4, 5),
]


@pytest.fixture(params=BACKENDS)
async def cache(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ServerCache]:
    made = maker(request.param, tmp_path, request)()
    yield made
    await closed(made)


@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_a_value_comes_back_as_it_was(cache: ServerCache, value: Any) -> None:
    """C-111, C-115: bytes and times as well, and keys that look like our marks."""
    await cache.set("key", value)
    assert await cache.get("key") == value


async def test_what_is_not_there_is_none(cache: ServerCache) -> None:
    """C-111"""
    assert await cache.get("nothing") is None
    await cache.delete("nothing")
    await cache.set("key", 1)
    await cache.delete("key")
    assert await cache.get("key") is None


async def test_the_last_value_counts(cache: ServerCache) -> None:
    """C-061: whatever kind the one before was."""
    await cache.list_push("key", 1)
    for value in (1, "two", None, {"three": 3}):
        await cache.set("key", value)
        assert await cache.get("key") == value
    with pytest.raises(StoreError):
        await cache.list_length("key")


async def test_values_are_the_callers_own(cache: ServerCache) -> None:
    """C-114: neither what was given nor what was got is the stored one."""
    given: dict[str, Any] = {"list": [1]}
    await cache.set("key", given)
    await cache.list_push("list", given)
    given["list"].append(2)
    (await cache.get("key"))["list"].append(3)
    (await cache.get("list"))[0]["list"].append(3)
    assert await cache.get("key") == {"list": [1]}
    assert await cache.list_from_to("list", 0) == [{"list": [1]}]


NO_DATA = {"object": object(), "set": {"a": {1, object()}}, "keys": {(1, 2): 3}}


@pytest.mark.parametrize("value", NO_DATA.values(), ids=NO_DATA)
async def test_what_is_no_data_is_refused(cache: ServerCache, value: Any) -> None:
    """C-115: at once, and the old value stays."""
    await cache.set("key", "old")
    with pytest.raises(InputError):
        await cache.set("key", value)
    with pytest.raises(InputError):
        await cache.list_push("other", value)
    assert await cache.get("key") == "old"
    assert await cache.list_length("other") == 0


async def test_a_value_that_holds_itself_is_refused(cache: ServerCache) -> None:
    """C-115"""
    value: list[Any] = []
    value.append(value)
    with pytest.raises(InputError, match="nested too deeply"):
        await cache.set("key", value)


async def test_lists(cache: ServerCache) -> None:
    """C-111, C-113: both ends included, positions from the end, a missing list is empty."""
    assert await cache.list_length("list") == 0
    assert await cache.list_from_to("list", 0) == []
    for value in "abcd":
        await cache.list_push("list", value)
    assert await cache.list_length("list") == 4
    for start, end, expected in [
        (0, -1, "abcd"),
        (1, 2, "bc"),
        (0, 0, "a"),
        (2, 99, "cd"),
        (-2, -1, "cd"),
        (0, -2, "abc"),
        (-99, 1, "ab"),
        (3, 1, ""),
        (9, -1, ""),
        (0, -99, ""),
    ]:
        assert await cache.list_from_to("list", start, end) == list(expected), (start, end)
    assert await cache.get("list") == list("abcd")
    await cache.delete("list")
    assert await cache.list_length("list") == 0
    await cache.list_push("list", "e")
    assert await cache.list_from_to("list", 0) == ["e"]


async def test_a_value_is_no_list(cache: ServerCache) -> None:
    """C-113: and says so, without its key or what stands there."""
    await cache.set("secret-key", "secret value")
    for work in (
        lambda: cache.list_push("secret-key", 1),
        lambda: cache.list_length("secret-key"),
        lambda: cache.list_from_to("secret-key", 0),
        lambda: cache.increment("secret-key"),
    ):
        with pytest.raises(StoreError) as raised:
            await work()
        assert "secret" not in str(raised.value)
    assert await cache.get("secret-key") == "secret value"


async def test_counting(cache: ServerCache) -> None:
    """C-111: the first one is 1, and a number that was set is counted on from."""
    assert [await cache.increment("count") for _ in range(3)] == [1, 2, 3]
    assert await cache.get("count") == 3
    await cache.set("count", 41)
    assert await cache.increment("count") == 42
    await cache.list_push("list", 1)
    with pytest.raises(StoreError):
        await cache.increment("list")


async def test_counting_at_the_same_time(cache: ServerCache) -> None:
    """C-111: nobody gets the number of another."""
    found = await asyncio.gather(*(cache.increment("count") for _ in range(30)))
    assert sorted(found) == list(range(1, 31))


async def test_pushing_with_an_index(cache: ServerCache) -> None:
    """C-111: from 0, with an index of its own in place of one that was given."""
    entries = [{}, {"text": "a"}, {"index": 9, "text": "b"}, {"$x": b"c"}]
    assert [await cache.list_push_indexed("list", "count", e) for e in entries] == [0, 1, 2, 3]
    assert await cache.list_from_to("list", 0) == [
        {"index": 0},
        {"index": 1, "text": "a"},
        {"index": 2, "text": "b"},
        {"index": 3, "$x": b"c"},
    ]
    found = await asyncio.gather(
        *(cache.list_push_indexed("other", "others", {"n": n}) for n in range(20))
    )
    assert sorted(found) == list(range(20))
    assert [entry["index"] for entry in await cache.get("other")] == list(range(20))


async def test_clearing(cache: ServerCache) -> None:
    """C-111: lists and counts as well."""
    await cache.set("key", 1)
    await cache.list_push("list", 1)
    await cache.increment("count")
    await cache.clear()
    assert [await cache.get(key) for key in ("key", "list", "count")] == [None] * 3
    await cache.clear()


async def test_a_value_is_gone_in_time(cache: ServerCache) -> None:
    """C-113: 0 is for ever, `None` what the cache was made with."""
    await cache.set("short", 1, 1)
    await cache.set("ever", 2, 0)
    await cache.set("usual", 3)
    await gone(cache, "short")
    assert await cache.get("ever") == 2 and await cache.get("usual") == 3


@every_cache
async def test_a_cache_without_an_end(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """C-113: `ttl_ms=0`, and one value with a time of its own."""
    cache = maker(backend, tmp_path, request)(ttl_ms=0)
    await cache.set("key", 1)
    await cache.list_push("list", 1)
    await cache.list_push_indexed("indexed", "count", {})
    await cache.set("short", 1, 1)
    await gone(cache, "short")
    assert await cache.get("key") == 1 and await cache.list_length("list") == 1
    assert await cache.list_length("indexed") == 1
    await closed(cache)


@every_cache
async def test_lists_and_counts_are_gone_in_time(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """C-113: from their last change; what begins then begins anew."""
    cache = maker(backend, tmp_path, request)(ttl_ms=1)
    for _ in range(3):
        await cache.list_push("list", 1)
        await cache.increment("count")
        await cache.list_push_indexed("indexed", "of", {})
        for key in ("list", "count", "indexed", "of"):
            await gone(cache, key)
    await closed(cache)


@every_cache
def test_event_loops_one_after_the_other(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """C-115: each `generate_sync` may have a loop of its own."""
    cache = maker(backend, tmp_path, request)()
    for number in range(3):

        async def use(number: int = number) -> None:
            assert await cache.get("key") == (number or None)
            await cache.set("key", number + 1)

        asyncio.run(use())
    asyncio.run(closed(cache))


@every_cache
async def test_being_cancelled_breaks_nothing(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """T: an operation that was cut off leaves neither a task nor a broken connection."""
    cache = maker(backend, tmp_path, request)()
    before = asyncio.all_tasks()
    for steps in range(8):
        task = asyncio.create_task(cache.set("key", "x" * 1000))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert asyncio.all_tasks() == before
        await cache.set("key", steps)
        assert await cache.get("key") == steps
    await closed(cache)


async def test_a_cache_of_ones_own() -> None:
    """C-110: the abstract methods are all it takes."""
    assert MastraServerCache is ServerCache
    cache = Plain()
    assert [await cache.list_push_indexed("list", "count", {"a": n}) for n in (5, 6)] == [0, 1]
    assert await cache.list_from_to("list", 0) == [{"a": 5, "index": 0}, {"a": 6, "index": 1}]
    with pytest.raises(TypeError, match="abstract"):
        ServerCache()  # type: ignore[abstract]


DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.datetimes(timezones=st.none() | st.just(UTC)),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]))
            | st.sampled_from(["$bytes", "$time", "$$"]),
            inner,
        )
    ),
)


@given(DATA)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_data_comes_back_as_it_was(value: Any) -> None:
    """C-115: the form in which values are kept loses nothing."""
    assert loaded(dumped(value)) == value


@given(st.binary())
def test_any_garbage_is_told(data: bytes) -> None:
    """C-062: what is no value of ours is one error, and no other."""
    try:
        loaded(data)
    except StoreError:
        pass
