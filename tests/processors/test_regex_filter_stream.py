"""`RegexFilterProcessor` in the stream: guarantee G-A, in every lane, for every cutting."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import AbortController, Agent
from procession.hold import Pattern
from procession.processors.guarding.regex_filter import RegexFilterProcessor
from procession.processors.guarding.regex_rules import CompiledRule, RegexRule, RuleSet
from procession.testing import ScriptedModel, answer
from tests.laws.kit import PlayedModel, call, echo, end, run_async, said
from tests.processors.guarding import (
    LANES,
    check_blocked,
    check_redacted,
    check_warned,
    cut_at,
    every_cutting,
    play,
    worst_cuttings,
    written,
)

RULES = [
    RegexRule("fixed", "s[0-9]{3}", "[S]"),
    RegexRule("open", r"k=\w+", "[K]"),
    RegexRule("bordered", r"\bcat\b", "dog"),
    RegexRule("group", r"(\d)-(\d)", r"\2-\1"),
    RegexRule("overlap", "3x", ""),
    RegexRule("ends", r"end$", "END"),
    RegexRule("line", "^t..?$|^É", "<line>", re.MULTILINE | re.IGNORECASE),
    RegexRule("start", r"\A-+", "<start>"),
]
"""Lengths that are known and not, borders on both sides, groups, overlaps, the ends of a block and
of its lines."""

CHECKS = {"redact": check_redacted, "block": check_blocked, "warn": check_warned}
in_every_lane = pytest.mark.parametrize("lane", LANES)
with_every_strategy = pytest.mark.parametrize("strategy", CHECKS)


def filter_of(strategy: Any, *rules: RegexRule, **options: Any) -> Any:
    """Makes the same filter again and again."""
    rules = rules or tuple(RULES)
    return lambda: RegexFilterProcessor(rules=rules, strategy=strategy, **options)


# ── every cutting ──────────────────────────────────────────────────────────────────────────────


@in_every_lane
@with_every_strategy
@pytest.mark.parametrize("text", ["s123x", "k=vé 3", "a cats", "no end"])
async def test_every_cutting(lane: str, strategy: str, text: str) -> None:
    """G-A, B-133, B-236, B-237: all ways to cut a short text."""
    cuttings = every_cutting(text)
    if lane == "tool-arguments":
        cuttings = worst_cuttings(written(text, lane))
    await CHECKS[strategy](filter_of(strategy), lane, text, cuttings)


SAMPLES = {
    "pii": "I am joe@mail.example.com, (555) 867-5309, 123-45-6789, 4111 1111 1111 1111.",
    "secrets": f"key AKIAIOSFODNN7EXAMPLE, Bearer abc.def123456, sk-{'ab1' * 8} x",
    "urls": 'see "https://example.com/a?b=c#d", or not',
}


@pytest.mark.parametrize(
    ("lane", "strategy"),
    [*((lane, "redact") for lane in LANES), ("text", "block"), ("text", "warn")],
)
@pytest.mark.parametrize("preset", SAMPLES)
async def test_the_worst_cut_of_each_preset(lane: str, strategy: Any, preset: Any) -> None:
    """G-A: character by character, and in two at every other place."""
    text = SAMPLES[preset]
    cuttings = worst_cuttings(written(text, lane), every=2)
    await CHECKS[strategy](
        lambda: RegexFilterProcessor(presets=[preset], strategy=strategy),
        lane,
        text,
        cuttings,
    )


TEXTS = st.text(st.sampled_from("s123xk=- catendé😀\n"), min_size=1, max_size=40) | st.lists(
    st.sampled_from(["s123", "s12", "3x", "k=", "cat", " ", "end", "1-2", "-", "é", "😀", "\n"]),
    min_size=1,
    max_size=12,
).map("".join)


@in_every_lane
@with_every_strategy
@settings(max_examples=15, deadline=None)
@given(text=TEXTS, data=st.data())
def test_any_text_and_any_cutting(lane: str, strategy: str, text: str, data: Any) -> None:
    """G-A, law 3: what a text comes to is the same for any two cuttings of it."""
    sent = written(text, lane)
    points = st.lists(st.integers(0, len(sent)), max_size=6)
    cuttings = [list(sent), cut_at(sent, data.draw(points)), [sent]]
    run_async(CHECKS[strategy](filter_of(strategy), lane, text, cuttings))


# ── broken on purpose ──────────────────────────────────────────────────────────────────────────

TEXT = "a s123x k=v xcat cats end"


async def noticed(strategy: str = "redact") -> None:
    """The check passes the broken filter by? Then it checks nothing."""
    with pytest.raises(AssertionError):
        for lane in LANES:
            cuttings = worst_cuttings(written(TEXT, lane))
            await CHECKS[strategy](filter_of(strategy), lane, TEXT, cuttings)


@with_every_strategy
async def test_a_filter_that_holds_nothing_back(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece is looked at as it comes."""
    monkeypatch.setattr(Pattern, "release", lambda self, text, start, limit: limit)
    await noticed(strategy)


async def test_a_filter_that_forgets_what_stands_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are looked at without their context."""
    hits = RuleSet.hits

    def blind(self: Any, text: str, start: int = 0) -> Any:
        found = hits(self, text[start:])
        return [h._replace(start=h.start + start, end=h.end + start) for h in found]

    monkeypatch.setattr(RuleSet, "hits", blind)
    await noticed()


async def test_a_filter_that_watches_half_of_its_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """One rule is not held back for."""
    watch = CompiledRule.watch
    other = Pattern("zzz")
    monkeypatch.setattr(
        CompiledRule, "watch", lambda self, c: other if self.name == "open" else watch(self, c)
    )
    await noticed()


@pytest.mark.parametrize("left_out", LANES)
async def test_a_filter_that_leaves_a_lane_out(
    left_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One lane goes past it."""
    monkeypatch.setattr(
        RegexFilterProcessor, "lanes", tuple(lane for lane in LANES if lane != left_out)
    )
    await noticed()


# ── latency ────────────────────────────────────────────────────────────────────────────────────


async def test_what_cannot_be_part_of_a_match_leaves_at_once() -> None:
    """G-A: a chunk without the beginning of a match is delivered as it is, in its own chunk."""
    pieces = ["Good ", "day. ", "s1", "23 ", "bye"]
    seen = await play(filter_of("redact", RULES[0])(), "text", pieces, "".join(pieces))
    assert seen.delivered == ["Good ", "day. ", "[S] ", "bye"]


async def test_matches_without_a_longest_one() -> None:
    """B-236: so many characters are held back of what is not yet a match, at most; what is longer
    is found when the answer is complete."""
    rule, text = RegexRule("r", "k[a-z]+;"), "x kabcdef; y"
    for size, delivered in ((7, "x [REDACTED] y"), (6, text)):
        guard = filter_of("redact", rule, stream_carryover_size=size)()
        seen = await play(guard, "text", list(text), text)
        assert (seen.text, seen.stored) == (delivered, "x [REDACTED] y")
        assert len(seen.told) == 1
    blocking = filter_of("block", rule, stream_carryover_size=6)()
    seen = await play(blocking, "text", list(text), text)
    assert (seen.tripwire.processor_id, seen.stored) == ("regex-filter", "")


async def test_a_half_match_is_withheld_on_an_error() -> None:
    """G-A: what is held back when the model breaks off is never let go."""
    for strategy in CHECKS:
        parts = [[*said("a s12")[:-1], ConnectionError("lost")]]
        agent = Agent(
            id="a", model=PlayedModel(parts), output_processors=[filter_of(strategy, RULES[0])()]
        )
        run = await agent.stream("go")
        chunks = [chunk async for chunk in run.full_stream]
        text = "".join(chunk.payload.text for chunk in chunks if chunk.type == "text-delta")
        assert text == "a "
        assert any(chunk.type == "error" for chunk in chunks)


# ── more than one ──────────────────────────────────────────────────────────────────────────────


@in_every_lane
async def test_two_filters_in_a_row(lane: str) -> None:
    """Both have the same id, and still a memory of their own; the second sees what the first
    lets through."""
    text = "x s123 y"
    for pieces in worst_cuttings(written(text, lane)):
        first = filter_of("redact", RegexRule("a", "s[0-9]+", "token=7"))()
        second = filter_of("redact", RegexRule("b", "token=[0-9]", "<T>"))()
        seen = await play([first, second], lane, pieces, text)
        assert seen.text == written("x <T> y", lane)
        assert seen.stored == "x <T> y"
        assert len(seen.told) == 1


async def test_a_replacement_is_not_replaced_at_the_end() -> None:
    """G-B, B-125: a rule that matches its own replacement changes nothing twice, and tells once."""
    for rule in (RegexRule("w", "[A-Za-z]+"), RegexRule("w", "b", "bb"), RegexRule("w", "b", "")):
        seen = await play(filter_of("redact", rule)(), "text", list("a b"), "a b")
        assert seen.stored == seen.text
        assert len(seen.told) == len(filter_of("redact", rule)().regions("a b"))


async def test_what_is_added_later_is_found_at_the_end() -> None:
    """A processor behind the filter writes what the filter would have found."""

    class Later:
        id = "later"

        def process_output_step(self, args: Any) -> None:
            args.message_list.get.response.db()[-1].parts[-1].text += " s999"

    seen = await play([Later(), filter_of("redact", RULES[0])()], "text", ["s123"], "s123")
    assert (seen.text, seen.stored) == ("[S]", "[S] [S]")
    assert [v.detail["phase"] for v in seen.told] == [
        "process_output_stream",
        "process_output_result",
    ]


@pytest.mark.parametrize("strategy", ["redact", "block"])
async def test_generate_is_stream(strategy: str) -> None:
    """Law 1, G-B: one text for deltas, result, step and message."""
    answers = [answer("a s1", "23 b k=", "v")]
    for way in ("generate", "stream"):
        guard = filter_of(strategy)()
        agent = Agent(id="a", model=ScriptedModel(answers), output_processors=[guard])
        if way == "generate":
            out = await agent.generate("go")
            text, steps, messages = out.text, out.steps, out.messages
        else:
            run = await agent.stream("go")
            await run.consume_stream()
            text, steps = await run.text, await run.steps
            messages = run.message_list.messages()
        expected = "a [S] b [K]" if strategy == "redact" else ""
        assert text == steps[-1].text == expected
        assert "".join(m.text for m in messages if m.role == "assistant") == expected


async def test_a_rejected_attempt_leaves_nothing_behind() -> None:
    """What was held back of it is gone; the next one is counted from its own beginning."""
    guard = filter_of("redact", RULES[0])()
    told: list[Any] = []
    guard.on_violation = told.append

    class Once:
        id = "once"

        def process_output_step(self, args: Any) -> None:
            if not args.retry_count:
                args.abort("again", retry=True)

    model = ScriptedModel([answer("first s123 s4"), answer("b s1", "23")])
    agent = Agent(id="a", model=model, output_processors=[guard, Once()], max_processor_retries=1)
    out = await agent.generate("go")
    assert out.text == out.messages[-1].text == "b [S]"
    assert [v.detail["redactions"][0]["index"] for v in told] == [6, 2]


async def test_runs_at_the_same_time_share_nothing() -> None:
    """One filter serves many runs."""
    guard = filter_of("redact", RULES[0])()
    models = [ScriptedModel([answer(*f"{i} s12{i} s")]) for i in range(4)]
    agents = [Agent(id="a", model=model, output_processors=[guard]) for model in models]
    outs = await asyncio.gather(*(agent.generate("go") for agent in agents))
    assert [out.text for out in outs] == [f"{i} [S] s" for i in range(4)]


@with_every_strategy
async def test_a_stopped_run_lets_go_of_nothing(strategy: str) -> None:
    """G-A: half a match stays held back when the caller stops."""
    controller = AbortController()
    guard = filter_of(strategy, RULES[0])()
    model = PlayedModel([said("a s12", "3")], hang_at=2)
    agent = Agent(id="a", model=model, output_processors=[guard])
    run = await agent.stream("go", abort_signal=controller.signal)
    text = ""
    async for chunk in run.full_stream:
        if chunk.type == "text-delta":
            text += chunk.payload.text
            controller.abort()
    assert text == "a "


# ── the reports ────────────────────────────────────────────────────────────────────────────────


async def test_what_is_told_of_a_chunk() -> None:
    """B-235, B-007: no message and no part; places count from the beginning of the block."""
    seen = await play(filter_of("redact", RULES[0])(), "text", ["aa ", "bb s1", "23"], "")
    assert [violation.detail for violation in seen.told] == [
        {
            "strategy": "redact",
            "phase": "process_output_stream",
            "redactions": [{"rule": "fixed", "index": 6, "length": 4, "replacement": "[S]"}],
        }
    ]
    seen = await play(filter_of("block", RULES[0])(), "text", ["aa ", "bb s1", "23"], "")
    metadata = {
        "processor_id": "regex-filter",
        "matches": [{"rule": "fixed", "match": "[REDACTED_MATCH]", "index": 6}],
        "strategy": "block",
    }
    assert seen.tripwire.metadata == seen.told[0].detail == metadata


async def test_a_block_tells_of_the_first_region() -> None:
    """What is told does not depend on how much came at once."""
    rules = [RULES[0], RegexRule("tail", "3x", "")]
    for pieces in (["a s123x s456"], list("a s123x s456")):
        seen = await play(filter_of("block", *rules)(), "text", pieces, "")
        assert [match["rule"] for match in seen.tripwire.metadata["matches"]] == ["fixed", "tail"]
        assert [match["index"] for match in seen.tripwire.metadata["matches"]] == [2, 5]


async def test_a_call_id_that_is_used_again() -> None:
    """Each step has calls of its own, though the provider numbers them from one each time."""
    made = call("echo", '{"value": "s123"}')
    step = [
        {"type": "tool-input-start", "id": "c1", "toolName": "echo"},
        {"type": "tool-input-delta", "id": "c1", "delta": '{"value": "s123"}'},
        {"type": "tool-input-end", "id": "c1"},
        made,
        end("tool-calls"),
    ]
    told: list[Any] = []
    guard = filter_of("redact", RULES[0])()
    guard.on_violation = told.append
    model = PlayedModel([step, step, [*said("ok"), end()]])
    agent = Agent(id="a", model=model, tools=[echo], output_processors=[guard])
    await agent.generate("go")
    assert len(told) == 2


async def test_an_async_callback_in_the_stream() -> None:
    """B-008: the chunk waits for it."""
    order: list[str] = []

    async def listen(violation: Any) -> None:
        order.append("told")

    guard = RegexFilterProcessor(rules=RULES[:1], strategy="redact", on_violation=listen)
    agent = Agent(id="a", model=ScriptedModel([answer("s1", "23 b")]), output_processors=[guard])
    run = await agent.stream("go")
    async for chunk in run.full_stream:
        if chunk.type == "text-delta":
            order.append(chunk.payload.text)
    assert order == ["told", "[S] b"]


async def test_a_signature_does_not_outlast_its_words() -> None:
    """Reasoning that was changed is stored without the provider's signature, else it stays."""
    for text, kept in (("s123", False), ("fine", True)):
        block = said(text, kind="reasoning")
        block[-1]["providerMetadata"] = {"anthropic": {"signature": "sig"}}
        model = PlayedModel([[*block, *said("ok"), {"type": "finish", "finishReason": "stop"}]])
        guard = filter_of("redact", RULES[0])()
        agent = Agent(id="a", model=model, output_processors=[guard])
        out = await agent.generate("go")
        part = out.messages[-1].parts[0]
        assert part.type == "reasoning"
        assert (part.provider_metadata is not None) == kept
