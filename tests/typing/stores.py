"""Stores are what `Store` asks for, and what they give has types."""

from typing import assert_type

from procession import Message
from procession.store import MemoryStore, Store, Thread, WorkflowStore
from procession.stores import CompositeStore, InMemoryStore, PostgresStore, SQLiteStore

URL = "postgresql://ada@db.example.com/app"
STORES: list[Store] = [InMemoryStore(), SQLiteStore("a.db"), PostgresStore(URL), CompositeStore()]


async def domains(store: Store) -> None:
    async with store as same:
        assert_type(same.get_store("memory"), MemoryStore)
        assert_type(same.get_store("workflows"), WorkflowStore)


async def what_is_found(store: SQLiteStore) -> None:
    memory = store.get_store("memory")
    page = await memory.list_messages("t", filter={"metadata": {"a": 1}}, include=[{"id": "m"}])
    assert_type(page.messages, list[Message])
    assert_type(await memory.get_thread_by_id("t"), Thread | None)
    assert_type(await store.run(lambda connection: connection.total_changes), int)
    await memory.list_messages("t", per_page="all")  # type: ignore[arg-type]
