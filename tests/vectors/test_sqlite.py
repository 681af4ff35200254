"""Vectors in a file: beside messages, and written by several processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from procession.errors import InputError, OptionError, StoreError
from procession.store import Thread
from procession.stores import SQLiteStore
from procession.vector_store import VectorEntry
from procession.vectors import sqlite
from procession.vectors.sqlite import SQLiteVectors

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

WRITER = """
import asyncio, sys
from procession.stores import SQLiteStore
from procession.vector_store import VectorEntry
from procession.vectors.sqlite import SQLiteVectors

async def main(path, index):
    async with SQLiteStore(path) as store:
        vectors = SQLiteVectors(store)
        await vectors.upsert(index, [VectorEntry(id="new", vector=[1, 0], metadata={"n": 9})])
        await vectors.delete(index, ids=["old"])

asyncio.run(main(*sys.argv[1:]))
"""


def entry(entry_id: str, vector: Any = (1, 0), **metadata: Any) -> VectorEntry:
    return VectorEntry(id=entry_id, vector=vector, metadata=metadata)


async def found(vectors: SQLiteVectors, **more: Any) -> list[str]:
    return [hit.id for hit in await vectors.query("notes", [1, 0], top_k=100, **more)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


async def test_what_another_process_has_written_is_found(path: Path) -> None:
    async with SQLiteStore(path) as store:
        vectors = SQLiteVectors(store)
        await vectors.create_index("notes", 2)
        await vectors.upsert("notes", [entry("old", n=1), entry("stays", [0, 1], n=1)])
        assert await found(vectors, filter={"n": 1}) == ["old", "stays"]
        run = [sys.executable, "-c", WRITER, str(path), "notes"]
        await asyncio.to_thread(subprocess.run, run, check=True)
        assert await found(vectors) == ["new", "stays"]
        assert await found(vectors, filter={"n": {"$gte": 1}}) == ["new", "stays"]
        assert await found(vectors, filter={"n": 1}) == ["stays"]


async def test_only_what_is_new_is_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    put = sqlite.Image.update

    def noting(self: sqlite.Image, connection: sqlite3.Connection, change: int) -> None:
        before = self._rows.end
        put(self, connection, change)
        read.append(self._rows.end - before)

    monkeypatch.setattr(sqlite.Image, "update", noting)
    async with SQLiteStore(path) as here, SQLiteStore(path) as there:
        reader, writer = SQLiteVectors(here), SQLiteVectors(there)
        await writer.create_index("notes", 2)
        await writer.upsert("notes", [entry(f"e{n}") for n in range(50)])
        assert len(await found(reader)) == 50
        await writer.upsert("notes", [entry("e7", [0, 1]), entry("more")])
        assert len(await found(reader)) == 51
        assert len(await found(reader)) == 51
    assert read == [50, 2]


async def test_it_is_there_after_the_store_was_closed(path: Path) -> None:
    store = SQLiteStore(path)
    vectors = SQLiteVectors(store)
    await vectors.create_index("notes", 2)
    await vectors.upsert("notes", [entry("a", n=1)])
    assert await found(vectors) == ["a"]
    await store.close()
    assert await found(vectors, filter={"n": 1}) == ["a"]
    await store.close()
    async with SQLiteStore(path) as again:
        assert await found(SQLiteVectors(again)) == ["a"]


async def test_what_was_in_memory_goes_with_its_store() -> None:
    store = SQLiteStore(":memory:")
    vectors = SQLiteVectors(store)
    await vectors.create_index("notes", 2)
    await vectors.upsert("notes", [entry("a")])
    assert await found(vectors) == ["a"]
    await store.close()
    assert await vectors.list_indexes() == []
    with pytest.raises(InputError, match="no index"):
        await found(vectors)
    await vectors.create_index("notes", 2)
    await vectors.upsert("notes", [entry("b")])
    assert await found(vectors) == ["b"]
    await store.close()


async def test_an_index_that_another_process_made_anew_is_not_mixed_up(path: Path) -> None:
    async with SQLiteStore(path) as here, SQLiteStore(path) as there:
        reader, writer = SQLiteVectors(here), SQLiteVectors(there)
        await writer.create_index("notes", 2)
        await writer.upsert("notes", [entry("a")])
        assert await found(reader) == ["a"]
        await writer.delete_index("notes")
        with pytest.raises(InputError, match="no index"):
            await found(reader)
        await writer.create_index("notes", 2)
        await writer.upsert("notes", [entry("b")])
        assert await found(reader) == ["b"]


async def test_deletions_are_forgotten_after_a_while_but_never_missed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader who has not heard of them in time reads all again."""
    monkeypatch.setattr(sqlite, "_MOST_DELETED", 3)
    async with SQLiteStore(path) as here, SQLiteStore(path) as there:
        reader, writer = SQLiteVectors(here), SQLiteVectors(there)
        await writer.create_index("notes", 2)
        await writer.upsert("notes", [entry(f"e{n}", n=n) for n in range(9)])
        assert len(await found(reader)) == 9
        for number in range(5):
            await writer.delete("notes", ids=[f"e{number}"])
        rows = await there.run(
            lambda c: c.execute("SELECT count(*) FROM procession_vectors").fetchone(), write=False
        )
        assert rows == (5,)
        for vectors in (reader, writer):
            assert await found(vectors) == ["e5", "e6", "e7", "e8"]
            assert await found(vectors, filter={"n": {"$lt": 6}}) == ["e5"]
            assert (await vectors.describe_index("notes")).count == 4


async def test_vectors_and_messages_share_a_file(path: Path) -> None:
    async with SQLiteStore(path) as store:
        vectors = SQLiteVectors(store)
        await vectors.create_index("notes", 2)
        memory = store.get_store("memory")
        await memory.save_thread(Thread(id="t1", resource_id="u1"))
        await vectors.upsert("notes", [entry("a")])
        assert await memory.get_thread_by_id("t1") is not None
    assert os.listdir(path.parent) == ["chat.db"]


async def test_a_write_that_fails_leaves_everything_as_it_was(path: Path) -> None:
    async with SQLiteStore(path) as store:
        vectors = SQLiteVectors(store)
        await vectors.create_index("notes", 2)
        await vectors.upsert("notes", [entry("a")])
        forbid = (
            "CREATE TRIGGER no BEFORE INSERT ON procession_vectors WHEN NEW.id = 'z' "
            "BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        await store.run(lambda connection: connection.execute(forbid))
        with pytest.raises(StoreError):
            await vectors.upsert("notes", [entry("b"), entry("z")])
        assert await found(vectors) == ["a"]


async def test_the_event_loop_goes_on_meanwhile(path: Path) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with SQLiteStore(path) as store:
        vectors = SQLiteVectors(store)
        await vectors.create_index("notes", 2)
        turning = asyncio.create_task(turn())
        await vectors.upsert("notes", [entry(f"e{n}") for n in range(2000)])
        await found(vectors)
        turning.cancel()
    assert turns > 20


@pytest.mark.parametrize("wrong", [None, "chat.db", {}])
def test_what_is_no_store_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="store must be a SQLiteStore"):
        SQLiteVectors(wrong)
