"""Titles of threads: M-160 to M-163."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from procession.memory import Memory
from procession.stores import InMemoryStore
from procession.testing import ScriptedModel
from tests.laws.kit import Hook
from tests.memory.kit import CALL, remembering

if TYPE_CHECKING:
    from procession import Agent


def titled(title: Any, **options: Any) -> tuple[Agent, Memory, ScriptedModel]:
    """An agent, its memory, and the model that is asked for titles."""
    naming = ScriptedModel([title])
    memory = Memory(storage=InMemoryStore(), generate_title={"model": naming, **options})
    agent, _ = remembering(ScriptedModel(["In Lyon it rains."]), memory)
    return agent, memory, naming


async def title_of(memory: Memory) -> str | None:
    await memory.settled()
    thread = await memory.get_thread_by_id("t1")
    return thread.title if thread is not None else None


async def test_after_the_first_exchange_and_never_again() -> None:
    """M-160, M-162: what models like to put around a title is left out."""
    agent, memory, naming = titled('\n"Rain in Lyon"\n')
    await agent.generate("Weather in Lyon?", memory=CALL)
    assert await title_of(memory) == "Rain in Lyon"
    assert "user: Weather in Lyon?" in str(naming.calls[0].prompt)
    assert "assistant: In Lyon it rains." in str(naming.calls[0].prompt)
    await agent.generate("And now?", memory=CALL)
    await memory.settled()
    assert len(naming.calls) == 1


async def test_the_agents_own_model_unless_told_otherwise() -> None:
    """M-160."""
    model = ScriptedModel(["It rains.", "Rain"])
    agent, memory = remembering(model, Memory(storage=InMemoryStore(), generate_title=True))
    await agent.generate("Weather?", memory=CALL)
    assert await title_of(memory) == "Rain"


async def test_not_before_there_are_enough_messages() -> None:
    """M-160: with words of one's own."""
    agent, memory, naming = titled("Rain", min_messages=3, instructions="Name it.")
    await agent.generate("1", memory=CALL)
    assert await title_of(memory) is None and naming.calls == []
    await agent.generate("2", memory=CALL)
    assert await title_of(memory) == "Rain"
    assert naming.calls[0].prompt[0]["content"] == "Name it."


@pytest.mark.parametrize(
    "thread",
    [
        {"id": "t1", "title": "Mine"},
        {"id": "t1", "metadata": {"titlePinned": True}},
    ],
)
@pytest.mark.parametrize("emit_event", [True, False])
async def test_a_title_that_is_given_stays(thread: Any, emit_event: bool) -> None:
    """M-162."""
    agent, memory, naming = titled("Rain", emit_event=emit_event)
    await agent.generate("Weather?", memory={**CALL, "thread": thread})
    assert await title_of(memory) == thread.get("title")
    assert naming.calls == []


async def test_no_title_of_a_run_that_was_blocked() -> None:
    """M-163, M-102."""
    for emit_event in (True, False):
        agent, memory, naming = titled("Rain", emit_event=emit_event)
        guard = Hook("process_output_result", lambda args: args.abort("no"))
        await agent.generate("Weather?", memory=CALL, output_processors=[guard])
        assert await title_of(memory) is None and naming.calls == []


@pytest.mark.parametrize("emit_event", [True, False])
async def test_no_title_of_a_run_that_failed(emit_event: bool) -> None:
    """M-163: though its question is stored."""
    naming = ScriptedModel(["Rain"])
    memory = Memory(
        storage=InMemoryStore(), generate_title={"model": naming, "emit_event": emit_event}
    )
    agent, _ = remembering(ScriptedModel([ConnectionError("gone")]), memory)
    with pytest.raises(ConnectionError):
        await agent.generate("Weather?", memory=CALL)
    assert await title_of(memory) is None and naming.calls == []


async def test_a_title_that_is_given_meanwhile_stays() -> None:
    """M-162."""
    agent, memory, naming = titled("Rain")

    asked = naming.stream

    async def stream(request: Any) -> Any:
        await memory.update_thread("t1", "Mine")
        async for read in asked(request):
            yield read

    naming.stream = stream  # type: ignore[method-assign]
    await agent.generate("Weather?", memory=CALL)
    assert await title_of(memory) == "Mine"


@pytest.mark.parametrize("emit_event", [True, False])
async def test_what_fails_is_logged_and_tried_again(
    emit_event: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """M-160: and nothing of it reaches the answer."""
    naming = ScriptedModel([ConnectionError("secret"), "Rain"])
    memory = Memory(
        storage=InMemoryStore(), generate_title={"model": naming, "emit_event": emit_event}
    )
    agent, _ = remembering(ScriptedModel(["It rains."]), memory)
    assert (await agent.generate("Weather?", memory=CALL)).text == "It rains."
    assert await title_of(memory) is None
    assert "title of a thread failed" in caplog.text and "secret" not in caplog.text
    await agent.generate("And now?", memory=CALL)
    assert await title_of(memory) == "Rain"


async def test_the_stream_tells_it_before_it_ends() -> None:
    """M-161: transient, so that it is no part of the answer."""
    agent, memory, _ = titled("Rain", emit_event=True)
    run = await agent.stream("Weather?", memory=CALL)
    chunks = [chunk async for chunk in run]
    (told,) = [chunk for chunk in chunks if chunk.type == "data-thread-title"]
    assert told.data == {"threadId": "t1", "title": "Rain"} and told.transient is True
    assert [chunk.type for chunk in chunks].index("finish") == chunks.index(told) + 1
    assert await title_of(memory) == "Rain"
    assert (await run.processor_usage).output_tokens
    assert "data-thread-title" not in str([m.to_json() for m in run.message_list.get.all.db()])
