"""E-10 to E-16: hooks behind the model that count, filter and report."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from procession import (
    Agent,
    Chunk,
    Message,
    MessageList,
    ProcessInputArgs,
    ProcessorError,
    ProcessOutputResultArgs,
    ProcessOutputStreamArgs,
    Usage,
    tool,
)
from procession.testing import ScriptedModel, answer, text, tool_call
from tests.seeds.threeways import blocks, check_tripped, only, play, three_ways

ran: list[str] = []


@tool
async def search(topic: str = "") -> str:
    """Look something up."""
    ran.append(topic)
    return f"found {topic}"


# ── E-10 ───────────────────────────────────────────────────────────────────────────────────────


class ContentFilter:
    """Blocks a listed word, in what comes in and in what goes out."""

    id = "content-filter"

    def __init__(self, words: list[str]) -> None:
        self.words = words

    async def process_input(self, args: ProcessInputArgs) -> list[Message]:
        for message in args.messages:
            if self.finds(" ".join(p.text for p in message.content.parts if p.type == "text")):
                args.abort("word in the input")
        return args.messages

    async def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk:
        if args.part.type == "text-delta" and self.finds(args.part.payload.text):
            args.abort("word in the output")
        return args.part

    def finds(self, words: str) -> bool:
        return any(word in words for word in self.words)


def filtered(model: ScriptedModel, *others: Any) -> Agent:
    both = ContentFilter(["thistle"])
    return Agent(
        id="filtered",
        model=model,
        tools=[search],
        input_processors=[both, *others],
        output_processors=[both, *others],
    )


@three_ways
async def test_e10_bad_input(way: str) -> None:
    """E-10 (R-010, R-069): the tripwire is all there is, and the model is not asked."""
    model = ScriptedModel(["never"])
    outcome = await play(way, filtered(model), "about a thistle")
    check_tripped(outcome, reason="word in the input", processor_id="content-filter")
    assert model.calls == []
    assert [message.role for message in outcome.messages] == ["user"]
    if outcome.chunks is not None:
        assert outcome.kinds() == ["tripwire"]


@three_ways
async def test_e10_bad_output(way: str) -> None:
    """E-10 (R-010, R-131): what came before is delivered; no tool and no later hook runs."""
    ran.clear()
    later: list[str] = []

    class Later:
        id = "later"

        def process_llm_response(self, args: Any) -> None:
            later.append("response")

        def process_output_step(self, args: Any) -> None:
            later.append("step")

        def process_output_result(self, args: Any) -> None:
            later.append("result")

    model = ScriptedModel([blocks("a rose, ", "a thistle", calls=[tool_call("search")]), "more"])
    outcome = await play(way, filtered(model, Later()), "flowers")
    check_tripped(outcome, reason="word in the output", processor_id="content-filter")
    assert (len(model.calls), ran, later) == (1, [], [])
    assert outcome.answers == []
    assert [step.text for step in outcome.steps] == [""]
    if outcome.chunks is not None:
        deltas = [c.payload.text for c in outcome.chunks if c.type == "text-delta"]
        assert deltas == ["a rose, "]
        assert "tool-call" not in outcome.kinds()
        assert "step-finish" not in outcome.kinds()


@three_ways
async def test_e10_clean(way: str) -> None:
    """E-10 (R-010): what is clean stays as it is."""
    model = ScriptedModel([blocks("a rose, ", "a daisy")])
    outcome = await play(way, filtered(model), "flowers")
    assert (outcome.text, outcome.finish_reason) == ("a rose, a daisy", "stop")
    assert len(model.calls) == 1


@pytest.mark.parametrize("way", ["read", "text"])
async def test_e10_looks_at_single_deltas(way: str) -> None:
    """E-10 (R-131): a word cut over two deltas is not found by a filter that does not hold back."""
    model = ScriptedModel([answer("a this", "tle")])
    assert (await play(way, filtered(model), "flowers")).text == "a thistle"


# ── E-11 to E-13 ───────────────────────────────────────────────────────────────────────────────


class WordCounter:
    """Counts words in its state, made on first use, and reports when `finish` passes."""

    def __init__(self, id: str = "word-counter") -> None:
        self.id = id
        self.reports: list[int] = []
        self.found: list[dict[str, Any]] = []
        self.states: list[dict[str, Any]] = []

    async def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk:
        if not any(state is args.state for state in self.states):
            self.states.append(args.state)
            self.found.append(dict(args.state))
        count = args.state.setdefault("words", 0)
        if args.part.type == "text-delta":
            args.state["words"] = count + len(args.part.payload.text.split())
        if args.part.type == "finish":
            self.reports.append(args.state["words"])
        await asyncio.sleep(0)
        return args.part


def without_ids(chunks: list[Chunk]) -> list[Any]:
    """Chunks as far as two runs of one script must agree on them."""
    shown: list[Any] = []
    for chunk in chunks:
        form = chunk.to_json()
        payload = form["payload"]
        kept = {key: payload[key] for key in ("id", "text", "stepResult") if key in payload}
        shown.append((form["type"], kept))
    return shown


@three_ways
@pytest.mark.parametrize(
    ("deltas", "total"), [(("one two ", "three"), 3), ((), 0), ((" ", "\n"), 0)]
)
async def test_e11_words_are_counted(way: str, deltas: tuple[str, ...], total: int) -> None:
    """E-11 (R-049, R-126, R-191): one report with the total; the stream is what it was."""
    counter = WordCounter()
    agent = Agent(id="counted", model=ScriptedModel([answer(*deltas)]), output_processors=[counter])
    outcome = await play(way, agent, "count")
    assert counter.reports == [total]
    assert counter.found == [{}]
    plain = await play(way, Agent(id="counted", model=ScriptedModel([answer(*deltas)])), "count")
    assert outcome.text == plain.text == "".join(deltas)
    if outcome.chunks is not None and plain.chunks is not None:
        assert without_ids(outcome.chunks) == without_ids(plain.chunks)


@three_ways
async def test_e12_state_belongs_to_one_call_and_one_id(way: str) -> None:
    """E-12 (R-191 to R-193): each call and each id starts with an empty dict of its own."""
    one, other = WordCounter("one"), WordCounter("other")
    model = ScriptedModel([answer("a b ", "c", delay=0.001)])
    agent = Agent(id="counted", model=model, output_processors=[one, other])
    await asyncio.gather(play(way, agent, "first"), play(way, agent, "second"))
    assert one.reports == other.reports == [3, 3]
    assert one.found == other.found == [{}, {}]
    assert len({id(state) for state in one.states + other.states}) == 4
    assert [sorted(state) for state in one.states] == [["words"], ["words"]]


class CountsAcrossHooks:
    """Counts in the stream, reads the total at the end."""

    id = "counts-across"

    def __init__(self) -> None:
        self.total: int | None = None
        self.states: list[dict[str, Any]] = []

    async def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk:
        self.states.append(args.state)
        args.state.setdefault("words", 0)
        if args.part.type == "text-delta":
            args.state["words"] += len(args.part.payload.text.split())
        return args.part

    async def process_output_result(self, args: ProcessOutputResultArgs) -> list[Message]:
        self.states.append(args.state)
        self.total = args.state["words"]
        return args.messages


class OnceMore:
    """Rejects the first attempt at step 1."""

    id = "once-more"

    def process_output_step(self, args: Any) -> None:
        if args.step_number == 1 and args.retry_count == 0:
            args.abort("again, please", retry=True)


@three_ways
async def test_e13_state_between_chunks_and_steps(way: str) -> None:
    """E-13 (R-154, R-192): the same dict in both hooks, over steps and attempts."""
    counter = CountsAcrossHooks()
    script = [
        answer("one two", tool_calls=[tool_call("search")]),
        "bad",
        "four five six",
    ]
    agent = Agent(
        id="counted",
        model=ScriptedModel(script),
        tools=[search],
        output_processors=[counter, OnceMore()],
        max_processor_retries=1,
    )
    outcome = await play(way, agent, "count")
    assert counter.total == 6
    assert len({id(state) for state in counter.states}) == 1
    assert outcome.text == "one twofour five six"
    assert len(outcome.answers) == 1


# ── E-14, E-15 ─────────────────────────────────────────────────────────────────────────────────


class NoSystemMessages:
    """Returns the messages whose role is not system."""

    id = "no-system"

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def process_output_result(self, args: ProcessOutputResultArgs) -> list[Message]:
        self.seen = [message.role for message in args.messages]
        return [message for message in args.messages if message.role != "system"]


@three_ways
async def test_e14_nothing_changes(way: str) -> None:
    """E-14 (R-154): input messages are not in the list, and stay."""
    processor = NoSystemMessages()
    agent = Agent(
        id="plain",
        model=ScriptedModel([answer(tool_calls=[tool_call("search")]), "an answer"]),
        tools=[search],
        instructions="Be brief.",
        output_processors=[processor],
    )
    outcome = await play(way, agent, ["one", "two"])
    assert processor.seen == ["assistant"]
    assert outcome.text == "an answer"
    assert [message.text for message in outcome.messages] == ["one", "two", "an answer"]
    assert [part.type for part in outcome.answers[0].parts] == [
        "tool-invocation",
        "step-start",
        "text",
    ]


@three_ways
async def test_e14_another_list_is_an_error(way: str) -> None:
    """E-14 (R-240, R-189): a list that is not the run's own is refused."""
    hook = only("process_output_result", lambda args: MessageList(), id="foreign")
    agent = Agent(id="plain", model=ScriptedModel(["an answer"]), output_processors=[hook])
    outcome = await play(way, agent, "go")
    assert isinstance(outcome.error, ProcessorError)
    assert (outcome.error.processor_id, outcome.error.hook) == ("foreign", "process_output_result")


class UsageTracker:
    """Notes what the run has used."""

    id = "usage-tracker"

    def __init__(self) -> None:
        self.results: list[Any] = []

    async def process_output_result(self, args: ProcessOutputResultArgs) -> list[Message]:
        self.results.append(args.result)
        return args.messages


@three_ways
async def test_e15_usage_of_the_run(way: str) -> None:
    """E-15 (R-060, R-153, R-521, R-546): sums, last reason, each step with its calls."""
    tracker = UsageTracker()
    script = [
        answer(
            tool_calls=[tool_call("search", {"topic": "owls"}, id="c1")],
            usage={"inputTokens": 10, "outputTokens": 4, "reasoningTokens": 2},
        ),
        answer("An owl.", usage={"inputTokens": 20, "outputTokens": 6}, finish_reason="length"),
    ]
    agent = Agent(
        id="tracked", model=ScriptedModel(script), tools=[search], output_processors=[tracker]
    )
    outcome = await play(way, agent, "Which bird?")
    (result,) = tracker.results
    expected = Usage(input_tokens=30, output_tokens=10, total_tokens=40, reasoning_tokens=2)
    assert result.usage == outcome.output.usage == expected
    assert result.finish_reason == outcome.finish_reason == "length"
    assert result.text == "An owl."
    first, last = result.steps
    assert [(c.payload.tool_name, c.payload.args) for c in first.tool_calls] == [
        ("search", {"topic": "owls"})
    ]
    assert [(c.payload.tool_call_id, c.payload.result) for c in first.tool_results] == [
        ("c1", "found owls")
    ]
    assert (last.tool_calls, last.tool_results) == ([], [])
    assert [step.step_type for step in result.steps] == ["initial", "tool-result"]
    assert [step.usage.input_tokens for step in result.steps] == [10, 20]


# ── E-16 ───────────────────────────────────────────────────────────────────────────────────────


class StreamFilter:
    """Drops the deltas that hold a word."""

    id = "stream-filter"

    async def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk | None:
        if args.part.type == "text-delta" and "secret" in args.part.payload.text:
            return None
        return args.part


@three_ways
async def test_e16_deltas_are_dropped(way: str) -> None:
    """E-16 (R-122 to R-124): gone from chunks, results, steps, messages and the next prompt."""
    script = [
        blocks("keep, ", "a secret, ", "keep on", calls=[tool_call("search", id="c1")]),
        "Done.",
    ]
    model = ScriptedModel(script)
    agent = Agent(id="dropped", model=model, tools=[search], output_processors=[StreamFilter()])
    outcome = await play(way, agent, "go")
    assert outcome.text == "keep, keep onDone."
    assert [step.text for step in outcome.steps] == ["keep, keep on", "Done."]
    assert outcome.finish_reason == "stop"
    shown = [
        [message.to_json() for message in outcome.messages],
        outcome.output.response.messages,
        outcome.output.response.ui_messages,
        model.calls[1].prompt,
        [chunk.to_json() for chunk in outcome.chunks or ()],
    ]
    assert "secret" not in json.dumps(shown)
    if outcome.chunks is not None:
        assert outcome.kinds()[-1] == "finish"


@pytest.mark.parametrize("way", ["read", "text"])
async def test_e16_only_that_chunk_is_dropped(way: str) -> None:
    """E-16 (R-123): the rest of the same block goes on."""
    model = ScriptedModel([answer("keep, ", "a secret, ", "keep on")])
    agent = Agent(id="dropped", model=model, output_processors=[StreamFilter()])
    outcome = await play(way, agent, "go")
    assert outcome.text == "keep, keep on"
    if outcome.chunks is not None:
        deltas = [chunk.payload.text for chunk in outcome.chunks if chunk.type == "text-delta"]
        assert deltas == ["keep, ", "keep on"]


@three_ways
@pytest.mark.parametrize("with_tool", [False, True])
async def test_e16_forgotten_return(way: str, with_tool: bool) -> None:
    """E-16 (R-122, R-128): everything is dropped, and the run ends as it would have."""

    class Forgetful:
        id = "forgetful"

        async def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk | None:
            args.state["seen"] = True
            return None

    ran.clear()
    usage = {"inputTokens": 5, "outputTokens": 1}
    calls = [tool_call("search", {"topic": "owls"}, id="c1")] if with_tool else []
    script = [answer("first", tool_calls=calls, usage=usage), [text("last"), answer().parts[-1]]]
    model = ScriptedModel(script)
    agent = Agent(id="silent", model=model, tools=[search], output_processors=[Forgetful()])
    outcome = await play(way, agent, "go")
    assert (outcome.text, outcome.finish_reason) == ("", "stop")
    assert len(outcome.steps) == len(model.calls) == 1 + with_tool
    assert outcome.steps[0].usage == Usage(input_tokens=5, output_tokens=1)
    assert ran == ["owls"] * with_tool
    assert [len(step.tool_results) for step in outcome.steps] == [1, 0][: 1 + with_tool] or (
        not with_tool
    )
    if outcome.chunks is not None:
        assert outcome.kinds() == ["start", "finish"]
