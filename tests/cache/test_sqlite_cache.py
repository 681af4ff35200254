"""`SQLiteCache`: one file, several processes, a bound, and what cannot be used."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from procession.cache import SQLiteCache
from procession.errors import OptionError, StoreError
from tests.cache.backends import later

if TYPE_CHECKING:
    from pathlib import Path

OTHER = """
import asyncio, sys
from procession.cache import SQLiteCache

async def main(path, name):
    async with SQLiteCache(path) as cache:
        for number in range(25):
            await cache.list_push_indexed("list", "count", {"by": name})
            await cache.set(f"{name}:{number}", number)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_several_processes_share_a_file(tmp_path: Path) -> None:
    """None of what they write at the same time is lost, and no number is given twice."""
    path = tmp_path / "cache.db"
    command = [sys.executable, "-c", OTHER, str(path)]
    others = [subprocess.Popen([*command, name]) for name in ("one", "two")]  # noqa: ASYNC220
    async with SQLiteCache(path) as cache:
        for number in range(25):
            await cache.list_push_indexed("list", "count", {"by": "own"})
            await cache.set(f"own:{number}", number)
        assert [await asyncio.to_thread(other.wait) for other in others] == [0, 0]
        entries = await cache.list_from_to("list", 0)
        assert [entry["index"] for entry in entries] == list(range(75))
        for name in ("one", "two", "own"):
            assert await cache.get(f"{name}:24") == 24


async def test_what_was_kept_is_there_the_next_time(tmp_path: Path) -> None:
    """Closing it loses nothing, and it can be used again."""
    cache = SQLiteCache(tmp_path / "cache.db")
    await cache.set("key", 1)
    await cache.close()
    assert await cache.get("key") == 1
    await cache.close()
    await cache.close()
    async with SQLiteCache(str(tmp_path / "cache.db")) as other:
        assert await other.get("key") == 1


async def test_its_size_is_bounded(tmp_path: Path) -> None:
    """The keys that were written longest ago go, with the items of lists."""
    async with SQLiteCache(tmp_path / "cache.db", max_size=3) as cache:
        await cache.list_push("list", "old")
        for number in range(5):
            await cache.set(f"key {number}", number)
        left = [n for n in range(5) if await cache.get(f"key {n}") is not None]
        assert left == [2, 3, 4]
        assert await cache.list_from_to("list", 0) == []
    with sqlite3.connect(tmp_path / "cache.db") as file:
        assert file.execute("SELECT count(*) FROM items").fetchone() == (0,)
    file.close()


async def test_a_large_one_stays_near_its_bound(tmp_path: Path) -> None:
    """Looking for what is too much is not done with every value: a 64th may be above."""
    async with SQLiteCache(tmp_path / "cache.db", max_size=128) as cache:
        for number in range(300):
            await cache.set(str(number), number)
    with sqlite3.connect(tmp_path / "cache.db") as file:
        (count,) = file.execute("SELECT count(*) FROM entries").fetchone()
    file.close()
    assert 128 <= count <= 130


async def test_what_is_over_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-113: a value whose time is over is gone, and leaves the file."""
    async with SQLiteCache(tmp_path / "cache.db", max_size=10, ttl_ms=300_000) as cache:
        await cache.set("usual", "x")
        await cache.set("ever", "x", 0)
        later(monkeypatch, 301)
        assert await cache.get("usual") is None and await cache.get("ever") == "x"
        await cache.set("new", "x")
    with sqlite3.connect(tmp_path / "cache.db") as file:
        found = file.execute("SELECT key FROM entries ORDER BY key").fetchall()
    file.close()
    assert found == [("ever",), ("new",)]


async def test_the_event_loop_never_waits_for_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it is done in other threads."""
    threads: set[threading.Thread] = set()
    connect = sqlite3.connect

    class Watched(sqlite3.Connection):
        def execute(self, *given: Any) -> sqlite3.Cursor:
            threads.add(threading.current_thread())
            return super().execute(*given)

    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Watched, **k))
    async with SQLiteCache(tmp_path / "cache.db") as cache:
        await cache.set("key", 1)
        await cache.list_push("list", 1)
        await cache.get("key")
    assert threads and threading.current_thread() not in threads


async def test_a_file_that_is_none_of_ours(tmp_path: Path) -> None:
    """It is told, and stays as it is; another path helps at once."""
    path = tmp_path / "notes.txt"
    path.write_text("no database at all, but a long text\n" * 40)
    cache = SQLiteCache(path)
    for work in (lambda: cache.get("key"), lambda: cache.set("key", 1)):
        with pytest.raises(StoreError, match=r"SQLiteCache\('notes.txt'\) cannot be used"):
            await work()
    assert path.read_text().startswith("no database")
    path.unlink()
    await cache.set("key", 1)
    assert await cache.get("key") == 1
    await cache.close()


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """The error says what to look at."""
    with pytest.raises(StoreError, match="check that the file and its folder can be written"):
        await SQLiteCache(tmp_path / "nowhere" / "cache.db").get("key")


async def test_a_value_that_somebody_else_wrote(tmp_path: Path) -> None:
    """C-062: it is an error, and no value."""
    async with SQLiteCache(tmp_path / "cache.db") as cache:
        await cache.set("key", 1)
        with sqlite3.connect(tmp_path / "cache.db") as file:
            file.execute("UPDATE entries SET value = 'secret {'")
        file.close()
        with pytest.raises(StoreError) as raised:
            await cache.get("key")
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (":memory:", {}, "InMemoryServerCache"),
        ("", {}, "path must be that of a file"),
        (None, {}, "path must be that of a file"),
        ("x", {"max_size": 0}, "max_size must be"),
        ("x", {"ttl_ms": -5}, "ttl_ms must be"),
        ("x", {"max": 5}, "did you mean 'max_size'"),
    ],
)
def test_options_that_cannot_work(given: Any, options: dict[str, Any], said: str) -> None:
    """They are told when the cache is made."""
    with pytest.raises(OptionError, match=said):
        SQLiteCache(given, **options)


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    """Making one touches no file, and says where it will be."""
    assert repr(SQLiteCache(tmp_path / "cache.db")) == "SQLiteCache('cache.db')"
    assert not list(tmp_path.iterdir())


async def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    """Answers stand in it as no guard has seen them."""
    async with SQLiteCache(tmp_path / "cache.db") as cache:
        await cache.set("k", 1)
        assert modes_in(tmp_path) == {0o600}


def modes_in(folder: Path) -> set[int]:
    return {file.stat().st_mode & 0o777 for file in folder.iterdir()}
