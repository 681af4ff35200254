"""BatchPartsProcessor (B-360 to B-365), and how the engine asks for what a hook keeps itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import AbortController, Agent, Chunk, ConfigurationError, InputError, processor
from procession.hold import Literals
from procession.processor import ProcessOutputStreamArgs
from procession.processors import BatchPartsProcessor
from procession.testing import hook_args
from tests.hold.kit import guard, lane_texts, woven
from tests.laws.kit import PlayedModel, call, end, others_done, run_async, said


async def chunks_of(
    parts: list[Any], *processors: Any, more: Any = (), **options: Any
) -> list[Any]:
    model = PlayedModel([parts, *more])
    run = await Agent(id="a", model=model, output_processors=processors).stream("go", **options)
    chunks = [chunk async for chunk in run]
    texts = [v for k, v in lane_texts(chunks).items() if k.startswith("text-delta")]
    if not more:
        assert await run.text == "".join(texts)
    return chunks


def shapes(chunks: list[Any]) -> list[str]:
    """Texts as they are, other chunks of the answer by type."""
    return [
        c.payload.text if c.type.endswith("-delta") else f"<{c.type}>"
        for c in chunks
        if c.type not in ("start", "step-start", "step-finish", "finish")
    ]


async def test_so_many_deltas_are_one() -> None:
    """B-360, B-361: five by default; the rest goes before the end of the block."""
    chunks = await chunks_of([*said(*"abcdefg"), end()], BatchPartsProcessor())
    assert shapes(chunks) == ["<text-start>", "abcde", "fg", "<text-end>"]
    chunks = await chunks_of([*said(*"abc"), end()], BatchPartsProcessor(batch_size=1))
    assert shapes(chunks) == ["<text-start>", "a", "b", "c", "<text-end>"]


async def test_the_next_processor_sees_batches() -> None:
    """B-361: what is let go passes the rest of the chain like any other chunk."""
    seen: list[str] = []

    def note(args: Any) -> Any:
        seen.append(args.part.type)
        if args.part.type == "text-delta":
            return args.with_text(args.part.payload.text.upper())
        return args.part

    hook = processor(id="n", process_output_stream=note)
    chunks = await chunks_of([*said(*"abc"), end()], BatchPartsProcessor(batch_size=2), hook)
    assert shapes(chunks) == ["<text-start>", "AB", "C", "<text-end>"]
    assert seen.count("text-delta") == 2


SOURCE = {"type": "source", "id": "s", "sourceType": "url", "url": "https://example.com"}


async def test_other_chunks_let_go_or_pass_by() -> None:
    """B-361, B-362: in order by default; otherwise only the borders of the block count."""
    parts = [*said("a", "b")[:-1], SOURCE, *said("c", "d")[1:], end()]
    chunks = await chunks_of(parts, BatchPartsProcessor())
    assert shapes(chunks) == ["<text-start>", "ab", "<source>", "cd", "<text-end>"]
    chunks = await chunks_of(parts, BatchPartsProcessor(emit_on_non_text=False))
    assert shapes(chunks) == ["<text-start>", "<source>", "abcd", "<text-end>"]


@given(
    st.lists(st.text("ab", max_size=2), max_size=9),
    st.lists(st.text("cd", max_size=2), max_size=9),
    st.integers(0, 999),
    st.integers(1, 6),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_nothing_is_lost_or_mixed(
    one: list[str], two: list[str], seed: int, size: int, emits: bool
) -> None:
    """B-362, B-365: whatever comes between, each block has its text, between its borders."""
    lanes = [said(*one, id="t1"), said(*two, id="t2"), [SOURCE], said("x", kind="reasoning")]
    batching = BatchPartsProcessor(batch_size=size, emit_on_non_text=emits)
    chunks = run_async(chunks_of([*woven(lanes, seed), end()], batching))
    texts = lane_texts(chunks)
    assert texts["text-delta:t1"] == "".join(one)
    assert texts["text-delta:t2"] == "".join(two)
    for id in ("t1", "t2"):
        own = [c.type for c in chunks if c.type.startswith("text-") and c.payload.id == id]
        assert (own[0], own[-1]) == ("text-start", "text-end")


async def test_a_joined_delta_is_as_the_first_one() -> None:
    """B-360, B-135: its id, origin and metadata, and all that the provider says."""
    parts = said("a", "b", "c")
    parts[1]["providerMetadata"] = {"p": {"n": 1}}
    parts[2]["providerMetadata"] = {"p": {"m": 2}}
    chunks = await chunks_of([*parts, end()], BatchPartsProcessor())
    joined = next(chunk for chunk in chunks if chunk.type == "text-delta")
    assert joined.payload.provider_metadata == {"p": {"n": 1, "m": 2}}
    assert (joined.payload.id, joined.from_) == ("t1", "AGENT")


async def test_the_end_of_the_stream_lets_go() -> None:
    """B-364: also of a block without an end, and before tools run."""
    open_text = said(*"abc")[:-1]
    for reason in ("stop", "length"):
        chunks = await chunks_of([*open_text, end(reason)], BatchPartsProcessor())
        assert shapes(chunks) == ["<text-start>", "abc"]
    batching = BatchPartsProcessor(emit_on_non_text=False)
    parts = [*open_text, call("no-tool"), end("tool-calls")]
    chunks = await chunks_of(parts, batching, more=[[*said("d"), end()]])
    kinds = shapes(chunks)
    assert kinds.index("abc") < kinds.index("<tool-error>")


async def test_flush_alone() -> None:
    """B-364: one chunk, then `None`."""
    state: dict[str, Any] = {}
    batching = BatchPartsProcessor()
    for text in "ab":
        part = Chunk.from_json({"type": "text-delta", "payload": {"id": "t", "text": text}})
        args = hook_args(ProcessOutputStreamArgs, part=part, state=state)
        assert batching.process_output_stream(args) is None
    flushed = batching.flush(state)
    assert flushed is not None
    assert flushed.payload.text == "ab"
    assert batching.flush(state) is None


async def test_an_answer_that_breaks_off() -> None:
    """R-552: what came before the break is not lost; half a match behind it is."""
    parts = [*said("a", "b")[:-1], ConnectionError("lost")]
    assert shapes(await chunks_of(parts, BatchPartsProcessor())) == [
        "<text-start>",
        "ab",
        "<error>",
    ]
    parts = [*said("a", " se")[:-1], ConnectionError("lost")]
    hooks = [BatchPartsProcessor(), guard([Literals("secret")])]
    assert shapes(await chunks_of(parts, *hooks)) == ["<text-start>", "a ", "<error>"]


async def test_a_rejected_attempt_leaves_nothing() -> None:
    """R-175: what was held of it is not put before the text of the next one."""

    def reject(args: Any) -> Any:
        if args.part.type == "source" and args.retry_count == 0:
            args.abort("again", retry=True)
        return args.part

    hooks = [
        BatchPartsProcessor(emit_on_non_text=False),
        processor(id="r", process_output_stream=reject),
    ]
    more = [[*said("c"), end()]]
    parts = [*said("a", "b")[:-1], SOURCE, end()]
    chunks = await chunks_of(parts, *hooks, more=more, max_processor_retries=1)
    assert [c.payload.text for c in chunks if c.type == "text-delta"] == ["c"]


# ── in time ────────────────────────────────────────────────────────────────────────────────────


class Slow:
    """A model that says a thing, and then nothing until it is told to go on."""

    provider, model_id = "example", "slow"

    def __init__(self, parts: list[Any], error: Exception | None = None) -> None:
        self.parts, self.error = parts, error
        self.go_on, self.is_silent = asyncio.Event(), asyncio.Event()
        self.is_open = False

    async def stream(self, request: Any) -> Any:
        inner = PlayedModel([self.parts])
        self.is_open = True
        try:
            count = 0
            async for read in inner.stream(request):
                yield read
                count += 1
                if count == 3:
                    self.is_silent.set()
                    await self.go_on.wait()
                    if self.error:
                        raise self.error
        finally:
            self.is_open = False


async def test_text_leaves_in_time_though_the_model_is_silent() -> None:
    """B-363: by a timer, through the rest of the chain, the async hooks among it."""
    seen: list[str] = []

    async def note(args: Any) -> Any:
        await args.writer.custom({"type": "data-note", "data": args.part.type, "transient": True})
        seen.append(args.part.type)
        return args.part

    for behind in ([], [processor(id="n", process_output_stream=note)]):
        before = asyncio.all_tasks()
        model = Slow([*said("a", "b", "c"), end()])
        hooks = [BatchPartsProcessor(max_wait_time=1), *behind]
        run = await Agent(id="a", model=model, output_processors=hooks).stream("go")
        texts: list[str] = []
        async for chunk in run:
            if chunk.type == "text-delta":
                texts.append(chunk.payload.text)
                model.go_on.set()
        assert "".join(texts) == "abc"
        assert len(texts) >= 2
        del run
        await others_done(before)
    assert seen.count("text-delta") >= 2


async def test_the_next_chunk_lets_go_of_what_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """B-363: at the latest then, whatever the timer did."""
    now = [0.0]
    monkeypatch.setattr("procession.processors.batching.monotonic", lambda: now[0])

    def pass_time(args: Any) -> Any:
        now[0] += 0.4 * (args.part.type == "text-delta")
        return args.part

    hooks = [
        processor(id="t", process_output_stream=pass_time),
        BatchPartsProcessor(batch_size=9, max_wait_time=1000),
    ]
    chunks = await chunks_of([*said(*"abcdef"), end()], *hooks)
    assert shapes(chunks) == ["<text-start>", "abcd", "ef", "<text-end>"]


@pytest.mark.parametrize("way", ["signal", "aclose", "cancel", "error"])
async def test_nothing_is_left_behind(way: str) -> None:
    """Law 6: no timer, no task, no connection, however the wait ends."""
    before = asyncio.all_tasks()
    model = Slow([*said("a", "b", "c"), end()], ConnectionError("lost") if way == "error" else None)
    controller = AbortController()
    hooks = [BatchPartsProcessor(max_wait_time=60_000)]
    agent = Agent(id="a", model=model, output_processors=hooks)
    run = await agent.stream("go", abort_signal=controller.signal)
    chunks: list[Any] = []

    async def read() -> None:
        async for chunk in run:
            chunks.append(chunk)

    reader = asyncio.create_task(read())
    await model.is_silent.wait()
    gate = run._state.gate
    assert gate.has_timers
    if way == "signal":
        controller.abort()
    elif way == "error":
        model.go_on.set()
    elif way == "aclose":
        await run.aclose()
    else:
        reader.cancel()
    await asyncio.wait([reader])
    if way == "cancel":
        await run.aclose()
    assert not gate.has_timers
    assert not model.is_open
    texts = [shape for shape in shapes(chunks) if not shape.startswith("<")]
    assert texts == (["ab"] if way == "error" else [])
    await others_done(before)


async def test_a_verdict_on_what_leaves_in_time() -> None:
    """Law 4: a guard behind judges it as it judges all else."""

    def block(args: Any) -> Any:
        if args.part.type == "text-delta":
            args.abort("no")
        return args.part

    model = Slow([*said("a", "b"), end()])
    hooks = [BatchPartsProcessor(max_wait_time=1), processor(id="g", process_output_stream=block)]
    run = await Agent(id="a", model=model, output_processors=hooks).stream("go")
    chunks = [chunk async for chunk in run]
    assert chunks[-1].type == "tripwire"
    assert not model.is_open


async def test_a_hook_that_fails_on_what_leaves_in_time() -> None:
    """R-188: as anywhere; it is not taken for the model's failure."""

    def fail(args: Any) -> Any:
        if args.part.type == "text-delta":
            raise ValueError("broken")
        return args.part

    model = Slow([*said("a", "b"), end()])
    hooks = [BatchPartsProcessor(max_wait_time=1), processor(id="g", process_output_stream=fail)]
    run = await Agent(id="a", model=model, output_processors=hooks).stream("go")
    chunks = [chunk async for chunk in run]
    assert chunks[-1].type == "error"
    with pytest.raises(ValueError, match="broken"):
        await run.text


async def test_an_async_flush_of_ones_own() -> None:
    """Any processor may have one; lists and `None` are taken as from a hook."""
    held: list[Any] = []

    def keep(args: Any) -> Any:
        if args.part.type != "text-delta":
            return args.part
        held.append(args.part)
        args.flush_within(0.001)
        return None

    async def flush(state: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        given, held[:] = list(held), []
        return given or None

    model = Slow([*said("a", "b", "c")[:-1], end()])
    hook = processor(id="k", process_output_stream=keep, flush=flush)
    run = await Agent(id="a", model=model, output_processors=[hook]).stream("go")
    texts: list[str] = []
    async for chunk in run:
        if chunk.type == "text-delta":
            texts.append(chunk.payload.text)
            model.go_on.set()
    assert texts == ["a", "b", "c"]


async def test_a_flush_during_which_the_model_goes_on() -> None:
    """A read that comes while hooks are asked is not missed, though they let go of nothing."""
    model = Slow([*said("a", "b"), end()])

    def keep(args: Any) -> Any:
        args.flush_within(0.001)
        return args.part

    async def flush(state: dict[str, Any]) -> Any:
        model.go_on.set()
        for _ in range(20):
            await asyncio.sleep(0)

    hook = processor(id="k", process_output_stream=keep, flush=flush)
    run = await Agent(id="a", model=model, output_processors=[hook]).stream("go")
    assert await run.text == "ab"


async def test_a_time_without_a_flush() -> None:
    """Fails the run with what is missing."""

    def wrong(args: Any) -> Any:
        args.flush_within(1)
        return args.part

    hook = processor(id="w", process_output_stream=wrong)
    model = PlayedModel([[*said("a"), end()]])
    with pytest.raises(ConfigurationError, match="flush"):
        await Agent(id="a", model=model, output_processors=[hook]).generate("go")


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 2.0}, "batch_size"),
        ({"max_wait_time": -1}, "max_wait_time"),
        ({"max_wait_time": "1s"}, "max_wait_time"),
        ({"emit_on_non_text": 1}, "emit_on_non_text"),
        ({"on_violation": 1}, "on_violation"),
    ],
)
def test_wrong_options(options: dict[str, Any], name: str) -> None:
    """B-014: when it is made, with the option's name."""
    with pytest.raises(InputError, match=name):
        BatchPartsProcessor(**options)


def test_its_names() -> None:
    """B-002, B-003."""
    batching = BatchPartsProcessor()
    assert (batching.id, batching.on_violation) == ("batch-parts", None)
