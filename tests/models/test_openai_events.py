"""What chat completion streams mean, in every cutting. The data follow the public API reference."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from procession.chunks import Chunk, Usage
from procession.errors import APICallError, ModelError
from procession.models.chat_events import ChatEvents
from procession.models.sse import EventReader
from procession.models.whole import WholeBlocks

from .conftest import DATA, recorded

NAMES = sorted(path.stem for path in DATA.glob("*.txt"))


def chunks_of(pieces: list[bytes], *, whole: bool = False, raw: bool = False) -> list[Chunk]:
    reader, events = EventReader(), ChatEvents("example", include_raw=raw)
    blocks = WholeBlocks() if whole else None
    found: list[Chunk] = []
    for piece in [*pieces, None]:
        if piece is None:
            chunks = events.end(reader.finish())
        else:
            chunks = events.feed(reader.feed(piece))
        found += chunks if blocks is None else blocks.feed(chunks)
    return found + (blocks.end() if blocks is not None else [])


def meaning(chunks: list[Chunk]) -> list[tuple[Any, ...]]:
    """The chunks with neighbouring deltas joined and generated ids numbered."""
    ids: dict[str, int] = {}
    out: list[tuple[Any, ...]] = []
    for chunk in chunks:
        entry = chunk.to_json()["payload"]
        for key in ("id", "toolCallId"):
            if key in entry and entry[key] not in ("call_a", "call_b", "chatcmpl-0001"):
                entry[key] = ids.setdefault(entry[key], len(ids))
        field = "argsTextDelta" if chunk.type == "tool-call-delta" else "text"
        if chunk.type.endswith("-delta") and out and out[-1][0] == chunk.type:
            before = out[-1][1]
            if {**before, field: ""} == {**entry, field: ""}:
                before[field] += entry[field]
                continue
        out.append((chunk.type, entry))
    return out


def kinds(chunks: list[Chunk]) -> list[str]:
    return [chunk.type for chunk in chunks]


def calls(chunks: list[Chunk]) -> list[tuple[str, Any]]:
    return [(c.payload.tool_name, c.payload.args) for c in chunks if c.type == "tool-call"]


def text(chunks: list[Chunk], kind: str = "text-delta") -> str:
    return "".join(chunk.payload.text for chunk in chunks if chunk.type == kind)


def outcome(chunks: list[Chunk]) -> tuple[Any, Any]:
    result = chunks[-1].payload.step_result
    return result.reason, result.get("rawReason")


def whole(name: str) -> list[Chunk]:
    return chunks_of([recorded(name)])


@pytest.mark.parametrize("name", NAMES)
def test_every_cutting_means_the_same(name: str) -> None:
    body = recorded(name)
    expected = meaning(chunks_of([body]))
    assert meaning(chunks_of([body[i : i + 1] for i in range(len(body))])) == expected
    rng = random.Random(name)
    for _ in range(30):
        places = sorted(rng.sample(range(1, len(body)), rng.randint(1, 40)))
        borders = zip([0, *places], [*places, len(body)], strict=True)
        assert meaning(chunks_of([body[a:b] for a, b in borders])) == expected


@pytest.mark.parametrize("name", NAMES)
def test_line_ends_do_not_matter(name: str) -> None:
    body = recorded(name).replace(b"\r\n", b"\n")
    expected = meaning(chunks_of([body]))
    for end in (b"\r\n", b"\r"):
        other = body.replace(b"\n", end)
        assert meaning(chunks_of([other[i : i + 1] for i in range(len(other))])) == expected


@pytest.mark.parametrize("name", NAMES)
def test_whole_blocks_say_the_same_in_one_delta_a_block(name: str) -> None:
    chunks = chunks_of([recorded(name)], whole=True)
    deltas = [c for c in chunks if c.type.endswith("-delta")]
    owners = [c.payload.get("id") or c.payload.get("toolCallId") for c in deltas]
    assert len(owners) == len(set(owners))
    assert text(chunks) == text(whole(name))
    assert calls(chunks) == calls(whole(name))


def test_text_with_usage_and_metadata() -> None:
    chunks = whole("text")
    assert kinds(chunks) == [
        "response-metadata",
        "text-start",
        *["text-delta"] * 6,
        "text-end",
        "finish",
    ]
    assert text(chunks) == "Bonjour, le märchen 😀 你好"
    metadata = chunks[0].payload
    assert (metadata.id, metadata.model_id) == ("chatcmpl-0001", "example-1-mini")
    assert metadata.timestamp == datetime.fromtimestamp(1_790_000_000, UTC)
    assert outcome(chunks) == ("stop", "stop")
    usage = chunks[-1].payload.output.usage
    counts = (usage.input_tokens, usage.output_tokens, usage.total_tokens)
    assert counts == (31, 12, 43)
    assert (usage.cached_input_tokens, usage.reasoning_tokens) == (16, 4)
    assert usage.raw["prompt_tokens"] == 31


def test_usage_that_never_came_is_unknown() -> None:
    assert whole("refusal")[-1].payload.output.usage == Usage()


def test_usage_repeated_in_every_event_is_counted_once() -> None:
    event = (
        b'data: {"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":%d}}\n\n'
    )
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    chunks = chunks_of([event % 5, event % 6, event % 7, end])
    assert chunks[-1].payload.output.usage.input_tokens == 7


def test_interleaved_calls() -> None:
    chunks = whole("tools_interleaved")
    assert calls(chunks) == [("get_weather", {"city": "Lyon"}), ("add", {"a": 1, "b": 2})]
    assert [c.payload.tool_call_id for c in chunks if c.type == "tool-call"] == ["call_a", "call_b"]
    assert kinds(chunks) == [
        "response-metadata",
        "tool-call-input-streaming-start",
        "tool-call-input-streaming-start",
        *["tool-call-delta"] * 4,
        "tool-call-input-streaming-end",
        "tool-call",
        "tool-call-input-streaming-end",
        "tool-call",
        "finish",
    ]
    assert outcome(chunks) == ("tool-calls", "tool_calls")


def test_calls_without_index_or_id() -> None:
    chunks = whole("tools_without_index")
    assert calls(chunks) == [("get_weather", {"city": "Lyon"}), ("add", {"a": 1, "b": 2})]
    assert kinds(chunks)[1:5] == [
        "text-start",
        "text-delta",
        "text-end",
        "tool-call-input-streaming-start",
    ]
    assert outcome(chunks) == ("tool-calls", "stop"), "calls were made, whatever the server says"


def test_two_calls_under_one_index_are_told_apart_by_id() -> None:
    chunks = whole("tools_all_index_zero")
    assert calls(chunks) == [("get_weather", {"city": "Lyon"}), ("add", {"a": 1, "b": 2})]


def test_arguments_that_are_no_json_are_left_out() -> None:
    chunks = whole("tool_broken_arguments")
    call = next(c for c in chunks if c.type == "tool-call")
    assert "args" not in call.payload
    assert outcome(chunks) == ("length", "length")


def test_the_old_function_call() -> None:
    chunks = whole("function_call")
    assert calls(chunks) == [("get_weather", {"city": "Lyon"})]
    assert outcome(chunks) == ("tool-calls", "function_call")


@pytest.mark.parametrize(
    ("name", "thought", "said"),
    [
        ("reasoning", "First I think.", "Then I answer."),
        ("reasoning_other_name", "Hm.", "Yes."),
        ("parts", "Hm.", "Yes."),
    ],
)
def test_reasoning_is_a_block_of_its_own(name: str, thought: str, said: str) -> None:
    chunks = whole(name)
    assert (text(chunks, "reasoning-delta"), text(chunks)) == (thought, said)
    order = [kind for kind in kinds(chunks) if kind.endswith(("-start", "-end"))]
    assert order == ["reasoning-start", "reasoning-end", "text-start", "text-end"]


def test_a_refusal_is_text_that_says_so() -> None:
    chunks = whole("refusal")
    assert text(chunks) == "I cannot help with that."
    assert chunks[1].payload.provider_metadata == {"example": {"refusal": True}}
    assert outcome(chunks) == ("content-filter", "content_filter")


def test_an_error_inside_the_stream() -> None:
    chunks = whole("error_inside")
    assert kinds(chunks)[-3:] == ["text-delta", "error", "finish"], "the block broke off: no end"
    error = chunks[-2].payload.error
    assert isinstance(error, APICallError)
    assert error.message == "The engine is overloaded."
    assert (error.status_code, error.is_retryable) == (503, True)
    assert outcome(chunks)[0] == "error"


def test_an_event_that_is_no_chat_chunk_is_an_error_without_its_content() -> None:
    chunks = chunks_of([b'data: {"choices": "secret"}\n\n'])
    assert isinstance(chunks[0].payload.error, ModelError)
    assert "secret" not in str(chunks[0].payload.error)


def test_characters_cut_in_two_are_joined_and_lost_halves_shown() -> None:
    assert text(whole("surrogates")) == "a😀bc\ufffd"


def test_a_half_that_is_lost_in_arguments_is_shown_and_forgotten() -> None:
    call = {"index": 0, "id": "call_a", "function": {"name": "say", "arguments": '{"a": "x\ud83d'}}
    rest = {"index": 0, "function": {"arguments": '"}'}}
    events = [{"tool_calls": [call]}, {"tool_calls": [rest]}, {"content": "😀"}]
    body = b"".join(
        b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n"
        for delta in events
    )
    chunks = chunks_of([body + b"data: [DONE]\n\n"])
    assert calls(chunks) == [("say", {"a": "x\ufffd"})]
    cut_off = chunks_of([body.partition(b"\n\n")[0] + b"\n\ndata: [DONE]\n\n"])
    deltas = [c.payload.args_text_delta for c in cut_off if c.type == "tool-call-delta"]
    assert "".join(deltas) == '{"a": "x\ufffd'


def test_comments_and_a_missing_last_line_end() -> None:
    chunks = whole("comments")
    assert text(chunks) == "Hi!"
    assert outcome(chunks) == ("other", "eos")


def test_a_stream_that_ends_early_gets_no_ends_and_no_finish() -> None:
    chunks = whole("no_finish")
    assert kinds(chunks)[-1] == "tool-call-delta"
    assert "tool-call" not in kinds(chunks)


def test_the_end_mark_alone_finishes_for_an_unknown_reason() -> None:
    chunks = whole("no_finish_but_done")
    assert kinds(chunks)[-2:] == ["text-end", "finish"]
    assert outcome(chunks) == ("other", None)


def test_an_empty_heading_is_not_taken_for_the_response() -> None:
    headings = [c.payload for c in whole("empty_heading") if c.type == "response-metadata"]
    assert [heading.id for heading in headings] == ["chatcmpl-0001"]


def test_raw_events_precede_what_they_mean() -> None:
    chunks = chunks_of([recorded("refusal")], raw=True)
    assert [c.type for c in chunks].count("raw") == 4
    raw = next(c for c in chunks if c.type == "raw")
    assert raw.payload["model"] == "example-1-mini"


def test_only_the_first_of_several_answers_is_read() -> None:
    answers = b'{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"yes"}}'
    body = b'data: {"choices":[' + answers + b"]}\n\n"
    assert text(chunks_of([body, body])) == "yesyes"
