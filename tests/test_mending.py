"""Whatever a model writes, what is delivered and stored can be sent and kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from procession import ModelError
from procession.chunks import (
    BlockPayload,
    Chunk,
    DeltaPayload,
    ErrorPayload,
    FilePayload,
    FinishPayload,
    ModelStartPayload,
    StepOutcome,
    StepOutput,
    ToolCallPayload,
    ToolInputDeltaPayload,
    ToolInputEndPayload,
    Usage,
)
from procession.records import MAX_DEPTH
from tests.laws.kit import Hook, PlayedModel, Tap, agent_with, call, end, said


class Given:
    """A model that yields what it is given, in one read."""

    provider = "example"
    model_id = "given-1"

    def __init__(self, *read: Any) -> None:
        self.read = list(read)

    async def stream(self, request: Any) -> Any:
        yield self.read


async def texts_of(*parts: Any, kind: str = "text-delta") -> list[str]:
    """The texts of the chunks of a type, as delivered."""
    run = await agent_with(Given(*parts), Tap()).stream("go")
    found = [chunk async for chunk in run]
    assert run.status == "success", run.error
    msgspec.json.encode([chunk.to_json() for chunk in found])
    field = "args_text_delta" if kind == "tool-call-delta" else "text"
    return [getattr(chunk.payload, field) for chunk in found if chunk.type == kind]


def text(text: str, id: str = "t") -> Chunk:
    return Chunk("text-delta", DeltaPayload(id=id, text=text))


def argument(text: str, id: str = "c") -> Chunk:
    payload = ToolInputDeltaPayload(tool_call_id=id, args_text_delta=text)
    return Chunk("tool-call-delta", payload)


TEXT_END = Chunk("text-end", BlockPayload(id="t"))
INPUT_END = Chunk("tool-call-input-streaming-end", ToolInputEndPayload(tool_call_id="c"))


async def test_halves_are_joined_lane_by_lane() -> None:
    """Each block has its own half; the whole character comes with the second one."""
    pieces = [text("a\ud83d"), text("b\ud83d", "u"), text("\ude00"), text("\ude01", "u")]
    assert await texts_of(*pieces) == ["a", "b", "😀", "😁"]
    arguments = [argument("\ud83d"), argument("\ude00")]
    assert await texts_of(*arguments, kind="tool-call-delta") == ["", "😀"]


async def test_halves_without_the_other_half() -> None:
    """They are let go when their block ends, when other text comes, or at the end."""
    assert await texts_of(text("a\ud83d"), TEXT_END) == ["a", "\ufffd"]
    assert await texts_of(text("a\ud83d"), text("b")) == ["a", "\ufffdb"]
    assert await texts_of(text("a\ud83d")) == ["a", "\ufffd"]
    kind = "tool-call-delta"
    assert await texts_of(argument("\ud83d"), INPUT_END, kind=kind) == ["", "\ufffd"]
    assert await texts_of(argument("\ud83d"), kind=kind) == ["", "\ufffd"]


async def test_blocks_of_odd_ids_stay_together() -> None:
    """The pieces of a block whose id was mended have the mended id as well."""
    start = Chunk("text-start", BlockPayload(id="t\ud800"))
    model = Given(
        start, text("a", "t\ud800"), text("b", "t\ud800"), Chunk("text-end", start.payload)
    )
    run = await agent_with(model).stream("go")
    ids = {c.payload.id async for c in run if c.type.startswith("text-")}
    assert ids == {"t\ufffd"} and await run.text == "ab"


async def test_chunks_of_any_type() -> None:
    """Also those this version does not know, and data chunks."""
    odd = Chunk.from_json({"type": "custom", "payload": {"a\ud800": ["\ud800"]}, "later": "\ud800"})
    model = Given(
        odd, Chunk("data-x", data={"\ud800": ("\ud800",)}, id="\ud800", metadata={"m": "\ud800"})
    )
    run = await agent_with(model, Tap()).stream("go")
    sent = msgspec.json.encode([chunk.to_json() async for chunk in run])
    assert b"custom" in sent and b"data-x" in sent


FINISH = {"output": StepOutput(usage=Usage()), "step_result": StepOutcome(reason="stop")}
ODD: list[tuple[str, Chunk]] = [
    ("text-delta", Chunk("text-delta")),
    ("DeltaPayload", Chunk("text-delta", {"id": "t", "text": "x"})),
    ("text", text(None)),  # type: ignore[arg-type]
    ("text", text(b"x")),  # type: ignore[arg-type]
    ("argsTextDelta", argument(None)),  # type: ignore[arg-type]
    ("toolCallId", Chunk("tool-call", ToolCallPayload(tool_call_id=7, tool_name="x"))),  # type: ignore[arg-type]
    ("toolName", Chunk("tool-call", ToolCallPayload(tool_call_id="c", tool_name=None))),  # type: ignore[arg-type]
    ("warnings", Chunk("stream-start", ModelStartPayload(warnings=7))),  # type: ignore[arg-type]
    ("headers", Chunk("stream-start", ModelStartPayload(headers=[1]))),  # type: ignore[arg-type]
    ("StepOutcome", Chunk("finish", FinishPayload(**{**FINISH, "step_result": {"reason": "x"}}))),  # type: ignore[arg-type]
    ("usage", Chunk("finish", FinishPayload(**{**FINISH, "output": StepOutput(usage={})}))),  # type: ignore[arg-type]
    ("inputTokens", Chunk("finish", FinishPayload(**{  # type: ignore[arg-type]
        **FINISH, "output": StepOutput(usage=Usage(input_tokens="3"))}))),  # type: ignore[arg-type]
    ("base64", Chunk("file", FilePayload(data=7, mime_type="text/plain"))),
    ("type", Chunk(7)),  # type: ignore[arg-type]
    ("error", Chunk("error", ErrorPayload(error=None))),
]  # fmt: skip


@pytest.mark.parametrize(("place", "odd"), ODD, ids=lambda value: str(value)[:40])
async def test_chunks_that_do_not_fit(place: str, odd: Chunk) -> None:
    """G-A10: the error names the model and the place; what came before is kept."""
    run = await agent_with(Given(text("so far"), odd), Tap()).stream("go")
    await run.consume_stream()
    assert isinstance(run.error, ModelError) and place in str(run.error)
    assert place == "error" or "given-1" in str(run.error)
    assert await run.text == "so far" and await run.finish_reason == "error"


@pytest.mark.parametrize("hook", ["process_output_stream", "process_tool_result"])
async def test_mistakes_of_hooks_are_not_the_models(hook: str) -> None:
    """R-187: the exception of a hook that runs while a read is taken in stays what it is."""

    def wrong(args: Any) -> Any:
        return args.nothing_of_this_name

    search = {"toolCallId": "p", "toolName": "search", "providerExecuted": True}
    parts = [call("search", id="p", providerExecuted=True),
             {"type": "tool-result", "result": 1, **search}, *said("x"), end()]  # fmt: skip
    run = await agent_with(PlayedModel([parts]), Hook(hook, wrong)).stream("go")
    await run.consume_stream()
    assert type(run.error) is AttributeError and "nothing_of_this_name" in str(run.error)


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


async def test_the_deepest_values() -> None:
    """At the limit everything works; beyond it, content is the model's mistake (R-531)."""
    for levels in (MAX_DEPTH, MAX_DEPTH + 1):
        meta = BlockPayload(id="t", provider_metadata={"example": deep(levels - 1)})
        run = await agent_with(Given(Chunk("text-start", meta), text("x")), Tap()).stream("go")
        chunks = [chunk async for chunk in run]
        assert run.status == ("success" if levels == MAX_DEPTH else "failed")
        assert run.error is None or isinstance(run.error, ModelError)
        msgspec.json.encode([chunk.to_json() for chunk in chunks])
        msgspec.json.encode([m.to_json() for m in run.message_list.messages()])


# ── what stream hooks make of a chunk ──────────────────────────────────────────────────────────


def edited(change: Any) -> Hook:
    """A hook that changes text deltas in place."""

    def hook(args: Any) -> Any:
        if args.part.type == "text-delta":
            change(args.part)
        return args.part

    return Hook("process_output_stream", hook)


def replaced(make: Any) -> Hook:
    """A hook that puts another chunk in the place of text deltas."""

    def hook(args: Any) -> Any:
        return make(args.part) if args.part.type == "text-delta" else args.part

    return Hook("process_output_stream", hook)


def set_text(value: Any) -> Any:
    return lambda part: setattr(part.payload, "text", value)


@pytest.mark.parametrize("listeners", [0, 1])
@pytest.mark.parametrize(
    "hook",
    [
        edited(set_text("a\0b\ud800")),
        replaced(lambda part: text("a\0b\ud800")),
        replaced(lambda part: [text("a\0"), text("b\ud800")]),
        replaced(lambda part: {"type": "text-delta"} and text("a\0b\ud800")),
    ],
)
async def test_texts_that_hooks_make_are_clean(hook: Hook, listeners: int) -> None:
    """R-312: lone surrogates become U+FFFD wherever a text enters, by a hook too."""
    taps = [Tap() for _ in range(listeners)]
    run = await agent_with(PlayedModel([[*said("x"), end()]]), hook, *taps).stream("go")
    found = [chunk async for chunk in run]
    assert await run.text == "a\0b\ufffd"
    msgspec.json.encode([chunk.to_json() for chunk in found])


SPOILT: list[Any] = [
    ("payload", edited(lambda part: setattr(part, "payload", None))),
    ("payload", edited(lambda part: setattr(part, "payload", BlockPayload(id="t")))),
    ("text", edited(set_text(5))),
    ("text", edited(set_text(None))),
    ("payload", replaced(lambda part: Chunk("text-delta", None))),
    ("payload", replaced(lambda part: Chunk("text-delta", BlockPayload(id="t")))),
    ("payload", replaced(lambda part: Chunk("tool-call", DeltaPayload(id="t", text="x")))),
    ("text", replaced(lambda part: text(5))),  # type: ignore[arg-type]
    ("type", replaced(lambda part: Chunk(5, None))),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("listeners", [0, 1])
@pytest.mark.parametrize(("place", "hook"), SPOILT)
async def test_chunks_that_hooks_spoil(place: str, hook: Hook, listeners: int) -> None:
    """R-130: the run fails, and the error names the hook and what does not fit."""
    taps = [Tap() for _ in range(listeners)]
    run = await agent_with(PlayedModel([[*said("x"), end()]]), hook, *taps).stream("go")
    await run.consume_stream()
    assert run.status == "failed"
    assert "process_output_stream" in str(run.error) and place in str(run.error), run.error


@pytest.mark.parametrize("kind", ["tool-call", "tool-result", "tool-error", "data-note"])
async def test_edits_of_any_chunk_are_clean(kind: str) -> None:
    """R-312: arguments, results and data that a hook has edited in place can be sent and kept."""

    def edit(args: Any) -> Any:
        part = args.part
        if part.type == "data-note":
            part.data = {"x": ["\ud800"]}
        elif part.type == "tool-result":
            part.payload.result = {"x": ["\ud800"]}
        elif part.type in ("tool-call", "tool-error"):
            part.payload.args = {"value": "\ud800"}
        return part

    async def write(args: Any) -> None:
        await args.writer.custom({"type": "data-note", "data": 1})

    model = PlayedModel(
        [[call("echo"), call("fail", id="c2"), end("tool-calls")], [*said("x"), end()]]
    )
    hooks = [Hook("process_input_step", write, "writes"), Hook("process_output_stream", edit)]
    run = await agent_with(model, *hooks).stream("go")
    found = [chunk async for chunk in run]
    assert run.status == "success", run.error
    assert any(chunk.type == kind for chunk in found)
    msgspec.json.encode([chunk.to_json() for chunk in found])
    msgspec.json.encode([message.to_json() for message in run.message_list.messages()])
    msgspec.json.encode(model.prompts)
