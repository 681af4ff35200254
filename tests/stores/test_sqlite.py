"""A SQLite file: several processes, one that is killed, a full disk, cancelled tasks, old files."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import threading
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from procession import OptionError, StoreError
from procession.store import Thread
from procession.stores import SQLiteStore
from procession.stores.sql import schema
from procession.stores.sqlite import lanes
from tests.stores.processes import finished, start_process
from tests.stores.saying import said, turn


async def made(path: Path) -> None:
    async with SQLiteStore(path):
        pass


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def test_m_204_what_is_saved_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "a.db") as store:
        await store.get_store("memory").save_turn(turn(message := said("Hi")))
        await store.get_store("workflows").put("run", "1", {"a": 1})
    async with SQLiteStore(str(tmp_path / "a.db")) as store:
        (found,) = await store.get_store("memory").newest_messages("t", 5)
        assert (found.id, found.text) == (message.id, "Hi")
        assert await store.get_store("workflows").take("run", "1") == {"a": 1}


async def test_a_store_starts_when_it_is_used_and_again_after_close(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    memory = store.get_store("memory")
    assert not (tmp_path / "a.db").exists()
    await memory.save_turn(turn(said("Hi")))
    await store.close()
    await store.close()
    assert len(await memory.newest_messages("t", 5)) == 1
    await store.close()


async def test_who_is_cancelled_while_it_closes_closes_all_the_same(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    store = SQLiteStore(tmp_path / "a.db")
    await store.start()
    mine = set(threading.enumerate()) - before
    go_on = threading.Event()
    writing = asyncio.create_task(store.run(lambda _: go_on.wait(20)))
    await asyncio.sleep(0)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.sleep(0)
    go_on.set()
    assert await writing
    for thread in mine:
        await asyncio.to_thread(thread.join)
    assert list(modes_in(tmp_path)) == ["a.db"]  # nobody holds the file


async def test_memory_is_forgotten_when_it_is_closed() -> None:
    async with SQLiteStore(":memory:") as store:
        await store.get_store("memory").save_turn(turn(said("Hi")))
        await store.close()
        assert await store.get_store("memory").newest_messages("t", 5) == []


async def test_nothing_of_a_closed_store_lives_on(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    async with SQLiteStore(tmp_path / "a.db") as store:
        await store.get_store("memory").save_turn(turn(said("Hi")))
        await store.get_store("memory").newest_messages("t", 1)
        mine = set(threading.enumerate()) - before
        assert mine
    for thread in mine:
        await asyncio.to_thread(thread.join)  # would wait for ever
    assert list(modes_in(tmp_path)) == ["a.db"]


def test_several_event_loops_share_a_store(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    memory = store.get_store("memory")

    async def save(number: int) -> None:
        await asyncio.gather(*(memory.save_turn(turn(said(f"{number}.{n}"))) for n in range(5)))

    workers = [threading.Thread(target=asyncio.run, args=(save(n),)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert asyncio.run(memory.list_messages("t")).total == 20
    asyncio.run(store.close())


async def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "a.db") as store:
        await store.get_store("memory").save_turn(turn(said("secret")))
        modes = modes_in(tmp_path)
    assert modes == {"a.db": 0o600, "a.db-shm": 0o600, "a.db-wal": 0o600}


async def test_several_processes_write_one_file_at_once(tmp_path: Path) -> None:
    """Each makes the file, or finds it; no turn and no change of working memory is lost (M-128)."""
    code = """
    me, = arguments
    async with SQLiteStore(place, synchronous="normal") as store:
        memory, runs = store.get_store("memory"), store.get_store("workflows")
        taken = 0
        for n in range(20):
            await memory.save_turn(turn(said(f"{me}.{n}"), said(f"{me}.{n}!")))
            await memory.change_working_memory(resource_id="r", change=add)
            await runs.put("run", f"{n}", {"by": me}) if me == "0" else None
            taken += await runs.take("run", f"{n}") is not None
        print(taken)
"""
    path = str(tmp_path / "a.db")
    processes = [start_process(code, path, str(number)) for number in range(4)]
    taken = sum(int(finished(process)) for process in processes)
    async with SQLiteStore(path) as store:
        memory, runs = store.get_store("memory"), store.get_store("workflows")
        found = (await memory.list_messages("t", per_page=False)).messages
        assert len(found) == 160
        in_order = await memory.list_messages("t", per_page=False)
        pairs = zip(in_order.messages[::2], in_order.messages[1::2], strict=True)
        assert all(second.text == f"{first.text}!" for first, second in pairs)
        resource = await memory.get_resource_by_id("r")
        assert resource is not None and resource.working_memory == "80"
        # What is put once is taken once, or is still there.
        assert taken + len(await runs.list_ids("run")) == 20


async def test_what_was_reported_survives_a_kill(tmp_path: Path) -> None:
    code = """
    store = SQLiteStore(place)
    memory, n = store.get_store("memory"), 0
    while True:
        await memory.save_turn(turn(*(said(f"{n}") for _ in range(20))))
        print(n, flush=True)
        n += 1
"""
    process = start_process(code, str(tmp_path / "a.db"))
    assert process.stdout is not None and process.stderr is not None
    lines = [process.stdout.readline() for _ in range(5)]
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read().splitlines()
    process.communicate()
    reported = [*lines, *rest][-1].strip()
    async with SQLiteStore(tmp_path / "a.db") as store:
        found = (await store.get_store("memory").list_messages("t", per_page=False)).messages
        assert any(message.text == reported for message in found)
        assert len(found) % 20 == 0, "a turn is there whole or not at all"
        await store.get_store("memory").save_turn(turn(said("goes on")))


async def test_a_cancelled_task_leaves_no_transaction_open(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "a.db") as store:
        memory = store.get_store("memory")
        begun, go_on = threading.Event(), threading.Event()

        def slow(connection: sqlite3.Connection) -> None:
            connection.execute("CREATE TABLE mine (a)")
            begun.set()
            go_on.wait(20)

        running = asyncio.create_task(store.run(slow))
        queued = [asyncio.create_task(memory.save_turn(turn(said(f"{n}")))) for n in range(5)]
        await asyncio.to_thread(begun.wait, 20)
        for task in (running, *queued[:4]):
            task.cancel()
        for _ in range(5):  # until the threads have been told
            await asyncio.sleep(0)
        go_on.set()
        ended = await asyncio.gather(running, *queued, return_exceptions=True)
        assert [type(each) for each in ended] == [asyncio.CancelledError] * 5 + [type(None)]
        # What had begun is finished, what had not never began.
        found = (await memory.list_messages("t")).messages
        assert [message.text for message in found] == ["4"]
        rows = await store.run(lambda c: c.execute("SELECT * FROM mine").fetchall(), write=False)
        assert rows == []
        async with SQLiteStore(store.path, busy_timeout=0) as other:
            await other.get_store("memory").save_turn(turn(said("nobody holds the file")))


@pytest.mark.parametrize("name", ["a.db", ":memory:"])
async def test_tables_of_others_may_stand_beside(tmp_path: Path, name: str) -> None:
    async with SQLiteStore(tmp_path / name if name == "a.db" else name) as store:
        await store.run(lambda connection: connection.execute("CREATE TABLE mine (a)") and None)

        def fail(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO mine VALUES (1)")
            raise LookupError

        with pytest.raises(LookupError):
            await store.run(fail)
        count = "SELECT count(*) FROM mine"
        assert await store.run(lambda c: c.execute(count).fetchone(), write=False) == (0,)
        with pytest.raises(StoreError, match="cannot be written"):
            await store.run(lambda c: c.execute("INSERT INTO mine VALUES (1)"), write=False)
        with pytest.raises(StoreError, match="no such table"):
            await store.run(lambda c: c.execute("SELECT * FROM theirs"))


async def test_readers_go_on_while_somebody_writes(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "a.db") as store:
        memory = store.get_store("memory")
        await memory.save_turn(turn(said("before")))
        begun, go_on = threading.Event(), threading.Event()

        def slow(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM procession_messages")
            begun.set()
            go_on.wait(20)

        writing = asyncio.create_task(store.run(slow))
        await asyncio.to_thread(begun.wait, 20)
        assert len(await memory.newest_messages("t", 5)) == 1
        go_on.set()
        await writing
        assert await memory.newest_messages("t", 5) == []


async def test_a_full_disk_is_told_and_nothing_is_half_written(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "a.db") as store:
        memory = store.get_store("memory")
        await memory.save_turn(turn(said("before")))
        await store.run(lambda c: c.execute("PRAGMA max_page_count = 40").fetchone())
        with pytest.raises(StoreError, match="disk is full: make room"):
            await memory.save_turn(turn(said("small"), said("x" * 500_000), thread_id="u"))
        assert await memory.get_thread_by_id("u") is None
        assert (await memory.list_messages(["t", "u"])).total == 1
        await memory.save_turn(turn(said("after")))


def test_a_file_that_may_not_grow_is_told_and_stays_whole(tmp_path: Path) -> None:
    """The operating system refuses a write in the midst of it."""
    code = """
    import resource, signal
    async with SQLiteStore(place) as store:
        memory = store.get_store("memory")
        await memory.save_turn(turn(said("before")))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
        try:
            await memory.save_turn(turn(said("x" * 500_000), thread_id="u"))
        except StoreError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        await memory.save_turn(turn(said("after")))
        print([m.text for m in await memory.newest_messages("t", 9)])
        print(await memory.get_thread_by_id("u"))
"""
    told, texts, missing = finished(start_process(code, str(tmp_path / "a.db"))).splitlines()
    assert "disk" in told and "Nothing of this was written" in told
    assert (texts, missing) == ("['before', 'after']", "None")


def test_a_file_that_cannot_be_written_is_told() -> None:
    code = """
    async with SQLiteStore(":memory:"):
        pass  # all has been imported
    if os.geteuid() == 0:  # for whom nothing is read-only
        os.setuid(65534)
    try:
        await SQLiteStore(place).start()
    except StoreError as error:
        print(error)
"""
    with TemporaryDirectory() as folder:  # others can reach it, unlike the folders of pytest
        path = Path(folder, "a.db")
        asyncio.run(made(path))
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        told = finished(start_process(code, str(path)))
        Path(folder).chmod(0o700)
    assert "it cannot be written to: see who owns the file and its folder" in told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("missing/a.db", "its folder has to exist"),
        ("text.txt", "not a SQLite file"),
        (".", "opened"),
    ],
)
async def test_a_path_that_is_no_database_is_told(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "text.txt").write_text("Dear diary, " * 100)
    with pytest.raises(StoreError, match=told):
        await SQLiteStore(tmp_path / name).start()
    assert (tmp_path / "text.txt").read_text() == "Dear diary, " * 100


async def test_who_waits_too_long_for_a_writer_is_told(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "a.db", busy_timeout=0.01) as store:
        await store.start()
        other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            with pytest.raises(StoreError, match="busy_timeout"):
                await store.get_store("memory").save_turn(turn(said("Hi")))
        finally:
            other.execute("ROLLBACK")
            other.close()
        await store.get_store("memory").save_turn(turn(said("Hi")))


async def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    await store.get_store("memory").save_turn(turn(said("Hi")))
    await store.run(lambda c: c.execute("UPDATE procession_schema SET version = 99") and None)
    await store.close()
    was = (tmp_path / "a.db").read_bytes()
    with pytest.raises(StoreError, match=r"newer version of procession.*upgrade"):
        await store.start()
    with pytest.raises(StoreError, match="newer version"):
        await store.get_store("memory").newest_messages("t", 1)
    await store.close()
    assert (tmp_path / "a.db").read_bytes() == was


async def test_a_file_of_an_older_version_is_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SQLiteStore(tmp_path / "a.db") as store:
        await store.get_store("memory").save_turn(turn(said("old")))
    second = [*schema.MIGRATIONS, ("ALTER TABLE procession_threads ADD COLUMN pinned BIGINT",)]
    monkeypatch.setattr(lanes, "MIGRATIONS", second)
    pinned = "SELECT pinned FROM procession_threads"
    for _ in range(2):
        async with SQLiteStore(tmp_path / "a.db") as store:
            assert len(await store.get_store("memory").newest_messages("t", 5)) == 1
            assert await store.run(lambda c: c.execute(pinned).fetchall()) == [(None,)]


async def test_a_migration_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SQLiteStore(tmp_path / "a.db") as store:
        await store.get_store("memory").save_turn(turn(said("old")))
    broken = ("ALTER TABLE procession_threads ADD COLUMN pinned BIGINT", "NONSENSE")
    with monkeypatch.context() as patch:
        patch.setattr(lanes, "MIGRATIONS", [*schema.MIGRATIONS, broken])
        with pytest.raises(StoreError):
            await SQLiteStore(tmp_path / "a.db").start()
    async with SQLiteStore(tmp_path / "a.db") as store:
        assert await store.get_store("memory").save_thread(Thread(id="u", resource_id="r"))
        columns = await store.run(
            lambda c: c.execute("PRAGMA table_info(procession_threads)").fetchall()
        )
        assert "pinned" not in [column[1] for column in columns]


async def test_the_newest_messages_cost_the_same_in_a_long_thread(tmp_path: Path) -> None:
    """Ten of 10,000 messages take as many steps of the database as ten of 100."""
    steps: list[int] = []
    async with SQLiteStore(tmp_path / "a.db", synchronous="normal") as store:
        memory = store.get_store("memory")
        for size in (100, 10_000):
            last = [said("x", n) for n in range(size)]
            await memory.save_turn(turn(*last, thread_id=f"t{size}"))
            await memory.newest_messages("t100", 1)  # all connections are open
            for connection in store._lanes._idle:  # type: ignore[union-attr]
                connection.set_progress_handler(partial(steps.append, size), 1)
            await memory.newest_messages(f"t{size}", 10, resource_id="r")
            await memory.newest_messages(f"t{size}", 10, before=last[50].id)
    assert 0 < steps.count(10_000) < steps.count(100) * 1.1


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": ""},
        {"path": None},
        {"path": "a\0b"},
        {"path": b"a.db"},
        {"synchronous": "off"},
        {"busy_timeout": -1},
        {"busy_timeout": float("nan")},
        {"busy_timeout": "30"},
        {"busytimeout": 3},
    ],
    ids=str,
)
def test_b_014_options_that_cannot_be_used_are_refused(wrong: dict[str, Any]) -> None:
    told = "did you mean 'busy_timeout'" if "busytimeout" in wrong else next(iter(wrong))
    with pytest.raises(OptionError, match=told):
        SQLiteStore(**{"path": "a.db", **wrong})


def test_a_forked_process_opens_the_file_for_itself(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    memory = store.get_store("memory")
    asyncio.run(memory.save_turn(turn(said("parent"))))
    lanes_of_parent = store._lanes
    store._lanes.process = os.getpid() + 1  # type: ignore[union-attr]  # as a child finds it
    asyncio.run(memory.save_turn(turn(said("child"))))
    assert store._lanes is not lanes_of_parent
    asyncio.run(store.close())
    asyncio.run(lanes_of_parent.close())  # type: ignore[union-attr]
