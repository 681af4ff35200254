"""E-50 to E-53: data of one's own in the stream."""

from __future__ import annotations

from typing import Any

import pytest

from procession import (
    Agent,
    Chunk,
    DataPart,
    InputError,
    Message,
    ProcessOutputResultArgs,
    ProcessOutputStreamArgs,
    ToolContext,
    tool,
)
from procession.chunks import UNSET
from procession.testing import ScriptedModel, answer, tool_call
from tests.seeds.threeways import Outcome, only, play, three_ways

NOTE = {
    "type": "data-note",
    "runId": "run-7",
    "from": "AGENT",
    "data": {"level": "warn", "aKey": 1},
}

HOOK_LISTS = {
    "process_input_step": "input_processors",
    "process_llm_request": "input_processors",
    "process_llm_response": "input_processors",
    "process_output_step": "output_processors",
    "process_output_result": "output_processors",
}


def data_parts(outcome: Outcome) -> list[DataPart]:
    return [p for m in outcome.answers for p in m.parts if isinstance(p, DataPart)]


def written(outcome: Outcome) -> list[dict[str, Any]]:
    assert outcome.chunks is not None
    return [chunk.to_json() for chunk in outcome.chunks if chunk.type.startswith("data-")]


# ── E-50, E-51 ─────────────────────────────────────────────────────────────────────────────────


def noting(hook: str, chunk: Any, options: Any = None, model: Any = None) -> Agent:
    """An agent whose hook writes one chunk."""

    async def write(args: Any) -> None:
        await args.writer.custom(chunk, options)

    lists: dict[str, Any] = {HOOK_LISTS[hook]: [only(hook, write, id="noting")]}
    return Agent(id="noted", model=model or ScriptedModel(["An answer"]), **lists)


NEIGHBOURS = {
    "process_input_step": ("start", "step-start"),
    "process_llm_request": ("start", "step-start"),
    "process_llm_response": ("text-end", "step-finish"),
    "process_output_step": ("text-end", "step-finish"),
    "process_output_result": ("step-finish", "finish"),
}


@three_ways
@pytest.mark.parametrize("hook", HOOK_LISTS)
async def test_e50_delivered_as_written(way: str, hook: str) -> None:
    """E-50 (R-195, R-197, R-200): between its neighbours, as it was written, and stored."""
    outcome = await play(way, noting(hook, NOTE), "go")
    assert outcome.text == "An answer"
    assert [part.to_json()["data"] for part in data_parts(outcome)] == [NOTE["data"]]
    if outcome.chunks is not None:
        assert written(outcome) == [NOTE]
        kinds = outcome.kinds()
        place = kinds.index("data-note")
        assert (kinds[place - 1], kinds[place + 1]) == NEIGHBOURS[hook]


@three_ways
async def test_e50_nothing_is_added(way: str) -> None:
    """E-50 (R-197): run id and origin are not put in where the writer left them out."""
    chunk = {"type": "data-note", "data": [1], "id": "n1"}
    outcome = await play(way, noting("process_llm_response", chunk), "go")
    (part,) = data_parts(outcome)
    assert (part.type, part.data, part.id) == ("data-note", [1], "n1")
    if outcome.chunks is not None:
        assert written(outcome) == [chunk]


@three_ways
@pytest.mark.parametrize("hook", HOOK_LISTS)
@pytest.mark.parametrize("kind", ["note", "text-delta", "data"])
async def test_e50_other_types_are_refused(way: str, hook: str, kind: str) -> None:
    """E-50 (R-196): a type without the prefix is an error, not a chunk."""
    outcome = await play(way, noting(hook, {"type": kind, "data": {}}), "go")
    assert isinstance(outcome.error, InputError)
    assert "data-" in str(outcome.error)
    if outcome.chunks is not None:
        assert outcome.kinds()[-1] == "error"


@three_ways
@pytest.mark.parametrize("hook", HOOK_LISTS)
async def test_e51_transient(way: str, hook: str) -> None:
    """E-51 (R-201): delivered, not stored."""
    outcome = await play(way, noting(hook, {**NOTE, "transient": True}), "go")
    assert data_parts(outcome) == []
    if outcome.chunks is not None:
        assert written(outcome) == [{**NOTE, "transient": True}]


@three_ways
@pytest.mark.parametrize("hook", HOOK_LISTS)
async def test_e51_transient_in_the_options(way: str, hook: str) -> None:
    """E-51 (R-201): as a writer's option it means nothing."""
    agent = noting(hook, NOTE, {"transient": True, "messageId": "m1"})
    outcome = await play(way, agent, "go")
    assert len(data_parts(outcome)) == 1
    if outcome.chunks is not None:
        assert written(outcome) == [NOTE]


@three_ways
async def test_e50_data_is_not_prompted(way: str) -> None:
    """E-50 (R-202): a stored data part never reaches the model."""

    @tool
    async def step(context: ToolContext) -> str:
        """Go on."""
        return "on"

    model = ScriptedModel([answer("One.", tool_calls=[tool_call("step")]), "Two."])

    async def write(args: Any) -> None:
        await args.writer.custom(NOTE)

    agent = Agent(
        id="noted",
        model=model,
        tools=[step],
        input_processors=[only("process_llm_response", write)],
    )
    outcome = await play(way, agent, "go")
    assert len(data_parts(outcome)) == 2
    assert all("data-note" not in str(call.prompt) for call in model.calls)


# ── E-52 ───────────────────────────────────────────────────────────────────────────────────────


class Collector:
    """Keeps the data of one type, and may drop or rewrite it."""

    id = "collector"

    def __init__(self, *, opted_in: bool = True, does: str = "passes") -> None:
        self.process_data_parts = opted_in
        self.does = does
        self.kept: list[Any] = []
        self.seen: list[str] = []

    async def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk | None:
        self.seen.append(args.part.type)
        if args.part.type != "data-note":
            return args.part
        args.state.setdefault("notes", []).append(args.part.data)
        if self.does == "drops":
            return None
        if self.does == "rewrites":
            return args.part.replace(data={"rewritten": True})
        return args.part

    async def process_output_result(self, args: ProcessOutputResultArgs) -> None:
        self.kept = args.state.get("notes", [])


class NotesOnText:
    """An earlier processor that writes whenever text begins."""

    id = "notes-on-text"

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.process_data_parts = True

    async def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk:
        self.seen.append(args.part.type)
        if args.part.type == "text-start" and args.writer is not None:
            await args.writer.custom(NOTE)
        return args.part


def collecting(writer: str, collector: Collector) -> tuple[Agent, Any]:
    """An agent in which `writer` writes one note that `collector` may see."""

    @tool
    async def jot(context: ToolContext) -> str:
        """Write a note."""
        if writer == "tool":
            await context.writer.custom(NOTE)
        return "noted"

    async def write(args: Any) -> None:
        if writer == "hook" and args.step_number == 1:
            await args.writer.custom(NOTE)

    earlier = NotesOnText()
    agent = Agent(
        id="collecting",
        model=ScriptedModel([answer(tool_calls=[tool_call("jot")]), "An answer"]),
        tools=[jot],
        input_processors=[only("process_llm_response", write, id="writes")],
        output_processors=[*([earlier] if writer == "stream" else []), collector],
    )
    return agent, earlier


WRITERS = pytest.mark.parametrize("writer", ["tool", "hook", "stream"])


@three_ways
@WRITERS
async def test_e52_collected(way: str, writer: str) -> None:
    """E-52 (R-004, R-127, R-198): notes of tools, of hooks, and of earlier stream hooks."""
    collector = Collector()
    agent, earlier = collecting(writer, collector)
    outcome = await play(way, agent, "go")
    assert collector.kept == [NOTE["data"]]
    assert "data-note" not in earlier.seen
    assert [part.data for part in data_parts(outcome)] == [NOTE["data"]]
    if outcome.chunks is not None:
        assert written(outcome) == [NOTE]


@three_ways
@WRITERS
async def test_e52_not_opted_in(way: str, writer: str) -> None:
    """E-52 (R-004, R-127): nothing is seen, and the chunk is delivered all the same."""
    collector = Collector(opted_in=False)
    agent, _ = collecting(writer, collector)
    outcome = await play(way, agent, "go")
    assert collector.kept == []
    assert "data-note" not in collector.seen
    assert [part.data for part in data_parts(outcome)] == [NOTE["data"]]
    if outcome.chunks is not None:
        assert written(outcome) == [NOTE]


@three_ways
@WRITERS
@pytest.mark.parametrize("does", ["drops", "rewrites"])
async def test_e52_dropped_or_rewritten(way: str, writer: str, does: str) -> None:
    """E-52 (R-199): what the client gets and what is stored is what the collector let through."""
    collector = Collector(does=does)
    agent, _ = collecting(writer, collector)
    outcome = await play(way, agent, "go")
    assert collector.kept == [NOTE["data"]]
    expected = [] if does == "drops" else [{"rewritten": True}]
    assert [part.data for part in data_parts(outcome)] == expected
    assert outcome.text == "An answer"
    if outcome.chunks is not None:
        assert [chunk["data"] for chunk in written(outcome)] == expected


@three_ways
async def test_e52_notes_of_the_result_hook(way: str) -> None:
    """E-52 (R-126, R-198): those go straight to the client."""
    collector = Collector()

    async def write(args: ProcessOutputResultArgs) -> None:
        assert args.writer is not None
        await args.writer.custom(NOTE)

    agent = Agent(
        id="collecting",
        model=ScriptedModel(["An answer"]),
        output_processors=[only("process_output_result", write), collector],
    )
    outcome = await play(way, agent, "go")
    assert "data-note" not in collector.seen
    assert len(data_parts(outcome)) == 1


# ── E-53 ───────────────────────────────────────────────────────────────────────────────────────


class Moderator:
    """Judges the answer, and tells the client what to show instead."""

    id = "moderator"

    async def process_output_result(self, args: ProcessOutputResultArgs) -> list[Message]:
        text = " ".join(
            part.text
            for message in args.messages
            if message.role == "assistant"
            for part in message.content.parts
            if part.type == "text"
        )
        moderated = text.replace("darn", "****")
        if moderated != text and args.writer is not None:
            update = {"originalText": text, "moderatedText": moderated, "reason": "language"}
            await args.writer.custom({"type": "data-moderation-update", "data": update})
        return args.messages


@three_ways
async def test_e53_moderated_text_event(way: str) -> None:
    """E-53 (R-031, R-197, R-204, R-395): after the last step-finish, before finish, keys kept."""
    model = ScriptedModel([answer("oh ", "darn")])
    agent = Agent(id="moderated", model=model, output_processors=[Moderator()])
    outcome = await play(way, agent, "go")
    assert outcome.text == "oh darn"
    if outcome.chunks is not None:
        assert outcome.kinds()[-3:] == ["step-finish", "data-moderation-update", "finish"]
        event = outcome.chunks[-2]
        assert event.data["moderatedText"] == "oh ****"
        assert event.to_json() == {
            "type": "data-moderation-update",
            "data": {
                "originalText": "oh darn",
                "moderatedText": "oh ****",
                "reason": "language",
            },
        }
        assert event.id is UNSET


@three_ways
async def test_e53_nothing_to_say(way: str) -> None:
    """E-53 (R-197): no event when nothing is found."""
    model = ScriptedModel([answer("oh ", "dear")])
    agent = Agent(id="moderated", model=model, output_processors=[Moderator()])
    outcome = await play(way, agent, "go")
    assert outcome.text == "oh dear"
    assert data_parts(outcome) == []
    if outcome.chunks is not None:
        assert outcome.kinds()[-2:] == ["step-finish", "finish"]
