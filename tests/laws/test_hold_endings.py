"""G-A: what is held back leaves when its lane has ended, and never when the answer breaks off."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from procession import AbortController, processor, tool
from procession.hold import Literals, Pattern, Unit
from tests.hold.kit import (
    ALL_LANES,
    argument_deltas,
    called,
    guard,
    lane_texts,
    redact,
    redacted,
)
from tests.laws.kit import PlayedModel, agent_with, call, echo, end, others_done, said, stored_text

TEXT = "my secret is 1234 and a sec"
WATCHES: dict[str, list[Any]] = {
    "literals": [Literals("secret"), Literals("1234", "a secret")],
    "pattern": [Pattern(r"[a-z]*cret|\d+")],
    "sentence": [Unit("sentence"), Literals("secret")],
    "part": [Unit("part")],
    "step": [Unit("step"), Literals("secret")],
}
PARTS = [
    *said(*TEXT[:14])[:-1],
    *said(*TEXT, id="r1", kind="reasoning")[:-1],
    *argument_deltas(json.dumps({"value": TEXT}))[:-1],
    *said(*TEXT[14:])[1:],
]
POINTS = [4, 8, 12, 14, 31, 45, 60, 66, 74, 90, len(PARTS) - 2]


def may_be_out(parts: list[Any], watches: list[Any]) -> dict[str, str]:
    """Lane by lane, what a text that goes on may have let go after these parts."""
    found: dict[str, str] = {}
    for part in parts:
        if part["type"].endswith("-delta"):
            found[part["id"]] = found.get(part["id"], "") + part["delta"]
    return {id: _released(text, id, watches) for id, text in found.items()}


def _released(text: str, id: str, watches: list[Any]) -> str:
    if id == "c1":
        return _released_json(text, watches)
    if id and any(getattr(watch, "name", "") == "step" for watch in watches):
        return ""
    limit = len(text)
    for _ in watches:
        for watch in watches:
            limit = watch.release(text, 0, limit)
    return redacted(text[:limit], watches)


def _released_json(json_text: str, watches: list[Any]) -> str:
    """Each leaf that has ended, and of the last one what a text that goes on has let go."""
    *ended, last = json_text.split('"')
    leaves = [redacted(text, watches) if i % 2 else text for i, text in enumerate(ended)]
    return '"'.join([*leaves, _released(last, "", watches) if len(ended) % 2 else last])


def check_nothing_held(chunks: list[Any], parts: list[Any], watches: list[Any]) -> None:
    expected = may_be_out(parts, watches)
    for key, text in lane_texts(chunks).items():
        id = key.split(":")[1]
        assert text == expected.get(id, ""), f"{key} has let go of {text!r}"


async def run_of(model: Any, watches: list[Any], **options: Any) -> Any:
    agent = agent_with(model, input_processors=[], output_processors=[guard(watches)])
    return await agent.stream("go", max_steps=1, **options)


@pytest.mark.parametrize("rule", WATCHES)
async def test_the_provider_breaks_off(rule: str) -> None:
    """At any chunk: `error`, and nothing of what was held back; nor is it stored."""
    for point in POINTS:
        parts = PARTS[:point]
        run = await run_of(PlayedModel([[*parts, ConnectionError("lost")]]), WATCHES[rule])
        chunks = [chunk async for chunk in run]
        assert any(chunk.type == "error" for chunk in chunks)
        check_nothing_held(chunks, parts, WATCHES[rule])
        texts = lane_texts(chunks)
        assert stored_text(run.message_list.messages()) == texts.get("text-delta:t1", "")


@pytest.mark.parametrize("rule", WATCHES)
@pytest.mark.parametrize("way", ["signal", "aclose", "cancel"])
async def test_the_caller_stops(rule: str, way: str) -> None:
    """At any chunk: what was delivered stays, what was held back is gone (R-555)."""
    before = asyncio.all_tasks()
    for point in POINTS:
        model = PlayedModel([[*PARTS, end()]], hang_at=point)
        controller = AbortController()
        run = await run_of(model, WATCHES[rule], abort_signal=controller.signal)
        chunks: list[Any] = []

        async def read(run: Any = run, chunks: list[Any] = chunks) -> None:
            async for chunk in run:
                chunks.append(chunk)

        reader = asyncio.create_task(read())
        await model.hanging.wait()
        if way == "signal":
            controller.abort()
            await reader
        else:
            reader.cancel()
            await asyncio.wait([reader])
            if way == "aclose":
                await run.aclose()
        check_nothing_held(chunks, PARTS[:point], WATCHES[rule])
    del run, reader
    await others_done(before)


@pytest.mark.parametrize("awaits", [False, True])
@pytest.mark.parametrize("rule", [name for name in WATCHES if name not in ("part", "step")])
async def test_a_guard_blocks(rule: str, awaits: bool) -> None:
    """B-134, B-237: it hears of a match at the chunk that completes it; no half of it is out."""
    watches = WATCHES[rule]

    def block(args: Any) -> Any:
        if args.piece is not None and redacted(args.piece.text, watches) != args.piece.text:
            args.abort("found")
        return args.part

    async def block_later(args: Any) -> Any:
        await asyncio.sleep(0)
        return block(args)

    hook = block_later if awaits else block
    blocking = processor(id="b", process_output_stream=hook, watches=watches, lanes=ALL_LANES)
    model = PlayedModel([[*said(*TEXT), end()]])
    agent = agent_with(model, input_processors=[], output_processors=[blocking])
    run = await agent.stream("go")
    chunks = [chunk async for chunk in run]
    assert chunks[-1].type == "tripwire"
    assert lane_texts(chunks).get("text-delta:t1", "") in ("my ", "my", "")
    assert run.message_list.response_messages() == []


async def test_a_new_attempt_begins_with_empty_lanes() -> None:
    """R-132: what a rejected attempt has left is not put before the next one's text."""
    tries: list[int] = []

    def reject(args: Any) -> Any:
        if args.piece is not None and args.retry_count == 0 and "x" in args.piece.text:
            tries.append(1)
            args.abort("again", retry=True)
        return redact(args, watches)

    watches = [Literals("secret")]
    hook = processor(id="r", process_output_stream=reject, watches=watches, lanes=ALL_LANES)
    first = [*said("a se", id="t2")[:-1], *argument_deltas(['{"value": "se'])[:-1], *said("x")]
    model = PlayedModel([[*first, end()], [*said("cret", id="t2"), *said("ok"), end()]])
    agent = agent_with(model, input_processors=[], output_processors=[hook])
    run = await agent.stream("go", max_processor_retries=1)
    chunks = [chunk async for chunk in run]
    assert tries == [1]
    assert await run.text == "cretok"
    finished = next(i for i, chunk in enumerate(chunks) if chunk.type == "step-finish")
    assert lane_texts(chunks[finished:]) == {"text-delta:t2": "cret", "text-delta:t1": "ok"}
    assert lane_texts(chunks[:finished])["text-delta:t2"] == "a "


async def test_the_end_of_the_stream_is_the_end_of_every_lane() -> None:
    """Also of a block that no end chunk has closed, and with `tool-calls` as the reason."""
    open_text = said(*"a sec")[:-1]
    for reason in ("stop", "tool-calls", "length"):
        parts = [
            *open_text,
            *argument_deltas('{"value": "sec')[:-1],
            called({"value": "sec"}, "c2"),
        ]
        model = PlayedModel([[*parts, end(reason)]])
        run = await run_of(model, [Literals("secret")])
        chunks = [chunk async for chunk in run]
        texts = lane_texts(chunks)
        assert texts["text-delta:t1"] == "a sec"
        assert texts["args:c1"] == '{"value": "sec'
        last = max(i for i, chunk in enumerate(chunks) if chunk.type == "text-delta")
        assert last < next(i for i, chunk in enumerate(chunks) if chunk.type == "step-finish")


async def test_a_block_ends_after_its_text() -> None:
    """R-513, B-132: the rest of a lane goes before the chunk that ends it, in order."""
    for watch in (Literals("secret"), Unit("part"), Unit("step"), Unit("end"), Unit("sentence")):
        parts = [
            *said("a", " sec", id="t1"),
            *said("sec", id="t2"),
            *said("again ", "sec", id="t1"),
        ]
        run = await run_of(PlayedModel([[*parts, end()]]), [watch])
        kinds = [(c.type, c.payload.id) async for c in run if c.type.startswith("text-")]
        borders = [kind for kind in kinds if not kind[0].endswith("delta")]
        if watch.look_behind == 0 and getattr(watch, "name", "") not in ("step", "end"):
            assert kinds[-1] == ("text-end", "t1")
        for id in ("t1", "t2"):
            own = [kind for kind, of in kinds if of == id]
            assert own[0] == "text-start"
            assert own[-1] == "text-end"
        assert len(borders) == 6
        texts = [p.text for m in run.message_list.response_messages() for p in m.parts]
        assert texts == ["a sec", "sec", "again sec"]


@pytest.mark.parametrize("rule", WATCHES)
async def test_generate_is_stream(rule: str) -> None:
    """Law 1: the same text either way, in the result and in what is stored."""
    parts = [*said(*TEXT), call("echo", json.dumps({"value": TEXT})), end("tool-calls")]
    answers = [parts, [*said(*TEXT), end()]]
    hooks = {"input_processors": [], "output_processors": [guard(WATCHES[rule])]}
    output = await agent_with(PlayedModel(answers), **hooks).generate("go")
    run = await agent_with(PlayedModel(answers), **hooks).stream("go")
    texts = [chunk.payload.text async for chunk in run if chunk.type == "text-delta"]
    assert output.text == await run.text == "".join(texts) == redacted(TEXT, WATCHES[rule]) * 2


async def test_tools_run_with_what_the_model_asked_for() -> None:
    """What a guard makes of arguments is what is shown and stored; the tool gets its own."""
    ran: list[str] = []

    async def noting(value: str = "") -> str:
        """Note what comes."""
        ran.append(value)
        return "done"

    parts = [call("noting", json.dumps({"value": "a secret"})), end("tool-calls")]
    model = PlayedModel([parts, [*said("ok"), end()]])
    hooks = {"input_processors": [], "output_processors": [guard([Literals("secret")])]}
    output = await agent_with(model, tools=[tool(noting), echo], **hooks).generate("go")
    assert ran == ["a secret"]
    assert output.tool_calls[0].payload.args == {"value": "a ######"}
    stored = [p for m in output.messages for p in m.parts if p.type == "tool-invocation"]
    assert stored[0].tool_invocation.args == {"value": "a ######"}
    assert "secret" not in json.dumps(model.prompts[1])


@pytest.mark.parametrize("position", [0, 1])
async def test_arguments_that_a_hook_rewrites_are_those_of_the_tool(position: int) -> None:
    """R-124 stands: who rewrites the call itself, before or after a guard, decides what runs."""
    ran: list[str] = []

    async def noting(value: str = "") -> str:
        """Note what comes."""
        ran.append(value)
        return "done"

    def rewrite(args: Any) -> Any:
        if args.part.type == "tool-call":
            args.part.payload.args = {"value": "other secret"}
        return args.part

    processors = [guard([Literals("secret")])]
    processors.insert(position, processor(id="w", process_output_stream=rewrite))
    parts = [call("noting", json.dumps({"value": "a secret"})), end("tool-calls")]
    hooks = {"input_processors": [], "output_processors": processors}
    model = PlayedModel([parts, [*said("ok"), end()]])
    await agent_with(model, tools=[tool(noting)], **hooks).generate("go")
    assert ran == ["other secret"]


async def test_an_approved_call_runs_with_what_the_model_asked_for() -> None:
    """R-570: who approves sees what the guard lets them see; the run goes on as without it."""
    ran: list[str] = []

    @tool(require_approval=True)
    async def noting(value: str = "") -> str:
        """Note what comes."""
        ran.append(value)
        return "done"

    parts = [call("noting", json.dumps({"value": "a secret"})), end("tool-calls")]
    hooks = {"input_processors": [], "output_processors": [guard([Literals("secret")])]}
    agent = agent_with(PlayedModel([parts, [*said("ok"), end()]]), tools=[noting], **hooks)
    run = await agent.stream("go")
    chunks = [chunk async for chunk in run]
    assert chunks[-1].type == "tool-call-approval"
    assert chunks[-1].payload.args == {"value": "a ######"}
    continued = await agent.approve_tool_call(run.run_id, "c1")
    assert await continued.text == "ok"
    assert ran == ["a secret"]
