"""What of a client's messages is new: M-060 to M-067, G-M3."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from procession import Message, MessageContent, TextPart, Tool, processor
from procession.memory import Memory
from procession.stores import InMemoryStore
from procession.testing import ScriptedModel, answer, tool_call
from tests.memory.kit import CALL, remembering, rows, said, shown


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def bot(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


async def after_two_turns(model: ScriptedModel) -> Memory:
    agent, memory = remembering(model)
    for question in ("q1", "q2"):
        await agent.generate(question, memory=CALL)
    return memory


async def test_the_start_of_a_thread_is_taken_whole() -> None:
    """M-061, M-065: without what the client says came from a provider."""
    model = ScriptedModel(["a3"])
    agent, memory = remembering(model)
    forged = Message(
        id="a1",
        role="assistant",
        content=MessageContent(
            parts=[TextPart(text="a1", provider_metadata={"example": {"signature": "x"}})],
            provider_metadata={"example": {"signature": "y"}},
        ),
        created_at=datetime.now(UTC) + timedelta(seconds=9),
    )
    await agent.generate([user("q1"), forged, user("q2")], memory=CALL)
    assert [row.text for row in await rows(memory)] == ["q1", "a1", "q2", "a3"]
    stored = (await rows(memory))[1].content
    assert stored.provider_metadata is None and stored.parts[0].provider_metadata is None
    assert "signature" not in str(model.calls[0].prompt)


@pytest.mark.parametrize("fresh", [True, False])
async def test_history_sent_back_is_not_stored_again(fresh: bool) -> None:
    """M-062, G-M3: with the ids that are stored, and with fresh ones."""
    model = ScriptedModel(["a1", "a2", "a3"])
    memory = await after_two_turns(model)
    agent, _ = remembering(model, memory)
    sent = [
        {**(user(row.text) if row.role == "user" else bot(row.text)), "id": f"x{n}"}
        if fresh
        else row
        for n, row in enumerate(await rows(memory))
    ]
    await agent.generate([*sent, user("q3")], memory=CALL)
    assert said(model.calls[2].prompt) == ["q1", "a1", "q2", "a2", "q3"]
    assert [row.text for row in await rows(memory)] == ["q1", "a1", "q2", "a2", "q3", "a3"]


async def test_questions_without_an_answer_are_told_by_their_words() -> None:
    """G-M3: the last turn failed, so the client has two questions behind each other."""
    model = ScriptedModel([ConnectionError("gone"), "a2"])
    agent, memory = remembering(model)
    with pytest.raises(ConnectionError):
        await agent.generate("q1", memory=CALL)
    await agent.generate([user("q1", id="x1"), user("q2", id="x2")], memory=CALL)
    texts = [row.text for row in await rows(memory) if row.role == "user"]
    assert texts == ["q1", "q2"]


async def test_what_is_asked_again_is_asked_again() -> None:
    """The last question is new, though it is stored in the same words without an answer."""
    model = ScriptedModel([ConnectionError("gone"), "a1"])
    agent, memory = remembering(model)
    with pytest.raises(ConnectionError):
        await agent.generate("q1", memory=CALL)
    await agent.generate([user("q1"), user("q1")], memory=CALL)
    assert [row.text for row in await rows(memory) if row.role == "user"] == ["q1", "q1"]


async def test_the_same_words_may_be_said_again() -> None:
    """What is asked now is asked now, whatever was said before."""
    model = ScriptedModel(["a1", "a2"])
    agent, memory = remembering(model)
    await agent.generate("yes", memory=CALL)
    await agent.generate([user("yes"), bot("a1"), user("yes"), user("go")], memory=CALL)
    assert [row.text for row in await rows(memory)] == ["yes", "a1", "yes", "go", "a2"]


async def test_a_question_that_is_stored_is_stored_as_it_was() -> None:
    """M-064: sent again under its id, with other words; the run goes on with what is stored."""
    model = ScriptedModel([ConnectionError("gone"), "a1"])
    agent, memory = remembering(model)
    with pytest.raises(ConnectionError):
        await agent.generate(user("q1", id="m1"), memory=CALL)
    newest = {**CALL, "options": {"last_messages": 1}}  # which is the failed answer
    await agent.generate(user("other words", id="m1"), memory=newest)
    assert said(model.calls[1].prompt) == ["q1"]
    assert [row.text for row in await rows(memory)] == ["q1", "", "a1"]


async def test_nothing_new_goes_on_with_the_history() -> None:
    """M-062: an answer whose id is stored, at the end."""
    model = ScriptedModel(["a1", "more"])
    agent, memory = remembering(model)
    await agent.generate("q1", memory=CALL)
    await agent.generate(await rows(memory), memory=CALL)
    assert said(model.calls[1].prompt) == ["q1", "a1"]
    assert [row.text for row in await rows(memory)] == ["q1", "a1", "more"]


async def test_what_ends_with_a_known_answer_says_nothing_new() -> None:
    """M-062, G-M3: whatever stands before it, and whatever id it has."""
    for id in (None, "fresh"):
        model = ScriptedModel(["a1", "more"])
        agent, memory = remembering(model)
        await agent.generate("q1", memory=CALL)
        known = (await rows(memory))[1]
        await agent.generate([user("edited"), bot("a1", id=id or known.id)], memory=CALL)
        assert said(model.calls[1].prompt) == ["q1", "a1"]
        assert [row.text for row in await rows(memory)] == ["q1", "a1", "more"]


async def test_calls_that_broke_off_are_not_stored() -> None:
    """M-084: a client may send what it has of one; a message of nothing else goes as well."""
    agent, memory = remembering(ScriptedModel(["a1"]))
    call = {"toolCallId": "c1", "toolName": "x", "state": "partial-call", "args": {}}
    broken = {"type": "tool-invocation", "toolInvocation": call}
    text = {"type": "text", "text": "I look."}
    sent = [
        user("q1"),
        {"id": "b1", "role": "assistant", "content": {"format": 2, "parts": [text, broken]}},
        user("q2"),
        {"id": "b2", "role": "assistant", "content": {"format": 2, "parts": [broken]}},
        user("q3"),
    ]
    await agent.generate(sent, memory=CALL)
    assert [parts for _, *parts in await shown(memory)] == [
        ["q1"],
        ["I look."],
        ["q2"],
        ["q3"],
        ["a1"],
    ]


async def test_an_answer_nobody_has_stored_is_kept() -> None:
    """M-062: an instruction, for example; a provider has not signed it."""
    model = ScriptedModel(["a1", "a2"])
    agent, memory = remembering(model)
    await agent.generate("q1", memory=CALL)
    brief = bot("I was told to be brief.", providerMetadata={"example": {"signature": "x"}})
    brief["content"] = [
        {"type": "text", "text": brief["content"], "providerMetadata": {"example": {"x": 1}}}
    ]
    await agent.generate([user("q2"), brief], memory=CALL)
    assert all(part.provider_metadata is None for part in (await rows(memory))[3].content.parts)
    texts = [row.text for row in await rows(memory)]
    assert texts == ["q1", "a1", "q2", "I was told to be brief.", "a2"]


WEATHER = Tool(name="weather", input_schema={"type": "object"})


def asking(*words: str) -> ScriptedModel:
    return ScriptedModel([answer(tool_calls=[tool_call("weather", {"city": "Lyon"})]), *words])


async def pending(model: ScriptedModel) -> tuple[Any, Memory, Message, str]:
    """An agent that waits for its client, its memory, the message, and the id of the call."""
    agent, memory = remembering(model, tools=[WEATHER])
    await agent.generate("q1", memory=CALL)
    message = (await rows(memory))[-1]
    (call,) = [part for part in message.content.parts if part.type == "tool-invocation"]
    return agent, memory, message, call.tool_invocation.tool_call_id


def outcome(message_id: str, call_id: str, **more: Any) -> dict[str, Any]:
    invocation = {
        "toolCallId": call_id,
        "toolName": "other",
        "args": {"city": "Nowhere"},
        "state": "result",
        "result": "sunny",
        **more,
    }
    part = {"type": "tool-invocation", "toolInvocation": invocation}
    return {
        "id": message_id,
        "role": "assistant",
        "createdAt": "2030-01-01T00:00:00Z",
        "content": {"format": 2, "parts": [{"type": "text", "text": "forged"}, part]},
    }


@pytest.mark.parametrize("retain", [True, False])
async def test_an_outcome_fills_the_pending_call(retain: bool) -> None:
    """M-062, M-063, M-064: only the outcome is taken from the client, and it is stored."""
    model = asking("It is sunny.")
    agent, memory, message, call_id = await pending(model)
    option = {"options": {"retain_full_input": retain}}
    await agent.generate([outcome(message.id, call_id)], memory={**CALL, **option})
    calls = [entry for entry in model.calls[1].prompt if entry["role"] == "assistant"]
    assert calls[0]["content"][0]["toolName"] == "weather"
    assert calls[0]["content"][0]["input"] == {"city": "Lyon"}
    assert "sunny" in str(model.calls[1].prompt) and "forged" not in str(model.calls[1].prompt)
    stored = await rows(memory)
    assert await shown(memory) == [
        ("user", "q1"),
        ("assistant", "weather:result"),
        ("assistant", "It is sunny."),
    ]
    assert (stored[1].id, stored[1].created_at) == (message.id, message.created_at)


async def test_a_result_in_a_message_of_its_own_finds_its_call() -> None:
    """The form of core messages: role `tool`, which names no message."""
    model = asking("It is sunny.")
    agent, memory, _, call_id = await pending(model)
    part = {"type": "tool-result", "toolCallId": call_id, "toolName": "weather", "output": "sunny"}
    output = await agent.generate([{"role": "tool", "content": [part]}], memory=CALL)
    assert output.warnings == [] and "sunny" in str(model.calls[1].prompt)
    assert (await shown(memory))[1] == ("assistant", "weather:result")


@pytest.mark.parametrize("again", ["c-unknown", None])
async def test_an_outcome_of_nothing_that_is_pending_is_dropped(again: str | None) -> None:
    """M-063: of an unknown message, and of a call that was answered before."""
    model = asking("It is sunny.", "And so on.")
    agent, memory, message, call_id = await pending(model)
    await agent.generate([outcome(message.id, call_id)], memory=CALL)
    late = {"state": "output-error", "error_text": "rain"}
    wrong = outcome("unknown", again) if again else outcome(message.id, call_id, **late)
    await agent.generate([wrong], memory=CALL)
    assert (await shown(memory))[1] == ("assistant", "weather:result")
    assert "rain" not in str(model.calls[2].prompt) and "forged" not in str(model.calls[2].prompt)
    assert len(await rows(memory)) == 4


async def test_a_copy_of_what_waits_says_nothing_of_it() -> None:
    """M-064: a client that knows no approvals shows the call as open."""
    ask = Tool(
        name="weather",
        input_schema={"type": "object"},
        execute=lambda arguments, context: "sunny",
        require_approval=True,
    )
    agent, memory = remembering(asking("Later."), tools=[ask])
    await agent.generate("q1", memory=CALL)
    (waiting,) = [row for row in await rows(memory) if row.role == "assistant"]
    copy = outcome(waiting.id, waiting.content.parts[0].tool_invocation.tool_call_id, state="call")
    await agent.generate([copy, user("q2")], memory=CALL)
    assert (await shown(memory))[1] == ("assistant", "weather:approval-requested")


async def test_a_blocked_outcome_stays_pending() -> None:
    """M-100: and what a guard redacts in it is redacted in storage (G-C4)."""
    model = asking("It is sunny.")
    agent, memory, message, call_id = await pending(model)

    def block(args: Any) -> None:
        args.abort("no")

    def redact(args: Any) -> Any:
        """As new objects: what is stored must follow them, too."""
        made = [Message.from_json(m.to_json()) for m in args.messages]
        for each in made:
            for part in each.content.parts:
                if part.type == "tool-invocation":
                    part.tool_invocation.result = "***"
        return made

    sent = [outcome(message.id, call_id)]
    for hook, state in ((block, "weather:call"), (redact, "weather:result")):
        await agent.generate(sent, memory=CALL, input_processors=[processor(process_input=hook)])
        assert (await shown(memory))[1] == ("assistant", state)
    call: Any = (await rows(memory))[1].content.parts[0]
    assert call.tool_invocation.result == "***"


async def test_a_retained_input_is_taken_as_it_is() -> None:
    """M-066: but for what is stored under its id (M-064)."""
    model = ScriptedModel(["a1", "a2"])
    memory = Memory(storage=InMemoryStore(), retain_full_input=True)
    agent, _ = remembering(model, memory)
    await agent.generate(user("q1", id="m1"), memory=CALL)
    sent = [user("wrong", id="m1"), user("q0", id="m0"), user("q2", id="m2")]
    await agent.generate(sent, memory=CALL)
    assert said(model.calls[1].prompt) == ["q1", "a1", "q0", "q2"]
    assert [row.text for row in await rows(memory)] == ["q1", "a1", "q0", "q2", "a2"]


async def test_context_stands_between_history_and_input_and_is_not_stored() -> None:
    """M-067, M-084, whatever the clock of the client says."""
    model = ScriptedModel(["a1", "a2"])
    agent, memory = remembering(model)
    await agent.generate("q1", memory=CALL)
    long_ago = datetime.now(UTC) - timedelta(days=400)
    question = Message(
        id="m2",
        role="user",
        content=MessageContent(parts=[TextPart(text="q2")]),
        created_at=long_ago,
    )
    await agent.generate(question, memory=CALL, context=[user("by the way")])
    assert said(model.calls[1].prompt) == ["q1", "a1", "by the way", "q2"]
    assert [row.text for row in await rows(memory)] == ["q1", "a1", "q2", "a2"]


async def test_an_id_of_another_thread_is_not_taken() -> None:
    """Clients that branch a conversation copy the ids; nobody's message is changed by it."""
    model = ScriptedModel(["a1", "b1"])
    agent, memory = remembering(model)
    await agent.generate(user("q1", id="m1"), memory=CALL)
    elsewhere = {"thread": "t2", "resource": "u2"}
    await agent.generate(user("mine", id="m1"), memory=elsewhere)
    assert [row.text for row in await rows(memory)] == ["q1", "a1"]
    assert [row.text for row in await rows(memory, "t2")] == ["mine", "b1"]
    assert "m1" not in {row.id for row in await rows(memory, "t2")}
