"""Any message comes back equal, whatever its ids, from every store (M-205)."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from hashlib import shake_256
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from procession.ids import new_id
from procession.messages import (
    DataPart,
    ErrorPart,
    FilePart,
    ImagePart,
    Message,
    MessageContent,
    Part,
    ReasoningPart,
    SourceDocumentPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
)
from procession.store import Resource, Thread
from tests.stores.conftest import KINDS, make_store
from tests.stores.saying import START, said, turn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Lone surrogates and NUL are texts, too.
text = st.text(st.characters(exclude_categories=()), max_size=12)
some_id = st.text(st.characters(exclude_categories=()), min_size=1, max_size=12)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text
value = st.recursive(
    leaves.filter(lambda leaf: leaf not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
mapping = st.dictionaries(text, value, max_size=3)
stamped = {
    "provider_metadata": st.none() | mapping,
    "created_at": st.none() | st.integers(0, 2**42),
}
call = st.builds(
    ToolInvocation,
    tool_call_id=text,
    tool_name=text,
    state=st.sampled_from(
        ["call", "result", "output-error", "approval-requested", "output-denied"]
    ),
    args=value.filter(lambda args: args is not None),
    error_text=st.none() | text,
    approval=st.none() | mapping,
).flatmap(
    lambda made: value.map(
        lambda result: made.replace(result=result if made.state == "result" else None)
    )
)
file_data = text | st.binary(max_size=20).map(lambda data: b64encode(data).decode())
unknown = st.builds(
    Part,
    type=text.map(lambda kind: f"future-{kind}"),
    extra=st.none()
    | st.dictionaries(text.map(lambda key: f"x{key}"), value, min_size=1, max_size=2),
    **stamped,
)
part = st.one_of(
    st.builds(TextPart, text=text, **stamped),
    st.builds(ReasoningPart, reasoning=text, details=st.lists(mapping, max_size=2), **stamped),
    st.builds(ToolInvocationPart, tool_invocation=call, **stamped),
    st.builds(FilePart, mime_type=text, data=file_data, filename=st.none() | text, **stamped),
    st.builds(ImagePart, image=file_data, **stamped),
    st.builds(SourcePart, source=mapping, **stamped),
    st.builds(SourceDocumentPart, source_id=text, media_type=text, title=text, **stamped),
    st.builds(StepStartPart, model=st.none() | text, **stamped),
    st.builds(DataPart, type=text.map(lambda kind: f"data-{kind}"), data=value, **stamped),
    st.builds(ErrorPart, error=mapping, **stamped),
    unknown,
)
content = st.builds(
    MessageContent,
    parts=st.lists(part, max_size=4),
    content=st.none() | text,
    metadata=st.none() | mapping,
    provider_metadata=st.none() | mapping,
    extra=st.none() | st.just({"later": [1]}),
)
moment = st.datetimes(
    datetime(1, 1, 2),
    datetime(9999, 12, 30),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=9))]),
)
message = st.builds(
    Message,
    id=some_id,
    role=st.sampled_from(["user", "assistant", "system", "signal"]) | some_id,
    type=st.none() | text,
    content=content,
    created_at=moment,
    extra=st.none() | st.just({"later": {"a": None}}),
)


@contextmanager
def running(kind: str, request: Any, folder: Path) -> Iterator[tuple[asyncio.Runner, Any]]:
    """A store that is open, and what runs its methods: for many examples, one store."""
    with asyncio.Runner() as runner:
        store = make_store(kind, request, folder)
        try:
            yield runner, store.get_store("memory")
        finally:
            runner.run(store.close())


many = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("kind", KINDS)
def test_m_205_a_message_comes_back_equal(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with running(kind, request, tmp_path) as (runner, memory):

        @many
        @given(st.lists(message, min_size=1, max_size=3, unique_by=lambda made: made.id))
        def law(messages: list[Message]) -> None:
            async def there_and_back() -> list[Message]:
                thread = new_id()
                await memory.save_turn(turn(*messages, thread_id=thread))
                found = await memory.newest_messages(thread, 9)
                await memory.delete_thread(thread)
                assert all(each.thread_id == thread for each in found)
                return found

            found = {each.id: each for each in runner.run(there_and_back())}
            for made in messages:
                back = found[made.id]
                assert back == made.replace(thread_id=back.thread_id, resource_id="r")
                assert (
                    back.to_json()
                    == made.replace(thread_id=back.thread_id, resource_id="r").to_json()
                )

        law()


HARD_IDS = [
    "'; DROP TABLE procession_messages; --",
    '"quoted" `and` [so] \\ on \\u0000 \\# %s %(a)s ? {serial}',
    "../../etc/passwd",
    "a\0b",
    "\0",
    "\ud800",
    "\\ud800",
    "x" * 10_000,
    shake_256(b"what no index can make shorter").hexdigest(5_000),
    "猫" * 3_000,
    "语言 한국어 😀 e\u0301",
    "line\nbreak\ttab\r",
    " ",
    "NULL",
]


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_any_text_and_found_by_no_other(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with running(kind, request, tmp_path) as (runner, memory):

        @many
        @given(st.lists(some_id | st.sampled_from(HARD_IDS), min_size=2, max_size=5, unique=True))
        @example(HARD_IDS)
        @example(["x" * 10_000, "x" * 9_999 + "y", "\\#", "x" * 400, "x" * 401])
        @example(["\0", "\\u0000", "\\\\u0000", "\ud800", "\\ud800"])
        @example(["é", "e\u0301"])
        def law(ids: list[str]) -> None:
            runner.run(keep_apart(memory, ids))

        law()


async def keep_apart(memory: Any, ids: list[str]) -> None:
    """Each id names a thread, a resource and a message, and each time only its own."""
    for id in ids:
        await memory.save_turn(turn(said(id, id=id), thread_id=id, resource_id=id, title=id))
        await memory.change_working_memory(resource_id=id, change=lambda _, id=id: id)
    for id in ids:
        thread = await memory.get_thread_by_id(id, resource_id=id)
        assert (thread.id, thread.resource_id, thread.title) == (id, id, id)
        page = await memory.list_messages(id, include=[{"id": id, "with_next_messages": 5}])
        (found,) = page.messages
        assert (found.id, found.thread_id, found.resource_id, found.text) == (id, id, id, id)
        assert (await memory.list_threads(filter={"resource_id": id})).total == 1
        resource = await memory.get_resource_by_id(id)
        assert (resource.id, resource.working_memory) == (id, id)
    for id in ids:
        await memory.delete_thread(id)
        assert await memory.list_messages_by_id([id]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_resources_come_back_equal(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with running(kind, request, tmp_path) as (runner, memory):

        @many
        @given(st.none() | mapping, st.none() | text, moment, moment)
        def law(metadata: Any, words: str | None, made: datetime, changed: datetime) -> None:
            times = {"created_at": made, "updated_at": changed}
            thread = Thread(id=new_id(), resource_id="r", title=words, metadata=metadata, **times)
            resource = Resource(id=new_id(), working_memory=words, metadata=metadata, **times)

            async def there_and_back() -> None:
                await memory.save_thread(thread)
                await memory.save_resource(resource)
                assert await memory.get_thread_by_id(thread.id) == thread
                assert await memory.get_resource_by_id(resource.id) == resource

            runner.run(there_and_back())

        law()


async def test_m_203_what_json_has_no_word_for(memory: Any) -> None:
    """Bytes are stored as base64, times as ISO 8601, not-a-number as null."""
    message = said("x")
    message.content.parts.append(FilePart(mime_type="image/png", data=b"\x89PNG"))
    message.content.metadata = {"nan": float("nan"), "at": START, 5: "five"}  # type: ignore[dict-item]
    await memory.save_turn(turn(message))
    (found,) = await memory.newest_messages("t", 1)
    assert found.content.parts[1].data == "iVBORw=="
    assert found.content.parts[1].mime_type == "image/png"
    assert found.content.metadata == {"nan": None, "at": "2026-03-01T12:00:00.000Z", "5": "five"}


async def test_the_stored_form_is_the_one_clients_read(memory: Any) -> None:
    message = said("Hi").replace(id="m1")
    await memory.save_turn(turn(message, title="Lamps"))
    (found,) = await memory.newest_messages("t", 1)
    assert found.to_json() == {
        "id": "m1",
        "role": "user",
        "content": {"format": 2, "parts": [{"type": "text", "text": "Hi"}]},
        "createdAt": "2026-03-01T12:00:00.000Z",
        "threadId": "t",
        "resourceId": "r",
    }
    thread = await memory.get_thread_by_id("t")
    assert thread.to_json() == {
        "id": "t",
        "resourceId": "r",
        "title": "Lamps",
        "createdAt": "2026-03-01T12:00:00.000Z",
        "updatedAt": "2026-03-01T12:00:00.000Z",
    }
    assert Thread.from_json(thread.to_json()) == thread
