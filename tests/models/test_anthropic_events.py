"""What message streams mean, in every cutting. The data follow the public API reference."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession.errors import APICallError, ModelError
from procession.models.anthropic_blocks import text_digest
from procession.models.anthropic_events import AnthropicEvents
from procession.models.sse import EventReader
from procession.models.whole import WholeBlocks

if TYPE_CHECKING:
    from procession.chunks import Chunk

DATA = Path(__file__).parent.parent / "data" / "anthropic"
NAMES = sorted(path.stem for path in DATA.glob("*.txt"))
Json = dict[str, Any]


def recorded(name: str) -> bytes:
    """The event text of a data file."""
    return (DATA / f"{name}.txt").read_bytes()


def lines(*events: Json) -> bytes:
    """Events as a server writes them."""
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)


def chunks_of(pieces: list[bytes], *, whole: bool = False, raw: bool = False) -> list[Chunk]:
    reader, events = EventReader(), AnthropicEvents("example", include_raw=raw)
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
    """The chunks with the generated part of their ids left out."""
    out: list[tuple[Any, ...]] = []
    for chunk in chunks:
        entry = chunk.to_json()["payload"]
        if chunk.type.startswith(("text", "reasoning", "source")):
            kind, _, rest = entry["id"].partition("-")
            entry["id"] = f"{kind}-{rest.partition('-')[2]}"
        out.append((chunk.type, entry))
    return out


def kinds(chunks: list[Chunk]) -> list[str]:
    return [chunk.type for chunk in chunks]


def only(chunks: list[Chunk], kind: str) -> list[Any]:
    return [chunk.payload for chunk in chunks if chunk.type == kind]


def text(chunks: list[Chunk], kind: str = "text-delta") -> str:
    return "".join(payload.text for payload in only(chunks, kind))


def outcome(chunks: list[Chunk]) -> tuple[Any, Any]:
    result = chunks[-1].payload.step_result
    return result.reason, result.get("rawReason")


def said(chunks: list[Chunk]) -> Json:
    return chunks[-1].payload.metadata["providerMetadata"]["example"]


def whole(name: str) -> list[Chunk]:
    return chunks_of([recorded(name)])


@pytest.mark.parametrize("name", NAMES)
def test_every_cutting_means_the_same(name: str) -> None:
    body = recorded(name)
    expected = meaning(chunks_of([body]))
    assert meaning(chunks_of([body[i : i + 1] for i in range(len(body))])) == expected
    rng = random.Random(name)
    for _ in range(20):
        places = sorted(rng.sample(range(1, len(body)), rng.randint(1, 40)))
        borders = zip([0, *places], [*places, len(body)], strict=True)
        assert meaning(chunks_of([body[a:b] for a, b in borders])) == expected


@pytest.mark.parametrize("name", NAMES)
def test_line_ends_do_not_matter(name: str) -> None:
    body = recorded(name)
    expected = meaning(chunks_of([body]))
    for end in (b"\r\n", b"\r"):
        other = body.replace(b"\n", end)
        assert meaning(chunks_of([other[i : i + 1] for i in range(len(other))])) == expected


@pytest.mark.parametrize("name", NAMES)
def test_whole_blocks_say_the_same_in_one_delta_a_block(name: str) -> None:
    chunks = chunks_of([recorded(name)], whole=True)
    deltas = [chunk for chunk in chunks if chunk.type.endswith("-delta")]
    owners = [c.payload.get("id") or c.payload.get("toolCallId") for c in deltas]
    assert len(owners) == len(set(owners))
    assert text(chunks) == text(whole(name))


def test_text_with_usage_and_metadata() -> None:
    """G-P2: `message_delta` tells totals; what it leaves out stays as `message_start` had it."""
    chunks = whole("text")
    assert kinds(chunks) == [
        "response-metadata",
        "text-start",
        *["text-delta"] * 5,
        "text-end",
        "finish",
    ]
    assert text(chunks) == "Bonjour, le märchen 😀 你好"
    assert (chunks[0].payload.id, chunks[0].payload.model_id) == ("msg_0001", "example-1")
    assert outcome(chunks) == ("stop", "end_turn")
    usage = chunks[-1].payload.output.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (47, 9, 56)
    assert (usage.cached_input_tokens, usage.cache_creation_input_tokens) == (30, 5)
    assert usage.raw["input_tokens"] == 12


def test_thoughts_keep_their_signature_and_hidden_ones_their_data() -> None:
    """G-K4: where the next step finds them."""
    chunks = whole("thinking")
    assert text(chunks, "reasoning-delta") == "The sum is asked — é."
    signed, hidden = only(chunks, "reasoning-end")
    assert signed.signature == "c2lnbmF0dXJlLTE="
    assert signed.provider_metadata["example"] == {
        "signature": "c2lnbmF0dXJlLTE=",
        "signedText": text_digest("The sum is asked — é."),
    }
    assert hidden.provider_metadata["example"] == {"redactedData": "aGlkZGVu"}
    assert chunks[-1].payload.output.usage.reasoning_tokens == 6


def test_calls_that_grow_side_by_side() -> None:
    chunks = whole("tools_interleaved")
    calls = only(chunks, "tool-call")
    assert [(call.tool_call_id, call.tool_name, call.args) for call in calls] == [
        ("toolu_a", "get_weather", {"city": "Lyon"}),
        ("toolu_b", "add", {"a": 1, "b": 2}),
    ]
    assert "providerExecuted" not in calls[0]
    pieces = only(chunks, "tool-call-delta")
    assert [piece.tool_call_id[-1] for piece in pieces] == ["a", "b", "a", "b", "a"]
    assert outcome(chunks) == ("tool-calls", "tool_use")


def test_broken_arguments_are_absent() -> None:
    """R-531."""
    chunks = whole("tool_broken_arguments")
    (call,) = only(chunks, "tool-call")
    assert "args" not in call
    assert outcome(chunks) == ("length", "max_tokens")


def test_what_the_provider_does_itself() -> None:
    """Calls, results and failures in the provider's own form, and what came between them."""
    chunks = whole("server_tools")
    search, fetch = only(chunks, "tool-call")
    assert (search.args, search.provider_executed) == ({"query": "bridges"}, True)
    assert search.provider_metadata["example"] == {
        "type": "server_tool_use",
        "caller": {"type": "direct"},
    }
    found, failed = only(chunks, "tool-result")
    assert found.tool_call_id == search.tool_call_id
    assert (found.tool_name, found.provider_executed) == ("web_search", True)
    assert found.result[0]["encrypted_content"] == "ZW5jcnlwdGVk"
    assert "isError" not in found
    assert found.provider_metadata["example"] == {
        "resultType": "web_search_tool_result",
        "resultAfter": 1,
        "resultCaller": {"type": "direct"},
    }
    assert failed.tool_call_id == fetch.tool_call_id
    assert failed.is_error is True
    assert failed.result["error_code"] == "url_not_accessible"


def test_citations_are_sources_and_stay_with_their_text() -> None:
    chunks = whole("server_tools")
    page, document = only(chunks, "source")
    assert (page.source_type, page.url, page.title) == (
        "url",
        "https://example.com/bridges",
        "Bridges",
    )
    assert page.provider_metadata["example"]["cited_text"] == "It is 2 km long."
    assert (document.source_type, document.title) == ("document", "Plan")
    assert document.mime_type == "application/pdf"
    ends = only(chunks, "text-end")
    cited = [end.get("providerMetadata") for end in ends]
    assert cited[0]["example"]["citations"][0]["encrypted_index"] == "aW5kZXg="
    assert cited[2] is None
    assert text(chunks) == "It is 2 km long, as planned."


def test_tools_of_an_mcp_server_and_a_pause() -> None:
    chunks = whole("mcp")
    (call,) = only(chunks, "tool-call")
    assert call.args == {"text": "hi"}
    assert call.provider_metadata["example"]["serverName"] == "example"
    (result,) = only(chunks, "tool-result")
    assert result.is_error is True
    assert result.result == {"content": [{"type": "text", "text": "no"}], "is_error": True}
    assert outcome(chunks) == ("other", "pause_turn")
    assert said(chunks)["container"]["id"] == "container_1"


@pytest.mark.parametrize(
    ("raw", "unified"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool-calls"),
        ("refusal", "content-filter"),
        ("pause_turn", "other"),
        ("novelty", "other"),
    ],
)
def test_reasons(raw: str, unified: str) -> None:
    """R-518."""
    delta = {"type": "message_delta", "delta": {"stop_reason": raw}}
    assert outcome(chunks_of([lines(delta, {"type": "message_stop"})])) == (unified, raw)


def test_why_it_refused_and_where_it_stopped_is_told() -> None:
    assert said(whole("refusal"))["stopDetails"]["category"] == "cyber"
    assert said(whole("unknown"))["stopSequence"] == "END"


def test_unknown_events_blocks_and_deltas_are_passed_over() -> None:
    assert text(whole("unknown")) == "ok"


def test_blocks_whose_end_is_not_told_end_where_the_next_begins_or_the_answer_ends() -> None:
    begun = [
        {"type": "content_block_start", "content_block": {"type": "text", "text": word}}
        for word in ("a", "b")
    ]
    chunks = chunks_of([lines(*begun, {"type": "message_stop"})])
    once = ["text-start", "text-delta", "text-end"]
    assert kinds(chunks) == [*once, *once, "finish"]


def test_half_characters_are_joined() -> None:
    assert text(whole("surrogates")) == "a😀b"


def test_an_error_inside_a_stream() -> None:
    chunks = whole("error_inside")
    assert kinds(chunks)[-3:] == ["text-delta", "error", "finish"]
    error = chunks[-2].payload.error
    assert isinstance(error, APICallError)
    assert (error.message, error.is_retryable) == ("Overloaded", True)
    assert outcome(chunks) == ("error", None)


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [
        ("api_error", True),
        ("rate_limit_error", True),
        ("timeout_error", True),
        ("invalid_request_error", False),
    ],
)
def test_which_errors_may_pass(kind: str, retryable: bool) -> None:
    event = {"type": "error", "error": {"type": kind, "message": "no"}}
    chunks = chunks_of([lines(event)])
    assert only(chunks, "error")[0].error.is_retryable is retryable


def test_an_error_with_half_a_character() -> None:
    event = b'data: {"type": "error", "error": {"type": "api_error", "message": "\\ud83d"}}\n\n'
    assert only(chunks_of([event]), "error")[0].error.message == "\ufffd"


def test_rubbish_is_an_error_that_does_not_repeat_it() -> None:
    chunks = chunks_of([b"data: {secret\n\n"])
    (failure,) = only(chunks, "error")
    assert type(failure.error) is ModelError
    assert "secret" not in str(failure.error)


def test_an_answer_that_was_cut_has_no_finish() -> None:
    body = recorded("text")
    assert "finish" not in kinds(chunks_of([body[: body.index(b"event: message_delta")]]))


def test_a_last_event_without_its_blank_line_counts() -> None:
    assert outcome(chunks_of([recorded("text").rstrip()])) == ("stop", "end_turn")
    body = recorded("text")
    cut = chunks_of([body[: body.index(b"event: message_stop")]])
    assert outcome(cut) == ("stop", "end_turn")


def test_a_message_in_one_piece() -> None:
    content = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}},
    ]
    message = {
        "type": "message",
        "id": "msg_1",
        "model": "m",
        "content": content,
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    decoder = AnthropicEvents("example")
    chunks = decoder.feed([json.dumps(message).encode()])
    assert decoder.finished
    assert text(chunks) == "Hi"
    assert only(chunks, "tool-call")[0].args == {"a": 1}
    assert only(chunks, "reasoning-end")[0].signature == "c2ln"
    assert chunks[-1].payload.output.usage.total_tokens == 5
    assert outcome(chunks) == ("tool-calls", "tool_use")


def test_raw_events_on_request() -> None:
    chunks = chunks_of([recorded("text")], raw=True)
    raw = [chunk.payload for chunk in chunks if chunk.type == "raw"]
    assert len(raw) == recorded("text").count(b"event: ")
    assert raw[1] == {"type": "ping"}
    assert text(chunks) == text(whole("text"))


def mutated(draw: st.DrawFn) -> bytes:
    """An event stream in which some values are of another kind than the API says."""
    body = recorded(draw(st.sampled_from(NAMES))).split(b"\n\n")
    odd = st.sampled_from([None, 1, -2.5, "x", [], {}, [1], {"type": "text"}, True])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body) - 2))
        head, _, data = body[at].partition(b"data: ")
        try:
            event = json.loads(data)
        except ValueError:
            continue
        inner: Any = event
        while True:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(inner[key], dict | list) and inner[key] and draw(st.booleans()):
                inner = inner[key]
                continue
            inner[key] = draw(odd)
            break
        body[at] = head + b"data: " + json.dumps(event).encode()
    return b"\n\n".join(body)


@given(st.composite(mutated)())
@settings(max_examples=150, deadline=None)
def test_values_of_any_kind_break_nothing(body: bytes) -> None:
    chunks = chunks_of([body])
    for chunk in chunks:
        chunk.to_json()
    assert "finish" not in kinds(chunks)[:-1]
