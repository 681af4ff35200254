"""`RegexFilterProcessor` on messages: strategies, phases, and what is told of what was found."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from procession import Agent, TripWire
from procession.chunks import Chunk, DeltaPayload
from procession.processor import (
    ProcessInputArgs,
    ProcessorViolation,
    ProcessOutputResultArgs,
    ProcessOutputStreamArgs,
)
from procession.processors import RegexFilterProcessor, RegexRule
from procession.testing import ScriptedModel, hook_args

SECRET = RegexRule("secret", "s[0-9]{3}", "[S]")
NAME = RegexRule("name", "Ada|Bob")


def guard(*rules: RegexRule, told: list[ProcessorViolation] | None = None, **options: Any) -> Any:
    """A filter of these rules, which tells of what it found."""
    listener = None if told is None else told.append
    return RegexFilterProcessor(rules=rules or [SECRET, NAME], on_violation=listener, **options)


def user(*parts: Any, id: str = "m") -> dict[str, Any]:
    """A stored message of a user; texts stand for text parts."""
    made = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"id": id, "role": "user", "content": {"format": 2, "parts": made}}


def texts(messages: Any) -> list[list[str]]:
    """The texts of messages, part by part."""
    return [[part.text for part in message.parts] for message in messages]


# ── block ──────────────────────────────────────────────────────────────────────────────────────


async def test_block_on_input() -> None:
    """B-234, B-007, B-009, B-010: the rule is named, the text is not; the model is not asked."""
    told: list[ProcessorViolation] = []
    model = ScriptedModel(["ok"])
    agent = Agent(id="a", model=model, input_processors=[guard(told=told)])
    out = await agent.generate("Ada has s123 and s456")
    metadata = {
        "processor_id": "regex-filter",
        "matches": [
            {"rule": "name", "match": "[REDACTED_MATCH]", "index": 0},
            {"rule": "secret", "match": "[REDACTED_MATCH]", "index": 8},
            {"rule": "secret", "match": "[REDACTED_MATCH]", "index": 17},
        ],
        "strategy": "block",
    }
    assert out.tripwire is not None
    assert out.tripwire.processor_id == "regex-filter"
    assert out.tripwire.metadata == metadata
    assert not out.tripwire.retry
    assert "name, secret" in out.tripwire.reason
    assert model.calls == []
    # B-004: once, by the engine.
    assert [(v.processor_id, v.message, v.detail) for v in told] == [
        ("regex-filter", out.tripwire.reason, metadata)
    ]
    for said in (out.tripwire.reason, str(out.tripwire.metadata)):
        assert "s123" not in said
        assert "Ada" not in said


async def test_a_blocked_turn_does_not_trip_the_next_one() -> None:
    """G-C4: nothing of it is kept by the guard."""
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[guard()])
    assert (await agent.generate("s123")).tripwire is not None
    assert (await agent.generate("hello")).text == "ok"


def test_what_is_remembered_is_redacted_in_place_of_blocking() -> None:
    """G-C4: it was stored before, so that each later request would be blocked for it, for good.

    It does not reach the model all the same, and it is told; what is new still blocks.
    """
    told: list[ProcessorViolation] = []
    filter_ = guard(told=told)
    args = hook_args(ProcessInputArgs, messages="clean")
    args.message_list.add({"id": "old", "role": "assistant", "content": "it is s123"}, "memory")
    args.shown = args.message_list.shown()
    assert sorted(made.text for made in filter_.process_input(args)) == ["clean", "it is [S]"]
    assert [(v.detail["strategy"], v.detail["message_id"]) for v in told] == [("redact", "old")]
    args.message_list.add("now s456", "input")
    args.shown = args.message_list.shown()
    with pytest.raises(TripWire) as tripped:
        filter_.process_input(args)
    assert tripped.value.metadata["matches"][0]["index"] == 4


# ── redact ─────────────────────────────────────────────────────────────────────────────────────


def test_redact_tells_once_per_part() -> None:
    """B-235: where, how long, by what; never what, unless it was asked for."""
    told: list[ProcessorViolation] = []
    args = hook_args(ProcessInputArgs, messages=[user("x s123", "no", "Bob, s456")])
    made = guard(told=told, strategy="redact").process_input(args)
    assert texts(made) == [["x [S]", "no", "[REDACTED], [S]"]]
    name = {"rule": "name", "index": 0, "length": 3, "replacement": "[REDACTED]"}
    assert [violation.detail for violation in told] == [
        {
            "strategy": "redact",
            "phase": "process_input",
            "message_id": "m",
            "part_index": 0,
            "redactions": [{"rule": "secret", "index": 2, "length": 4, "replacement": "[S]"}],
        },
        {
            "strategy": "redact",
            "phase": "process_input",
            "message_id": "m",
            "part_index": 2,
            "redactions": [
                name,
                {"rule": "secret", "index": 5, "length": 4, "replacement": "[S]"},
            ],
        },
    ]
    assert all(violation.processor_id == "regex-filter" for violation in told)


def test_values_and_overlapping_rules_are_told() -> None:
    """B-235: `value` on request; the rules of a region, the longest match first."""
    told: list[ProcessorViolation] = []
    options = {"strategy": "redact", "include_redacted_values": True}
    digits = RegexRule("digits", "[0-9]+", "#")
    filter_ = guard(digits, SECRET, told=told, **options)
    filter_.process_input(hook_args(ProcessInputArgs, messages="s123"))
    assert told[0].detail["redactions"] == [
        {
            "rule": "secret",
            "index": 0,
            "length": 4,
            "replacement": "[S]",
            "overlapping_rules": ["secret", "digits"],
            "value": "s123",
        }
    ]


def test_messages_are_copied() -> None:
    """B-012: what came in stays as it was; the flat text goes along; ids and other parts stay."""
    file = {"type": "file", "mimeType": "image/png", "data": "aGk="}
    stored = user("x s123", file)
    stored["content"]["content"] = "x s123"
    args = hook_args(ProcessInputArgs, messages=[stored, user("clean", id="other")])
    given = args.messages
    made = guard(strategy="redact").process_input(args)
    assert given[0].parts[0].text == "x s123"
    assert made[0].parts[0].text == made[0].content.content == "x [S]"
    assert made[0].id == "m"
    assert made[0].parts[1] is given[0].parts[1]
    assert made[1] is given[1]


@pytest.mark.parametrize("strategy", ["block", "redact", "warn"])
def test_nothing_found_nothing_returned(strategy: str) -> None:
    """A clean text changes nothing, tells nothing, and is a plain call (B-239)."""
    told: list[ProcessorViolation] = []
    args = hook_args(ProcessInputArgs, messages=[user("clean"), user(id="empty")])
    assert guard(told=told, strategy=strategy).process_input(args) is None
    assert told == []


async def test_redact_reaches_the_prompt_and_the_store() -> None:
    """G-C4: one message for model, result and storage."""
    model = ScriptedModel(["ok"])
    agent = Agent(id="a", model=model, input_processors=[guard(strategy="redact")])
    out = await agent.generate("tell Ada s123")
    assert model.calls[0].text.splitlines()[-1] == "tell [REDACTED] [S]"
    assert out.messages[0].text == "tell [REDACTED] [S]"


def call(args: Any, result: Any) -> dict[str, Any]:
    """A tool call of the past."""
    invocation = {"toolCallId": "c", "toolName": "send", "state": "result"}
    return {
        "type": "tool-invocation",
        "toolInvocation": {**invocation, "args": args, "result": result},
    }


async def test_every_text_of_the_history_is_looked_at() -> None:
    """G-B7, G-B8: arguments, results, thoughts; the shape stays, and so does the call."""
    parts = [
        {"type": "reasoning", "reasoning": "s111", "details": []},
        call({"to": ["s222", 3]}, {"said": "s333"}),
    ]
    past = {"id": "p", "role": "assistant", "content": {"format": 2, "parts": parts}}
    model = ScriptedModel(["ok"])
    agent = Agent(id="a", model=model, input_processors=[guard(strategy="redact")])
    await agent.generate([user("hi"), past, user("go", id="n")])
    prompt = str(model.calls[0].prompt)
    assert "s222" not in prompt
    assert "'input': {'to': ['[S]', 3]}" in prompt
    assert "{'said': '[S]'}" in prompt
    assert "s111" not in prompt


# ── warn ───────────────────────────────────────────────────────────────────────────────────────


def test_warn_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """B-005, B-013: told and logged, without the text."""
    told: list[ProcessorViolation] = []
    args = hook_args(ProcessInputArgs, messages=[user("x s123")])
    with caplog.at_level(logging.WARNING, "procession"):
        assert guard(told=told, strategy="warn").process_input(args) is None
    assert [violation.detail for violation in told] == [
        {
            "strategy": "warn",
            "phase": "process_input",
            "message_id": "m",
            "part_index": 0,
            "matches": [{"rule": "secret", "match": "[REDACTED_MATCH]", "index": 2}],
        }
    ]
    assert "regex-filter" in caplog.text
    assert "secret" in caplog.text
    assert "s123" not in caplog.text


# ── callbacks ──────────────────────────────────────────────────────────────────────────────────


async def test_an_async_callback_is_waited_for() -> None:
    """B-003, B-008: the pipeline goes on when it is done, part by part."""
    order: list[str] = []

    async def listen(violation: ProcessorViolation) -> None:
        order.append(f"begin {violation.detail['part_index']}")
        order.append("end")

    filter_ = RegexFilterProcessor(rules=[SECRET], strategy="redact", on_violation=listen)
    waiting = filter_.process_input(hook_args(ProcessInputArgs, messages=[user("s123", "s456")]))
    assert order == []
    assert texts(await waiting) == [["[S]", "[S]"]]
    assert order == ["begin 0", "end", "begin 1", "end"]


@pytest.mark.parametrize("strategy", ["redact", "warn", "block"])
async def test_a_failing_callback_disturbs_nothing(strategy: str) -> None:
    """B-008, R-186."""

    def listen(violation: ProcessorViolation) -> None:
        raise RuntimeError("listener")

    filter_ = RegexFilterProcessor(rules=[SECRET], strategy=strategy, on_violation=listen)  # pyright: ignore[reportArgumentType]
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[filter_])
    out = await agent.generate("s123")
    assert (out.tripwire is not None) == (strategy == "block")


# ── phases and the end of the run ──────────────────────────────────────────────────────────────


def test_phases_switch_hooks_off() -> None:
    """B-238: the other side passes, and nothing is held back for it."""
    out, in_ = guard(phase="output"), guard(phase="input")
    assert out.process_input(hook_args(ProcessInputArgs, messages="s123")) is None
    answered = [{"role": "assistant", "content": "s123"}]
    assert in_.process_output_result(hook_args(ProcessOutputResultArgs, messages=answered)) is None
    chunk = Chunk("text-delta", DeltaPayload(id="t", text="s123"))
    assert in_.process_output_stream(hook_args(ProcessOutputStreamArgs, part=chunk)) is chunk
    assert list(in_.watches) == []
    assert list(out.watches) != []


def test_the_answer_at_the_end() -> None:
    """What the stream did not bring, because it was added later, is found at the end."""
    answered = [{"id": "m", "role": "assistant", "content": "x s123"}]
    args = hook_args(ProcessOutputResultArgs, messages=answered)
    told: list[ProcessorViolation] = []
    made = guard(told=told, strategy="redact").process_output_result(args)
    assert texts(made) == [["x [S]"]]
    assert told[0].detail["phase"] == "process_output_result"
    with pytest.raises(TripWire) as tripped:
        guard().process_output_result(hook_args(ProcessOutputResultArgs, messages=answered))
    assert tripped.value.metadata["matches"][0]["index"] == 2


def test_results_of_tools_are_no_answer() -> None:
    """At the end, what tools gave is left alone: it was delivered, and the model has read it."""
    parts = [call({"to": "s222"}, "s333"), {"type": "text", "text": "fine"}]
    answered = [{"id": "m", "role": "assistant", "content": {"format": 2, "parts": parts}}]
    args = hook_args(ProcessOutputResultArgs, messages=answered)
    made = guard(strategy="redact").process_output_result(args)
    invocation = made[0].parts[0].tool_invocation
    assert (invocation.args, invocation.result) == ({"to": "[S]"}, "s333")


def test_options_can_be_read() -> None:
    """The options stand on the processor."""
    filter_ = RegexFilterProcessor(presets=["urls"], stream_carryover_size=24)
    assert (filter_.id, filter_.strategy, filter_.stream_carryover_size) == (
        "regex-filter",
        "block",
        24,
    )
    assert not filter_.include_redacted_values


async def test_the_last_message_only() -> None:
    """B-023: a client that sends the history is not blocked again for what stands in it."""
    history: list[Any] = ["It is s123", {"role": "assistant", "content": "I cannot."}, "Hello?"]
    given = {"id": "a", "model": ScriptedModel(["ok", "ok"])}
    assert (await Agent(**given, input_processors=[guard()]).generate(history)).tripwire is not None
    agent = Agent(**given, input_processors=[guard(last_message_only=True)])
    assert (await agent.generate(history)).text == "ok"
    assert (await agent.generate([*history, "It is s123"])).tripwire is not None
