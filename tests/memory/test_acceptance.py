"""The acceptance examples of memory: M-220 to M-229."""

from __future__ import annotations

from typing import Any

import pytest

from procession import processor
from procession.memory import Memory
from procession.stores import InMemoryStore
from procession.testing import ScriptedModel
from tests.laws.kit import Hook, PlayedModel, call, echo, end
from tests.laws.kit import said as block
from tests.memory.kit import CALL, remembering, rows, said, shown
from tests.seeds.threeways import play, three_ways

OUTPUT_HOOKS = (
    "process_output_stream",
    "process_output_step",
    "process_tool_result",
    "process_output_result",
)


def no(args: Any) -> None:
    args.abort("no")


@three_ways
async def test_m220_the_second_prompt_goes_on_from_the_first(way: str) -> None:
    """M-220, M-086."""
    model = ScriptedModel(["one", "two"])
    agent, memory = remembering(model)
    await play(way, agent, "first", memory=CALL)
    await play(way, agent, "second", memory=CALL)
    assert said(model.calls[1].prompt) == ["first", "one", "second"]
    thread = await memory.get_thread_by_id("t1")
    assert thread is not None and thread.resource_id == "u1"


async def test_m221_the_newest_messages_only() -> None:
    """M-221, M-080, M-081."""
    model = ScriptedModel(["a", "b", "c"])
    agent, memory = remembering(model, Memory(storage=InMemoryStore(), last_messages=2))
    for question in ("1", "2", "3"):
        await agent.generate(question, memory=CALL)
    assert said(model.calls[2].prompt) == ["2", "b", "3"]
    assert len(await rows(memory)) == 6


@three_ways
@pytest.mark.parametrize("hook", OUTPUT_HOOKS)
async def test_m222_a_blocked_answer_leaves_nothing(hook: str, way: str) -> None:
    """M-222, M-101, M-102, E-62: no message, and no thread either."""
    model = PlayedModel([[call("echo"), end("tool-calls")], [*block("so"), end()]])
    agent, memory = remembering(model, tools=[echo], output_processors=[Hook(hook, no)])
    outcome = await play(way, agent, "go", memory=CALL)
    assert outcome.tripwire is not None
    assert await rows(memory) == []
    assert await memory.get_thread_by_id("t1") is None


@three_ways
@pytest.mark.parametrize("hook", ["process_input", "process_input_step", "process_llm_request"])
async def test_m223_a_blocked_question_leaves_nothing(hook: str, way: str) -> None:
    """M-223, M-100, G-C4: and the turn after it is as if it had never been."""
    model = ScriptedModel(["one", "two"])
    agent, memory = remembering(model)
    await play(way, agent, "bad", memory=CALL, input_processors=[Hook(hook, no)])
    assert model.calls == [] and await memory.get_thread_by_id("t1") is None
    await play(way, agent, "good", memory=CALL)
    assert said(model.calls[0].prompt) == ["good"]


@three_ways
async def test_m224_what_a_processor_writes_is_what_is_stored(way: str) -> None:
    """M-224, M-083, G-B1: redacted before the model, redacted in storage; the answer as well."""

    def redact(args: Any) -> None:
        for message in args.messages:
            for part in message.content.parts:
                part.text = part.text.replace("4711", "****")

    model = ScriptedModel(["Your code is 4711."])
    agent, memory = remembering(
        model,
        input_processors=[processor(process_input=redact)],
        output_processors=[processor(id="out", process_output_result=redact)],
    )
    outcome = await play(way, agent, "code 4711", memory=CALL)
    assert said(model.calls[0].prompt) == ["code ****"]
    assert await shown(memory) == [("user", "code ****"), ("assistant", "Your code is ****.")]
    assert outcome.text == "Your code is ****."


async def test_m225_a_wrong_copy_of_an_answer_changes_nothing() -> None:
    """M-225, M-062, M-064: the stored one is what the prompt has."""
    model = ScriptedModel(["right", "two"])
    agent, memory = remembering(model)
    await agent.generate("first", memory=CALL)
    asked, answered = await rows(memory)
    copies = [
        {"id": asked.id, "role": "user", "content": "first"},
        {"id": answered.id, "role": "assistant", "content": "wrong"},
        {"role": "user", "content": "second"},
    ]
    await agent.generate(copies, memory=CALL)
    assert said(model.calls[1].prompt) == ["first", "right", "second"]
    assert [row.text for row in await rows(memory)] == ["first", "right", "second", "two"]


async def test_m226_read_only() -> None:
    """M-226, M-024."""
    model = ScriptedModel(["one", "two"])
    agent, memory = remembering(model)
    await agent.generate("first", memory=CALL)
    await agent.generate("second", memory={**CALL, "options": {"read_only": True}})
    assert said(model.calls[1].prompt) == ["first", "one", "second"]
    assert len(await rows(memory)) == 2


@three_ways
async def test_m227_a_rejected_attempt_is_not_stored(way: str) -> None:
    """M-227, M-103, R-208: neither it nor the feedback."""
    model = ScriptedModel(["bad", "good"])

    def check(args: Any) -> None:
        if args.text == "bad":
            args.abort("try again", retry=True)

    agent, memory = remembering(model, output_processors=[Hook("process_output_step", check)])
    await play(way, agent, "go", memory=CALL, max_processor_retries=1)
    assert await shown(memory) == [("user", "go"), ("assistant", "good")]


@three_ways
async def test_m228_a_persisted_and_a_transient_signal(way: str) -> None:
    """M-228, M-090, R-722, R-723, R-725."""

    async def remind(args: Any) -> None:
        await args.send_signal({"type": "reactive", "contents": "kept"})
        await args.send_signal({"type": "reactive", "contents": "gone", "transient": True})

    model = ScriptedModel(["one", "two"])
    agent, memory = remembering(model)
    hook = Hook("process_input_step", remind)
    await play(way, agent, "go", memory=CALL, input_processors=[hook])
    kept = "<system-reminder>kept</system-reminder>"
    gone = "<system-reminder>gone</system-reminder>"
    assert said(model.calls[0].prompt) == ["go", kept, gone]
    assert [row.role for row in await rows(memory)] == ["user", "signal", "assistant"]
    recalled = await memory.recall("t1")
    assert [message.role for message in recalled.messages] == ["user", "assistant"]
    await play(way, agent, "more", memory=CALL)
    assert said(model.calls[1].prompt) == ["go", kept, "one", "more"]


@three_ways
async def test_m229_data_chunks(way: str) -> None:
    """M-229, M-089, R-200 to R-202: stored unless transient, and in no later prompt."""

    async def write(args: Any) -> Any:
        if args.part.type == "text-delta":
            await args.writer.custom({"type": "data-kept", "data": 1})
            await args.writer.custom({"type": "data-gone", "data": 2, "transient": True})
        return args.part

    model = ScriptedModel(["one", "two"])
    agent, memory = remembering(model)
    await play(
        way, agent, "go", memory=CALL, output_processors=[Hook("process_output_stream", write)]
    )
    # It was delivered before the first word, so that is where it stands.
    assert await shown(memory) == [("user", "go"), ("assistant", "data-kept", "one")]
    await play(way, agent, "more", memory=CALL)
    assert "data-kept" not in str(model.calls[1].prompt)
    assert said(model.calls[1].prompt) == ["go", "one", "more"]
